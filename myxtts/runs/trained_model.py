"""The model of a run with its weights, ready to sample."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import keras

from myxtts.audio.griffin_lim import GriffinLim, Vocoder
from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.sampler import SpeechSampler
from myxtts.models.vocoder import NeuralVocoder, VocoderNetwork
from myxtts.models.xtts import XTTS
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import INCLUDED_VOCODER, find_checkpoint, run_or_base
from myxtts.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class LoadedModel:
    config: XTTSConfig
    tokenizer: Tokenizer
    step: int
    weights_sha256: str
    sampler: SpeechSampler


def load_model(folder: Path, *, compiled: bool) -> LoadedModel:
    """Load the model of a run's best checkpoint, or of a checkpoint."""
    checkpoint = find_checkpoint(folder, for_synthesis=True)
    config = checkpoint.config()
    if config.training.task != "acoustic":
        raise CheckpointError(
            f"{checkpoint.folder}: is a {config.training.task}, expected an acoustic model; "
            "give a vocoder with --vocoder"
        )
    tokenizer = checkpoint.tokenizer()
    make = functools.partial(
        XTTS,
        config,
        symbols=len(tokenizer.symbols),
        languages=len(tokenizer.languages),
        mel_mean=checkpoint.info.mel_mean,
        mel_deviation=checkpoint.info.mel_deviation,
    )
    model = model_of(checkpoint, make)
    return LoadedModel(
        config,
        tokenizer,
        checkpoint.info.step,
        checkpoint.weights_checksum(),
        SpeechSampler(model, config.training.default_guidance, compiled=compiled),
    )


_Model = TypeVar("_Model", bound=keras.Model)
_Result = TypeVar("_Result")


def model_of(checkpoint: Checkpoint, make: Callable[[], _Model]) -> _Model:
    """Build the model with the EMA weights."""

    def made() -> _Model:
        with keras.StatelessScope(initialize_variables=False) as scope:
            model = make()
            variables = model.trainable_variables
            checkpoint.require_shapes(variables)
            weights = checkpoint.ema_weights(variable.path for variable in variables)
            for variable in variables:
                # Avoids initializing random weights, the slowest part; Keras has no public way to
                # skip it.
                variable._initializer = lambda *_, value=weights[variable.path], **__: value
            scope.initialize_variables = True
        return model

    return _in_own_thread(made)


def _in_own_thread(work: Callable[[], _Result]) -> _Result:
    """Run in a thread of its own, so that variables declared there never get values.

    Keras lists uninitialized variables per thread and initializes them when any scope of that
    thread ends; the list dies with the thread.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


_log = logging.getLogger(__name__)

GRIFFIN_LIM = "griffin-lim"


def find_vocoder(name: str | Path | None, config: XTTSConfig, *, compiled: bool = True) -> Vocoder:
    """Find a vocoder by name: griffin-lim, a run folder, or None for the included one.

    The included one is for the default mel; a model with another mel speaks with Griffin-Lim.
    `compiled` is as in NeuralVocoder.
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
    """Load a vocoder; `trained` is its configuration, `config` that of the model."""
    require_fit(checkpoint.folder, trained, config)
    network = model_of(checkpoint, lambda: VocoderNetwork(trained))
    return NeuralVocoder(network, compiled=compiled)


def require_fit(vocoder: Path, trained: XTTSConfig, model: XTTSConfig) -> None:
    """Raise an error unless a vocoder, with the configuration `trained`, fits the model."""
    if trained.training.task != "vocoder":
        raise CheckpointError(
            f"{vocoder}: is an acoustic model, expected a vocoder: a run that was trained with "
            "--task vocoder"
        )
    difference = difference_of_mels(trained, model)
    if difference is not None:
        raise CheckpointError(
            f"{vocoder}: was trained for another mel: {difference}; train a vocoder with the "
            "settings of this model"
        )


def find_predicting_checkpoint(vocoder: XTTSConfig) -> Checkpoint:
    """Find the checkpoint of the model whose mels a vocoder is trained on."""
    checkpoint = find_checkpoint(run_or_base(vocoder.vocoder.mels_from), for_synthesis=True)
    model = checkpoint.config()
    if model.training.task != "acoustic":
        raise CheckpointError(
            f"vocoder.mels_from: {checkpoint.folder} is a vocoder, expected an acoustic model"
        )
    difference = difference_of_mels(vocoder, model)
    if difference is not None:
        raise CheckpointError(
            f"vocoder.mels_from: {checkpoint.folder} has other mel settings: {difference}"
        )
    return checkpoint


def difference_of_mels(vocoder: XTTSConfig, model: XTTSConfig) -> str | None:
    """Name the first setting of the mel that differs."""
    there, here = _settings_of_the_mel(vocoder), _settings_of_the_mel(model)
    for name, value in there.items():
        if value != here[name]:
            return f"{name} is {value} in the vocoder and {here[name]} in the model"
    return None


def _settings_of_the_mel(config: XTTSConfig) -> dict[str, object]:
    audio = {f"audio.{name}": value for name, value in dataclasses.asdict(config.audio).items()}
    return audio | {"data.n_mels": config.data.n_mels}
