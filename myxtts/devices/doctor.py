"""Checks of TensorFlow and the GPUs: what is wrong, why, and how to fix it.

Functions of readings. A missing GPU is not a failure, because training also runs on the CPU; a GPU
that does not work is.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from myxtts.devices.machine import Machine
from myxtts.devices.monitor import Card, NvmlReading

_NEWER_DRIVER = "install a newer NVIDIA driver (on Ubuntu: sudo ubuntu-drivers install)"
_WITHOUT_GPU = "training runs on the CPU"


@dataclass(frozen=True)
class CheckResult:
    """One line of `myxtts doctor`."""

    name: str
    state: Literal["fine", "note", "broken"]
    text: str
    remedy: str | None = None


def check_up(machine: Machine, view: TensorFlowView, nvml: NvmlReading) -> Iterator[CheckResult]:
    """Check TensorFlow, CUDA, driver and GPUs, with one result each."""
    yield _judge_tensorflow(view)
    if view.version is not None:
        yield _judge_cuda(machine, view)
    yield _judge_driver(machine, nvml)
    if view.gpus:
        for index, gpu in enumerate(view.gpus):
            yield _judge_gpu(index, gpu, nvml)
        if len(nvml.cards) > len(view.gpus):
            yield _judge_left_out(machine, view, nvml)
    elif view.failure is None:
        reason, remedy = explain_missing_gpu(machine, view, nvml)
        yield CheckResult("GPU", "note", f"none: {reason}; {_WITHOUT_GPU}", remedy)


def pip_command() -> str:
    """Return the pip command of the running Python, which may not be the first on PATH."""
    return f"{_from_here(Path(sys.executable))} -m pip"


def install_command(extra: str, project: Path = Path(__file__).parents[2]) -> str:
    """Return the command that installs an extra here, pinned if this is a clone's environment."""
    constraints = project / "constraints.txt"
    if not (constraints.is_file() and (project / "pyproject.toml").is_file()):
        return f"{pip_command()} install 'myxtts[{extra}]'"
    package = shlex.quote(f"{_from_here(project)}[{extra}]")
    pinned = shlex.quote(str(_from_here(constraints)))
    return f"{pip_command()} install --constraint {pinned} --editable {package}"


def _from_here(path: Path) -> Path:
    """Return the path relative to the current folder if possible."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def explain_missing_gpu(
    machine: Machine, view: TensorFlowView, nvml: NvmlReading
) -> tuple[str, str | None]:
    """Explain why TensorFlow sees no GPU and how to fix it, most direct cause first."""
    if machine.system == "Windows":
        return (
            "TensorFlow after 2.10 does not support GPUs on native Windows",
            "wsl --install, then install and run MyXTTS in WSL",
        )
    if machine.system == "Darwin":
        return "TensorFlow does not support CUDA on macOS", None
    if view.cuda_version is None:
        return "this TensorFlow was built without CUDA", _install_cuda(view)
    if machine.hidden_by is not None and _hides_everything(machine.hidden_by, len(nvml.cards)):
        return (
            f"CUDA_VISIBLE_DEVICES={machine.hidden_by!r} hides every GPU",
            "unset CUDA_VISIBLE_DEVICES",
        )
    if machine.driver_version is None and nvml.driver_version is None:
        return _explain_missing_driver(machine)
    if nvml.cuda_version is not None and nvml.cuda_version[0] < _major(view.cuda_version):
        return (
            f"driver {nvml.driver_version} supports CUDA up to {_dotted(nvml.cuda_version)}, but "
            f"TensorFlow {view.version} needs {_major(view.cuda_version)}",
            _NEWER_DRIVER,
        )
    if machine.missing_cuda_wheels:
        return (
            f"CUDA libraries are missing ({_some(machine.missing_cuda_wheels)})",
            _install_cuda(view),
        )
    return (
        f"TensorFlow gives no reason (last message: {_last_words(view)})",
        'TF_CPP_MIN_LOG_LEVEL=0 python -c "import tensorflow as tf; '
        "print(tf.config.list_physical_devices('GPU'))\"",
    )


def _judge_tensorflow(view: TensorFlowView) -> CheckResult:
    if view.failure is None:
        return CheckResult("TensorFlow", "fine", f"{view.version}, works on the CPU")
    what = "does not start" if view.version is None else f"{view.version} does not work"
    remedy = f"{pip_command()} install --force-reinstall tensorflow"
    return CheckResult("TensorFlow", "broken", f"{what}: {view.failure}", remedy)


def _judge_cuda(machine: Machine, view: TensorFlowView) -> CheckResult:
    if view.cuda_version is None:
        return CheckResult("CUDA", "fine", "this TensorFlow was built without CUDA")
    missing = len(machine.missing_cuda_wheels)
    wheels = (
        f"{missing} of the CUDA wheels are missing" if missing else "the CUDA wheels are installed"
    )
    text = f"TensorFlow was built for {view.cuda_version} and cuDNN {view.cudnn_version}; {wheels}"
    return CheckResult("CUDA", "fine", text)


def _judge_driver(machine: Machine, nvml: NvmlReading) -> CheckResult:
    if nvml.driver_version is not None and nvml.cuda_version is not None:
        text = f"NVIDIA {nvml.driver_version}, supports CUDA up to {_dotted(nvml.cuda_version)}"
        return CheckResult("Driver", "fine", text)
    if machine.driver_version is None:
        return CheckResult("Driver", "fine", "no NVIDIA driver is loaded")
    text = f"NVIDIA {machine.driver_version}, but NVML cannot be read ({nvml.problem})"
    remedy = f"{pip_command()} install nvidia-ml-py"
    if nvml.problem is not None and "mismatch" in nvml.problem:
        remedy = "sudo reboot (the driver was replaced while it was loaded)"
    return CheckResult("Driver", "note", text, remedy)


def _judge_gpu(index: int, gpu: SeenGpu, nvml: NvmlReading) -> CheckResult:
    name = f"GPU {index}"
    parts = [gpu.name]
    if gpu.compute_capability is not None:
        parts.append(f"compute capability {_dotted(gpu.compute_capability)}")
    parts.append(_describe_memory([card for card in nvml.cards if card.name == gpu.name]))
    text = ", ".join(parts)
    if gpu.failure is None:
        return CheckResult(name, "fine", text)
    return CheckResult(
        name,
        "broken",
        f"{text}, does not work: {gpu.failure}",
        "exclude it with --visible-gpus, or train on the CPU: CUDA_VISIBLE_DEVICES=-1",
    )


def _describe_memory(alike: list[Card]) -> str:
    """Describe the memory of all cards with one name; NVML does not map them to GPUs."""
    sizes_mb = [card.memory_mb for card in alike if card.memory_mb is not None]
    used_mb = [card.used_mb for card in alike if card.used_mb is not None]
    if not sizes_mb or not used_mb:
        return "memory unknown"
    in_use = " or ".join(f"{number}" for number in sorted(set(used_mb)))
    return f"{' or '.join(str(size) for size in sorted(set(sizes_mb)))} MB, {in_use} MB in use"


def _judge_left_out(machine: Machine, view: TensorFlowView, nvml: NvmlReading) -> CheckResult:
    text = f"TensorFlow sees {len(view.gpus)} of {len(nvml.cards)} cards"
    if machine.hidden_by is None:
        return CheckResult("GPUs", "note", text)
    return CheckResult(
        "GPUs",
        "note",
        f"{text}: CUDA_VISIBLE_DEVICES={machine.hidden_by!r} hides the others",
        "unset CUDA_VISIBLE_DEVICES",
    )


def _explain_missing_driver(machine: Machine) -> tuple[str, str | None]:
    if machine.is_wsl:
        return (
            "no NVIDIA driver is available in WSL",
            "install the NVIDIA driver on Windows, then: wsl --shutdown",
        )
    if machine.nvidia_cards:
        return (
            f"found {machine.nvidia_cards} NVIDIA card(s), but no driver is loaded",
            "sudo ubuntu-drivers install (on Ubuntu); in a container: docker run --gpus all",
        )
    return "this machine has no NVIDIA card", None


def _install_cuda(view: TensorFlowView) -> str:
    return f"{pip_command()} install 'tensorflow[and-cuda]=={view.version}'"


def _hides_everything(value: str, cards: int) -> bool:
    """Return whether CUDA sees no id: it stops at the first invalid one. 0 cards: unknown."""
    first = value.split(",")[0].strip()
    return not first or first.startswith("-") or (first.isdecimal() and 0 < cards <= int(first))


def _last_words(view: TensorFlowView) -> str:
    about_gpus = [line for line in view.words if re.search(r"gpu|cuda|cudnn", line, re.IGNORECASE)]
    # Without glog's prefix: "W0000 00:00:1700000000.000000 1234 gpu_device.cc:2431] ".
    return about_gpus[-1].rpartition("] ")[2] if about_gpus else "none"


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:2])
    return shown if len(names) <= 2 else f"{shown} and {len(names) - 2} more"


def _major(version: str) -> int:
    return int(version.split(".")[0])


def _dotted(pair: tuple[int, int]) -> str:
    return f"{pair[0]}.{pair[1]}"


_LONGEST_SECONDS = 300


@dataclass(frozen=True)
class SeenGpu:
    name: str
    compute_capability: tuple[int, int] | None
    failure: str | None = None
    """Reason why a small matrix product failed on it."""


@dataclass(frozen=True)
class TensorFlowView:
    """The installed TensorFlow; `failure` is the reason if it does not work."""

    version: str | None = None
    cuda_version: str | None = None  # None if built without CUDA
    cudnn_version: str | None = None
    gpus: tuple[SeenGpu, ...] = ()
    failure: str | None = None
    words: tuple[str, ...] = ()
    """Lines it wrote to standard error."""


def ask_tensorflow(python: str = sys.executable) -> TensorFlowView:
    """Start TensorFlow in another process, run a small computation and return its report."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "0"}
    # -P: modules in this folder must not shadow packages of the same name.
    command = [python, "-P", __file__]
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LONGEST_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return TensorFlowView(failure=f"did not respond within {_LONGEST_SECONDS} s")
    words = tuple(line for line in done.stderr.splitlines() if line.strip())
    if done.returncode != 0:
        return TensorFlowView(failure=_describe_end(done.returncode, words), words=words)
    return read_answer(done.stdout.splitlines()[-1], words)


def read_answer(line: str, words: tuple[str, ...]) -> TensorFlowView:
    answer = json.loads(line)
    gpus = tuple(
        SeenGpu(gpu["name"], _pair(gpu["compute_capability"]), gpu["failure"])
        for gpu in answer.pop("gpus")
    )
    return TensorFlowView(**answer, gpus=gpus, words=words)


def _pair(numbers: list[int] | None) -> tuple[int, int] | None:
    return (numbers[0], numbers[1]) if numbers else None


def _describe_end(returncode: int, words: tuple[str, ...]) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return words[-1].strip() if words else f"exited with code {returncode}"


def _look() -> dict[str, Any]:
    """Inspect TensorFlow; runs in the child process."""
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        # Another process may be training on it: use as little memory as possible.
        tf.config.experimental.set_memory_growth(gpu, True)
    return {
        "version": tf.__version__,
        "cuda_version": build.get("cuda_version") if build.get("is_cuda_build") else None,
        "cudnn_version": build.get("cudnn_version"),
        "failure": _compute("CPU:0", xla=False),
        "gpus": [_look_at(gpu, index) for index, gpu in enumerate(gpus)],
    }


def _look_at(gpu: Any, index: int) -> dict[str, Any]:
    import tensorflow as tf

    details = tf.config.experimental.get_device_details(gpu)
    return {
        "name": details.get("device_name", "unnamed GPU"),
        "compute_capability": details.get("compute_capability"),
        # Training on GPUs uses XLA, which needs more of CUDA than plain execution.
        "failure": _compute(f"GPU:{index}", xla=True),
    }


def _compute(device: str, *, xla: bool) -> str | None:
    """Run a small computation and return None or the reason of its failure."""
    import tensorflow as tf

    def multiply() -> tf.Tensor:
        matrix = tf.ones([64, 64])
        return tf.reduce_sum(matrix @ matrix)

    try:
        with tf.device(device):
            result = float(tf.function(multiply, jit_compile=xla)())
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        return (str(error).strip() or type(error).__name__).splitlines()[0]
    return None if result == 64.0**3 else f"computed {result:g}, expected {64.0**3:g}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_look()) + "\n")
