"""Proof of what only GPUs can confirm: short child runs, each compared with what is expected.

Every run is a process of its own, with its own devices, limits and memory. Without GPUs, virtual
devices stand in for them, and the claims that they cannot confirm are reported as such.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from myxtts.devices.doctor import TensorFlowView
from myxtts.devices.machine import read_memory
from myxtts.devices.monitor import NvmlReading
from myxtts.errors import plural_count
from myxtts.runs.run_dir import RunDir
from myxtts.training.report import RunReport
from myxtts.version import VERSION

Result = Literal["pass", "fail", "not possible here"]

# Small enough for every card: the data GPU is exceeded once, the model GPU stays empty.
LIMITS_MB = (512, 768)
_BLOCK_MB = 64
_CHILD_SECONDS = 1_800
_AGREEMENT = 0.02  # of the loss, in lower precision
_SAME_LOSS = 1e-3  # sums over replicas are rounded in another order
_RESUMED_STEPS = 40  # many, so that the run is killed before it finishes
# XLA and cuDNN choose algorithms that add in a fixed order.
_DETERMINISTIC = {
    "TF_DETERMINISTIC_OPS": "1",
    "TF_CUDNN_DETERMINISTIC": "1",
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true",
}
# Logs the device of every operation.
_PLACEMENT_PROGRAM = """
import sys
from myxtts.devices.startup import load_tensorflow
load_tensorflow()
import tensorflow as tf
tf.debugging.set_log_device_placement(True)
from myxtts.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
_STATIC = "--enable-static-shapes"
# Subject and expectation of sections with one claim.
_TUNED = (
    "memory: settings that tune recommends",
    "a run with them stays within the memory of the card",
)
_RESUMED = (
    "kill -9 and resume",
    "weights bit-equal to those of a run that was not killed, with deterministic operations",
)
_SPOKEN = "speech: real-time factor", "below 1, on a GPU"
_TWO_GPUS = ("--data-gpu", "0", "--model-gpu", "1", "--model-start-delay", "0")


class Claim(NamedTuple):
    subject: str
    expected: str
    found: str
    result: Result


class ChildFailedError(Exception):
    """A child process ended with an error."""


class Run(NamedTuple):
    report: RunReport
    lines: list[dict[str, Any]]
    """One per step."""

    @property
    def last_loss(self) -> float:
        return float(self.lines[-1]["loss"])

    @property
    def step_seconds(self) -> list[float]:
        return [line["step_seconds"] for line in self.lines]


@dataclass
class Bench:
    """The devices to prove, and the child runs on them."""

    folder: Path
    devices: int
    is_virtual: bool
    is_quick: bool
    cards: NvmlReading = field(default_factory=NvmlReading)
    charts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def where(self) -> str:
        return plural_count(self.devices, "virtual device" if self.is_virtual else "GPU")

    @property
    def virtual_devices(self) -> int:
        return self.devices if self.is_virtual else 0

    def device(self, index: int) -> str:
        return f"{'CPU' if self.is_virtual else 'GPU'}:{index}"

    def claim(
        self, subject: str, expected: str, found: str, holds: bool, *, only_gpus: bool = False
    ) -> Claim:
        """Judge a claim; `only_gpus` is one that virtual devices cannot confirm."""
        result: Result = "pass" if holds else "fail"
        if only_gpus and self.is_virtual:
            result = "not possible here"
        return Claim(subject, expected, found, result)

    def child(
        self,
        *command: str,
        environment: dict[str, str] | None = None,
        kill_when: Callable[[], bool] | None = None,
    ) -> str:
        """Run Python and return what it wrote, errors last; with `kill_when`, kill -9 it then."""
        search = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        # The cache of compiled programs is empty at first.
        own = {"XDG_CACHE_HOME": str(self.folder), "PYTHONPATH": os.pathsep.join(search)}
        if self.is_virtual:
            own["CUDA_VISIBLE_DEVICES"] = "-1"
        deadline = time.monotonic() + _CHILD_SECONDS
        with open(self.folder / "child.log", "w+", errors="replace") as output:
            process = subprocess.Popen(
                [sys.executable, *command],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | own | (environment or {}),
            )
            was_killed = False
            try:
                while process.poll() is None and time.monotonic() < deadline and not was_killed:
                    was_killed = kill_when is not None and kill_when()
                    time.sleep(0.05)
            finally:
                is_late = process.poll() is None and not was_killed
                process.kill()
                code = process.wait()
            output.seek(0)
            text = output.read()
        if is_late:
            raise ChildFailedError(f"no end after {_CHILD_SECONDS} s")
        if code != 0 and not was_killed:
            last = text.strip().splitlines() or [f"exit code {code}"]
            raise ChildFailedError(last[-1].replace(str(self.folder), "..."))
        return text

    def probe(self, name: str) -> dict[str, Any]:
        """Run one of PROBES in a process of its own."""
        answer = self.child("-m", "myxtts.evaluation.proof", name)
        found: dict[str, Any] = json.loads(answer.splitlines()[-1])
        return found

    @functools.cached_property
    def corpus(self) -> str:
        clips = "24" if self.is_virtual else "160" if self.is_quick else "600"
        self.child(*("-m", "myxtts", "demo-data", "corpus"), "--utterances", clips)
        return "corpus"

    @property
    def size(self) -> list[str]:
        """The model, and a batch that divides into the replicas."""
        clips = 2 if self.is_virtual else -(-16 // self.devices)
        model = f"--set=model.size={'tiny' if self.is_quick else 'normal'}"
        return [
            *(["--config", "miniature"] if self.is_virtual else [model]),
            f"--set=data.batch_size={clips * self.devices}",
        ]

    def start(
        self,
        name: str,
        *flags: str,
        steps: int | None = None,
        size: Sequence[str] = (),
        compiled: bool = False,
        program: tuple[str, ...] = ("-m", "myxtts"),
        **options: Any,
    ) -> str:
        """Train into the run folder `name`, and return what the command wrote.

        Features are computed while training, because every clip is augmented. On virtual devices,
        where XLA compiles slowly, only runs that are about it use it (`compiled`).
        """
        usual = (6, 20) if self.is_virtual else (40, 300)
        count = str(steps or usual[0 if self.is_quick else 1])
        xla = "--xla" if compiled or not self.is_virtual else "--no-xla"
        settings = (
            *("saving.log_every=1", "evaluation.best_metric=validation_loss"),
            *("augmentation.speed=0.05", f"training.virtual_devices={self.virtual_devices}"),
        )
        return self.child(
            *(*program, "train", self.corpus, "--run-dir", name, "--max-steps", count),
            *("--evaluate-every", count, "--save-every", count, xla),
            *(*(size or self.size), *(f"--set={setting}" for setting in settings), *flags),
            **options,
        )

    def train(self, name: str, *flags: str, **options: Any) -> Run:
        self.start(name, *flags, **options)
        run = RunDir(self.folder / name)
        report = RunReport.read(run)
        if report is None:
            raise ChildFailedError(f"{name}: no report.json")
        return Run(report, run.lines_of_training())

    @functools.cached_property
    def plain(self) -> Run:
        """Float32, one fixed shape, XLA, buffered feeding, one device, an empty program cache."""
        return self.train("plain", _STATIC, compiled=True)


class Section(NamedTuple):
    subject: str
    expected: str
    check: Callable[[Bench], Iterator[Claim]]
    min_devices: int = 1
    only_gpus: bool = False


def prove(bench: Bench) -> Iterator[Claim]:
    """Check every claim, and fill `bench.charts`."""
    for section in SECTIONS:
        if section.only_gpus and bench.is_virtual:
            reason = "virtual devices have no memory of their own"
        elif bench.devices < section.min_devices:
            reason = f"needs {section.min_devices} GPUs"
        else:
            try:
                yield from section.check(bench)
            except ChildFailedError as error:
                yield Claim(section.subject, section.expected, str(error), "fail")
            continue
        yield Claim(section.subject, section.expected, reason, "not possible here")


def _memory_isolation(bench: Bench) -> Iterator[Claim]:
    found = bench.probe("isolation")
    yield bench.claim(
        "memory isolation: limits",
        f"limits of {LIMITS_MB} MB, read back from TensorFlow",
        f"isolated: {found['isolated']}, read back: {found['limits_mb']}",
        found["isolated"] and found["limits_mb"] == list(LIMITS_MB),
    )
    stopped_mb, other_mb = found.get("stopped_mb"), found.get("other_mb")
    yield bench.claim(
        "memory isolation: exceeded limit",
        f"allocation on GPU 0 fails at {LIMITS_MB[0]} MB; GPU 1 is untouched",
        f"failed after {stopped_mb} MB, GPU 1 holds {other_mb} MB",
        stopped_mb is not None and 0 < stopped_mb <= LIMITS_MB[0] and other_mb == 0,
    )
    found = bench.probe("growth")
    yield bench.claim(
        "memory isolation: without a call for limits",
        "memory growth on every GPU, and False",
        f"growth: {found['growth']}, isolated: {found['isolated']}",
        all(found["growth"]) and not found["isolated"],
    )


def _one_device(bench: Bench) -> Iterator[Claim]:
    def dry_run(*flags: str, **environment: str) -> str:
        command = ("-m", "myxtts", "train", bench.corpus, "--config", "miniature", "--dry-run")
        text = bench.child(*command, *flags, environment=environment)
        found = re.search(r"Strategy: (\w+)", text)
        return found[1] if found else "none named"

    found = dry_run(CUDA_VISIBLE_DEVICES="-1")
    yield bench.claim("strategy: no GPU", "default strategy", found, "Default" in found)
    virtual = f"--virtual-devices={bench.virtual_devices}"
    found = dry_run(virtual, "--visible-gpus", "0", "--multi-gpu")
    expected = "OneDeviceStrategy"
    yield bench.claim("strategy: 1, multi_gpu on", expected, found, found == expected)
    yield _placed(bench, bench.plain, "off", expected, [bench.device(0)])


def _mirrored(bench: Bench) -> Iterator[Claim]:
    mirrored = bench.train("mirrored", _STATIC, "--multi-gpu")
    every = [bench.device(index) for index in range(bench.devices)]
    yield _placed(bench, mirrored, "on", "MirroredStrategy", every)
    difference = abs(mirrored.last_loss / bench.plain.last_loss - 1)
    yield bench.claim(
        "strategy: replicas train as one device",
        f"last loss within {_SAME_LOSS:g}",
        f"{difference:.1e} apart",
        difference <= _SAME_LOSS,
    )


def _placed(bench: Bench, run: Run, multi_gpu: str, strategy: str, devices: list[str]) -> Claim:
    report = run.report
    return bench.claim(
        f"strategy: {bench.devices}, multi_gpu {multi_gpu}",
        f"{strategy}, weights on {', '.join(devices)}",
        f"{report.strategy}, weights on {', '.join(report.model_devices)}",
        (report.strategy, report.model_devices) == (strategy, devices),
    )


def _placement(bench: Bench) -> Iterator[Claim]:
    data, model = bench.device(0), bench.device(1)
    assert bench.plain  # its features are cached, so that no other mel is computed
    text = bench.start(
        *("placed", *_TWO_GPUS, "--no-xla", _STATIC),
        steps=4,
        program=("-c", _PLACEMENT_PROGRAM),
        environment={"TF_CPP_MIN_LOG_LEVEL": "0"},
    )
    placed = re.findall(r"(\S+): \((\w+)\): /job:\S+/device:((?:CPU|GPU):\d+)", text)
    # The vocoder, which speaks the sample, calls its transforms stft.
    features = {device for name, _, device in placed if re.fullmatch(r"rfft(_\d+)?", name)}
    forward, backward = (
        {device for _, operation, device in placed if operation == wanted}
        for wanted in ("DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropFilter")
    )
    found = (", ".join(sorted(devices)) for devices in (features, forward, backward))
    yield bench.claim(
        "devices: model, optimizer, validation and samples",
        f"features on {data}; convolutions and their gradients on {model} alone",
        "features on {}; convolutions on {}, gradients on {}".format(*found),
        (features, forward, backward) == ({data}, {model}, {model}),
    )


def _shapes(bench: Bench) -> Iterator[Claim]:
    static = bench.plain
    count = static.report.compilations_after_warmup
    yield bench.claim(
        "static shapes: compilations after warm-up",
        "0",
        f"{count} in {plural_count(static.report.steps, 'step')}",
        count == 0,
    )
    steps = 2 if bench.is_virtual else 6 if bench.is_quick else 20
    variable = bench.train("variable", "--set=data.batching=dynamic", steps=steps, compiled=True)
    means = [statistics.mean(run.step_seconds) for run in (variable, static)]
    yield bench.claim(
        "variable shapes with XLA",
        "each new shape is compiled in training, so steps are slower",
        f"{variable.report.compilations_after_warmup} compilations; mean step {means[0]:.3g} s "
        f"instead of {means[1]:.3g} s, {means[0] / means[1]:.1f} x",
        variable.report.compilations_after_warmup > 0 and means[0] > means[1],
    )
    bench.charts["Seconds of each step"] = {
        "static shapes": static.step_seconds,
        "variable shapes": variable.step_seconds,
    }
    again = bench.train("again", _STATIC, compiled=True)
    first, second = (run.report.seconds["compile"] for run in (static, again))
    programs = len(list(bench.folder.glob("myxtts/xla/**/*.pb")))
    yield bench.claim(
        "compile cache: second launch",
        "programs are cached, and the second launch compiles for less time",
        f"{first:.1f} s, then {second:.1f} s; {plural_count(programs, 'cached program')}",
        programs > 0 and second < first,
    )


def _pipeline(bench: Bench) -> Iterator[Claim]:
    unbuffered = bench.train("unbuffered", _STATIC, "--buffer-size", "1")
    feeds = {"buffered": bench.plain, "buffer of one batch": unbuffered}
    modes = {"buffered": ("single-gpu-buffered", bench.device(0))}
    if bench.devices > 1:
        feeds["data GPU"] = bench.train("data-gpu", _STATIC, *_TWO_GPUS)
        modes["data GPU"] = ("multi-gpu", bench.device(1))
    for name, (mode, device) in modes.items():
        report = feeds[name].report
        yield bench.claim(
            f"pipeline: {name}",
            f"{mode}, model on {device}",
            f"{report.mode}, data on {report.data_device}, model on "
            f"{', '.join(report.model_devices)}",
            (report.mode, report.model_devices) == (mode, [device]),
        )
    useful = {name: run.report.steady_utilisation for name, run in feeds.items()}
    busy: dict[str, float | None] = {}
    for name, run in feeds.items():
        # NVML and TensorFlow number cards differently; the busiest one trains.
        percent = [v for key, v in run.report.gpus.items() if key.endswith("_utilisation")]
        busy[name] = max(percent) / 100 if percent else None
        nvml = "unknown" if busy[name] is None else f"{busy[name]:.0%}"
        yield bench.claim(
            f"utilization: {name}",
            "NVML at least as high as useful utilization less 10 points, since it counts padding",
            f"NVML {nvml}, useful {useful[name]:.0%}",
            (busy[name] or 0.0) >= useful[name] - 0.1,
            only_gpus=True,
        )
    bench.charts["Utilization while stepping"] = {"NVML": busy, "useful": useful}
    report = unbuffered.report
    waiting = report.seconds["data_wait"] / report.seconds["wall"]
    yield bench.claim(
        "buffer adaptation",
        "a buffer of 1 grows if more than 1 % of the time is data wait",
        f"1 became {report.buffer_size_at_end}, data wait {waiting:.1%}",
        report.buffer_size_at_end > 1 or waiting < 0.01,
    )


def _precision(bench: Bench) -> Iterator[Claim]:
    seconds: dict[str, float] = {}
    for name in ("float32", "bfloat16", "float16"):
        run = bench.plain
        if name != "float32":
            run = bench.train(name, _STATIC, f"--set=training.precision={name}")
        seconds[name] = statistics.median(run.step_seconds)
        if name == "float32":
            continue
        difference = abs(run.last_loss / bench.plain.last_loss - 1)
        yield bench.claim(
            f"precision: {name} agrees with float32",
            f"last loss within {_AGREEMENT:.0%}",
            f"{difference:.2%} apart",
            difference <= _AGREEMENT,
        )
        speed = seconds["float32"] / seconds[name]
        expected = "at least that of float32"
        yield bench.claim(
            f"precision: speed of {name}", expected, f"{speed:.2f} x", speed >= 0.97, only_gpus=True
        )
    bench.charts["Median step, by precision"] = {"seconds": seconds}


def _peak_memory(bench: Bench) -> Iterator[Claim]:
    minutes = "0.5" if bench.is_quick else "3"
    bench.child(*("-m", "myxtts", "tune", bench.corpus, "--minutes", minutes), *bench.size)
    run = bench.train("tuned", _STATIC, size=["--config", "myxtts-tuned.yaml"])
    peaks = run.report.peak_memory_mb
    sizes = [card.memory_mb for card in bench.cards.cards if card.memory_mb is not None]
    yield bench.claim(
        *_TUNED,
        f"peaks {peaks or 'unknown'}, cards {sizes or 'unknown'} MB",
        bool(peaks and sizes) and max(peaks.values()) <= max(sizes),
    )


def _resume(bench: Bench) -> Iterator[Claim]:
    killed = RunDir(bench.folder / "killed")
    flags = (_STATIC, "--save-every", "5")
    how: dict[str, Any] = {"steps": _RESUMED_STEPS, "environment": _DETERMINISTIC}
    bench.start("whole", *flags, **how)
    bench.start("killed", *flags, **how, kill_when=lambda: bool(killed.checkpoint_folders()))
    step = killed.newest_checkpoint().info.step
    bench.start("killed", "--resume", *flags, **how)
    whole, resumed = (
        RunDir(bench.folder / name).newest_checkpoint().training_state()
        for name in ("whole", "killed")
    )
    apart = max(
        float(np.max(np.abs(np.subtract(resumed[name], value, dtype=float))))
        for name, value in whole.items()
        if np.size(value)
    )
    yield bench.claim(
        *_RESUMED,
        f"killed after step {step}; {'bit-equal' if apart == 0 else f'up to {apart:.1e} apart'}",
        apart == 0 and step < _RESUMED_STEPS,
    )


def _speech(bench: Bench) -> Iterator[Claim]:
    found = bench.probe("speech")
    yield bench.claim(
        *_SPOKEN,
        f"{found['factor']:.3f} on {found['device']}, median of {found['sentences']} sentences",
        found["factor"] < 1 and found["device"].startswith("GPU"),
        only_gpus=True,
    )


SECTIONS = (
    Section(
        "memory isolation",
        "both limits in force and exceeded once; memory growth without a call for limits",
        _memory_isolation,
        min_devices=2,
        only_gpus=True,
    ),
    Section("strategy", "the default strategy, or OneDeviceStrategy", _one_device),
    Section("strategy: mirrored", "MirroredStrategy", _mirrored, min_devices=2),
    Section("devices", "features and model on their own devices", _placement, min_devices=2),
    Section("static shapes", "no compilations after warm-up", _shapes),
    Section("pipeline", "both modes on their devices", _pipeline),
    Section("precision", "agreement with float32", _precision),
    Section(*_TUNED, _peak_memory, only_gpus=True),
    Section(*_RESUMED, _resume),
    Section(*_SPOKEN, _speech),
)


def machine_facts(view: TensorFlowView, nvml: NvmlReading) -> dict[str, str]:
    """Return versions and hardware, without names of hosts, users or folders."""
    cards = [f"{card.name}, {card.memory_mb} MB" for card in nvml.cards]
    return {
        "MyXTTS": VERSION,
        "TensorFlow": view.version or "unknown",
        "CUDA, cuDNN": f"{view.cuda_version}, {view.cudnn_version}",
        "Driver": nvml.driver_version or "none",
        "GPUs": "; ".join(cards) or "none",
        "Machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{read_memory().total_mb >> 10} GB",
        "Python": platform.python_version(),
    }


def probe_isolation(runtime: Any = None, tensors: Any = None) -> dict[str, Any]:
    """Limit two GPUs, exceed the limit of the first, and look at the second."""
    import tensorflow as tf

    from myxtts.devices.memory import GpuRuntime, memory_in_use, setup_gpu_memory_isolation

    runtime, tensors = runtime or GpuRuntime(), tensors or tf
    data_mb, model_mb = LIMITS_MB
    if not setup_gpu_memory_isolation(0, 1, data_mb, model_mb, runtime=runtime):
        return {"isolated": False, "limits_mb": []}
    found: dict[str, Any] = {
        "isolated": True,
        "limits_mb": [runtime.limit_mb(gpu) for gpu in runtime.list_gpus()[:2]],
    }
    held = []
    try:
        with tensors.device("GPU:0"):
            for _ in range(2 * data_mb // _BLOCK_MB):
                held.append(tensors.ones([_BLOCK_MB << 18]))
    except tensors.errors.ResourceExhaustedError:
        found["stopped_mb"] = len(held) * _BLOCK_MB
    other = memory_in_use(["GPU:1"], tensors.config.experimental).get("GPU:1")
    return found | {"other_mb": None if other is None else other.current_mb}


def probe_growth() -> dict[str, Any]:
    """Isolate with a TensorFlow that seems to have no call for limits."""
    from myxtts.devices.memory import GpuRuntime, setup_gpu_memory_isolation

    class WithoutLimits(GpuRuntime):
        def find_limit_call(self) -> None:
            return None

    runtime = WithoutLimits()
    isolated = setup_gpu_memory_isolation(0, 1, *LIMITS_MB, runtime=runtime)
    growth = [runtime.get_growth(gpu) for gpu in runtime.list_gpus()]
    return {"isolated": isolated, "growth": growth}


def probe_speech() -> dict[str, Any]:
    """Speak with the included base model, one sentence at a time."""
    import tensorflow as tf

    from myxtts.synthesis.tts import TTS
    from myxtts.text.languages import find_language

    tts = TTS()
    voice = tts.saved_voice(tts.voices[0])
    tts.warm_up()
    factors = []
    for text in find_language("en").demo_sentences()[:3]:
        started = time.perf_counter()
        samples = tts.tts(text, voice)
        seconds = time.perf_counter() - started
        factors.append(seconds * tts.sample_rate_hz / samples.size)
    device = "GPU:0" if tf.config.list_physical_devices("GPU") else "CPU:0"
    return {"factor": statistics.median(factors), "device": device, "sentences": len(factors)}


PROBES = {"isolation": probe_isolation, "growth": probe_growth, "speech": probe_speech}

if __name__ == "__main__":
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    sys.stdout.write("\n" + json.dumps(PROBES[sys.argv[1]]()) + "\n")
