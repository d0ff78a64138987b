"""The plan of shapes as a file of the run, so that a resumed run has the same batches."""

from __future__ import annotations

import json
from pathlib import Path

from myxtts.data.shapes import ShapePlan
from myxtts.errors import CheckpointError

PLAN_FILE = "shapes.json"


def save_plan(plan: ShapePlan, file: Path) -> None:
    shapes = [
        {**shape._asdict(), "clips": int(plan.clips_of(index).size)}
        for index, shape in enumerate(plan.shapes)
    ]
    content = {
        "dynamic": plan.dynamic,
        "shapes": shapes,
        "valid_frame_ratio": plan.valid_frame_ratio,
        "valid_work_ratio": plan.valid_work_ratio,
        "rejected": plan.rejected,
    }
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def load_padded_shapes(file: Path) -> list[tuple[int, int, int]]:
    """Batch, tokens and frames of each shape."""
    try:
        shapes = json.loads(file.read_text(encoding="utf-8"))["shapes"]
        return [(int(it["batch"]), int(it["tokens"]), int(it["frames"])) for it in shapes]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file}: is not a plan of shapes ({error}); start the run anew with --init-from"
        ) from error
