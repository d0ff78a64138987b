"""Old names of settings, which files, command lines and saved runs may still use."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from myxtts.config.schema import Layer
from myxtts.errors import ConfigError

_log = logging.getLogger(__name__)

MOVED = {
    "training.augment_speed": "augmentation.speed",
    "training.augment_pitch_semitones": "augmentation.pitch_semitones",
    "training.augment_formants": "augmentation.formants",
    "training.augment_tone_db": "augmentation.tone_db",
    "training.augment_gain_db": "augmentation.gain_db",
    "training.augment_noise_dbfs": "augmentation.noise_dbfs",
    "training.evaluate_every": "evaluation.evaluate_every",
    "training.measure_every": "evaluation.measure_every",
    "training.measured_sentences": "evaluation.measured_sentences",
    "training.best_metric": "evaluation.best_metric",
    "training.early_stopping_evaluations": "evaluation.early_stopping_evaluations",
    "training.save_every": "saving.save_every",
    "training.keep_checkpoints": "saving.keep_checkpoints",
    "training.log_every": "saving.log_every",
}


class Move(NamedTuple):
    old: str
    new: str


def relocated(layer: Mapping[str, Mapping[str, Any]], source: str = "") -> tuple[Layer, list[Move]]:
    """The layer with every setting under its new name, and the moves that took.

    `source` is where the layer comes from, for errors.
    """
    current: Layer = {}
    values_of_moves: dict[Move, Any] = {}
    for section, values in layer.items():
        kept = current.setdefault(section, {})
        for name, value in values.items():
            old = f"{section}.{name}"
            if old in MOVED:
                values_of_moves[Move(old, MOVED[old])] = value
            else:
                kept[name] = value
    for move, value in values_of_moves.items():
        section, _, name = move.new.partition(".")
        target = current.setdefault(section, {})
        if name in target:
            where = f"{source}: " if source else ""
            raise ConfigError(
                f"{where}{move.old} is the old name of {move.new}; both are given, keep one"
            )
        target[name] = value
    return current, list(values_of_moves)


def old_place_of(flat_name: str) -> tuple[str, str] | None:
    """Section and name of a setting that once had this name and has another one now."""
    for old, new in MOVED.items():
        section, _, name = old.partition(".")
        if name == flat_name and not new.endswith(f".{name}"):
            return section, name
    return None


def announce(moves: Iterable[Move]) -> None:
    """One line for all of them."""
    names = ", ".join(f"{move.old} is now {move.new}" for move in moves)
    if names:
        _log.warning("Old names of settings still work, but please update them: %s", names)
