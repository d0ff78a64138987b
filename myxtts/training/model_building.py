"""The model that a configuration asks for, with the vocabulary and the mel level of a corpus."""

from __future__ import annotations

from myxtts.config.config import XTTSConfig
from myxtts.data.opening import Corpus
from myxtts.models.xtts import XTTS


def build_model(config: XTTSConfig, corpus: Corpus) -> XTTS:
    cache, tokenizer = corpus.train.cache, corpus.tokenizer
    return XTTS(
        config,
        symbols=len(tokenizer.symbols),
        languages=len(tokenizer.languages),
        mel_mean=cache.mel_mean,
        mel_deviation=cache.mel_deviation,
        precision=config.training.precision,
    )
