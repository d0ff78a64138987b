"""Open the corpus of a configuration: features, shapes and schedule of both subsets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import FeatureCache, is_cache_name, open_cache
from myxtts.data.checks import Rejection, too_many_rejected
from myxtts.data.durations import DURATIONS_FILE
from myxtts.data.features import Shard, prepare, settings_fingerprint
from myxtts.data.metadata import LJSpeechDataset, metadata_files
from myxtts.data.schedule import Schedule
from myxtts.data.shapes import (
    Clips,
    ShapePlan,
    assign_shapes,
    load_shapes,
    plan_segments,
    plan_shapes,
)
from myxtts.errors import ConfigError, DataError
from myxtts.files import read_json, write_file
from myxtts.text.languages import TAG_RULES
from myxtts.text.tokenizer import Tokenizer

_log = logging.getLogger(__name__)
TRAINING_CLIPS, VALIDATION_CLIPS = "training clips", "validation clips"
BATCH_PLAN = "batch plan"
CACHE_FOLDER = "myxtts-cache"
# Above this size the last cache is reused without checking the audio files.
LARGE_METADATA_BYTES = 4_000_000
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
        """Return fingerprints that must match for a resumed run to have the same batches."""
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
    """Read, check and prepare the training and validation clips, and plan their shapes."""
    return plan_corpus(
        *open_caches(config, on_progress),
        config,
        replicas=replicas,
        xla=xla,
        plan_file=plan_file,
        vocabulary=vocabulary,
    )


def open_caches(
    config: XTTSConfig, on_progress: OnProgress = lambda what, done, total: None
) -> tuple[FeatureCache, FeatureCache]:
    """Read, check and prepare the training and validation clips."""
    return _open_part(config, "train", on_progress), _open_part(config, "eval", on_progress)


def plan_corpus(
    train: FeatureCache,
    validation: FeatureCache,
    config: XTTSConfig,
    *,
    replicas: int = 1,
    xla: bool = False,
    plan_file: Path | None = None,
    vocabulary: Tokenizer | None = None,
) -> Corpus:
    """Plan the shapes and batches of the clips.

    A resumed run uses the shapes in its `plan_file`. A run that starts from weights uses their
    `vocabulary`, extended at its end.
    """
    tokenizer = _tokenizer_of(train, validation)
    if vocabulary is not None and vocabulary.kind == tokenizer.kind:
        tokenizer = tokenizer.with_ids_of(vocabulary)
    plan = None
    # Segments have one shape, by the settings alone.
    if plan_file is not None and plan_file.exists() and config.training.task != "vocoder":
        saved = load_shapes(plan_file, config)
        if saved is None:
            _log.warning(
                "settings that affect shapes have changed since %s was written: planning new "
                "shapes and restarting the current epoch",
                plan_file,
            )
        else:
            padded, whole_epochs = saved
            shares = replicas * config.training.gradient_accumulation_steps
            plan = assign_shapes(
                train.clips, padded, config, shares=shares, whole_epochs=whole_epochs
            )
    plan = plan or _plan(train, config, replicas, xla)
    return _corpus(train, validation, tokenizer, plan, config)


def replanned(
    part: CorpusPart, config: XTTSConfig, *, replicas: int = 1, xla: bool = False
) -> CorpusPart:
    """Return the same clips with a new shape plan and schedule for another configuration."""
    return _part(part.cache, _plan(part.cache, config, replicas, xla), config)


def _plan(cache: FeatureCache, config: XTTSConfig, replicas: int, xla: bool) -> ShapePlan:
    if config.training.task == "vocoder":
        shares = replicas * config.training.gradient_accumulation_steps
        return plan_segments(cache.clips, config, shares=shares)
    return plan_shapes(cache.clips, config, replicas=replicas, xla=xla)


def _corpus(
    train: FeatureCache,
    validation: FeatureCache,
    tokenizer: Tokenizer,
    plan: ShapePlan,
    config: XTTSConfig,
) -> Corpus:
    if config.training.task == "vocoder":
        validation_plan = plan_segments(
            validation.clips, config, shares=plan.shares, balanced=False
        )
    else:
        padded = [shape.padded for shape in plan.shapes]
        validation_plan = assign_shapes(
            validation.clips, padded, config, shares=plan.shares, balanced=False
        )
        if (validation_plan.shape_of_clip < 0).all():
            raise DataError(
                f"{config.data.val_data or config.data.train_data}: all validation clips are "
                "longer than the training clips; choose others with --val-data"
            )
    return Corpus(_part(train, plan, config), _part(validation, validation_plan, config), tokenizer)


def _part(cache: FeatureCache, plan: ShapePlan, config: XTTSConfig) -> CorpusPart:
    return CorpusPart(cache, cache.clips, plan, Schedule(cache.clips, plan, config))


def _tokenizer_of(train: FeatureCache, validation: FeatureCache) -> Tokenizer:
    return train.tokenizer.grown(validation.tokenizer.symbols, validation.tokenizer.languages)


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


def prepare_part(
    config: XTTSConfig,
    subset: str,
    on_progress: OnProgress,
    shard: Shard = (1, 1),
    dask: str | None = None,
) -> FeatureCache | None:
    """Check all rows and files of a subset; return None while other shards are missing."""
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
        dask=dask,
    )
    if cache is not None:
        corpus_subset.remember(cache)
    return cache


@dataclass(frozen=True)
class CorpusSubset:
    """The training or validation subset of a corpus, and the cache last made for it.

    Startup time must not grow with the corpus, as it would if all rows were read and all files were
    statted. So for a large corpus the cache last made for the same metadata and settings is reused;
    `myxtts prepare` detects changed audio files.
    """

    subset: str
    """train or eval."""
    folder: Path
    config: XTTSConfig

    @classmethod
    def of(cls, config: XTTSConfig, subset: str) -> CorpusSubset:
        data = config.data
        if data.train_data is None:
            raise ConfigError("data.train_data: not set; give a corpus with --train-data DIR")
        folder = data.val_data if subset == "eval" and data.val_data else data.train_data
        return cls(subset, Path(folder), config)

    @property
    def cache_root(self) -> Path:
        given = self.config.data.cache_dir
        if given:
            return Path(given)
        # An untrusted corpus may contain links; never write through them.
        if (root := self.folder / CACHE_FOLDER).is_symlink():
            raise DataError(f"{root}: is a link; remove it, or choose a folder with data.cache_dir")
        return root

    @property
    def validation_fraction(self) -> float | None:
        """None with a separate validation corpus: then nothing is held out."""
        data = self.config.data
        return data.validation_fraction if data.val_data is None else None

    def dataset(self) -> LJSpeechDataset:
        return LJSpeechDataset(
            self.folder,
            self.subset,
            default_language=self.config.text.default_language,
            validation_fraction=self.validation_fraction,
            layout=self.config.data.layout,
            delimiter=self.config.data.delimiter,
        )

    def remembered_cache(self) -> FeatureCache | None:
        """Return the cache last made, for a large corpus with unchanged metadata and settings.

        Also None if too many clips were rejected for a run; `prepare` explains why.
        """
        metadata_file = self._metadata_file()
        try:
            if metadata_file.stat().st_size < LARGE_METADATA_BYTES:
                return None
            last = read_json(self._last_cache_file(), ("request", "cache"))
        except (OSError, ValueError):
            return None
        folder = self.cache_root / last["cache"]
        is_ours = is_cache_name(last["cache"]) and folder.is_dir()
        if not is_ours or last["request"] != self._request(metadata_file):
            return None
        cache = open_cache(folder)
        left_out = sum(cache.rejected.values())
        return None if too_many_rejected(left_out, left_out + len(cache), self.config) else cache

    def remember(self, cache: FeatureCache) -> None:
        """Record the cache; a failure only makes the next start slower."""
        content = {"request": self._request(self._metadata_file()), "cache": cache.folder.name}
        with contextlib.suppress(OSError):
            write_file(self._last_cache_file(), json.dumps(content))

    def _metadata_file(self) -> Path:
        train_file, eval_file = metadata_files(self.folder, self.subset)
        chosen = eval_file if self.subset == "eval" and eval_file is not None else train_file
        assert chosen is not None  # metadata_files has checked it
        return chosen

    def _last_cache_file(self) -> Path:
        key = f"{self.subset} {self.folder.resolve()}".encode()
        name = hashlib.blake2b(key, digest_size=8).hexdigest()
        return self.cache_root / f"{self.subset}-{name}.json"

    def _request(self, metadata_file: Path) -> str:
        """Return a digest of the metadata and of the settings that features depend on."""
        settings = [
            settings_fingerprint(self.config),
            self.config.data.layout,
            self.config.data.delimiter,
            self.config.text.default_language,
            TAG_RULES,
            self.validation_fraction,
        ]
        digest = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
        for file in (metadata_file, metadata_file.with_name(DURATIONS_FILE)):
            if file.exists():
                digest.update(file.read_bytes())
        return digest.hexdigest()
