"""The few static shapes that a corpus is trained in.

Each clip is padded to one of the shapes, so the compiled step meets only shapes it knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.errors import DataError

# Lengths are rounded up to these multiples: odd sizes gain nothing and cost vector lanes.
TOKEN_MULTIPLE = 8
FRAME_MULTIPLE = 16

IntArray = npt.NDArray[np.int32]


class Shape(NamedTuple):
    batch: int
    tokens: int
    frames: int


@dataclass(frozen=True)
class ShapePlan:
    shapes: tuple[Shape, ...]
    shape_of_clip: IntArray
    """Index into `shapes` for each clip; -1 for clips over the limits."""
    valid_frame_ratio: float

    @property
    def rejected(self) -> dict[str, int]:
        left_out = int(np.sum(self.shape_of_clip < 0))
        return {"over the length limits": left_out} if left_out else {}

    def clips_of(self, shape: int) -> IntArray:
        return np.flatnonzero(self.shape_of_clip == shape).astype(np.int32)


def plan_shapes(token_counts: IntArray, frame_counts: IntArray, config: XTTSConfig) -> ShapePlan:
    """Shapes for clips of these lengths, by the configured way of batching."""
    data = config.data
    most_frames = data.max_mel_frames or round_up(int(frame_counts.max()), FRAME_MULTIPLE)
    most_frames = round_up(most_frames, config.model.frames_per_position)
    fits = (token_counts <= data.max_text_length) & (frame_counts <= most_frames)
    if not fits.any():
        raise DataError(
            f"no clip fits data.max_text_length = {data.max_text_length} and "
            f"data.max_mel_frames = {most_frames}; raise them"
        )
    if data.batching_mode == "fixed":
        shapes = [Shape(data.batch_size, data.max_text_length, most_frames)]
    else:
        edges = best_edges(frame_counts[fits], data.shape_count)
        bucket = np.searchsorted(edges, frame_counts)
        shapes = [
            Shape(
                data.batch_size,
                round_up(int(token_counts[fits & (bucket == index)].max()), TOKEN_MULTIPLE),
                round_up(int(edge), config.model.frames_per_position),
            )
            for index, edge in enumerate(edges)
        ]
    return assign_shapes(token_counts, frame_counts, tuple(shapes))


def assign_shapes(
    token_counts: IntArray, frame_counts: IntArray, shapes: tuple[Shape, ...]
) -> ShapePlan:
    """Each clip in the smallest of the given shapes that holds it."""
    shape_of_clip = np.full(len(token_counts), -1, np.int32)
    padded_frames = np.zeros(len(token_counts), np.int64)
    by_size = sorted(range(len(shapes)), key=lambda index: shapes[index].frames, reverse=True)
    for index in by_size:
        holds = (token_counts <= shapes[index].tokens) & (frame_counts <= shapes[index].frames)
        shape_of_clip[holds] = index
        padded_frames[holds] = shapes[index].frames
    used = shape_of_clip >= 0
    ratio = float(frame_counts[used].sum() / max(1, padded_frames.sum()))
    return ShapePlan(shapes, shape_of_clip, ratio)


def best_edges(frame_counts: IntArray, count: int) -> IntArray:
    """At most `count` frame lengths that pad these clips the least, by dynamic programming."""
    rounded = -(-frame_counts.astype(np.int64) // FRAME_MULTIPLE) * FRAME_MULTIPLE
    lengths, clips = np.unique(rounded, return_counts=True)
    clips_up_to = np.concatenate([[0], np.cumsum(clips)])
    # cost[j]: least padded frames for the clips of the first j lengths, with the shapes so far.
    cost = np.full(len(lengths) + 1, np.inf)
    cost[0] = 0.0
    choices = []
    for _ in range(min(count, len(lengths))):
        extended = cost[:, None] + (clips_up_to[None, 1:] - clips_up_to[:, None]) * lengths
        extended[clips_up_to[:, None] > clips_up_to[None, 1:]] = np.inf
        choices.append(np.argmin(extended, axis=0))
        cost = np.concatenate([[0.0], np.min(extended, axis=0)])
    edges = []
    end = len(lengths)
    for choice in reversed(choices):
        if end == 0:
            break
        edges.append(lengths[end - 1])
        end = int(choice[end - 1])
    return np.array(sorted(set(edges)), np.int32)


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def describe_plan(plan: ShapePlan, frame_counts: IntArray) -> str:
    """A small table: shape, clips, batch size, share of real frames."""
    lines = ["Shapes     tokens  frames   clips   batch   real frames"]
    for index, shape in enumerate(plan.shapes):
        clips = plan.clips_of(index)
        real = frame_counts[clips].sum() / max(1, clips.size * shape.frames)
        lines.append(
            f"  {index + 1:>2}      {shape.tokens:>7} {shape.frames:>7} {clips.size:>7} "
            f"{shape.batch:>7} {real:>12.1%}"
        )
    lines.append(
        f"  all                     {len(frame_counts):>7}         {plan.valid_frame_ratio:>12.1%}"
    )
    return "\n".join(lines)
