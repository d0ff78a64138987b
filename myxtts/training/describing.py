"""The lines that describe a run: configuration, devices, data, length and summary.

An observer shows them. Importing this does not load TensorFlow.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from myxtts.audio.mel import seconds_of_frames
from myxtts.errors import duration, plural, plural_count
from myxtts.runs.run_dir import RunDir
from myxtts.text.languages import find_language

if TYPE_CHECKING:
    from myxtts.data.corpus import Corpus
    from myxtts.training.opening import OpenedRun
    from myxtts.training.trainer import XTTSTrainer
    from myxtts.training.watching.report import RunReport


def configuration_block(opened: OpenedRun) -> str:
    """The settings that users ask about first, and the lengths that come from the data."""
    data, training = opened.config.data, opened.config.training
    plan = opened.corpus.train.plan
    frames = str(data.max_mel_frames)
    if data.max_mel_frames is None:
        frames = f"{max(shape.frames for shape in plan.shapes)} (from the data)"
    shapes = f"ENABLED, {len(plan.shapes)} {plural(len(plan.shapes), 'shape')}"
    static = "DISABLED, each batch has its own" if plan.dynamic else shapes
    accumulation = training.gradient_accumulation_steps
    batches = {shape.batch // accumulation for shape in plan.shapes}
    lines = {
        "Batch size": f"{_range(batches)} clips at once, "
        f"{_range({batch * accumulation for batch in batches})} in a step (batch_size: "
        f"{data.batch_size}, gradient accumulation steps: {accumulation}); learning rate: "
        f"{training.learning_rate:g}",
        "Static shapes (pad_to_fixed_length)": f"{data.batching_mode == 'fixed'}; "
        f"Static shapes: {static}",
        "max_text_length": f"{data.max_text_length}, max_mel_frames: {frames}",
    }
    return "\n".join(
        ["Final Training Configuration", *(f"  {name}: {value}" for name, value in lines.items())]
    )


def _range(numbers: Collection[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def describe_details(opened: OpenedRun) -> Iterator[str]:
    """What few ask about: shown with --verbose, and kept in the run folder."""
    config, part = opened.config, opened.corpus.train
    yield describe_length(opened)
    yield f"Corpus: {part.cache.description}"
    yield f"Validation: {config.data.val_data or 'metadata_eval.csv, or else held out'}"
    yield (
        f"Model size: {config.model.size}; optimization level: "
        f"{config.training.optimization_level}; batching: {config.data.batching_mode}; seed: "
        f"{config.training.seed}"
    )
    yield opened.task.describe_shapes()


def describe_mode(opened: OpenedRun) -> str:
    """Devices of data and model, the prefetch buffer, and the strategy with its reason."""
    from myxtts.devices.strategy import devices_here, name_of

    devices, feed = opened.devices, opened.feed
    aside = " (no separate GPU for data)" if devices.data_device is None else ""
    model_devices = devices_here(devices.strategy)
    placed = "mirrored on" if len(model_devices) > 1 else "on"
    return (
        f"Mode: {feed.mode}{aside}; data on {feed.data_device}, model {placed} "
        f"{', '.join(model_devices)}; prefetching up to {feed.buffer_size} "
        f"{plural(feed.buffer_size, 'batch')}\n"
        f"Strategy: {name_of(devices.strategy)}, because {devices.reason}"
    )


def describe_data(opened: OpenedRun) -> Iterator[str]:
    """The corpus, the clips left out, and a batch size that suits it better."""
    from myxtts.data.shapes import with_recommended_batch_size

    corpus, part = opened.corpus, opened.corpus.train
    hours = seconds_of_frames(part.cache.frame_counts.sum(), opened.config.audio) / 3_600
    clips, speakers = len(part.cache), len(part.cache.speakers)
    languages, validation_clips = corpus.own_tokenizer.languages, len(corpus.validation.cache)
    yield (
        f"Corpus: {opened.config.data.train_data}, {clips:,} {plural(clips, 'clip')}, "
        f"{hours:.2f} hours, {speakers} {plural(speakers, 'speaker')}, "
        f"{plural(len(languages), 'language')} {', '.join(languages)}; "
        f"{validation_clips:,} {plural(validation_clips, 'clip')} for validation"
    )
    for reason, count in part.rejected.items():
        yield f"Left out: {count} {plural(count, 'clip')}, {reason}"
    for line in part.cache.rejections[:5]:
        yield f"  {line}"
    for count in corpus.validation.plan.rejected.values():
        clips_left_out = f"{count} {plural(count, 'clip')}"
        yield f"Left out of validation: {clips_left_out} longer than every training shape"
    used = int((part.plan.shape_of_clip >= 0).sum())
    if used < opened.config.clips_per_step:
        yield (
            f"Too few clips for a step: {used} of {opened.config.clips_per_step}, so each step "
            "repeats some; lower data.batch_size or training.gradient_accumulation_steps"
        )
    replicas = opened.devices.strategy.num_replicas_in_sync
    _, batch = with_recommended_batch_size(part.clips, opened.config, replicas=replicas)
    if batch.size != opened.config.data.batch_size:
        yield f"Recommended: --batch-size {batch.size} ({batch.reason})"


def describe_length(opened: OpenedRun) -> str:
    """How long the run is and why; its time is known only after a first step."""
    return f"Length: {opened.corpus.train.schedule.planned_length(opened.config.training)}"


def describe_start(trainer: XTTSTrainer) -> Iterator[str]:
    """The last lines before the first step: model, device, time and where to look."""
    from myxtts.devices.strategy import devices_here

    config, run = trainer.config, trainer.run_dir
    count = trainer.parameters
    parameters = f"{count / 1e6:.1f} million" if count >= 100_000 else f"{count:,}"
    yield f"Model: {config.model.size}, {parameters} parameters"
    left = trainer.steps_left
    seconds = trainer.expected_seconds
    time = "" if seconds is None else f"about {duration(seconds)} for "
    yield (
        f"Device: {_device(devices_here(trainer.strategy), config.training.virtual_devices)}; "
        f"{time}{left:,} {plural(left, 'step')}"
    )
    yield (f"Look: myxtts dashboard {shlex.quote(str(run))}; listen: {run.samples}{os.sep}")


def _device(names: Sequence[str], virtual: int) -> str:
    """In plain words."""
    if virtual:
        return f"{plural_count(len(names), 'virtual device')} on the CPU, for trying things out"
    if names[0].startswith("CPU"):
        cores = plural_count(len(os.sched_getaffinity(0)), "core")
        return f"CPU, {cores}: training on a CPU is slow"
    from myxtts.devices.monitor import read_nvml

    cards = sorted({card.name for card in read_nvml().cards})
    return ", ".join(names) + (f" ({', '.join(cards)})" if cards else "")


def plan_of(opened: OpenedRun) -> dict[str, Any]:
    """The plan in machine-readable form."""
    corpus, part = opened.corpus, opened.corpus.train
    # The padding of dynamic batching is known only batch by batch.
    frames, work = part.plan.valid_frame_ratio, part.plan.valid_work_ratio
    return {
        "configuration": opened.config.as_dict(),
        "corpus": part.cache.description,
        "clips": len(part.cache),
        "validation_clips": len(corpus.validation.cache),
        "speakers": len(part.cache.speakers),
        "languages": corpus.own_tokenizer.languages,
        "rejected": part.rejected,
        "shapes": [
            list(shape.part(opened.config.training.gradient_accumulation_steps).padded)
            for shape in part.plan.shapes
        ],
        "clips_of_shapes": [
            len(part.plan.clips_of(index)) for index in range(len(part.plan.shapes))
        ],
        "valid_frame_ratio": None if part.plan.dynamic else frames,
        "valid_work_ratio": None if part.plan.dynamic else work,
        "batches_per_epoch": part.schedule.batches_per_epoch,
        "steps": part.schedule.planned_steps(opened.config.training),
    }


def describe_end(report: RunReport, next_command: str, paths: str = "") -> Iterator[str]:
    """The same for a run that was stopped, with how to go on."""
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
    steps = f"{report.steps:,} {plural(report.steps, 'step')}"
    yield f"Trained {steps} in {duration(wall)}: {shares}"
    yield (
        f"Useful utilisation: {report.useful_utilisation:.1%}. The device computed "
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


def trial_of_voice(corpus: Corpus) -> str:
    """Arguments of `synthesize` that speak in a voice of the corpus."""
    language = find_language(corpus.own_tokenizer.languages[0])
    reference = corpus.validation.cache.audio_path(0)
    return (
        f"--text {shlex.quote(language.example)} --speaker-wav {shlex.quote(str(reference))} "
        f"--language {language.code} --out hello.wav"
    )
