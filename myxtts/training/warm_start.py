"""Warm start from another run's weights: tensors whole, symbols and languages by name.

The vocabulary may grow: new symbols and languages are reported and get sensible initial values.
Everything else has to fit, unless a partial start is allowed.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import changes_of_the_model
from myxtts.data.corpus import Corpus
from myxtts.errors import CheckpointError
from myxtts.files import write_file
from myxtts.runs.checkpoint import Checkpoint, Shapes, Tensors
from myxtts.training.optimizer import short_name

Tensor = npt.NDArray[Any]

_SYMBOLS = "text_encoder/symbols/embeddings"
_MEAN_MELS = "text_encoder/symbol_mean_mel/embeddings"
_LOG_DURATIONS = "text_encoder/symbol_log_duration/embeddings"
_LANGUAGES = "text_encoder/languages/embeddings"
# The head of the phoneme classifier. Its kernel [width, symbols] has symbols in its columns.
_CLASSIFIER_KERNEL = "phoneme_classifier/symbols/kernel"
_CLASSIFIER_BIAS = "phoneme_classifier/symbols/bias"
# They may be missing or extra: only training uses them, and the refiner changes nothing at first.
_OPTIONAL_PARTS = ("discriminator", "phoneme_classifier/", "refiner/")
_SHOWN_PROBLEMS = 3


@dataclass(frozen=True)
class VocabularyOverlap:
    """The symbols or languages of a run, and those that only one of the two runs has."""

    total: int
    not_there: tuple[str, ...]
    not_in_this_corpus: tuple[str, ...]

    def describe(self, what: str, how_they_start: str) -> str:
        line = f"{what}: {self.total - len(self.not_there)} of {self.total}"
        if self.not_there:
            new = " ".join(it if it.strip() else repr(it) for it in self.not_there)
            line += f"; new: {new} ({how_they_start})"
        if self.not_in_this_corpus:
            line += f"; kept although not in this corpus: {len(self.not_in_this_corpus)}"
        return line


@dataclass(frozen=True)
class StartReport:
    """Report of what was loaded, what was not, and why."""

    checkpoint: str
    step: int
    mel_mean: float
    mel_deviation: float
    parts: dict[str, dict[str, int]]
    """Weights `taken` and their total (`of`), per part of the model."""
    settings: dict[str, str]
    """Model settings that differ."""
    not_taken: dict[str, str]
    """Tensors that were not loaded, and why."""
    symbols: VocabularyOverlap | None = None
    languages: VocabularyOverlap | None = None

    def lines(self) -> Iterator[str]:
        yield f"Initializing from the EMA weights of {self.checkpoint} (step {self.step})"
        for part, count in self.parts.items():
            yield f"  {part}: {count['taken']:,} of {count['of']:,} weights"
        if self.symbols is not None:
            yield "  " + self.symbols.describe(
                "symbols",
                "mean mel and duration estimated from this corpus, embedding initialized from "
                "scratch",
            )
        if self.languages is not None:
            yield "  " + self.languages.describe(
                "languages", "initialized to the mean of the others"
            )
        for name, reason in self.settings.items():
            yield f"  different setting: {name}: {reason}"
        for name, reason in _but_optional_parts(self.not_taken).items():
            yield f"  not loaded: {name}: {reason}"

    def save(self, file: Path) -> None:
        write_file(file, json.dumps(asdict(self), ensure_ascii=False, indent=1))


@dataclass(frozen=True)
class WarmStart:
    tensors: Tensors
    unknown_symbols: Sequence[int]
    """Ids of those whose mean mel and duration are still to be estimated."""
    incomplete: frozenset[str]
    """Paths of tensors that were not loaded, or only in part."""
    report: StartReport


class _Rows(NamedTuple):
    """Maps the rows of an embedding table here to those of the checkpoint."""

    here: list[int]
    there: list[int]
    missing: list[int]
    """Rows here that the checkpoint does not have."""
    count_there: int


def warm_start(
    checkpoint: Checkpoint, own: Tensors, corpus: Corpus, config: XTTSConfig, *, partially: bool
) -> WarmStart:
    """Return the EMA weights of a checkpoint for a model with the weights `own`, by path.

    A tensor that does not fit is an error or, with `partially`, keeps its value in `own`.
    """

    def overlap(words: Sequence[str], rows: _Rows, here: Sequence[str]) -> VocabularyOverlap:
        new = tuple(words[row] for row in rows.missing)
        return VocabularyOverlap(len(words), new, tuple(it for it in words if it not in here))

    tokenizer, theirs = corpus.tokenizer, checkpoint.tokenizer()
    by_symbol = _SYMBOLS, _MEAN_MELS, _LOG_DURATIONS, _CLASSIFIER_KERNEL, _CLASSIFIER_BIAS
    if theirs.kind == tokenizer.kind:
        rows = _rows(theirs.symbols, tokenizer.symbols)
    else:  # a letter and a phoneme with the same spelling are unrelated
        rows = _Rows([], [], list(range(len(tokenizer.symbols))), len(theirs.symbols))
    tables = dict.fromkeys(by_symbol, rows)
    tables = {name: rows for name, rows in tables.items() if name in map(short_name, own)}
    tables[_LANGUAGES] = _rows(theirs.languages, tokenizer.languages)
    start = matching_weights(checkpoint, own, config, tables=tables, partially=partially)
    report = dataclasses.replace(
        start.report,
        symbols=overlap(tokenizer.symbols, tables[_SYMBOLS], corpus.own_tokenizer.symbols),
        languages=overlap(tokenizer.languages, tables[_LANGUAGES], corpus.own_tokenizer.languages),
    )
    finds_all = _MEAN_MELS in report.not_taken
    unknown = range(len(tokenizer.symbols)) if finds_all else tables[_MEAN_MELS].missing
    return dataclasses.replace(start, unknown_symbols=unknown, report=report)


def matching_weights(
    checkpoint: Checkpoint,
    own: Tensors,
    config: XTTSConfig,
    *,
    tables: Mapping[str, _Rows] | None = None,
    partially: bool,
) -> WarmStart:
    """Return matching weights for any model; `tables` maps rows of embedding tables."""
    tables = tables or {}
    shapes = {short_name(path): shape for path, shape in checkpoint.ema_shapes().items()}
    not_taken = _misfits(shapes, {short_name(path): own[path] for path in own}, tables)
    # A checkpoint may have more than is needed here, and more than fits into memory.
    wanted = [path for path in checkpoint.ema_shapes() if short_name(path) not in not_taken]
    found = {short_name(path): value for path, value in checkpoint.ema_weights(wanted).items()}
    changes = changes_of_the_model(checkpoint.config(), config)
    settings = {
        change.name: f"{change.saved} in the checkpoint, {change.given} here" for change in changes
    }

    tensors = dict(own)
    parts: dict[str, dict[str, int]] = {}
    for path, value in own.items():
        name = short_name(path)
        count = parts.setdefault(name.partition("/")[0], {"taken": 0, "of": 0})
        count["of"] += value.size
        if name in not_taken:
            continue
        tensors[path] = found[name]
        if name in tables:
            tensors[path] = _table(name, found[name], value, tables[name])
            count["taken"] -= len(tables[name].missing) * np.take(value, 0, _axis(name)).size
        count["taken"] += value.size

    if not any(count["taken"] for count in parts.values()):
        raise CheckpointError(f"{checkpoint.folder}: none of its weights fit this model")
    problems = _but_optional_parts(not_taken)
    if not partially and (problems or any(it.changes_what_weights_mean for it in changes)):
        shown = [
            f"{name}: {reason}"
            for found_problems in (settings, problems)
            for name, reason in itertools.islice(found_problems.items(), _SHOWN_PROBLEMS)
        ]
        hidden = len(settings) + len(problems) - len(shown)
        more = f" and {hidden} more" if hidden else ""
        raise CheckpointError(
            f"{checkpoint.folder}: does not fit this model: {'; '.join(shown)}{more}; use the same "
            "settings, or load the weights that fit with --init-partially"
        )
    report = StartReport(
        checkpoint=str(checkpoint.folder),
        step=checkpoint.info.step,
        mel_mean=checkpoint.info.mel_mean,
        mel_deviation=checkpoint.info.mel_deviation,
        parts=parts,
        settings=settings,
        not_taken=not_taken,
    )
    incomplete = not_taken.keys() | {name for name, rows in tables.items() if rows.missing}
    paths = frozenset(path for path in own if short_name(path) in incomplete)
    return WarmStart(tensors, (), paths, report)


def _but_optional_parts(not_taken: Mapping[str, str]) -> dict[str, str]:
    return {name: why for name, why in not_taken.items() if not name.startswith(_OPTIONAL_PARTS)}


def _rows(theirs: Sequence[str], own: Sequence[str]) -> _Rows:
    there = {word: row for row, word in enumerate(theirs)}
    here = [row for row, word in enumerate(own) if word in there]
    missing = [row for row, word in enumerate(own) if word not in there]
    return _Rows(here, [there[own[row]] for row in here], missing, len(theirs))


def _misfits(found: Shapes, own: Tensors, tables: Mapping[str, _Rows]) -> dict[str, str]:
    """Return the tensors that cannot be loaded, with the reason."""
    misfits = {}
    for name, value in own.items():
        expected = list(value.shape)
        if name in tables:
            expected[_axis(name)] = tables[name].count_there
        if name not in found:
            misfits[name] = "not in the checkpoint"
        elif list(found[name]) != expected:
            misfits[name] = f"{list(found[name])} in the checkpoint, {list(value.shape)} here"
        elif name in tables and not tables[name].here:
            misfits[name] = "no rows in common"
    if _MEAN_MELS in misfits:
        misfits.setdefault(_LOG_DURATIONS, f"estimated from this corpus with {_MEAN_MELS}")
    for name in sorted(found.keys() - own.keys()):
        misfits[name] = f"{list(found[name])} in the checkpoint, not in this model"
    return misfits


def _axis(name: str) -> int:
    """Return the axis along which a table has its symbols or languages."""
    return 1 if name == _CLASSIFIER_KERNEL else 0


def _table(name: str, found: Tensor, own: Tensor, rows: _Rows) -> Tensor:
    """Return the checkpoint's rows in this run's order, and initial values for new rows."""
    table, found_rows = (np.moveaxis(it, _axis(name), 0) for it in (own.copy(), found))
    if name != _SYMBOLS:
        # New symbol embeddings keep their random values; new rows elsewhere start at the mean.
        table[rows.missing] = found_rows[rows.there].mean(axis=0)
    table[rows.here] = found_rows[rows.there]
    return np.moveaxis(table, 0, _axis(name))
