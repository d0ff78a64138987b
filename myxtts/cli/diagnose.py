"""`myxtts diagnose`: predicts whether a configuration recompiles the training step."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from myxtts.cli.console import say, say_json
from myxtts.cli.parser import CHECK_FAILED
from myxtts.cli.stats import measure_part
from myxtts.cli.train import add_training_flags, configuration_of_run
from myxtts.config.config import XTTSConfig
from myxtts.data.shapes import Clips, with_recommended_batch_size
from myxtts.data.statistics import Diagnosis, advise, diagnose, typical_lengths
from myxtts.devices.machine import describe_machine
from myxtts.devices.placement import (
    Placement,
    expected_gpu_count,
    expects_xla,
    find_cluster,
    place,
)


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "diagnose",
        help="predict the traces and compilations of a configuration",
        description="Predict, without training, how often the training step would be traced and "
        "compiled with this configuration and corpus, and compare the batching modes. Takes the "
        "flags of train; XLA is assumed to be on if there are GPUs here, or with --xla. Exit code "
        "1 if training would recompile or stop because too many clips are left out.",
    )
    add_training_flags(
        parser,
        json_help="print one JSON object",
        without_corpus="assume clip lengths like LJSpeech's",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    config = configuration_of_run(options)
    clips, unusable, source = _clips(config, quiet=options.json)
    placement, xla = _placement(config)
    config, batch = with_recommended_batch_size(clips, config, replicas=placement.replicas)
    diagnosis = diagnose(clips, config, xla=xla, replicas=placement.replicas, unusable=unusable)
    advice = advise(diagnosis, config)
    if batch.size != config.data.batch_size:
        advice.append(f"Recommended: --batch-size {batch.size} ({batch.reason}).")
    noted = (placement.missing, placement.problem, *placement.without_effect)
    advice += [f"Devices: {it}." for it in noted if it]
    if options.json:
        content = _as_dict(diagnosis, config.data.batch_size, source, advice)
        say_json(content)
    else:
        say("\n".join(_describe(diagnosis, config.data.batch_size, source, advice)))
    return CHECK_FAILED if diagnosis.would_compile_again or diagnosis.would_stop else 0


def _placement(config: XTTSConfig) -> tuple[Placement, bool]:
    """Predict the placement of `train` and whether it uses XLA, without setting up devices."""
    cluster = find_cluster()
    gpus_here = describe_machine().gpus_to_be_expected
    gpu_count = expected_gpu_count(config, gpus_here)
    placement = place(config, gpu_count, cluster.workers if cluster else 1)
    return placement, expects_xla(config, gpus_here)


def _clips(config: XTTSConfig, *, quiet: bool) -> tuple[Clips, int, str]:
    """Return the lengths of the clips, the number of unusable ones, and the source."""
    folder = config.data.train_data
    if folder is None:
        return typical_lengths(), 0, "clip lengths like LJSpeech's (no corpus given)"
    measures = measure_part("train", config, show_progress=not quiet)
    unusable = measures.unreadable + measures.empty_text
    return measures.clips, unusable, f"{folder} (lengths before trimming silence)"


def _as_dict(
    diagnosis: Diagnosis, batch_size: int, source: str, advice: list[str]
) -> dict[str, Any]:
    predicted = diagnosis.prediction
    return {
        "corpus": source,
        "clips": diagnosis.clips,
        "batching": diagnosis.configured,
        "batch_size": batch_size,
        "xla": diagnosis.xla,
        "replicas": diagnosis.replicas,
        "traces": predicted.traces,
        "compilations": predicted.compilations,
        "compilations_after_warmup": predicted.compilations_after_warmup,
        "would_compile_again": diagnosis.would_compile_again,
        "would_stop": diagnosis.would_stop,
        "advice": advice,
        "modes": [dataclasses.asdict(item) for item in diagnosis.predictions],
    }


def _describe(diagnosis: Diagnosis, batch_size: int, source: str, advice: list[str]) -> list[str]:
    predicted = diagnosis.prediction
    xla = "on" if diagnosis.xla else "off (--xla predicts for a GPU, where it is on by default)"
    replicas = f"; replicas: {diagnosis.replicas}" if diagnosis.replicas > 1 else ""
    lines = [
        f"Clips: {diagnosis.clips}, {source}",
        f"Batching: {diagnosis.configured}; batch size: {batch_size}; XLA: {xla}{replicas}",
        "",
        "batching    shapes  XLA compiles  during training  seconds*  real frames  real work  "
        "left out",
    ]
    lines += [
        f"{item.batching + (' <-' if item is predicted else ''):<12}"
        f"{item.shapes:>6} {item.compilations:>13} {item.compilations_after_warmup:>16} "
        f"{item.compile_seconds:>9.0f} {item.valid_frame_ratio:>12.1%} "
        f"{item.valid_work_ratio:>10.1%} {item.clips_left_out:>9}"
        for item in diagnosis.predictions
    ]
    lines += [f"* estimated for the first {predicted.steps} steps; <- this configuration", ""]
    verdict = (
        f"Traces: {predicted.traces}. XLA compilations: {predicted.compilations}, "
        f"{predicted.compilations_after_warmup} of them during training."
    )
    return [*lines, verdict, *advice]
