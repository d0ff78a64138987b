"""Facts about this machine, without TensorFlow.

GPUs and driver are read below `root`, so that tests can simulate another machine.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import itertools
import os
import platform
import re
import resource
from dataclasses import dataclass
from pathlib import Path

import psutil

_ROOT = Path("/")
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"
_UNKNOWN_VERSION = "(version unknown)"


@dataclass(frozen=True)
class Machine:
    """Facts that determine whether TensorFlow can find a GPU."""

    system: str  # as platform.system() names it: Linux, Windows, Darwin
    is_wsl: bool = False
    hidden_by: str | None = None  # the value of CUDA_VISIBLE_DEVICES, if set
    nvidia_cards: int = 0  # seen by the kernel, with or without a driver
    driver_version: str | None = None  # None if no driver is loaded
    missing_cuda_wheels: tuple[str, ...] = ()

    @property
    def gpus_to_be_expected(self) -> int:
        """Number of GPUs that TensorFlow finds if its CUDA libraries work."""
        if self.driver_version is None:
            return 0
        if self.hidden_by is None:
            return self.nvidia_cards
        # CUDA stops at the first invalid entry.
        listed = self.hidden_by.split(",")
        named = itertools.takewhile(lambda entry: entry.strip() not in ("", "-1"), listed)
        return min(self.nvidia_cards, len(list(named)))


@dataclass(frozen=True)
class Memory:
    total_mb: int
    free_mb: int


def describe_machine(root: Path = _ROOT) -> Machine:
    system = platform.system()
    return Machine(
        system=system,
        is_wsl=system == "Linux" and "microsoft" in platform.release().lower(),
        hidden_by=os.environ.get("CUDA_VISIBLE_DEVICES"),
        nvidia_cards=_count_nvidia_cards(root),
        driver_version=_read_driver_version(root),
        missing_cuda_wheels=_find_missing_cuda_wheels(),
    )


def read_memory(group: Path = Path("/sys/fs/cgroup")) -> Memory:
    """Return the memory of the machine, or of the container if that has less."""
    machine = psutil.virtual_memory()
    total_mb, free_mb = machine.total >> 20, machine.available >> 20
    limit = _read_container_memory(group)  # psutil ignores container limits
    if limit is not None and limit.total_mb < total_mb:
        return Memory(limit.total_mb, min(free_mb, limit.free_mb))
    return Memory(total_mb, free_mb)


def read_peak_memory_mb() -> int:
    """Return the peak memory of this process, which psutil has on Windows only."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def _read_container_memory(group: Path) -> Memory | None:
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    if limit == "max":
        return None
    # The page cache counts as used, but the kernel frees it when needed.
    held = used - int(statistics.get("inactive_file", 0))
    return Memory(int(limit) >> 20, (int(limit) - held) >> 20)


def _count_nvidia_cards(root: Path) -> int:
    count = 0
    for device in (root / "sys/bus/pci/devices").glob("*"):
        with contextlib.suppress(OSError):
            is_nvidia = (device / "vendor").read_text().strip() == _NVIDIA_VENDOR
            count += is_nvidia and (device / "class").read_text().startswith(_DISPLAY_CLASS)
    return count


def _read_driver_version(root: Path) -> str | None:
    file = root / "proc/driver/nvidia/version"
    if file.exists():
        match = re.search(r"\s(\d+\.[\d.]+)\s", file.read_text())
        return match[1] if match else _UNKNOWN_VERSION
    # WSL uses the Windows driver, whose version the kernel does not report.
    return _UNKNOWN_VERSION if (root / "usr/lib/wsl/lib/libcuda.so.1").exists() else None


def _find_missing_cuda_wheels() -> tuple[str, ...]:
    """List the dependencies of `tensorflow[and-cuda]` that are not installed."""
    try:
        requirements = importlib.metadata.requires("tensorflow") or []
    except importlib.metadata.PackageNotFoundError:
        return ()
    names = [re.split(r"[^\w.-]", line)[0] for line in requirements if "and-cuda" in line]
    return tuple(name for name in names if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
