"""From a configuration to everything a run needs of its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.config.config import XTTSConfig
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.prepare import FeatureCache, prepare
from myxtts.data.schedule import Schedule
from myxtts.data.shapes import ShapePlan, assign_shapes, plan_shapes
from myxtts.errors import ConfigError, DataError
from myxtts.text.tokenizer import Tokenizer

CACHE_FOLDER = "myxtts-cache"


@dataclass(frozen=True)
class CorpusPart:
    """Clips, the shapes they are trained in and the order they come in."""

    dataset: LJSpeechDataset
    cache: FeatureCache
    plan: ShapePlan
    schedule: Schedule

    @property
    def rejected(self) -> dict[str, int]:
        """Clips that were left out, by reason."""
        return self.cache.rejected | self.plan.rejected


@dataclass(frozen=True)
class Corpus:
    train: CorpusPart
    validation: CorpusPart
    tokenizer: Tokenizer


def open_corpus(
    config: XTTSConfig,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Corpus:
    """Reads, checks and prepares the training and validation clips and plans their shapes."""
    train_set = _dataset(config, "train")
    validation_set = _dataset(config, "eval")
    if len(validation_set) == 0:
        raise DataError(
            f"{train_set.folder}: too few clips to split off a validation set; give one with "
            "--val-data, or raise data.validation_fraction"
        )
    caches = [
        prepare(dataset, config, _cache_root(config, dataset), _named(on_progress, name))
        for name, dataset in (("training", train_set), ("validation", validation_set))
    ]
    train_cache, validation_cache = caches
    tokenizer = train_cache.tokenizer.grown(
        validation_cache.tokenizer.symbols, validation_cache.tokenizer.languages
    )
    seed = config.training.seed
    plan = plan_shapes(train_cache.token_counts, train_cache.frame_counts, config)
    validation_plan = assign_shapes(
        validation_cache.token_counts, validation_cache.frame_counts, plan.shapes
    )
    if (validation_plan.shape_of_clip < 0).all():
        raise DataError(
            f"{validation_set.folder}: every validation clip is longer than the training clips; "
            "choose others with --val-data"
        )
    return Corpus(
        CorpusPart(train_set, train_cache, plan, Schedule(train_cache, plan, seed)),
        CorpusPart(
            validation_set,
            validation_cache,
            validation_plan,
            Schedule(validation_cache, validation_plan, seed),
        ),
        tokenizer,
    )


def _dataset(config: XTTSConfig, subset: str) -> LJSpeechDataset:
    data = config.data
    if data.train_data is None:
        raise ConfigError("data.train_data: not set; give a corpus with --train-data DIR")
    options: dict[str, Any] = {
        "default_language": config.text.default_language,
        "validation_fraction": data.validation_fraction,
    }
    if data.val_data is None:
        return LJSpeechDataset(data.train_data, subset, **options)
    # With a folder of its own for validation, nothing is split off either folder.
    folder = data.train_data if subset == "train" else data.val_data
    return LJSpeechDataset(folder, subset, **(options | {"validation_fraction": None}))


def _cache_root(config: XTTSConfig, dataset: LJSpeechDataset) -> Path:
    if config.data.cache_dir is not None:
        return Path(config.data.cache_dir)
    return dataset.folder / CACHE_FOLDER


def _named(on_progress: Callable[[str, int, int], None], what: str) -> Callable[[int, int], None]:
    return lambda done, total: on_progress(what, done, total)
