"""Opens the corpus of a configuration: features, shapes and schedule."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.data.balance import ClipLabels
from myxtts.data.cache import FeatureCache
from myxtts.data.checks import Rejection
from myxtts.data.features import Shard, prepare
from myxtts.data.plan_files import load_shapes
from myxtts.data.schedule import Clips, Schedule
from myxtts.data.segment_plan import plan_segments
from myxtts.data.shapes import ShapePlan, assign_shapes, plan_shapes
from myxtts.data.subset import CorpusSubset
from myxtts.errors import DataError
from myxtts.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
TRAINING_CLIPS, VALIDATION_CLIPS = "training clips", "validation clips"
BATCH_PLAN = "batch plan"
_PART_NAMES = {"train": "training", "eval": "validation"}

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class CorpusPart:
    """Features, shape plan and schedule of a subset of the corpus."""

    cache: FeatureCache
    clips: Clips
    plan: ShapePlan
    schedule: Schedule

    @property
    def rejected(self) -> dict[str, int]:
        """Number of rejected clips by reason."""
        return self.cache.rejected | self.plan.rejected


@dataclass(frozen=True)
class Corpus:
    train: CorpusPart
    validation: CorpusPart
    tokenizer: Tokenizer
    """The tokenizer of the run; it may have symbols that do not occur in this corpus."""

    def fingerprints(self) -> dict[str, str]:
        """What a resumed run must find again, to have the same batches."""
        return {
            TRAINING_CLIPS: self.train.cache.fingerprint,
            VALIDATION_CLIPS: self.validation.cache.fingerprint,
            BATCH_PLAN: self.train.plan.fingerprint(),
        }

    @property
    def own_tokenizer(self) -> Tokenizer:
        """A tokenizer with the symbols and languages of this corpus only."""
        return _tokenizer_of(self.train.cache, self.validation.cache)


def open_corpus(
    config: XTTSConfig,
    on_progress: OnProgress = lambda what, done, total: None,
    *,
    replicas: int = 1,
    xla: bool = False,
    plan_file: Path | None = None,
    vocabulary: Tokenizer | None = None,
) -> Corpus:
    """Reads, checks and prepares the training and validation clips and plans their shapes.

    A resumed run uses the shapes in its `plan_file`. A run that starts from weights uses their
    `vocabulary`, extended at its end.
    """
    train, validation = (_open_part(config, subset, on_progress) for subset in ("train", "eval"))
    tokenizer = _tokenizer_of(train, validation)
    if vocabulary is not None and vocabulary.kind == tokenizer.kind:
        tokenizer = tokenizer.with_ids_of(vocabulary)
    shares = replicas * config.training.gradient_accumulation_steps
    plan = _plan_of_run(train, config, shares, plan_file) or _plan(train, config, replicas, xla)
    return _corpus(train, validation, tokenizer, plan, config)


def replanned_corpus(corpus: Corpus, config: XTTSConfig, *, replicas: int, xla: bool) -> Corpus:
    """The same clips, planned for another number of replicas."""
    train, validation = corpus.train.cache, corpus.validation.cache
    plan = _plan(train, config, replicas, xla)
    return _corpus(train, validation, corpus.tokenizer, plan, config)


def _corpus(
    train: FeatureCache,
    validation: FeatureCache,
    tokenizer: Tokenizer,
    plan: ShapePlan,
    config: XTTSConfig,
) -> Corpus:
    validation_plan = _validation_plan(validation, plan, config)
    return Corpus(_part(train, plan, config), _part(validation, validation_plan, config), tokenizer)


def _validation_plan(validation: FeatureCache, plan: ShapePlan, config: XTTSConfig) -> ShapePlan:
    """Without labels: validation clips are not balanced."""
    if config.training.task == "vocoder":
        return plan_segments(validation.frame_counts, config, shares=plan.shares)
    validation_plan = assign_shapes(
        validation.token_counts,
        validation.frame_counts,
        [shape.padded for shape in plan.shapes],
        config,
        shares=plan.shares,
        dynamic=plan.dynamic,
    )
    if (validation_plan.shape_of_clip < 0).all():
        raise DataError(
            f"{config.data.val_data or config.data.train_data}: all validation clips are longer "
            "than the training clips; choose others with --val-data"
        )
    return validation_plan


def _tokenizer_of(train: FeatureCache, validation: FeatureCache) -> Tokenizer:
    return train.tokenizer.grown(validation.tokenizer.symbols, validation.tokenizer.languages)


def replanned(
    part: CorpusPart, config: XTTSConfig, *, replicas: int = 1, xla: bool = False
) -> CorpusPart:
    """The same clips with a new shape plan and schedule for another configuration."""
    return _part(part.cache, _plan(part.cache, config, replicas, xla), config)


def _plan(cache: FeatureCache, config: XTTSConfig, replicas: int, xla: bool) -> ShapePlan:
    if config.training.task == "vocoder":
        shares = replicas * config.training.gradient_accumulation_steps
        return plan_segments(cache.frame_counts, config, shares=shares, labels=_labels(cache))
    return plan_shapes(
        cache.token_counts,
        cache.frame_counts,
        config,
        replicas=replicas,
        xla=xla,
        labels=_labels(cache),
    )


def _plan_of_run(
    cache: FeatureCache, config: XTTSConfig, shares: int, plan_file: Path | None
) -> ShapePlan | None:
    # Segments have one shape, by the settings alone.
    if plan_file is None or not plan_file.exists() or config.training.task == "vocoder":
        return None
    saved = load_shapes(plan_file, config)
    if saved is None:
        _log.warning(
            "settings that affect shapes have changed since %s was written: planning new shapes "
            "and restarting the current epoch",
            plan_file,
        )
        return None
    return assign_shapes(
        cache.token_counts,
        cache.frame_counts,
        saved.padded,
        config,
        shares=shares,
        dynamic=config.data.batching_mode == "dynamic",
        labels=_labels(cache),
        whole_epochs=saved.whole_epochs,
    )


def _labels(cache: FeatureCache) -> ClipLabels:
    return ClipLabels(cache.index["speaker"], cache.index["language"])


def _part(cache: FeatureCache, plan: ShapePlan, config: XTTSConfig) -> CorpusPart:
    clips = Clips(cache.token_counts, cache.frame_counts, *_labels(cache))
    return CorpusPart(cache, clips, plan, Schedule(clips, plan, config))


def prepare_part(
    config: XTTSConfig, subset: str, on_progress: OnProgress, shard: Shard = (1, 1)
) -> FeatureCache | None:
    """Checks all rows and files of a subset; None while other shards are missing."""
    corpus_subset = CorpusSubset.of(config, subset)
    dataset = corpus_subset.dataset()
    if len(dataset) == 0:
        raise DataError(
            f"{dataset.folder}: too few clips to hold out a validation set; provide one "
            "with --val-data, or raise data.validation_fraction"
        )
    cache = prepare(
        dataset,
        config,
        corpus_subset.cache_root,
        lambda done, total: on_progress(_PART_NAMES[subset], done, total),
        bad_rows=[Rejection(source, "bad row", problem) for source, problem in dataset.bad_rows],
        source=f"{dataset.metadata_file.resolve()}:{subset}",
        description=f"{dataset.metadata_file} read as {dataset.layout.describe()}",
        shard=shard,
    )
    if cache is not None:
        corpus_subset.remember(cache)
    return cache


def _open_part(config: XTTSConfig, subset: str, on_progress: OnProgress) -> FeatureCache:
    corpus_subset = CorpusSubset.of(config, subset)
    remembered = corpus_subset.remembered_cache()
    if remembered is not None:
        _log.info(
            "reusing cached features of the %s clips; if audio files have changed, run: "
            "myxtts prepare %s",
            _PART_NAMES[subset],
            corpus_subset.folder,
        )
        return remembered
    cache = prepare_part(config, subset, on_progress)
    assert cache is not None  # complete without shards
    return cache
