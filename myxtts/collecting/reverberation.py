"""How long a room goes on sounding after speech, from how fast the level falls before pauses.

Speech itself ends within about 0.2 s; a slower fall is the room's. With the impulse responses of
rooms on clean speech the median fall gives 0.36 s for 0.4 s, 0.5 s for 0.6 s and 0.86 s for 1 s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from myxtts.collecting.activity import HOP_SECONDS, Activity
from myxtts.collecting.cutting import Stretch

# A fall is looked for around the end of a run that is followed by a pause of at least this.
_LEAST_PAUSE_FRAMES = 30
_AROUND_FRAMES = 60
_NOISE_AROUND_FRAMES = 3_000
# It starts at the last frame that is near the loudest, and is followed for so many decibels.
_NEAR_LOUDEST_DB = 12.0
_FOLLOWED_DB, _LEAST_FALL_DB, _ABOVE_NOISE_DB = 25.0, 15.0, 6.0
_SHORTEST_FALL_FRAMES = 3
_LEAST_FALLS = 8
_FALL_OF_RT60_DB = 60.0


def falls_db_per_second(activity: Activity, runs: Sequence[Stretch]) -> list[float]:
    """How fast the level falls at the end of each run of speech where that can be told."""
    level_db = 10 * np.log10(np.sum(10 ** (activity.bands_db / 10), axis=1))
    falls = []
    for number, run in enumerate(runs, 1):
        next_start = runs[number].start if number < len(runs) else len(level_db)
        if next_start - run.end < _LEAST_PAUSE_FRAMES:
            continue
        first = max(run.start, run.end - _AROUND_FRAMES)
        around = level_db[first : min(next_start, run.end + _AROUND_FRAMES)]
        loud = np.flatnonzero(around > around.max() - _NEAR_LOUDEST_DB)
        fall = around[loud[-1] :]
        nearby = slice(max(0, run.end - _NOISE_AROUND_FRAMES), run.end + _NOISE_AROUND_FRAMES)
        noise_db = np.percentile(level_db[nearby], 5)
        end_db = max(fall[0] - _FOLLOWED_DB, noise_db + _ABOVE_NOISE_DB)
        below = np.flatnonzero(fall < end_db)
        if not below.size or fall[0] - end_db < _LEAST_FALL_DB:
            continue
        frames = max(int(below[0]), _SHORTEST_FALL_FRAMES)
        if frames < len(fall):
            falls.append(float(fall[0] - fall[frames]) / (frames * HOP_SECONDS))
    return falls


def reverberation_seconds(falls: Sequence[float]) -> float | None:
    """Time for 60 dB at the median fall; None with too few to tell."""
    if len(falls) < _LEAST_FALLS:
        return None
    return _FALL_OF_RT60_DB / float(np.median(falls))
