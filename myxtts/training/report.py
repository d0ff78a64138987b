"""What a run shows its user: callbacks, the lines that describe it, and report.json."""

from __future__ import annotations

import dataclasses
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.audio.mel import seconds_of_frames
from myxtts.errors import duration, plural, plural_count
from myxtts.files import read_json
from myxtts.runs.run_dir import RunDir
from myxtts.text.languages import find_language

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.corpus import Corpus
    from myxtts.training.train import RunPlan
    from myxtts.training.trainer import XTTSTrainer


class Observer:
    """Callbacks of a run that do nothing; override the methods you need."""

    def on_phase(self, message: str) -> None: ...

    def on_notice(self, message: str) -> None: ...

    def on_prepare(self, part: str, done: int, total: int) -> None: ...

    def on_predicted_mels(self, done: int, total: int) -> None: ...

    def on_warm_up(self, done: int, total: int) -> None: ...

    def on_training(self, relative_time: Callable[[int], float]) -> None:
        """Handle the start, before the first step. Later steps may take longer."""

    def on_progress(self, step: int, total: int) -> None:
        """Handle every step; `on_step` handles only those that are logged."""

    def on_step(self, step: int, total: int, metrics: dict[str, float]) -> None: ...

    def on_evaluating(self, step: int) -> None: ...

    def on_evaluation(self, step: int, metrics: dict[str, float]) -> None: ...

    def on_measurement(self, step: int, values: dict[str, float]) -> None: ...

    def on_end(self, report: RunReport, next_command: str) -> None:
        """Handle the end; `next_command` suggests what to try with the result."""


RUNNING, COMPLETE, STOPPED_EARLY, INTERRUPTED = (
    "running",
    "complete",
    "stopped early",
    "interrupted",
)


@dataclass(frozen=True, kw_only=True)
class RunReport:
    run_dir: Path
    state: str
    """running, complete, stopped early or interrupted."""
    interrupted_by: str | None
    """The signal that ended it before it was complete, such as SIGTERM."""
    planned_steps: int
    steps: int
    traces: int
    compilations: int
    compilations_after_warmup: int
    valid_frame_ratio: float
    """Real mel frames over computed ones."""
    valid_work_ratio: float
    """The same, weighted by the cost of each part of the model."""
    useful_utilisation: float
    """Fraction of the wall time in which the device computed, times `valid_work_ratio`."""
    steady_utilisation: float
    """The same over the steps alone, without start-up, evaluations and checkpoints."""
    seconds: dict[str, float]
    """Seconds per bucket of the time account, and their sum as `wall`."""
    shapes: list[list[int]]
    """Batch, tokens and frames of each."""
    rejected: dict[str, int]
    """Number of clips left out, by reason."""
    mode: str
    strategy: str
    data_device: str
    model_devices: list[str]
    buffer_size: int
    buffer_size_at_end: int
    peak_memory_mb: dict[str, int]
    gpus: dict[str, Any]
    best: dict[str, Any] | None
    """Metric, step and value of the best checkpoint."""
    advice: list[str]

    @classmethod
    def read(cls, run_dir: RunDir) -> RunReport | None:
        """Return the report of a run, or None if it has none that this version reads."""
        try:
            return cls(run_dir=run_dir.path, **read_json(run_dir.report_file))
        except (OSError, ValueError, TypeError):
            return None

    @property
    def is_complete(self) -> bool:
        """Whether training is complete."""
        return self.state in (COMPLETE, STOPPED_EARLY)

    def as_json(self) -> dict[str, Any]:
        """Return the content without the path of the run folder, which may be moved."""
        content = dataclasses.asdict(self)
        del content["run_dir"]
        return content


def configuration_block(config: XTTSConfig, corpus: Corpus) -> str:
    """Return the settings that users ask about first, and the lengths that come from the data."""
    data, training, plan = config.data, config.training, corpus.train.plan
    frames = str(data.max_mel_frames)
    if data.max_mel_frames is None:
        frames = f"{max(shape.frames for shape in plan.shapes)} (from the data)"
    static = "True"
    if data.batching_mode != "fixed":
        planned = plural_count(len(plan.shapes), "planned shape")
        static = f"False; {'a shape for each batch' if plan.dynamic else planned}"
    accumulation = training.gradient_accumulation_steps
    at_once = sorted({shape.batch // accumulation for shape in plan.shapes})
    in_a_step = [batch * accumulation for batch in at_once]
    ranges = [
        str(low) if low == high else f"{low} to {high}"
        for low, high in ((sizes[0], sizes[-1]) for sizes in (at_once, in_a_step))
    ]
    return (
        "Final Training Configuration\n"
        f"  Batch size: {ranges[0]} clips at once, {ranges[1]} in a step (batch_size: "
        f"{data.batch_size}, gradient accumulation steps: {accumulation}); learning rate: "
        f"{training.learning_rate:g}\n"
        f"  Static shapes (pad_to_fixed_length): {static}\n"
        f"  max_text_length: {data.max_text_length}, max_mel_frames: {frames}"
    )


def describe_plan(plan: RunPlan) -> Iterator[str]:
    """Yield the lines before the model is built: configuration, devices, buffer and corpus."""
    from myxtts.devices.strategy import devices_here, name_of

    config, corpus, feed, devices = plan.config, plan.corpus, plan.feed, plan.devices
    yield configuration_block(config, corpus)
    model_devices = devices_here(devices.strategy)
    placed = "mirrored on" if len(model_devices) > 1 else "on"
    mode = feed.mode
    if devices.data_device is None:
        is_gpu = model_devices[0].startswith("GPU")
        mode = f"{mode} (no separate GPU for data)" if is_gpu else "one device, buffered"
    yield (
        f"Mode: {mode}; data on {feed.data_device}, model {placed} {', '.join(model_devices)}; "
        f"prefetching up to {feed.buffer_size} {plural(feed.buffer_size, 'batch')}\n"
        f"Strategy: {name_of(devices.strategy)}, because {devices.reason}"
    )
    part = corpus.train
    hours = seconds_of_frames(part.cache.frame_counts.sum(), config.audio) / 3_600
    languages = corpus.own_tokenizer.languages
    yield (
        f"Corpus: {config.data.train_data}, {plural_count(len(part.cache), 'clip')}, "
        f"{hours:.2f} hours, {plural_count(len(part.cache.speakers), 'speaker')}, "
        f"{plural(len(languages), 'language')} {', '.join(languages)}; "
        f"{plural_count(len(corpus.validation.cache), 'clip')} for validation"
    )
    for reason, count in part.rejected.items():
        yield f"Left out: {count} {plural(count, 'clip')}, {reason}"
    for line in part.cache.rejections[:5]:
        yield f"  {line}"
    for count in corpus.validation.plan.rejected.values():
        clips_left_out = f"{count} {plural(count, 'clip')}"
        yield f"Left out of validation: {clips_left_out} longer than every training shape"
    used = int((part.plan.shape_of_clip >= 0).sum())
    if used < config.clips_per_step:
        yield (
            f"Too few clips for a step: {used} of {config.clips_per_step}, so each step "
            "repeats some; lower data.batch_size or training.gradient_accumulation_steps"
        )
    if plan.recommended.size != config.data.batch_size:
        yield f"Recommended: --batch-size {plan.recommended.size} ({plan.recommended.reason})"


def plan_as_json(plan: RunPlan) -> dict[str, Any]:
    corpus, part = plan.corpus, plan.corpus.train
    accumulation = plan.config.training.gradient_accumulation_steps
    return {
        "configuration": plan.config.as_dict(),
        "corpus": part.cache.description,
        "clips": len(part.cache),
        "validation_clips": len(corpus.validation.cache),
        "speakers": len(part.cache.speakers),
        "languages": corpus.own_tokenizer.languages,
        "rejected": part.rejected,
        "shapes": [list(shape.part(accumulation).padded) for shape in part.plan.shapes],
        "clips_of_shapes": [
            len(part.plan.clips_of(index)) for index in range(len(part.plan.shapes))
        ],
        # With dynamic batching, padding is known only per batch.
        "valid_frame_ratio": None if part.plan.dynamic else part.plan.valid_frame_ratio,
        "valid_work_ratio": None if part.plan.dynamic else part.plan.valid_work_ratio,
        "batches_per_epoch": part.schedule.batches_per_epoch,
        "steps": part.schedule.planned_steps(plan.config.training),
    }


def describe_start(trainer: XTTSTrainer) -> Iterator[str]:
    """Yield the last lines before the first step: model, device, time and where to look."""
    from myxtts.devices.monitor import read_nvml
    from myxtts.devices.strategy import devices_here

    config, run, count = trainer.config, trainer.run_dir, trainer.parameters
    parameters = f"{count / 1e6:.1f} million" if count >= 100_000 else f"{count:,}"
    yield f"Model: {config.model.size}, {parameters} parameters"
    devices = devices_here(trainer.strategy)
    if config.training.virtual_devices:
        device = f"{plural_count(len(devices), 'virtual device')} on the CPU, for trying things out"
    elif devices[0].startswith("CPU"):
        cores = plural_count(len(os.sched_getaffinity(0)), "core")
        device = f"CPU, {cores}: training on a CPU is slow"
    else:
        cards = sorted({card.name for card in read_nvml().cards})
        device = ", ".join(devices) + (f" ({', '.join(cards)})" if cards else "")
    seconds = trainer.expected_seconds
    time = "" if seconds is None else f"about {duration(seconds)} for "
    yield f"Device: {device}; {time}{plural_count(trainer.steps_left, 'step')}"
    yield f"Look: myxtts dashboard {shlex.quote(str(run))}; listen: {run.samples}{os.sep}"


def describe_end(report: RunReport, next_command: str, paths: str = "") -> Iterator[str]:
    """Yield the last lines of a run, and how to resume one that was stopped."""
    yield ""
    if not report.is_complete:
        yield (
            f"Stopped at step {report.steps:,} of {report.planned_steps:,}, saved in "
            f"{report.run_dir}"
        )
    wall = report.seconds["wall"]
    shares = ", ".join(
        f"{name.replace('_', ' ')} {value / wall:.1%}"
        for name, value in sorted(report.seconds.items(), key=lambda item: -item[1])
        if name != "wall" and value / wall >= 0.0005
    )
    yield f"Trained {plural_count(report.steps, 'step')} in {duration(wall)}: {shares}"
    yield (
        f"Useful utilization: {report.useful_utilisation:.1%}. The device computed "
        f"{report.seconds['compute'] / wall:.1%} of the time, {report.valid_work_ratio:.1%} of "
        f"that on real tokens and frames. Steps alone: {report.steady_utilisation:.1%}, without "
        "start-up, evaluations and checkpoints."
    )
    yield from report.advice
    if report.best is not None:
        best, folder = report.best, RunDir(report.run_dir).best
        yield (
            f"Best checkpoint by {best['metric']}: step {best['step']:,} ({best['value']:.3f}), "
            f"{folder}"
        )
    yield f"Checkpoints, samples and report: {report.run_dir}"
    yield f"{'Next' if report.is_complete else 'Speak'}: {next_command}"
    if not report.is_complete:
        yield f"Continue: myxtts train {paths}--resume {shlex.quote(str(report.run_dir))}"


def sample_arguments(corpus: Corpus) -> str:
    """Return arguments of `synthesize` that speak in a voice of the corpus."""
    language = find_language(corpus.own_tokenizer.languages[0])
    reference = corpus.validation.cache.audio_path(0)
    return (
        f"--text {shlex.quote(language.example)} --speaker-wav {shlex.quote(str(reference))} "
        f"--language {language.code} --out hello.wav"
    )
