"""Feature extraction: every clip is checked, trimmed, normalised and cached once, before training.

Workers make chunks of clips; when all chunks exist they are joined into one cache. A killed run
continues with the chunks it has; several processes or machines can share the work; clips in an
earlier cache with the same settings are copied from it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import json
import logging
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel_geometry import MEL_RULES
from myxtts.config.config import XTTSConfig
from myxtts.data.array_files import save_array, write_header
from myxtts.data.cache import (
    CACHE_FORMAT,
    PARTS,
    FeatureCache,
    is_cache_name,
    open_cache,
)
from myxtts.data.checks import OVER_LIMITS, Rejection, duplicate_audio
from myxtts.data.chunks import (
    EarlierClips,
    Level,
    chunk_count,
    chunk_folder,
    make_chunk,
    read_chunk,
    rows_of_chunk,
)
from myxtts.data.clip_reader import checksum
from myxtts.data.limits import advice_for, go_on_with
from myxtts.data.metadata import Utterance
from myxtts.data.workers import map_in_workers, worker_count
from myxtts.devices.loading import load_tensorflow
from myxtts.errors import DataError
from myxtts.json_files import read_json
from myxtts.text.phonemes import TEXT_RULES
from myxtts.text.tokenizer import Tokenizer
from myxtts.whole_files import whole_folder

_log = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
Shard = tuple[int, int]
"""Index, counted from 1, and number of shards."""

_WHOLE: Shard = (1, 1)
_ABANDONED_SECONDS = 7 * 86_400
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.build|\.[0-9a-f]{32}\.[0-9a-f]{8}\.part")
_ABOUT = ("format", "source", "settings")


def prepare(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    cache_root: Path,
    on_progress: Progress = lambda done, total: None,
    *,
    bad_rows: Sequence[Rejection] = (),
    source: str = "",
    description: str = "",
    shard: Shard = _WHOLE,
) -> FeatureCache | None:
    """Opens the cache of these utterances, or makes it if there is none.

    With shards, returns None until all of them are done. `bad_rows` count as rejected clips. A new
    cache replaces the earlier one with the same `source` and settings; `description` is stored in
    it.
    """
    if not utterances:
        raise DataError("no clips to prepare: the corpus has no rows in this subset")
    folder = cache_root / fingerprint(utterances, config, bad_rows)
    if folder.is_dir():
        return _open_checked(folder, utterances, config)
    build_dir = folder.with_name(f"{folder.name}.build")
    settings = settings_fingerprint(config)
    try:
        build_dir.mkdir(parents=True, exist_ok=True)
        _make_chunks(utterances, config, build_dir, settings, shard, on_progress)
        chunks = chunk_count(len(utterances))
        if not all(chunk_folder(build_dir, number).is_dir() for number in range(chunks)):
            if not folder.is_dir():
                return None
            return _open_made_by_another(folder, build_dir, utterances, config)
        about = {"source": source, "description": description, "settings": settings}
        _join(utterances, bad_rows, config, build_dir, folder, about)
        _remove_replaced(folder, about)
    except OSError as error:
        if folder.is_dir():
            return _open_made_by_another(folder, build_dir, utterances, config)
        raise DataError(
            f"{cache_root}: cannot write features there ({error.strerror}); "
            "set data.cache_dir to a writable folder with enough space"
        ) from None
    return _open_checked(folder, utterances, config)


def _open_made_by_another(
    folder: Path, build_dir: Path, utterances: Sequence[Utterance], config: XTTSConfig
) -> FeatureCache:
    """Another process has joined the chunks meanwhile, and nobody needs those of this one."""
    shutil.rmtree(build_dir, ignore_errors=True)
    return _open_checked(folder, utterances, config)


def _open_checked(
    folder: Path, utterances: Sequence[Utterance], config: XTTSConfig
) -> FeatureCache:
    """Opens a cache; raises if more of its clips were rejected than the configuration allows."""
    cache = open_cache(folder)
    clips = sum(cache.rejected.values()) + len(cache)
    _stop_when_too_many_rejected(cache.rejected, cache.rejections, clips, utterances, config)
    return cache


def settings_fingerprint(config: XTTSConfig) -> str:
    """Digest of all settings that affect features or checks."""
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
    """Changes with the settings, the rows, and the audio files' sizes and times."""
    return _digest(
        settings_fingerprint(config),
        [str(rejection) for rejection in bad_rows],
        *(
            [str(item.audio_path), item.text, item.speaker, item.language, _stamp(item.audio_path)]
            for item in utterances
        ),
    )


def _stamp(file: Path) -> list[int]:
    try:
        stat = file.stat()
    except OSError:
        return []
    return [stat.st_size, stat.st_mtime_ns]


def _digest(*values: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(json.dumps(value, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _make_chunks(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    build_dir: Path,
    settings: str,
    shard: Shard,
    on_progress: Progress,
) -> None:
    speakers = sorted({item.speaker for item in utterances})
    languages = sorted({item.language for item in utterances})
    numbers = range(shard[0] - 1, chunk_count(len(utterances)), shard[1])
    missing = [number for number in numbers if not chunk_folder(build_dir, number).is_dir()]
    total = sum(len(rows_of_chunk(number, len(utterances))) for number in numbers)
    done = total - sum(len(rows_of_chunk(number, len(utterances))) for number in missing)
    tasks = (
        (
            build_dir,
            number,
            rows_of_chunk(number, len(utterances)),
            [utterances[row] for row in rows_of_chunk(number, len(utterances))],
            speakers,
            languages,
            config,
        )
        for number in missing
    )
    earlier = tuple(
        folder for folder, about in _caches(build_dir.parent) if about["settings"] == settings
    )
    make = functools.partial(_make_one, earlier)
    workers = worker_count(config.data.workers, len(missing))
    for clips in map_in_workers(make, tasks, workers, _use_one_thread):
        done += clips
        on_progress(done, total)


def _make_one(earlier: tuple[Path, ...], task: tuple[Any, ...]) -> int:
    return make_chunk(_earlier_clips(earlier), *task)


@functools.lru_cache(maxsize=1)
def _earlier_clips(folders: tuple[Path, ...]) -> EarlierClips:
    caches = []
    for folder in folders:
        try:
            caches.append(open_cache(folder))
        except DataError as error:
            _log.warning("%s: its clips are prepared again", error)
    return EarlierClips(caches)


def _use_one_thread() -> None:
    """Workers run in parallel; several threads in each would only compete for cores."""
    load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _remove_replaced(folder: Path, about: dict[str, str]) -> None:
    """Removes earlier caches of the same source, and old leftovers of killed runs.

    Runs that still read an earlier cache keep its files open.
    """
    for other, its in _caches(folder.parent):
        same = its["source"] == about["source"] and its["settings"] == about["settings"]
        if same and about["source"] and other != folder:
            shutil.rmtree(other, ignore_errors=True)
    # Only what has a name that is given here: the folder may hold anything else.
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
            content = read_json(file, _ABOUT)
        except (OSError, ValueError):
            continue
        if content["format"] == CACHE_FORMAT:
            yield file.parent, content


def _join(
    utterances: Sequence[Utterance],
    bad_rows: Sequence[Rejection],
    config: XTTSConfig,
    build_dir: Path,
    folder: Path,
    about: dict[str, str],
) -> None:
    """Joins all chunks into one cache: the same bytes whichever process made them."""
    numbers = range(chunk_count(len(utterances)))
    chunks = {number: rows_of_chunk(number, len(utterances)) for number in numbers}
    rejections = list(bad_rows)
    symbols: set[str] = set()
    rows: list[int] = []
    sounds: list[bytes] = []
    lengths = dict.fromkeys(PARTS, 0)
    for number, rows_of_metadata in chunks.items():
        chunk = read_chunk(build_dir, number, rows_of_metadata)
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
    _stop_when_too_many_rejected(reasons, lines, clips, utterances, config)
    left_out = {rejection.source for rejection in duplicates}
    kept = np.array([utterances[row].source not in left_out for row in rows], bool)
    languages = {item.language for item in utterances}
    tokenizer = Tokenizer.learn(config.text.tokens, symbols, languages, ezafe=config.text.ezafe)
    with whole_folder(folder) as part:
        level, index_checksum = _join_arrays(build_dir, chunks, lengths, tokenizer, kept, part)
        content = {
            "index_checksum": index_checksum,
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
    shutil.rmtree(build_dir, ignore_errors=True)


def _join_arrays(
    build_dir: Path,
    chunks: Mapping[int, range],
    lengths: Mapping[str, int],
    tokenizer: Tokenizer,
    kept: npt.NDArray[np.bool_],
    part: Path,
) -> tuple[Level, int]:
    """Returns the level and the checksum of the index.

    Clips that are not kept only lose their record; the level excludes them."""
    ids = {symbol: index for index, symbol in enumerate(tokenizer.symbols)}
    written = dict.fromkeys(PARTS, 0)
    level = Level()
    clips = 0
    records = []
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(open(part / f"{name}.npy", "wb")) for name in PARTS}
        for number, rows in chunks.items():
            chunk = read_chunk(build_dir, number, rows)
            level = level.plus(chunk.level_of(kept[clips : clips + len(chunk.records)]))
            clips += len(chunk.records)
            joined = chunk.records.copy()
            for name, array in chunk.arrays.items():
                if files[name].tell() == 0:
                    write_header(files[name], array.dtype, (lengths[name], *array.shape[1:]))
                if name == "tokens":
                    array = np.array([ids[symbol] for symbol in chunk.symbols], np.int32)[array]
                starts, counts = chunk.records[f"{name}_start"], chunk.records[f"{name}_count"]
                joined[f"{name}_checksum"] = [
                    checksum(array[start : start + count])
                    for start, count in zip(starts, counts, strict=True)
                ]
                joined[f"{name}_start"] += written[name]
                written[name] += len(array)
                files[name].write(array.tobytes())
            records.append(joined)
    index = np.concatenate(records)[kept]
    save_array(part / "index.npy", index)
    return level, checksum(index)


def too_many_rejected(reasons: Mapping[str, int], clips: int, config: XTTSConfig) -> bool:
    """Whether a run would stop; `clips` counts the usable and the rejected ones."""
    left_out = sum(reasons.values())
    return left_out == clips or left_out > config.data.max_rejected_fraction * clips


def _stop_when_too_many_rejected(
    reasons: Mapping[str, int],
    lines: Sequence[str],
    clips: int,
    utterances: Sequence[Utterance],
    config: XTTSConfig,
) -> None:
    if not too_many_rejected(reasons, clips, config):
        return
    left_out = sum(reasons.values())
    counted = ", ".join(f"{reason}: {count}" for reason, count in Counter(reasons).most_common())
    sentence = (
        f"{left_out} of {clips} clips are unusable ({counted}), more than "
        f"data.max_rejected_fraction = {config.data.max_rejected_fraction:g} allows; "
        f"the first is {lines[0]}"
    )
    if not OVER_LIMITS.isdisjoint(reasons):
        sentence += f"; {advice_for(utterances, config)}"
    if left_out < clips:
        sentence += f"; to continue without these clips: {go_on_with(left_out, clips)}"
    raise DataError(sentence)
