"""Saves the shape plan of a run, so that a resumed run has the same batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from myxtts.config.config import XTTSConfig
from myxtts.data.shapes import ShapePlan, step_frame_budget
from myxtts.errors import CheckpointError
from myxtts.json_files import read_json
from myxtts.whole_files import write_whole_file


class SavedShapes(NamedTuple):
    padded: list[tuple[int, int, int]]
    """Batch, tokens and frames of each shape."""
    whole_epochs: bool


def save_plan(plan: ShapePlan, config: XTTSConfig, file: Path) -> None:
    shapes = [
        {**shape._asdict(), "clips": int(plan.clips_of(index).size)}
        for index, shape in enumerate(plan.shapes)
    ]
    content = {
        "settings": _deciding_settings(config),
        "shapes": shapes,
        "whole_epochs": plan.whole_epochs,
        # The padding of dynamic batches is not known in advance.
        "valid_frame_ratio": None if plan.dynamic else plan.valid_frame_ratio,
        "valid_work_ratio": None if plan.dynamic else plan.valid_work_ratio,
        "rejected": plan.rejected,
    }
    write_whole_file(file, json.dumps(content, indent=1))


def load_shapes(file: Path, config: XTTSConfig) -> SavedShapes | None:
    """None if settings that affect the shapes have changed."""
    try:
        content = read_json(file, ("settings", "shapes", "whole_epochs"))
        shapes = [(shape["batch"], shape["tokens"], shape["frames"]) for shape in content["shapes"]]
        if not shapes:
            raise ValueError("no shapes")
        same = content["settings"] == _deciding_settings(config)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file}: not a valid shape plan ({error}); delete it to plan the shapes again"
        ) from error
    return SavedShapes(shapes, content["whole_epochs"]) if same else None


def _deciding_settings(config: XTTSConfig) -> dict[str, Any]:
    """Settings that determine the shapes, without devices and the length of the run."""
    data = config.data
    return {
        "batching": data.batching_mode,
        "batch_size": config.clips_per_step,
        "shape_count": data.shape_count,
        "frame_budget": step_frame_budget(config),
        "max_text_length": data.max_text_length,
        "max_mel_frames": data.max_mel_frames,
        "speaker_balance": data.speaker_balance,
        "language_balance": data.language_balance,
        "gradient_accumulation_steps": config.training.gradient_accumulation_steps,
    }
