"""What selects the best checkpoint of a run whose configuration leaves it open."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from myxtts.config.config import RECOGNISER_LANGUAGES, RECOGNISER_PACKAGE, XTTSConfig
from myxtts.text.languages import find_language

# Follows the words of human voices better than the validation loss does.
_WITHOUT_RECOGNISER = "validation_mel_distance"


def with_best_metric(config: XTTSConfig, languages: Sequence[str]) -> XTTSConfig:
    """Words count where they can be recognised: a listener judges by them first."""
    if config.evaluation.best_metric is not None:
        return config
    if config.training.task != "acoustic" or not _is_recognised(languages):
        return config.with_(best_metric=_WITHOUT_RECOGNISER)
    return config.with_(best_metric="wer", measure_every=config.evaluation.measure_every or 1)


def with_best_metric_of(saved: XTTSConfig, config: XTTSConfig) -> XTTSConfig:
    """A resumed run goes on by what it began with, unless another metric is asked for."""
    before, now = saved.evaluation, config.evaluation
    if now.best_metric is not None:
        return config
    measure_every = now.measure_every or before.measure_every
    return config.with_(best_metric=before.best_metric, measure_every=measure_every)


def _is_recognised(languages: Sequence[str]) -> bool:
    spoken = {find_language(language).base for language in languages}
    return (
        not spoken.isdisjoint(RECOGNISER_LANGUAGES)
        and importlib.util.find_spec(RECOGNISER_PACKAGE) is not None
    )
