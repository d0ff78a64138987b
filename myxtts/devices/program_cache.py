"""Where XLA keeps compiled programs for the next launch: one folder for each kind of CPU.

XLA names a kept program by what it computes, not by the CPU it was compiled for, and loads it on
any other: there an instruction that the CPU lacks ends the process. A folder that machines share,
or that moved with a disk, is therefore divided by what the CPUs can do.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from myxtts.devices.loading import gpu_driver_is_there

_ROOT = Path("/")
# On x86 and on ARM. Instructions that the kernel does not know yet come with a model that it names.
_TELLING = {
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
}


def program_cache(xla: bool | None, chosen: str | None) -> Path | None:
    """The folder for this machine's programs; None where XLA is surely not used.

    `xla` and `chosen` are the settings training.xla and training.xla_cache_dir.
    """
    if xla is False or (xla is None and not gpu_driver_is_there()):
        return None
    if chosen is not None:
        folder = Path(chosen)
    else:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "myxtts" / "xla"
    return folder / cpu_fingerprint()


def cpu_fingerprint(root: Path = _ROOT) -> str:
    """Equal on machines whose CPUs run the same programs; files are read below `root`."""
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {
        (name.strip(), value.strip()) for name, _, value in (li.partition(":") for li in lines)
    }
    # A set, because the cores of one CPU may differ.
    telling = sorted(" ".join(fact) for fact in facts if fact[0] in _TELLING)
    # Where the system does not tell, programs are for the machine of this name alone.
    content = [platform.machine(), *(telling or [platform.processor(), platform.node()])]
    return hashlib.sha256("\n".join(content).encode()).hexdigest()[:16]
