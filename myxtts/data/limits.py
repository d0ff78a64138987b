"""The length limits of a corpus: what to change if they leave out many clips.

`train` says so when it stops, `diagnose` when it predicts that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.data.lengths import TOKEN_MULTIPLE, IntArray, round_up
from myxtts.data.metadata import Utterance
from myxtts.data.shapes import frame_multiple
from myxtts.data.statistics import measure_corpus
from myxtts.data.workers import worker_count

_KEPT_PERCENT = (99, 95, 80)


def limits_in_force(config: XTTSConfig) -> dict[str, int]:
    """The limits by setting; one that is derived from the data leaves out nothing."""
    limits = {
        "data.max_text_length": config.data.max_text_length,
        "data.max_mel_frames": config.data.max_mel_frames,
    }
    return {name: limit for name, limit in limits.items() if limit is not None}


def limits_that_keep(
    percent: int, token_counts: IntArray, frame_counts: IntArray, config: XTTSConfig
) -> dict[str, int]:
    """The lowest limits, of those in force, that together keep this share of the clips.

    Both are at the same quantile of their lengths.
    """
    lengths = {
        "data.max_text_length": (token_counts, TOKEN_MULTIPLE),
        "data.max_mel_frames": (frame_counts, frame_multiple(config)),
    }
    used = {name: lengths[name] for name in limits_in_force(config)}
    ranks = [np.searchsorted(np.sort(counts), counts, side="right") for counts, _ in used.values()]
    rank = int(np.percentile(np.max(ranks, axis=0), percent, method="inverted_cdf"))
    return {
        name: round_up(int(np.sort(counts)[rank - 1]), multiple)
        for name, (counts, multiple) in used.items()
    }


def advice_on_limits(token_counts: IntArray, frame_counts: IntArray, config: XTTSConfig) -> str:
    """Limits that would keep more clips."""
    choices: list[str] = []
    for percent in _KEPT_PERCENT:
        limits = limits_that_keep(percent, token_counts, frame_counts, config)
        names = [f"{name} = {limit}" for name, limit in limits.items()]
        # The names once are enough.
        shown = map(str, limits.values()) if choices else names
        choices.append(f"{' with '.join(shown)} would keep {percent} %")
    return f"{', '.join(choices)} of the clips"


def advice_for(utterances: Sequence[Utterance], config: XTTSConfig) -> str:
    measures = measure_corpus(
        utterances, config, processes=worker_count(config.data.workers, len(utterances))
    )
    return advice_on_limits(measures.token_counts, measures.frame_counts, config)


def go_on_with(left_out: int, clips: int) -> str:
    """The option that lets a run start although so many clips are left out."""
    return f"--set data.max_rejected_fraction={math.ceil(100 * left_out / clips) / 100:g}"
