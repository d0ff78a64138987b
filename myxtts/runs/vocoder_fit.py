"""Whether a vocoder fits the mels of a model. No TensorFlow, so mistakes are found at once."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.runs.base import run_or_base
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.run_dir import find_checkpoint


def require_fit(vocoder: Path, trained: XTTSConfig, model: XTTSConfig) -> None:
    """`trained` is the configuration of the vocoder in the folder."""
    if trained.training.task != "vocoder":
        raise CheckpointError(
            f"{vocoder}: is a model that speaks, expected a vocoder: a run that was trained with "
            "--task vocoder"
        )
    difference = difference_of_mels(trained, model)
    if difference is not None:
        raise CheckpointError(
            f"{vocoder}: was trained for another mel: {difference}; train a vocoder with the "
            "settings of this model"
        )


def find_predicting_checkpoint(vocoder: XTTSConfig) -> Checkpoint:
    """Of the model whose mels a vocoder is trained on (vocoder.mels_from)."""
    checkpoint = find_checkpoint(run_or_base(vocoder.vocoder.mels_from), for_synthesis=True)
    model = checkpoint.config()
    if model.training.task != "acoustic":
        raise CheckpointError(
            f"vocoder.mels_from: {checkpoint.folder} is a vocoder, expected a model that speaks"
        )
    difference = difference_of_mels(vocoder, model)
    if difference is not None:
        raise CheckpointError(
            f"vocoder.mels_from: {checkpoint.folder} makes another mel: {difference}"
        )
    return checkpoint


def difference_of_mels(vocoder: XTTSConfig, model: XTTSConfig) -> str | None:
    """The first setting of the mel that differs."""
    there, here = _settings_of_the_mel(vocoder), _settings_of_the_mel(model)
    for name, value in there.items():
        if value != here[name]:
            return f"{name} is {value} in the vocoder and {here[name]} in the model"
    return None


def _settings_of_the_mel(config: XTTSConfig) -> dict[str, object]:
    audio = {f"audio.{name}": value for name, value in dataclasses.asdict(config.audio).items()}
    return audio | {"data.n_mels": config.data.n_mels}
