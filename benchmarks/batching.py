"""Fraction of work spent on padding in a corpus like LJSpeech, per batching mode.

    .venv/bin/python benchmarks/batching.py [--clips 13100] [--json FILE]

Lengths are random but similar (1.1 to 10.1 s, 6.6 on average); one epoch of the tiny model is
counted. lhotse's DynamicBucketingSampler is compared if it is installed: pip install
'myxtts[benchmark]'.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.data.planning.diagnosis import measured_ratios, typical_lengths
from myxtts.data.planning.schedule import Clips, Schedule
from myxtts.data.planning.shapes import Shape, plan_shapes

FRAMES_PER_SECOND = 86


def planned(clips: Clips, **settings: Any) -> dict[str, Any]:
    config = XTTSConfig(**settings)
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config)
    schedule = Schedule(clips, plan, config)
    batches = [schedule.batch_at(step) for step in range(schedule.batches_per_epoch)]
    return described(
        clips, [(batch.clips, batch.shape, 1) for batch in batches], plan.shape_of_clip < 0
    )


def sampled_by_lhotse(clips: Clips, buckets: int) -> dict[str, Any]:
    from lhotse import CutSet, MonoCut
    from lhotse.dataset.sampling import DynamicBucketingSampler

    seconds = clips.frame_counts / FRAMES_PER_SECOND
    cuts = CutSet.from_cuts(
        MonoCut(id=str(index), start=0, duration=float(duration), channel=0)
        for index, duration in enumerate(seconds)
    )
    sampler = DynamicBucketingSampler(
        cuts,
        # The duration of sixteen average clips.
        max_duration=16 * float(seconds.mean()),
        num_buckets=buckets,
        shuffle=True,
        seed=0,
    )
    batches = []
    for cuts_of_batch in sampler:
        members = np.array([int(cut.id) for cut in cuts_of_batch])
        tokens, frames = clips.token_counts[members].max(), clips.frame_counts[members].max()
        shape = Shape(members.size, int(tokens), int(frames), members.size * int(tokens))
        batches.append((members, shape, 1))
    return described(clips, batches, np.zeros(clips.token_counts.size, bool))


def described(clips: Clips, batches: list[Any], left_out: Any) -> dict[str, Any]:
    frames, work = measured_ratios(clips, batches, XTTSConfig())
    return {
        "steps": len(batches),
        "shapes": len({shape for _, shape, _ in batches}),
        "real frames": frames,
        "real work": work,
        "frames left out": float(clips.frame_counts[left_out].sum() / clips.frame_counts.sum()),
    }


def largest_imbalance(clips: Clips, replicas: int) -> float:
    """Frames of the busiest replica over the mean, in the worst batch of an epoch."""
    config = XTTSConfig()
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config, replicas=replicas)
    schedule = Schedule(clips, plan, config)
    frames = (
        clips.frame_counts[schedule.batch_at(step).clips].reshape(replicas, -1).sum(axis=1)
        for step in range(schedule.batches_per_epoch)
    )
    return max(float(of_replicas.max() / of_replicas.mean()) for of_replicas in frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clips", type=int, default=13_100)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    clips = typical_lengths(options.clips)
    results = {
        "fixed, 800 frames": planned(clips, batching="fixed", max_mel_frames=800),
        "fixed, longest": planned(clips, batching="fixed"),
        "dynamic": planned(clips, batching="dynamic"),
    }
    for buckets in (8, 16, 30):
        if importlib.util.find_spec("lhotse"):
            results[f"lhotse, {buckets} buckets"] = sampled_by_lhotse(clips, buckets)
    for count in (4, 8, 16):
        results[f"bucketed, {count}"] = planned(clips, shape_count=count)
    columns = list(next(iter(results.values())))
    print(f"{'':20}" + "".join(f"{column:>17}" for column in columns))
    for name, result in results.items():
        cells = (
            f"{value:>17,}" if isinstance(value, int) else f"{value:>17.1%}"
            for value in result.values()
        )
        print(f"{name:20}" + "".join(cells))
    imbalance = largest_imbalance(clips, replicas=2)
    print(f"\nframes of the busier of two replicas over the mean, at most: {imbalance:.3f}")
    million = typical_lengths(1_000_000)
    started = time.perf_counter()
    plan_shapes(million.token_counts, million.frame_counts, XTTSConfig())
    seconds = time.perf_counter() - started
    print(f"planning 1,000,000 clips: {seconds:.2f} s")
    if options.json:
        results["planning a million"] = {"seconds": seconds}
        results["two replicas"] = {"largest imbalance": imbalance}
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
