"""Open the corpus of a configuration: features, shapes and schedule of both subsets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import (
    FeatureCache,
    content_digest,
    fingerprint,
    open_cache,
    prepare,
    settings_fingerprint,
)
from myxtts.data.checks import Finding, too_many_rejected
from myxtts.data.metadata import DURATIONS_FILE, LJSpeechDataset, find_metadata
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
    caches = []
    train: LJSpeechDataset | None = None
    for subset, name in (("train", "training"), ("eval", "validation")):
        cache = remembered_cache(config, subset)
        if cache is None:
            dataset = read_subset(config, subset, train)
            train = train or dataset
            cache = prepare_subset(dataset, config, partial(on_progress, name))
        caches.append(cache)
    return caches[0], caches[1]


def prepare_subset(
    dataset: LJSpeechDataset,
    config: XTTSConfig,
    on_progress: Callable[[int, int], None],
    dask: str | None = None,
) -> FeatureCache:
    """Check all rows and files of a subset, and remember its cache if the corpus is large."""
    root = cache_root(config, dataset.folder)
    cache = prepare(dataset, config, root, on_progress, dask=dask)
    remember(dataset, config, cache)
    return cache


def _folder_of(config: XTTSConfig, subset: str) -> Path:
    data = config.data
    if data.train_data is None:
        raise ConfigError("data.train_data: not set; give a corpus with --train-data DIR")
    return Path(data.val_data if subset == "eval" and data.val_data else data.train_data)


def _validation_fraction(config: XTTSConfig) -> float | None:
    """Return None with a separate validation corpus: then nothing is held out."""
    return config.data.validation_fraction if config.data.val_data is None else None


def read_subset(
    config: XTTSConfig, subset: str, train: LJSpeechDataset | None = None
) -> LJSpeechDataset:
    """Read the metadata of a subset; `train` is the training subset if it was read already."""
    if subset == "eval" and config.data.val_data is None and train is not None:
        held_out = train.held_out()
        if held_out is not None:
            return held_out
    return LJSpeechDataset(
        _folder_of(config, subset),
        subset,
        default_language=config.text.default_language,
        validation_fraction=_validation_fraction(config),
        layout=config.data.layout,
    )


def cache_root(config: XTTSConfig, folder: Path) -> Path:
    """Return where the features of a corpus are cached."""
    if config.data.cache_dir:
        return Path(config.data.cache_dir)
    # An untrusted corpus may contain links; never write through them.
    if (root := folder / CACHE_FOLDER).is_symlink():
        raise DataError(f"{root}: is a link; remove it, or choose a folder with data.cache_dir")
    return root


def remembered_cache(config: XTTSConfig, subset: str) -> FeatureCache | None:
    """Return the cache last made for a large corpus with the same metadata and settings.

    The time of a start must not grow with the corpus, as it would if all rows were read and all
    files were statted. `myxtts prepare` detects changed audio files.
    """
    request = _request(config, _folder_of(config, subset), subset)
    try:
        last = read_json(request.file, ("digest", "cache")) if request else {}
    except (OSError, ValueError):
        return None
    if request is None or last["digest"] != request.digest:
        return None
    folder = request.file.with_name(Path(str(last["cache"])).name)
    if not folder.is_dir():
        return None
    cache = open_cache(folder)
    left_out = sum(cache.rejected.values())
    if too_many_rejected(left_out, left_out + len(cache), config):
        return None  # preparing explains why
    _log.info(
        "reusing cached features of %s; if audio files have changed, run: myxtts prepare",
        cache.description,
    )
    return cache


def remember(dataset: LJSpeechDataset, config: XTTSConfig, cache: FeatureCache) -> None:
    """Record the cache of a large corpus; a failure only makes the next start slower."""
    request = _request(config, dataset.folder, dataset.subset)
    if request is not None:
        content = {"digest": request.digest, "cache": cache.folder.name}
        with contextlib.suppress(OSError):
            write_file(request.file, json.dumps(content))


class _Request(NamedTuple):
    file: Path
    """The file that names the cache last made for a subset."""
    digest: str
    """A digest of the metadata and of the settings that features depend on."""


def _request(config: XTTSConfig, folder: Path, subset: str) -> _Request | None:
    _, paths = find_metadata(folder)
    metadata = paths.get(subset) or paths.get("train")
    if metadata is None or not metadata.is_file() or metadata.stat().st_size < LARGE_METADATA_BYTES:
        return None
    settings = [
        settings_fingerprint(config),
        config.data.layout,
        config.text.default_language,
        TAG_RULES,
        _validation_fraction(config),
    ]
    digest = hashlib.blake2b(json.dumps(settings).encode(), digest_size=16)
    for file in (metadata, metadata.with_name(DURATIONS_FILE)):
        if file.exists():
            digest.update(file.read_bytes())
    name = hashlib.blake2b(f"{subset} {folder.resolve()}".encode(), digest_size=8).hexdigest()
    return _Request(cache_root(config, folder) / f"{subset}-{name}.json", digest.hexdigest())


def changed_recordings(config: XTTSConfig) -> Iterator[Finding]:
    """Find recordings whose content is not the one that the prepared features are made from.

    Training compares sizes and modification times only.
    """
    train = read_subset(config, "train")
    for dataset in (train, read_subset(config, "eval", train)):
        cache = remembered_cache(config, dataset.subset)
        if cache is None:
            folder = cache_root(config, dataset.folder) / fingerprint(dataset, config)
            if not folder.is_dir():
                continue  # training will read every recording
            cache = open_cache(folder)
        for record in cache.index:
            item = dataset[int(record["row"])]
            if content_digest(item) != bytes(record["content"]):
                yield Finding(
                    item.source,
                    "changed audio",
                    f"{item.audio_path} is not the recording that was prepared, with the same size "
                    f"and modification time; delete {cache.folder}, it will be recreated",
                )


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
    shares = replicas * config.training.gradient_accumulation_steps
    # Segments have one shape, which depends on the settings alone.
    is_segmented = config.training.task == "vocoder"
    plan = None
    if plan_file is not None and plan_file.exists() and not is_segmented:
        saved = load_shapes(plan_file, config)
        if saved is None:
            _log.warning(
                "settings that affect shapes have changed since %s was written: planning new "
                "shapes and restarting the current epoch",
                plan_file,
            )
        else:
            padded, whole_epochs = saved
            plan = assign_shapes(
                train.clips, padded, config, shares=shares, whole_epochs=whole_epochs
            )
    plan = plan or _plan(train, config, replicas, xla)
    if is_segmented:
        validation_plan = plan_segments(validation.clips, config, shares=shares, balanced=False)
    else:
        padded = [shape.padded for shape in plan.shapes]
        validation_plan = assign_shapes(
            validation.clips, padded, config, shares=shares, balanced=False
        )
        if (validation_plan.shape_of_clip < 0).all():
            raise DataError(
                f"{config.data.val_data or config.data.train_data}: all validation clips are "
                "longer than the training clips; choose others with --val-data"
            )
    return Corpus(_part(train, plan, config), _part(validation, validation_plan, config), tokenizer)


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


def _part(cache: FeatureCache, plan: ShapePlan, config: XTTSConfig) -> CorpusPart:
    return CorpusPart(cache, cache.clips, plan, Schedule(cache.clips, plan, config))


def _tokenizer_of(train: FeatureCache, validation: FeatureCache) -> Tokenizer:
    return train.tokenizer.grown(validation.tokenizer.symbols, validation.tokenizer.languages)
