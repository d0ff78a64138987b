"""Fraction of work spent on padding, per batching mode.

    .venv/bin/python benchmarks/batching.py [--size tiny] [--json FILE]

Lengths are random: like those of LJSpeech (1.1 to 10.1 s, 6.6 on average), and log-normal with a
deviation of one around 3 s (0.5 to 25 s), a small and a larger corpus. One epoch is counted.
lhotse's DynamicBucketingSampler is compared if it is installed: pip install 'myxtts[benchmark]'.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import MODEL_SIZES, XTTSConfig
from myxtts.data.diagnosis import clips_lasting, measured_ratios, typical_lengths
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.shapes import Shape, plan_shapes

FRAMES_PER_SECOND = 86


def widely_spread(hours: float) -> Clips:
    generator = np.random.default_rng(0)
    seconds = np.exp(generator.normal(np.log(3), 1, 10_000))
    seconds = seconds[(seconds >= 0.5) & (seconds <= 25)]
    return clips_lasting(seconds[np.cumsum(seconds) <= 3_600 * hours], generator)


def planned(clips: Clips, config: XTTSConfig, *, xla: bool = False) -> dict[str, Any]:
    plan = plan_shapes(clips.token_counts, clips.frame_counts, config, xla=xla)
    schedule = Schedule(clips, plan, config)
    batches = [schedule.batch_at(step) for step in range(schedule.batches_per_epoch)]
    return described(
        clips, [(batch.clips, batch.shape, 1) for batch in batches], plan.shape_of_clip < 0, config
    )


def sampled_by_lhotse(clips: Clips, buckets: int, config: XTTSConfig) -> dict[str, Any]:
    from lhotse import CutSet, MonoCut
    from lhotse.dataset.sampling import DynamicBucketingSampler

    seconds = clips.frame_counts / FRAMES_PER_SECOND
    left_out = clips.token_counts > config.data.max_text_length
    cuts = CutSet.from_cuts(
        MonoCut(id=str(index), start=0, duration=float(seconds[index]), channel=0)
        for index in np.flatnonzero(~left_out)
    )
    sampler = DynamicBucketingSampler(
        cuts,
        # The duration of sixteen average clips.
        max_duration=16 * float(seconds[~left_out].mean()),
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
    return described(clips, batches, left_out, config)


def described(
    clips: Clips, batches: list[Any], left_out: Any, config: XTTSConfig
) -> dict[str, Any]:
    frames, work = measured_ratios(clips, batches, config)
    return {
        "steps": len(batches),
        "shapes": len({shape.padded for _, shape, _ in batches}),
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


def compared(clips: Clips, config: XTTSConfig) -> dict[str, dict[str, Any]]:
    results = {
        "fixed, 800 frames": planned(clips, config.with_(batching="fixed", max_mel_frames=800)),
        "fixed, longest": planned(clips, config.with_(batching="fixed")),
        "dynamic": planned(clips, config.with_(batching="dynamic")),
    }
    for buckets in (8, 16, 30):
        if importlib.util.find_spec("lhotse"):
            results[f"lhotse, {buckets} buckets"] = sampled_by_lhotse(clips, buckets, config)
    for count in (4, 8, 16):
        results[f"bucketed, {count}"] = planned(clips, config.with_(shape_count=count))
    results["bucketed, default with XLA"] = planned(clips, config, xla=True)
    results["bucketed, default"] = planned(clips, config)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", choices=MODEL_SIZES, default="tiny")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config = XTTSConfig(size=options.size)
    like_ljspeech = typical_lengths(13_100)
    corpora = {
        "like LJSpeech": like_ljspeech,
        "log-normal, 16 minutes": widely_spread(16 / 60),
        "log-normal, 4 hours": widely_spread(4),
    }
    results: dict[str, Any] = {}
    for corpus, clips in corpora.items():
        results[corpus] = compared(clips, config)
        columns = list(results[corpus]["dynamic"])
        heading = f"{corpus}: {clips.token_counts.size:,} clips"
        print(f"{heading:38}" + "".join(f"{column:>17}" for column in columns))
        for name, result in results[corpus].items():
            cells = (
                f"{value:>17,}" if isinstance(value, int) else f"{value:>17.1%}"
                for value in result.values()
            )
            print(f"  {name:36}" + "".join(cells))
        print()
    imbalance = largest_imbalance(like_ljspeech, replicas=2)
    print(f"frames of the busier of two replicas over the mean, at most: {imbalance:.3f}")
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
