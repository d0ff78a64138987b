"""Finds the vocoder for the mels of a model: the included one, a trained run, or Griffin-Lim."""

from __future__ import annotations

import logging
from pathlib import Path

from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.vocoder import Vocoder
from myxtts.config.config import XTTSConfig
from myxtts.models.neural_vocoder import NeuralVocoder
from myxtts.models.vocoder import VocoderNetwork
from myxtts.runs.base import INCLUDED_VOCODER
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.model_loading import model_of
from myxtts.runs.run_dir import find_checkpoint
from myxtts.runs.vocoder_fit import difference_of_mels, require_fit

_log = logging.getLogger(__name__)

GRIFFIN_LIM = "griffin-lim"


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
    if not INCLUDED_VOCODER.is_dir():
        return GriffinLim(config.audio)
    checkpoint = find_checkpoint(INCLUDED_VOCODER, for_synthesis=True)
    trained = checkpoint.config()
    difference = difference_of_mels(trained, config)
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
    require_fit(checkpoint.folder, trained, config)
    network = model_of(checkpoint, lambda: VocoderNetwork(trained))
    return NeuralVocoder(network, compiled=compiled)
