"""Names in TensorBoard: groups, and the loss first in each.

metrics.jsonl keeps the plain names. TensorBoard sorts by name, so the parts of a loss are called
loss_prior there and stand after it.
"""

from __future__ import annotations

_OPTIMIZER = ("gradient_norm", "learning_rate", "loss_scale")
_VALIDATION = "validation_"


def event_name(metric: str) -> str:
    if metric.startswith("gpu"):
        return f"gpu/{metric.removeprefix('gpu').lstrip('_')}"
    if metric.startswith(_VALIDATION):
        return f"validation/{_loss_first(metric.removeprefix(_VALIDATION))}"
    if metric == "loss" or metric.endswith("_loss"):
        return f"train/{_loss_first(metric)}"
    if metric in _OPTIMIZER:
        return f"train/optimizer_{metric}"
    return f"time/{metric}"


def _loss_first(name: str) -> str:
    part = name.removesuffix("_loss")
    return f"loss_{part}" if part != name else name
