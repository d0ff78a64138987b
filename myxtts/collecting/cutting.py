"""Decides where a recording is cut into clips: at pauses, into lengths that training can use.

Knows frames that contain speech, no samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from myxtts.collecting.activity import HOP_SECONDS, Activity, Flags

# Below this a quiet stretch may be the closure of a plosive, and is no place to cut.
_SHORTEST_PAUSE_SECONDS = 0.14
# Shorter sounds are clicks and breaths.
_SHORTEST_SOUND_SECONDS = 0.06
_MARGIN_SECONDS = 0.12
# Tried in turn where a pause is needed and there is none.
_HIGHER_THRESHOLDS_DB = (1.0, 2.0, 3.0, 4.0)
# A longer pause always separates clips; one of more than the second hardly stays inside a clip.
_LONGEST_INNER_SECONDS, _COMFORTABLE_INNER_SECONDS = 1.2, 0.6
# Costs, in the same unit: what is left out per second, a cut at a short pause, an inner pause.
_COST_OF_LOST_SECOND = 4.0
_COST_OF_SHORT_PAUSE = 0.35
_COST_OF_INNER_SECOND = 3.0
_COST_OF_CLIP = 0.5


@dataclass(frozen=True)
class Lengths:
    """How long clips may be."""

    shortest_seconds: float = 2.0
    longest_seconds: float = 12.0


class Stretch(NamedTuple):
    """Frames from `start` up to `end`."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * HOP_SECONDS


class Cuts(NamedTuple):
    clips: list[Stretch]
    too_short: list[Stretch]
    no_pause: list[Stretch]
    """Speech without a pause for longer than a clip may be."""


def speech_runs(activity: Activity, longest_seconds: float) -> list[Stretch]:
    """Speech between pauses: short gaps are bridged, clicks left out.

    Where there is no pause for longer than a clip may be, sounds that are hardly above the noise
    count as pauses too.
    """
    runs: list[Stretch] = []
    for run in _runs(activity.is_speech, 0):
        runs += _parts(run, activity, longest_seconds)
    return runs


def _parts(run: Stretch, activity: Activity, longest_seconds: float) -> list[Stretch]:
    if run.seconds <= longest_seconds:
        return [run]
    above = activity.above_noise_db[run.start : run.end]
    for least_db in _HIGHER_THRESHOLDS_DB:
        parts = _runs(above > least_db, run.start)
        if len(parts) > 1:
            # The ends of the run itself stay where they are.
            starts = [run.start, *(part.start for part in parts[1:])]
            ends = [*(part.end for part in parts[:-1]), run.end]
            found = map(Stretch, starts, ends)
            return [piece for part in found for piece in _parts(part, activity, longest_seconds)]
    return [run]


def _runs(is_speech: Flags, first_frame: int) -> list[Stretch]:
    edges = first_frame + np.flatnonzero(np.diff(is_speech, prepend=False, append=False))
    runs: list[Stretch] = []
    for start, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        if runs and (start - runs[-1].end) * HOP_SECONDS < _SHORTEST_PAUSE_SECONDS:
            runs[-1] = Stretch(runs[-1].start, end)
        else:
            runs.append(Stretch(start, end))
    return [run for run in runs if run.seconds >= _SHORTEST_SOUND_SECONDS]


def safe_end(runs: Sequence[Stretch], frames: int) -> int:
    """Where a stretch that goes on can be divided without changing a clip.

    The middle of its last long pause, or of its longest in the later half.
    """
    gaps = [Stretch(left.end, right.start) for left, right in itertools.pairwise(runs)]
    if runs:
        gaps.append(Stretch(runs[-1].end, frames))
    long = [gap for gap in gaps if gap.seconds > _LONGEST_INNER_SECONDS]
    if long and long[-1].start > frames / 3:
        return (long[-1].start + long[-1].end) // 2
    later = [gap for gap in gaps if gap.start > frames / 2]
    if not later:
        return frames
    longest = max(later, key=lambda gap: gap.seconds)
    return (longest.start + longest.end) // 2


def plan_cuts(runs: Sequence[Stretch], frames: int, lengths: Lengths) -> Cuts:
    """Clips of the runs, with margins that reach into the pauses around them."""
    cuts = Cuts([], [], [])
    lengths = Lengths(lengths.shortest_seconds, lengths.longest_seconds - 2 * _MARGIN_SECONDS)
    group: list[Stretch] = []
    for run in runs:
        if group and (run.start - group[-1].end) * HOP_SECONDS > _LONGEST_INNER_SECONDS:
            _divide(group, lengths, cuts)
            group = []
        group.append(run)
    if group:
        _divide(group, lengths, cuts)
    starts = {right.start: left.end for left, right in itertools.pairwise(runs)}
    ends = {left.end: right.start for left, right in itertools.pairwise(runs)}
    margin = round(_MARGIN_SECONDS / HOP_SECONDS)

    def with_margins(clip: Stretch) -> Stretch:
        before = clip.start - starts.get(clip.start, 0)
        after = ends.get(clip.end, frames) - clip.end
        # Two clips that share a pause take at most half of it each.
        return Stretch(clip.start - min(margin, before // 2), clip.end + min(margin, after // 2))

    return Cuts([with_margins(clip) for clip in cuts.clips], cuts.too_short, cuts.no_pause)


def _divide(group: Sequence[Stretch], lengths: Lengths, cuts: Cuts) -> None:
    """The cheapest way to cut runs into clips, by dynamic programming over their ends."""
    best: list[tuple[float, int, bool]] = [(0.0, 0, False)]
    for end in range(1, len(group) + 1):
        options = []
        inner = 0.0
        for start in range(end - 1, -1, -1):
            seconds = Stretch(group[start].start, group[end - 1].end).seconds
            if start < end - 1:
                pause = (group[start + 1].start - group[start].end) * HOP_SECONDS
                inner += max(0.0, pause - _COMFORTABLE_INNER_SECONDS) * _COST_OF_INNER_SECOND
            fits = lengths.shortest_seconds <= seconds <= lengths.longest_seconds
            if not fits and start < end - 1:
                if seconds > lengths.longest_seconds:
                    break
                continue
            cost = _COST_OF_CLIP + inner if fits else group[start].seconds * _COST_OF_LOST_SECOND
            options.append((best[start][0] + cost + _cost_of_cut(group, start), start, fits))
        best.append(min(options))
    end = len(group)
    found: list[Stretch] = []
    while end:
        _, start, fits = best[end]
        clip = Stretch(group[start].start, group[end - 1].end)
        if fits:
            found.append(clip)
        elif clip.seconds < lengths.shortest_seconds:
            cuts.too_short.append(clip)
        else:
            cuts.no_pause.append(clip)
        end = start
    cuts.clips.extend(reversed(found))


def _cost_of_cut(group: Sequence[Stretch], start: int) -> float:
    """A cut before this run: the shorter the pause, the likelier it is inside a word."""
    if start == 0:
        return 0.0
    pause = (group[start].start - group[start - 1].end) * HOP_SECONDS
    return _COST_OF_SHORT_PAUSE * _COMFORTABLE_INNER_SECONDS / max(pause, HOP_SECONDS)
