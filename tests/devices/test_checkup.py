"""Why a machine has no usable GPU, machine by machine; none of them is the one that runs this."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from myxtts.devices.doctor import (
    CheckResult,
    SeenGpu,
    TensorFlowView,
    check_up,
    explain_missing_gpu,
    install_command,
    pip_command,
)
from myxtts.devices.machine import Machine
from myxtts.devices.monitor import Card, NvmlReading

LINUX = Machine("Linux")
BUILT_FOR_CUDA = TensorFlowView("2.21.0", "12.5.1", "9")
WHEELS = ("nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-nccl-cu12")
ONE_CARD = NvmlReading((Card("A", 24_576, 300),), "550.54.15", (12, 4))
NO_NVML = NvmlReading(problem="nvidia-ml-py is not installed")


def by_name(machine: Machine, view: TensorFlowView, nvml: NvmlReading) -> dict[str, CheckResult]:
    return {result.name: result for result in check_up(machine, view, nvml)}


@pytest.mark.parametrize(
    ("machine", "view", "nvml", "reason", "remedy"),
    [
        (Machine("Windows"), TensorFlowView("2.21.0"), NO_NVML, "native Windows", "wsl --install"),
        (Machine("Darwin"), TensorFlowView("2.21.0"), NO_NVML, "macOS", None),
        (LINUX, TensorFlowView("2.21.0"), ONE_CARD, "built without CUDA",
         "'tensorflow[and-cuda]==2.21.0'"),
        (Machine("Linux", hidden_by=""), BUILT_FOR_CUDA, ONE_CARD, "CUDA_VISIBLE_DEVICES=''",
         "unset CUDA_VISIBLE_DEVICES"),
        (Machine("Linux", hidden_by="-1"), BUILT_FOR_CUDA, NO_NVML, "CUDA_VISIBLE_DEVICES='-1'",
         "unset CUDA_VISIBLE_DEVICES"),
        (Machine("Linux", hidden_by="1,0"), BUILT_FOR_CUDA, ONE_CARD,
         "CUDA_VISIBLE_DEVICES='1,0'", "unset CUDA_VISIBLE_DEVICES"),
        (LINUX, BUILT_FOR_CUDA, NO_NVML, "no NVIDIA card", None),
        (Machine("Linux", nvidia_cards=2), BUILT_FOR_CUDA, NO_NVML, "2 NVIDIA card(s)",
         "--gpus all"),
        (Machine("Linux", is_wsl=True), BUILT_FOR_CUDA, NO_NVML, "WSL", "on Windows"),
        (LINUX, BUILT_FOR_CUDA, NvmlReading(ONE_CARD.cards, "470.82", (11, 4)),
         "driver 470.82 supports CUDA up to 11.4, but TensorFlow 2.21.0 needs 12", "newer"),
        (Machine("Linux", missing_cuda_wheels=WHEELS), BUILT_FOR_CUDA, ONE_CARD,
         "(nvidia-cublas-cu12, nvidia-cudnn-cu12 and 1 more)", "'tensorflow[and-cuda]==2.21.0'"),
        (Machine("Linux", driver_version="550.54", missing_cuda_wheels=WHEELS[:1]),
         BUILT_FOR_CUDA, NO_NVML, "(nvidia-cublas-cu12)", "'tensorflow[and-cuda]==2.21.0'"),
    ],
)  # fmt: skip
def test_why_there_is_no_gpu(
    machine: Machine, view: TensorFlowView, nvml: NvmlReading, reason: str, remedy: str | None
) -> None:
    found_reason, found_remedy = explain_missing_gpu(machine, view, nvml)
    assert reason in found_reason
    if remedy is None:
        assert found_remedy is None
    else:
        assert remedy in (found_remedy or "")
    result = by_name(machine, view, nvml)["GPU"]
    assert result.state == "note"
    assert "training runs on the CPU" in result.text


def test_what_tensorflow_said_where_nothing_explains_it() -> None:
    words = (
        "W0000 00:00:1700000000.000000    1234 gpu_device.cc:2431] Ignoring visible gpu device",
        "something else",
    )
    view = TensorFlowView("2.21.0", "12.5.1", "9", words=words)
    reason, remedy = explain_missing_gpu(LINUX, view, ONE_CARD)
    assert "last message: Ignoring visible gpu device" in reason
    assert "list_physical_devices" in (remedy or "")


def test_a_machine_in_order() -> None:
    view = TensorFlowView("2.21.0", "12.5.1", "9", gpus=(SeenGpu("A", (8, 6)),))
    results = by_name(LINUX, view, ONE_CARD)
    assert {result.state for result in results.values()} == {"fine"}
    assert results["GPU 0"].text == "A, compute capability 8.6, 24576 MB, 300 MB in use"
    assert results["Driver"].text == "NVIDIA 550.54.15, supports CUDA up to 12.4"
    assert results["TensorFlow"].text.startswith("2.21.0")
    assert "12.5.1" in results["CUDA"].text


def test_several_gpus() -> None:
    cards = (Card("A", 24_576, 300), Card("A", 24_576, 9_000), Card("B"))
    view = TensorFlowView("2.21.0", "12.5.1", "9", gpus=(SeenGpu("A", None), SeenGpu("B", (9, 0))))
    machine = Machine("Linux", hidden_by="0,2")
    results = by_name(machine, view, NvmlReading(cards, "550.54.15", (12, 4)))
    assert results["GPU 0"].text == "A, 24576 MB, 300 or 9000 MB in use"
    assert results["GPU 1"].text == "B, compute capability 9.0, memory unknown"
    assert "2 of 3 cards" in results["GPUs"].text
    assert results["GPUs"].remedy == "unset CUDA_VISIBLE_DEVICES"


def test_a_gpu_that_does_not_compute_is_broken() -> None:
    view = TensorFlowView(
        "2.21.0", "12.5.1", "9", gpus=(SeenGpu("A", (8, 6), "libdevice not found"),)
    )
    result = by_name(LINUX, view, ONE_CARD)["GPU 0"]
    assert result.state == "broken"
    assert "libdevice not found" in result.text
    assert "CUDA_VISIBLE_DEVICES=-1" in (result.remedy or "")


def test_a_tensorflow_that_does_not_start_is_broken() -> None:
    results = by_name(LINUX, TensorFlowView(failure="killed by SIGILL"), NO_NVML)
    assert results["TensorFlow"].state == "broken"
    assert "does not start: killed by SIGILL" in results["TensorFlow"].text
    assert "install --force-reinstall tensorflow" in (results["TensorFlow"].remedy or "")
    assert results.keys() == {"TensorFlow", "Driver"}


@pytest.mark.parametrize(
    ("problem", "remedy"),
    [
        ("nvidia-ml-py is not installed", "install nvidia-ml-py"),
        ("Driver/library version mismatch", "sudo reboot"),
    ],
)
def test_a_driver_that_nvml_does_not_describe(problem: str, remedy: str) -> None:
    machine = Machine("Linux", driver_version="550.54.15")
    result = by_name(machine, BUILT_FOR_CUDA, NvmlReading(problem=problem))["Driver"]
    assert result.state == "note"
    assert problem in result.text
    assert remedy in (result.remedy or "")


def test_pip_is_that_of_the_running_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert pip_command() == f"{sys.executable} -m pip"
    environment = tmp_path / "project" / ".venv"
    monkeypatch.setattr(sys, "executable", str(environment / "bin" / "python"))
    monkeypatch.chdir(tmp_path)
    assert pip_command() == "project/.venv/bin/python -m pip"


def test_an_extra_is_installed_as_the_package_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert install_command("eval", tmp_path / "site") == (
        f"{sys.executable} -m pip install 'myxtts[eval]'"
    )
    for name in ("constraints.txt", "pyproject.toml"):
        (tmp_path / name).touch()
    assert install_command("eval", tmp_path) == (
        f"{sys.executable} -m pip install --constraint constraints.txt --editable '.[eval]'"
    )
