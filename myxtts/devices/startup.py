"""Imports TensorFlow without its messages about missing GPUs."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import logging
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path


def load_tensorflow(xla_cache: Path | None = None, *, is_brief: bool = False) -> None:
    """Import TensorFlow for a program; call it before anything else does.

    `is_brief` is for a second of work. `xla_cache` is the folder of XLA's persistent cache.
    TensorFlow's C++ code writes to standard error before its log level takes effect. Users who set
    TF_CPP_MIN_LOG_LEVEL see everything.
    """
    if "tensorflow" in sys.modules:
        return
    if xla_cache is not None:
        use_persistent_cache(xla_cache)
    # Faster matrix products on CPUs, off by default on CPUs that TensorFlow does not recognize.
    # oneDNN compiles a kernel for every new shape, which does not pay off for brief work.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0" if is_brief else "1")
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:
        return
    # Failures also raise exceptions, and oneDNN logs unsupported types as errors.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with _silent_standard_error(), _no_garbage_collection():
        import tensorflow as tf

        tf.config.list_physical_devices("GPU")
    # Worker processes call this function themselves.
    del os.environ["TF_CPP_MIN_LOG_LEVEL"]


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable the collector while hundreds of modules are imported.

    They stay, so scanning them again and again, and once more at exit, wastes a second.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _silent_standard_error() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


_log = logging.getLogger(__name__)

_ROOT = Path("/")
# On x86 and on ARM. The CPU model covers instructions that the kernel does not list yet.
_TELLING = {
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
}


def program_cache(xla: bool | None) -> Path | None:
    """Return the cache folder for this machine; None if XLA is certainly not used.

    `xla` is the setting training.xla.
    """
    if xla is False or (xla is None and not gpu_driver_is_there()):
        return None
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return user_cache / "myxtts" / "xla" / cpu_fingerprint()


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
        for made in (folder.parent, folder):
            made.parent.mkdir(parents=True, exist_ok=True)
            made.mkdir(mode=0o700, exist_ok=True)
            _require_private(made)
        _drop_damaged(folder)
    except OSError as error:
        _log.warning(
            "%s: compiled programs are not cached (%s); choose another folder with XDG_CACHE_HOME",
            folder,
            error.strerror or error,
        )
        return
    flag = f"--tf_xla_persistent_cache_directory={folder}"
    os.environ["TF_XLA_FLAGS"] = f"{given} {flag}".strip()


def _require_private(folder: Path) -> None:
    """Refuse a folder that others can write to: XLA runs the programs in it."""
    facts = folder.stat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise OSError(f"{folder} can be written by others; chmod 700 it")


def _drop_damaged(folder: Path) -> None:
    """Remove programs that are not complete protobuf messages, on which XLA would fail."""
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.message import DecodeError

    for file in folder.glob("*.pb"):
        try:
            if not Empty().ParseFromString(file.read_bytes()):
                raise DecodeError
        except DecodeError:
            _log.warning("%s: removed a damaged program; XLA compiles it again", file)
            file.unlink(missing_ok=True)


def gpu_driver_is_there() -> bool:
    """Return whether TensorFlow may find a GPU, without importing it; for Linux and WSL."""
    return any(Path(file).exists() for file in ("/dev/nvidiactl", "/dev/dxg"))


def cpu_fingerprint(root: Path = _ROOT) -> str:
    """Return text that is equal for CPUs that run the same programs; reads files below `root`."""
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
