"""Recommends limits, shapes and a batch size for a corpus, and compares alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.balance import ClipLabels
from myxtts.data.lengths import TOKEN_MULTIPLE, IntArray, round_up
from myxtts.data.schedule import Clips
from myxtts.data.shapes import frame_multiple, plan_shapes
from myxtts.data.statistics import CorpusMeasures
from myxtts.wording import plural

SHAPE_COUNTS = (2, 4, 8, 16)

# A clip longer than this multiple of the 99th percentile is an outlier: it costs more padding than
# it is worth.
_OUTLIER_FACTOR = 1.5
_SMALLEST_BATCH = 4
# `tune` does not try larger batches than leave so many steps per epoch.
FEWEST_BATCHES_PER_EPOCH = 20
# Limits the memory of the largest batch: 16 clips of 24 seconds at the default hop.
_MOST_FRAMES_PER_BATCH = 32_768


@dataclass(frozen=True)
class Choice:
    """A batching mode and its cost for this corpus."""

    name: str
    batching: str
    shapes: int
    max_text_length: int
    max_mel_frames: int
    clips_left_out: int
    valid_frame_ratio: float
    """Real mel frames over computed ones."""
    valid_work_ratio: float
    """The same for the work of the configured model."""


def weigh_choices(
    measures: CorpusMeasures, config: XTTSConfig, *, xla: bool = False
) -> list[Choice]:
    """Compares the configuration, one fixed shape at three limits, and several shapes."""
    choices = [_weigh(measures, config, "as configured", xla=xla)]
    for name, share in (("p95", 95), ("p99", 99), ("longest", 100)):
        fixed = with_data_settings(config, batching="fixed", **_limits(measures, config, share))
        choices.append(_weigh(measures, fixed, f"fixed, {name}"))
    for count in SHAPE_COUNTS:
        bucketed = with_data_settings(
            config, batching="bucketed", shape_count=count, **recommended_limits(measures, config)
        )
        choices.append(_weigh(measures, bucketed, f"bucketed, {count}"))
    return choices


def recommended_limits(measures: CorpusMeasures, config: XTTSConfig) -> dict[str, int]:
    """Limits that exclude only outliers."""
    longest, usual = _limits(measures, config, 100), _limits(measures, config, 99)
    multiples = {"max_text_length": TOKEN_MULTIPLE, "max_mel_frames": frame_multiple(config)}
    return {
        name: min(longest[name], round_up(int(_OUTLIER_FACTOR * usual[name]), multiple))
        for name, multiple in multiples.items()
    }


def _limits(measures: CorpusMeasures, config: XTTSConfig, share: int) -> dict[str, int]:
    def limit(lengths: IntArray, multiple: int) -> int:
        return round_up(int(np.percentile(lengths, share, method="inverted_cdf")), multiple)

    return {
        "max_text_length": limit(measures.token_counts, TOKEN_MULTIPLE),
        "max_mel_frames": limit(measures.frame_counts, frame_multiple(config)),
    }


def with_data_settings(config: XTTSConfig, **changes: Any) -> XTTSConfig:
    return config.with_(**{"pad_to_fixed_length": False} | changes)


def _weigh(measures: CorpusMeasures, config: XTTSConfig, name: str, *, xla: bool = False) -> Choice:
    limits = {
        "max_text_length": config.data.max_text_length,
        "max_mel_frames": config.data.max_mel_frames or _longest_of_fitting(measures, config),
    }
    batching = config.data.batching_mode
    if not _fitting(measures, limits).any():
        return Choice(
            name,
            batching,
            0,
            **limits,
            clips_left_out=len(measures),
            valid_frame_ratio=0.0,
            valid_work_ratio=0.0,
        )
    labels = ClipLabels(measures.speaker_of_clip, measures.language_of_clip)
    plan = plan_shapes(measures.token_counts, measures.frame_counts, config, xla=xla, labels=labels)
    return Choice(
        name,
        batching,
        len(plan.shapes),
        **limits,
        clips_left_out=sum(plan.rejected.values()),
        valid_frame_ratio=plan.valid_frame_ratio,
        valid_work_ratio=plan.valid_work_ratio,
    )


def _longest_of_fitting(measures: CorpusMeasures, config: XTTSConfig) -> int:
    """As `train` derives it: clips with too long a text do not count."""
    fits = measures.token_counts <= config.data.max_text_length
    frame_counts = measures.frame_counts[fits if fits.any() else slice(None)]
    return round_up(int(frame_counts.max()), frame_multiple(config))


def _fitting(measures: CorpusMeasures, limits: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    return (measures.token_counts <= limits["max_text_length"]) & (
        measures.frame_counts <= limits["max_mel_frames"]
    )


@dataclass(frozen=True)
class DataRecommendation:
    """Settings of section `data`, with reasons."""

    settings: Mapping[str, Any]
    reasons: Mapping[str, str]


def recommend(
    measures: CorpusMeasures, choices: Sequence[Choice], config: XTTSConfig
) -> DataRecommendation:
    """Bucketed batching with limits and a batch size for this corpus.

    The planner chooses the number of shapes.
    """
    limits = recommended_limits(measures, config)
    fitting = measures.frame_counts[_fitting(measures, limits)]
    batch = recommended_batch_size(fitting, config)
    reason = batch.reason
    in_use, _ = with_recommended_batch_size(measures, config)
    if in_use.data.batch_size != batch.size:
        reason += f"; without these limits train takes {in_use.data.batch_size}"
    reasons = {
        "max_text_length": _left_out(choices[-1].clips_left_out),
        "batch_size": reason,
    }
    settings: dict[str, Any] = {"batching": "bucketed"}
    if config.data.pad_to_fixed_length:
        settings["pad_to_fixed_length"] = False
    if config.data.shape_count is not None:
        settings["shape_count"] = None
    settings |= {**limits, "batch_size": batch.size}
    return DataRecommendation(settings, reasons)


def _left_out(clips: int) -> str:
    if clips == 0:
        return "keeps every clip"
    return f"{clips:,} {plural(clips, 'clip')} left out"


class BatchSize(NamedTuple):
    size: int
    reason: str


def with_recommended_batch_size(
    clips: Clips | CorpusMeasures, config: XTTSConfig, *, replicas: int = 1
) -> tuple[XTTSConfig, BatchSize]:
    """The configuration that `train` uses, and what is recommended for the clips that fit it."""
    data = config.data
    fits = clips.token_counts <= data.max_text_length
    if data.max_mel_frames is not None:
        fits &= clips.frame_counts <= data.max_mel_frames
    batch = recommended_batch_size(clips.frame_counts[fits], config, replicas=replicas)
    if not config.has_own_batch_size and batch.size != data.batch_size:
        config = config.with_(batch_size=batch.size)
    return config, batch


def recommended_batch_size(
    frame_counts: IntArray, config: XTTSConfig, *, replicas: int = 1
) -> BatchSize:
    """The configured size, halved while there are too few clips or too long ones.

    `stats`, `diagnose`, `tune` and `train` recommend by this alone, and `train` uses it unless a
    size is given.
    """
    reason = "as configured"
    accumulation = config.training.gradient_accumulation_steps
    # A vocoder is trained on short segments, however long the clips are.
    is_vocoder = config.training.task == "vocoder"
    longest = 0 if is_vocoder else int(frame_counts.max(initial=0))
    sizes = _configured_and_smaller_batches(config, replicas)
    for size in sizes:
        if frame_counts.size < size * accumulation:
            reason = f"more than the {frame_counts.size} clips there are would repeat some"
        elif longest * size > _MOST_FRAMES_PER_BATCH:
            reason = "more would need much memory for the longest clips"
        else:
            return BatchSize(size, reason)
    return BatchSize(sizes[-1], reason)


def _configured_and_smaller_batches(config: XTTSConfig, replicas: int) -> list[int]:
    """The configured size and its repeated halves that replicas can share."""
    sizes = [config.data.batch_size]
    while sizes[-1] >= 2 * _SMALLEST_BATCH and sizes[-1] % (2 * replicas) == 0:
        sizes.append(sizes[-1] // 2)
    return sizes
