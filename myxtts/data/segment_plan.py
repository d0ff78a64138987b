"""One static shape for all clips: a segment of fixed length, cut out of each."""

from __future__ import annotations

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.data.balance import ClipLabels, balanced_weights
from myxtts.data.lengths import IntArray
from myxtts.data.shapes import Shape, ShapePlan, require_equal_shares
from myxtts.wording import plural


def plan_segments(
    frame_counts: IntArray, config: XTTSConfig, *, shares: int, labels: ClipLabels | None = None
) -> ShapePlan:
    batch, frames = config.clips_per_step, config.vocoder.frames_per_segment
    require_equal_shares([batch], shares, config)
    used = np.ones(len(frame_counts), bool)
    weights = balanced_weights(labels, used, config.data)
    valid = float(np.average(np.minimum(frame_counts, frames), weights=weights)) / frames
    return ShapePlan(
        (Shape(batch, 0, frames, 0),),
        np.zeros(len(frame_counts), np.int32),
        shares,
        valid_frame_ratio=valid,
        valid_work_ratio=valid,
        weights=weights,
    )


def describe_segments(plan: ShapePlan, config: XTTSConfig) -> str:
    """One line for the one shape."""
    (shape,) = plan.shapes
    at_once = shape.batch // config.training.gradient_accumulation_steps
    clips = plan.clips_of(0).size
    return (
        f"Segments: {shape.frames} frames of each clip, {at_once} {plural(at_once, 'clip')} at "
        f"once, {clips} {plural(clips, 'clip')} in all; {plan.valid_frame_ratio:.1%} real frames"
    )
