"""Finds the vocoder for the mels of a model: the included one, a trained run, or Griffin-Lim."""

from __future__ import annotations

import dataclasses
import logging
from importlib import resources
from pathlib import Path

from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.vocoder import Vocoder
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.neural_vocoder import NeuralVocoder
from myxtts.models.vocoder import VocoderNetwork
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.model_loading import model_of
from myxtts.runs.run_dir import find_checkpoint

_log = logging.getLogger(__name__)

GRIFFIN_LIM = "griffin-lim"
_INCLUDED = resources.files("myxtts") / "weights" / "vocoder"
# Settings of the audio that do not change the mel of given samples.
_NOT_OF_THE_MEL = ("trim_silence_db", "loudness_dbfs")


def find_vocoder(name: str | Path | None, config: XTTSConfig, *, compiled: bool = True) -> Vocoder:
    """`name` is griffin-lim, a run folder, or None for the included vocoder.

    The included one is for the default mel; a model with another mel speaks with Griffin-Lim.
    `compiled` as in NeuralVocoder.
    """
    if name == GRIFFIN_LIM:
        return GriffinLim(config.audio)
    if name is not None:
        checkpoint = find_checkpoint(name, for_synthesis=True)
        return _load(checkpoint, checkpoint.config(), config, compiled)
    if not _INCLUDED.is_dir():
        return GriffinLim(config.audio)
    with resources.as_file(_INCLUDED) as folder:
        checkpoint = find_checkpoint(folder, for_synthesis=True)
        trained = checkpoint.config()
        difference = _difference(trained, config)
        if difference is None:
            return _load(checkpoint, trained, config, compiled)
    _log.warning(
        "the included vocoder was trained for another mel (%s): using Griffin-Lim; train a vocoder "
        "with --task vocoder and pass it with --vocoder",
        difference,
    )
    return GriffinLim(config.audio)


def _load(
    checkpoint: Checkpoint, trained: XTTSConfig, config: XTTSConfig, compiled: bool
) -> Vocoder:
    """`trained` is the configuration of the vocoder, `config` that of the model."""
    if trained.training.task != "vocoder":
        raise CheckpointError(
            f"{checkpoint.folder}: is a model that speaks, expected a vocoder: a run that was "
            "trained with --task vocoder"
        )
    difference = _difference(trained, config)
    if difference is not None:
        raise CheckpointError(
            f"{checkpoint.folder}: was trained for another mel: {difference}; train a vocoder with "
            "the settings of this model"
        )
    network = model_of(checkpoint, lambda: VocoderNetwork(trained))
    return NeuralVocoder(network, compiled=compiled)


def _difference(trained: XTTSConfig, config: XTTSConfig) -> str | None:
    """The first setting of the mel that differs."""
    here, there = _settings_of_the_mel(config), _settings_of_the_mel(trained)
    for name, value in there.items():
        if value != here[name]:
            return f"{name} is {value} in the vocoder and {here[name]} in the model"
    return None


def _settings_of_the_mel(config: XTTSConfig) -> dict[str, object]:
    audio = {
        f"audio.{name}": value
        for name, value in dataclasses.asdict(config.audio).items()
        if name not in _NOT_OF_THE_MEL
    }
    return audio | {"data.n_mels": config.data.n_mels}
