"""Other names of settings, and settings that are constants now: files and saved runs have them."""

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
    "devices.data_gpu": "data.data_gpu",
    "devices.model_gpu": "data.model_gpu",
    "devices.model_start_delay_seconds": "data.model_start_delay",
    "devices.enable_memory_isolation": "data.enable_memory_isolation",
    "devices.data_gpu_memory_mb": "data.data_gpu_memory_mb",
    "devices.model_gpu_memory_mb": "data.model_gpu_memory_mb",
    "devices.strict_devices": "training.strict_devices",
    "devices.virtual_devices": "training.virtual_devices",
    # Names that earlier guides to the GPU pipeline gave.
    "data.data_gpu_memory": "data.data_gpu_memory_mb",
    "data.model_gpu_memory": "data.model_gpu_memory_mb",
    "data.data_gpu_memory_limit": "data.data_gpu_memory_mb",
    "data.model_gpu_memory_limit": "data.model_gpu_memory_mb",
    "data.prefetch_buffer_size": "data.buffer_size",
    "data.pipeline_buffer_size": "data.buffer_size",
    "data.num_workers": "data.workers",
    "data.enable_xla": "training.xla",
    "data.enable_static_shapes": "data.pad_to_fixed_length",
}

OLD_SECTIONS = {old.partition(".")[0] for old in MOVED}

# With the value that each now always has.
CONSTANT = {
    "training.beta_1": 0.9,
    "training.final_learning_rate_fraction": 0.02,
    "vocoder.phase_iterations": 0,
}


# What a saved run from before each of these settings was trained with, where the default differs.
_BEFORE_IT_WAS_A_SETTING = {
    "training.text_drop_rate": 0.0,
    "training.text_guidance": 0.0,
    "training.adversarial_weight": 0.0,
    "training.phoneme_weight": 0.0,
    "vocoder.refining_blocks": 0,
}


class Move(NamedTuple):
    old: str
    new: str


def relocated(
    layer: Mapping[str, Mapping[str, Any]], source: str = "", *, is_saved_run: bool = False
) -> tuple[Layer, list[Move]]:
    """The layer with every setting under its new name, and the moves that took.

    `source` is where the layer comes from, for messages.
    """
    where = f"{source}: " if source else ""
    current: Layer = {}
    moved: dict[Move, Any] = {}
    for section, values in layer.items():
        for name, value in values.items():
            old = f"{section}.{name}"
            if old in MOVED:
                moved[Move(old, MOVED[old])] = value
            elif old in CONSTANT:
                _check_constant(where, old, value, is_saved_run)
            else:
                current.setdefault(section, {})[name] = value
    for move, value in moved.items():
        section, _, name = move.new.partition(".")
        target = current.setdefault(section, {})
        if name in target:
            raise ConfigError(
                f"{where}{move.old} is the old name of {move.new}; both are given, keep one"
            )
        target[name] = value
    return current, list(moved)


def _check_constant(where: str, name: str, value: Any, is_saved_run: bool) -> None:
    """A saved run must stay usable, and its user cannot edit the file: it is checksummed."""
    constant = CONSTANT[name]
    if value == constant:
        return
    problem = f"{where}{name}: found {value!r}, but it is no longer a setting and always {constant}"
    if not is_saved_run:
        raise ConfigError(f"{problem}; remove it")
    _log.warning("%s", problem)


def with_accumulated_batches(layer: Layer) -> Layer:
    """Settings from when accumulation split each batch, for adding up whole batches instead.

    The step stays the same: 28 clips split by 4 are 4 batches of 7.
    """
    data, training = layer.get("data", {}), layer.get("training", {})
    accumulation = training.get("gradient_accumulation_steps", 1)
    sizes = {
        name: data[name] for name in ("batch_size", "frame_budget") if data.get(name) is not None
    }
    if not all(type(value) is int and value > 0 for value in (accumulation, *sizes.values())):
        return layer  # Reported when the settings are checked.
    split = {name: max(1, value // accumulation) for name, value in sizes.items()}
    return {**layer, "data": {**data, **split}} if split else layer


def with_settings_of_its_time(layer: Layer) -> Layer:
    """The settings of a saved run, with those that it does not name because they are newer."""
    current = {section: dict(values) for section, values in layer.items()}
    for setting, value in _BEFORE_IT_WAS_A_SETTING.items():
        section, _, name = setting.partition(".")
        current.setdefault(section, {}).setdefault(name, value)
    return current


def old_place_of(flat_name: str) -> tuple[str, str] | None:
    """Section and name of a setting that once had this name, and has it no longer."""
    for old in (*MOVED, *CONSTANT):
        section, _, name = old.partition(".")
        if name == flat_name and not MOVED.get(old, "").endswith(f".{name}"):
            return section, name
    return None


def announce(moves: Iterable[Move]) -> None:
    """One line for all of them."""
    names = ", ".join(f"{move.old} is now {move.new}" for move in moves)
    if names:
        _log.warning("Old names of settings still work, but please update them: %s", names)
