"""What is read off a machine, on files laid out as another machine has them and on this one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from myxtts.devices.machine import (
    Machine,
    Memory,
    describe_machine,
    read_memory,
)


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("limit", "used", "expected"),
    [
        (None, 0, Memory(24_103, 19_531)),
        (4 << 30, 1 << 30, Memory(4_096, 3_072 + 200)),
        ("max", 1 << 30, Memory(24_103, 19_531)),
        (64 << 30, 1 << 30, Memory(24_103, 19_531)),
    ],
)
def test_memory_of_a_machine_or_container(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: int | str | None,
    used: int,
    expected: Memory,
) -> None:
    host = SimpleNamespace(total=24_103 << 20, available=19_531 << 20)
    monkeypatch.setattr("psutil.virtual_memory", lambda: host)
    group = {
        "memory.max": f"{limit}\n",
        "memory.current": f"{used}\n",
        "memory.stat": f"anon 5\ninactive_file {200 << 20}\n",
    }
    assert read_memory(lay_out(tmp_path, group if limit else {})) == expected


def test_cards_and_driver(tmp_path: Path) -> None:
    bus = "sys/bus/pci/devices"
    root = lay_out(
        tmp_path,
        {
            f"{bus}/0000:01:00.0/vendor": "0x10de\n",
            f"{bus}/0000:01:00.0/class": "0x030000\n",
            f"{bus}/0000:01:00.1/vendor": "0x10de\n",
            f"{bus}/0000:01:00.1/class": "0x040300\n",  # the card's own sound device
            f"{bus}/0000:02:00.0/vendor": "0x10de\n",
            f"{bus}/0000:02:00.0/class": "0x030200\n",
            f"{bus}/0000:00:02.0/vendor": "0x8086\n",
            f"{bus}/0000:00:02.0/class": "0x030000\n",
        },
    )
    machine = describe_machine(root)
    assert (machine.nvidia_cards, machine.driver_version) == (2, None)


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023", "535.54.03"),
        ("UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (a@b)", "580.65.06"),
        ("something else", "(version unknown)"),
    ],
)
def test_version_of_the_driver(tmp_path: Path, line: str, version: str) -> None:
    text = f"NVRM version: NVIDIA {line}\n"
    machine = describe_machine(lay_out(tmp_path, {"proc/driver/nvidia/version": text}))
    assert machine.driver_version == version


def test_driver_of_windows_in_wsl(tmp_path: Path) -> None:
    machine = describe_machine(lay_out(tmp_path, {"usr/lib/wsl/lib/libcuda.so.1": ""}))
    assert machine.driver_version == "(version unknown)"


@pytest.mark.parametrize(
    ("hidden_by", "driver", "expected"),
    [
        (None, "550.54", 3),
        (None, None, 0),
        ("", "550.54", 0),
        ("-1", "550.54", 0),
        ("0,2", "550.54", 2),
        ("1,-1,2", "550.54", 1),
        ("0,1,2,3", "550.54", 3),
    ],
)
def test_gpus_that_tensorflow_would_find(
    hidden_by: str | None, driver: str | None, expected: int
) -> None:
    machine = Machine("Linux", hidden_by=hidden_by, nvidia_cards=3, driver_version=driver)
    assert machine.gpus_to_be_expected == expected
