"""The model of a run with its weights, ready to sample."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.models.sampler import SpeechSampler
from myxtts.models.xtts import XTTS
from myxtts.runs.model_loading import model_of
from myxtts.runs.run_dir import find_checkpoint
from myxtts.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class LoadedModel:
    config: XTTSConfig
    tokenizer: Tokenizer
    step: int
    weights_sha256: str
    sampler: SpeechSampler


def load_model(folder: Path, *, compiled: bool) -> LoadedModel:
    """Of a run's best checkpoint, or of a checkpoint."""
    checkpoint = find_checkpoint(folder, for_synthesis=True)
    config = checkpoint.config()
    if config.training.task != "acoustic":
        raise CheckpointError(
            f"{checkpoint.folder}: is a {config.training.task}, expected a model that speaks; "
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
