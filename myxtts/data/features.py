"""Feature extraction: check, trim, normalize and cache every clip once, before training.

Worker processes make chunks of 64 clips; when all chunks exist they are joined into one cache. A
killed run continues with the chunks it has, and several processes or machines can share the work.
Clips in an earlier cache with the same settings are copied.

    BUILD/000012/   records.npy tokens.npy ends.npy mels.npy audio.npy texts.npy chunk.json

A chunk is renamed into place, so one that exists is complete, and two processes may safely make the
same one. Token ids refer to the chunk's own symbols until all chunks are joined.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import hashlib
import json
import logging
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel import MEL_RULES
from myxtts.config.config import XTTSConfig
from myxtts.data.cache import (
    CACHE_FORMAT,
    FULL_SCALE,
    INDEX_TYPE,
    PARTS,
    FeatureCache,
    checksum,
    is_cache_name,
    open_cache,
    require_rows,
    save_array,
    write_header,
)
from myxtts.data.checks import (
    OVER_LIMITS,
    Rejection,
    check_clip,
    duplicate_audio,
    override_option,
    too_many_rejected,
)
from myxtts.data.metadata import Utterance
from myxtts.data.workers import map_in_workers, map_on_cluster, worker_count
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import DataError
from myxtts.files import atomic_folder, read_json
from myxtts.text.tokenizer import EDGE_SYMBOL, TEXT_RULES, Tokenizer

_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
Shard = tuple[int, int]
"""Index, counted from 1, and number of shards."""

CLIPS_PER_CHUNK = 64
_READ_BYTES = 1 << 20
_ABANDONED_SECONDS = 7 * 86_400
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.build|\.[0-9a-f]{32}\.[0-9a-f]{8}\.part")


def prepare(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    cache_root: Path,
    on_progress: Progress = lambda done, total: None,
    *,
    bad_rows: Sequence[Rejection] = (),
    source: str = "",
    description: str = "",
    shard: Shard = (1, 1),
    dask: str | None = None,
) -> FeatureCache | None:
    """Open the cache of these utterances, or make it if there is none.

    With shards, return None until all of them are done. `dask` is the address of a scheduler whose
    workers make the chunks. `bad_rows` count as rejected clips. A new
    cache replaces the earlier one with the same `source` and settings; `description` is stored in
    it.
    """
    if not utterances:
        raise DataError("no clips to prepare: the corpus has no rows in this subset")
    folder = cache_root / fingerprint(utterances, config, bad_rows)
    if not folder.is_dir():
        build_dir = folder.with_name(f"{folder.name}.build")
        settings = settings_fingerprint(config)
        about = {"source": source, "description": description, "settings": settings}
        try:
            if build_dir.is_symlink():
                raise OSError(errno.ELOOP, f"{build_dir.name} is a link")
            build_dir.mkdir(parents=True, exist_ok=True)
            _make_chunks(utterances, config, build_dir, settings, shard, dask, on_progress)
            numbers = range(_chunk_count(len(utterances)))
            if all(_chunk_folder(build_dir, number).is_dir() for number in numbers):
                _join(utterances, bad_rows, config, build_dir, folder, about)
                _remove_replaced(folder, about)
        except OSError as error:
            # Another process may have joined the chunks meanwhile.
            if not folder.is_dir():
                raise DataError(
                    f"{cache_root}: cannot write features there ({error.strerror}); "
                    "set data.cache_dir to a writable folder with enough space"
                ) from None
        if not folder.is_dir():
            return None
        shutil.rmtree(build_dir, ignore_errors=True)
    cache = open_cache(folder)
    clips = sum(cache.rejected.values()) + len(cache)
    _require_few_rejected(cache.rejected, cache.rejections, clips, config)
    return cache


def settings_fingerprint(config: XTTSConfig) -> str:
    """Return a digest of all settings that affect features or checks."""
    return _digest(
        CACHE_FORMAT,
        TEXT_RULES,
        MEL_RULES,
        dataclasses.asdict(config.audio),
        config.text.tokens,
        config.text.ezafe,
        config.data.n_mels,
        config.data.max_text_length,
        config.data.max_mel_frames,
    )


def fingerprint(
    utterances: Sequence[Utterance], config: XTTSConfig, bad_rows: Sequence[Rejection] = ()
) -> str:
    """Return a digest of the settings, the rows, and the audio files' sizes and times."""

    def stamp(file: Path) -> list[int]:
        try:
            stat = file.stat()
        except OSError:
            return []
        return [stat.st_size, stat.st_mtime_ns]

    return _digest(
        settings_fingerprint(config),
        [str(rejection) for rejection in bad_rows],
        *(
            [
                str(item.audio_path),
                item.text,
                item.speaker,
                item.language,
                stamp(item.audio_path),
                item.pronunciation,
            ]
            for item in utterances
        ),
    )


def _digest(*values: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(json.dumps(value, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _chunk_folder(build_dir: Path, number: int) -> Path:
    return build_dir / f"{number:06d}"


def _chunk_count(clips: int) -> int:
    return -(-clips // CLIPS_PER_CHUNK)


def _rows_of_chunk(number: int, clips: int) -> range:
    return range(number * CLIPS_PER_CHUNK, min(clips, (number + 1) * CLIPS_PER_CHUNK))


def _make_chunks(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    build_dir: Path,
    settings: str,
    shard: Shard,
    dask: str | None,
    on_progress: Progress,
) -> None:
    speakers = sorted({item.speaker for item in utterances})
    languages = sorted({item.language for item in utterances})
    numbers = range(shard[0] - 1, _chunk_count(len(utterances)), shard[1])
    rows = {number: _rows_of_chunk(number, len(utterances)) for number in numbers}
    missing = [number for number in numbers if not _chunk_folder(build_dir, number).is_dir()]
    total = sum(map(len, rows.values()))
    done = total - sum(len(rows[number]) for number in missing)
    tasks = (
        (number, rows[number], [utterances[row] for row in rows[number]]) for number in missing
    )
    earlier = tuple(
        folder for folder, about in _caches(build_dir.parent) if about["settings"] == settings
    )
    make = functools.partial(_make_chunk, earlier, build_dir, speakers, languages, config)
    workers = worker_count(config.data.workers, len(missing))
    results = (
        map_in_workers(make, tasks, workers, _use_one_thread)
        if dask is None or not missing
        else map_on_cluster(make, tasks, dask, _use_one_thread)
    )
    for clips in results:
        done += clips
        on_progress(done, total)
    if dask is not None and not all(_chunk_folder(build_dir, it).is_dir() for it in missing):
        raise DataError(f"{build_dir}: the workers at {dask} wrote elsewhere; share this folder")


def _use_one_thread() -> None:
    """Limit TensorFlow to one thread: workers run in parallel and would compete for cores."""
    load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


@dataclass(frozen=True)
class _Level:
    """Sums that give the mean and standard deviation of mel values."""

    count: int = 0
    total: float = 0.0
    total_of_squares: float = 0.0

    def plus(self, other: _Level) -> _Level:
        return _Level(
            self.count + other.count,
            self.total + other.total,
            self.total_of_squares + other.total_of_squares,
        )

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def deviation(self) -> float:
        return float(np.sqrt(max(self.total_of_squares / self.count - self.mean**2, 1e-12)))


@dataclass(frozen=True)
class _Features:
    symbols: tuple[str, ...]
    ends: npt.NDArray[np.float32]
    mel: npt.NDArray[np.float16]
    samples: npt.NDArray[np.int16]


def _make_chunk(
    earlier: tuple[Path, ...],
    build_dir: Path,
    speakers: Sequence[str],
    languages: Sequence[str],
    config: XTTSConfig,
    task: tuple[int, range, Sequence[Utterance]],
) -> int:
    """Make a chunk unless it exists, and return its number of clips."""
    number, rows, utterances = task
    folder = _chunk_folder(build_dir, number)
    if folder.is_dir():
        return len(utterances)
    speaker_ids = {name: index for index, name in enumerate(speakers)}
    language_ids = {name: index for index, name in enumerate(languages)}
    records: list[tuple[Any, ...]] = []
    # Begins with empty arrays, which have the right types if no clip is usable.
    parts: dict[str, list[npt.NDArray[Any]]] = {
        "tokens": [np.zeros(0, np.int32)],
        "ends": [np.zeros(0, np.float32)],
        "mels": [np.zeros((0, config.data.n_mels), np.float16)],
        "audio": [np.zeros(0, np.int16)],
        "texts": [np.zeros(0, np.uint8)],
    }
    lengths = dict.fromkeys(PARTS, 0)
    symbols: dict[str, int] = {}
    levels: list[_Level] = []
    rejections: list[Rejection] = []
    for row, item in zip(rows, utterances, strict=True):
        # What features depend on, except settings: language, text, durations and the audio file.
        spoken = f"{item.language}\n{item.text}\n{item.pronunciation or ''}\n"
        digest = hashlib.blake2b(spoken.encode(), digest_size=16)
        # An unreadable file has no cached features; checking it reports why.
        with contextlib.suppress(OSError), open(item.audio_path, "rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
        content = digest.digest()
        found = _earlier_clips(earlier).features(content) or _extract(item, config)
        if isinstance(found, Rejection):
            rejections.append(found)
            continue
        text, path = item.text.encode(), str(item.audio_path).encode()
        ids = [symbols.setdefault(symbol, len(symbols)) for symbol in found.symbols]
        arrays: dict[str, npt.NDArray[Any]] = {
            "tokens": np.array(ids, np.int32),
            "ends": found.ends,
            "mels": found.mel,
            "audio": found.samples,
            "texts": np.frombuffer(text + path, np.uint8),
        }
        places: list[int] = []
        for name in PARTS:
            places += [lengths[name], len(arrays[name])]
            lengths[name] += len(arrays[name])
            parts[name].append(arrays[name])
        values = found.mel.astype(np.float64)
        levels.append(_Level(values.size, float(values.sum()), float(np.square(values).sum())))
        sound = hashlib.blake2b(found.samples.tobytes(), digest_size=16).digest()
        records.append(
            (
                *places,
                len(text),
                speaker_ids[item.speaker],
                language_ids[item.language],
                row,
                np.void(content),
                np.void(sound),
                *(0 for _ in PARTS),  # checksums are of what is joined
            )
        )
    stored = {"records": np.array(records, INDEX_TYPE)}
    stored |= {name: np.concatenate(parts[name]) for name in PARTS}
    about = {
        "checksums": {name: checksum(array) for name, array in stored.items()},
        "symbols": list(symbols),
        "rejections": [dataclasses.asdict(rejection) for rejection in rejections],
        "levels": [dataclasses.astuple(level) for level in levels],
    }
    try:
        with atomic_folder(folder) as part:
            for name, array in stored.items():
                save_array(part / f"{name}.npy", array)
            (part / "chunk.json").write_text(
                json.dumps(about, ensure_ascii=False), encoding="utf-8"
            )
    except OSError:
        # Another process may have made the same chunk first.
        if not folder.is_dir():
            raise
    return len(utterances)


def _extract(item: Utterance, config: XTTSConfig) -> _Features | Rejection:
    from myxtts.audio.mel import clip_log_mel

    clip = check_clip(item, config)
    if clip.rejections:
        return clip.rejections[0]
    samples = np.round(np.clip(clip.waveform, -1.0, 1.0) * FULL_SCALE).astype(np.int16)
    # From the quantized samples, so that a data device computes the same mel.
    mel = clip_log_mel(config.audio, config.data.n_mels)(
        np.divide(samples, FULL_SCALE, dtype=np.float32)
    )
    symbols = (EDGE_SYMBOL, *clip.symbols, EDGE_SYMBOL)
    ends = np.zeros(len(symbols), np.float32)
    if clip.symbol_ends is not None:
        ends[:-1], ends[-1] = clip.symbol_ends, 1.0
    return _Features(symbols, ends, mel.astype(np.float16), samples)


@functools.lru_cache(maxsize=1)
def _earlier_clips(folders: tuple[Path, ...]) -> _EarlierClips:
    caches = []
    for folder in folders:
        try:
            caches.append(open_cache(folder))
        except DataError as error:
            _log.warning("%s: its clips are prepared again", error)
    return _EarlierClips(caches)


class _EarlierClips:
    """Clips of earlier caches, by content: their audio file and text."""

    def __init__(self, caches: Sequence[FeatureCache]) -> None:
        self._places = {
            bytes(content): (cache, clip)
            for cache in caches
            for clip, content in enumerate(np.asarray(cache.index["content"]))
        }

    def features(self, content: bytes) -> _Features | None:
        """Return the features of a clip, or None if it is new or damaged."""
        if content not in self._places:
            return None
        cache, clip = self._places[content]
        try:
            return _Features(
                tuple(cache.tokenizer.symbols[token] for token in cache.clip_tokens(clip)),
                cache.clip_ends(clip),
                cache.clip_mel(clip),
                cache.clip_audio(clip),
            )
        except (DataError, OSError, IndexError) as error:
            _log.warning("%s: preparing the clip again", error)
            return None


@dataclass(frozen=True)
class _Chunk:
    """A chunk, read from disk."""

    records: npt.NDArray[Any]
    arrays: dict[str, npt.NDArray[Any]]
    symbols: tuple[str, ...]
    rejections: tuple[Rejection, ...]
    levels: tuple[_Level, ...]
    """One per clip: which clips are kept is known only when all chunks are made."""


def _read_chunk(build_dir: Path, number: int, rows: range) -> _Chunk:
    """Read the chunk of these rows of the metadata."""
    folder = _chunk_folder(build_dir, number)
    try:
        content = read_json(folder / "chunk.json", ("symbols", "rejections", "levels", "checksums"))
        arrays = {name: np.load(folder / f"{name}.npy") for name in PARTS}
        records = np.load(folder / "records.npy")
        for name, array in (*arrays.items(), ("records", records)):
            if content["checksums"].get(name) != checksum(array):
                raise ValueError(f"{name}.npy: checksum mismatch")
        require_rows(records, arrays)
        if not set(records["row"].tolist()) <= set(rows):
            raise ValueError("records.npy: has other clips")
        return _Chunk(
            records=records,
            arrays=arrays,
            symbols=tuple(content["symbols"]),
            rejections=tuple(Rejection(**fields) for fields in content["rejections"]),
            levels=tuple(_Level(*sums) for sums in content["levels"]),
        )
    # An OSError is for the caller: another process may have joined the chunks and removed them.
    except (EOFError, ValueError, TypeError) as error:
        raise DataError(
            f"{folder}: this part of the features cannot be read ({error}); delete this folder, it "
            "will be recreated"
        ) from None


def _join(
    utterances: Sequence[Utterance],
    bad_rows: Sequence[Rejection],
    config: XTTSConfig,
    build_dir: Path,
    folder: Path,
    about: dict[str, str],
) -> None:
    """Join all chunks into one cache: the same bytes whichever process made them."""
    numbers = range(_chunk_count(len(utterances)))
    chunks = {number: _rows_of_chunk(number, len(utterances)) for number in numbers}
    rejections = list(bad_rows)
    symbols: set[str] = set()
    rows: list[int] = []
    sounds: list[bytes] = []
    lengths = dict.fromkeys(PARTS, 0)
    for number, rows_of_metadata in chunks.items():
        chunk = _read_chunk(build_dir, number, rows_of_metadata)
        for name, array in chunk.arrays.items():
            lengths[name] += len(array)
        rejections += chunk.rejections
        symbols |= set(chunk.symbols)
        rows += chunk.records["row"].tolist()
        sounds += [bytes(sound) for sound in chunk.records["sound"]]
    duplicates = list(duplicate_audio((utterances[row] for row in rows), sounds))
    rejections += duplicates
    reasons = dict(Counter(rejection.reason for rejection in rejections))
    lines = [str(rejection) for rejection in rejections]
    clips = len(utterances) + len(bad_rows)
    _require_few_rejected(reasons, lines, clips, config)
    left_out = {rejection.source for rejection in duplicates}
    kept = np.array([utterances[row].source not in left_out for row in rows], bool)
    languages = {item.language for item in utterances}
    tokenizer = Tokenizer.learn(config.text.tokens, symbols, languages, ezafe=config.text.ezafe)
    token_ids = {symbol: index for index, symbol in enumerate(tokenizer.symbols)}

    # Duplicates lose their record and do not count for the level; their arrays stay.
    with atomic_folder(folder) as part, contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(open(part / f"{name}.npy", "wb")) for name in PARTS}
        written = dict.fromkeys(PARTS, 0)
        level = _Level()
        first = 0
        records = []
        for number, rows_of_metadata in chunks.items():
            chunk = _read_chunk(build_dir, number, rows_of_metadata)
            level_of_chunk = _Level()
            for clip_level, keep in zip(chunk.levels, kept[first:], strict=False):
                if keep:
                    level_of_chunk = level_of_chunk.plus(clip_level)
            level = level.plus(level_of_chunk)
            first += len(chunk.records)
            joined = chunk.records.copy()
            for name, array in chunk.arrays.items():
                if files[name].tell() == 0:
                    write_header(files[name], array.dtype, (lengths[name], *array.shape[1:]))
                if name == "tokens":
                    ids = np.array([token_ids[symbol] for symbol in chunk.symbols], np.int32)
                    array = ids[array]
                starts, counts = joined[f"{name}_start"], joined[f"{name}_count"]
                joined[f"{name}_checksum"] = [
                    checksum(array[start : start + count])
                    for start, count in zip(starts, counts, strict=True)
                ]
                joined[f"{name}_start"] += written[name]
                written[name] += len(array)
                files[name].write(array.tobytes())
            records.append(joined)
        stack.close()
        index = np.concatenate(records)[kept]
        save_array(part / "index.npy", index)
        content = {
            "index_checksum": checksum(index),
            "format": CACHE_FORMAT,
            **about,
            "tokens": tokenizer.kind,
            "ezafe": tokenizer.ezafe,
            "symbols": tokenizer.symbols,
            "languages": tokenizer.languages,
            "speakers": sorted({item.speaker for item in utterances}),
            "mel_mean": level.mean,
            "mel_deviation": level.deviation,
            "rejected": reasons,
            "rejections": lines,
        }
        (part / "cache.json").write_text(
            json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8"
        )
        part.chmod(0o755)


def _remove_replaced(folder: Path, about: dict[str, str]) -> None:
    """Remove earlier caches of the same source, and old leftovers of killed runs.

    Runs that still read an earlier cache keep its files open.
    """
    for other, its in _caches(folder.parent):
        same = its["source"] == about["source"] and its["settings"] == about["settings"]
        if same and about["source"] and other != folder:
            shutil.rmtree(other, ignore_errors=True)
    # Only what has a name that is given here: the folder may contain anything else.
    for unfinished in folder.parent.iterdir():
        if _UNFINISHED.fullmatch(unfinished.name):
            with contextlib.suppress(OSError):
                if time.time() - unfinished.stat().st_mtime > _ABANDONED_SECONDS:
                    shutil.rmtree(unfinished, ignore_errors=True)


def _caches(cache_root: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    for file in sorted(cache_root.glob("*/cache.json")):
        if not is_cache_name(file.parent.name) or file.parent.is_symlink():
            continue
        try:
            content = read_json(file, ("format", "source", "settings"))
        except (OSError, ValueError):
            continue
        if content["format"] == CACHE_FORMAT:
            yield file.parent, content


def _require_few_rejected(
    reasons: Mapping[str, int], lines: Sequence[str], clips: int, config: XTTSConfig
) -> None:
    left_out = sum(reasons.values())
    if not too_many_rejected(left_out, clips, config):
        return
    counted = ", ".join(f"{reason}: {count}" for reason, count in Counter(reasons).most_common())
    message = (
        f"{left_out} of {clips} clips are unusable ({counted}), more than "
        f"data.max_rejected_fraction = {config.data.max_rejected_fraction:g} allows; "
        f"the first is {lines[0]}"
    )
    if not OVER_LIMITS.isdisjoint(reasons):
        message += "; myxtts stats shows limits that keep more clips"
    if left_out < clips:
        message += f"; to continue without these clips: {override_option(left_out, clips)}"
    raise DataError(message)
