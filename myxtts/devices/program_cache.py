"""The folder of XLA's persistent cache: one per type of CPU.

XLA names a cached program after its computation, not after the CPU it was compiled for, and loads
it on any CPU, where an unsupported instruction crashes the process. So a cache that is shared by
machines, or moved with a disk, is split by CPU features.
"""

from __future__ import annotations

import hashlib
import logging
import os
import platform
from pathlib import Path

_log = logging.getLogger(__name__)

_ROOT = Path("/")
# On x86 and on ARM. The CPU model covers instructions that the kernel does not list yet.
_TELLING = {
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
}


def program_cache(xla: bool | None, chosen: str | None) -> Path | None:
    """The cache folder for this machine; None if XLA is certainly not used.

    `xla` and `chosen` are the settings training.xla and training.xla_cache_dir.
    """
    if xla is False or (xla is None and not gpu_driver_is_there()):
        return None
    if chosen is not None:
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "myxtts" / "xla"
    return folder / cpu_fingerprint()


def use_persistent_cache(folder: Path) -> None:
    """Make XLA cache compiled programs across launches; call before importing TensorFlow.

    Flags that the user has set are kept.
    """
    given = os.environ.get("TF_XLA_FLAGS", "")
    if "persistent_cache_directory" in given:
        return
    try:
        # TensorFlow splits flags at spaces.
        if any(map(str.isspace, str(folder))):
            raise OSError("its name contains a space")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning(
            "%s: cannot cache compiled programs there (%s); choose another folder with "
            "training.xla_cache_dir",
            folder,
            error.strerror or error,
        )
        return
    flag = f"--tf_xla_persistent_cache_directory={folder}"
    os.environ["TF_XLA_FLAGS"] = f"{given} {flag}".strip()


def gpu_driver_is_there() -> bool:
    """Whether TensorFlow may find a GPU, without importing it: on Linux and WSL."""
    return any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg"))


def cpu_fingerprint(root: Path = _ROOT) -> str:
    """Equal for CPUs that run the same programs; files are read below `root`."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {
        (name.strip(), value.strip()) for name, _, value in (li.partition(":") for li in lines)
    }
    # A set, because the cores of a CPU may differ.
    telling = sorted(" ".join(fact) for fact in facts if fact[0] in _TELLING)
    # If the system does not report features, the cache is for this host name only.
    content = [platform.machine(), *(telling or [platform.processor(), platform.node()])]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]
