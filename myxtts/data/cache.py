"""Compute the features of every clip once, and read them in training.

    CACHE/<fingerprint>/index.npy    one record per clip: offsets, lengths and checksums
                        tokens.npy   symbol ids of all clips, concatenated
                        ends.npy     where each symbol ends, as a fraction of its clip; zeros
                                     where that is not known
                        mels.npy     log-mel frames of all clips, concatenated, float16
                        audio.npy    samples of all clips, concatenated, int16
                        texts.npy    texts and audio paths, UTF-8, concatenated
                        cache.json   symbols, speakers, languages, mel level, rejected clips

A cache is immutable: it is written to a temporary folder and renamed. Later damage is detected by
checksums: of the index when it is opened, of a clip when it is first read.

Worker processes make chunks of 64 clips, BUILD/000012.npz. When all chunks exist they are joined
into one cache. A killed run continues with the chunks it has, and clips in an earlier cache with
the same settings are copied from it. A chunk is written atomically, so one that exists is complete,
and several processes may make the same one. Token ids refer to the chunk's own symbols until all
chunks are joined.
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
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from myxtts.audio.mel import MEL_RULES
from myxtts.config.config import XTTSConfig
from myxtts.data.checks import (
    OVER_LIMITS,
    Finding,
    check_clip,
    duplicate_audio,
    override_option,
    too_many_rejected,
)
from myxtts.data.metadata import LJSpeechDataset, Utterance
from myxtts.data.shapes import Clips
from myxtts.data.workers import map_in_workers, map_on_cluster, worker_count
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import DataError
from myxtts.files import atomic_file, atomic_folder, read_json
from myxtts.text.tokenizer import EDGE_SYMBOL, TEXT_RULES, Tokenizer

_log = logging.getLogger(__name__)

CACHE_FORMAT = "myxtts-features-6"
CLIPS_PER_CHUNK = 64
# The stored value of a sample of 1.0.
FULL_SCALE = 32_767
_NAMES = (
    *("format", "tokens", "ezafe", "symbols", "languages", "speakers", "mel_mean", "mel_deviation"),
    *("rejected", "rejections", "description", "index_checksum"),
)
_READ_BYTES = 1 << 20
_ABANDONED_SECONDS = 7 * 86_400
_NAME = re.compile("[0-9a-f]{32}")
_UNFINISHED = re.compile(r"[0-9a-f]{32}\.build|\.[0-9a-f]{32}\.[0-9a-f]{8}\.part")
PARTS = ("tokens", "ends", "mels", "audio", "texts")
INDEX_TYPE = np.dtype(
    [
        ("tokens_start", np.int64),
        ("tokens_count", np.int32),
        ("ends_start", np.int64),
        ("ends_count", np.int32),
        ("mels_start", np.int64),
        ("mels_count", np.int32),
        ("audio_start", np.int64),
        ("audio_count", np.int32),
        ("texts_start", np.int64),
        ("texts_count", np.int32),
        ("text_bytes", np.int32),
        ("speaker", np.int32),
        ("language", np.int32),
        ("row", np.int32),
        ("content", "V16"),
        ("sound", "V16"),
        ("mel_sum", np.float64),
        ("mel_sum_of_squares", np.float64),
        *((f"{part}_checksum", np.uint32) for part in PARTS),
    ]
)

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FeatureCache:
    """The prepared clips of a subset of a corpus; features are read on demand."""

    folder: Path
    index: npt.NDArray[Any]
    arrays: Mapping[str, npt.NDArray[Any]]
    """Memory-mapped, by the names in PARTS."""
    tokenizer: Tokenizer
    speakers: tuple[str, ...]
    mel_mean: float
    mel_deviation: float
    rejected: dict[str, int]
    rejections: tuple[str, ...]
    description: str
    """Metadata file and layout of the source."""

    def __len__(self) -> int:
        return len(self.index)

    @property
    def token_counts(self) -> npt.NDArray[np.int32]:
        return np.ascontiguousarray(self.index["tokens_count"])

    @property
    def frame_counts(self) -> npt.NDArray[np.int32]:
        return np.ascontiguousarray(self.index["mels_count"])

    @property
    def clips(self) -> Clips:
        labels = self.index["speaker"], self.index["language"]
        return Clips(self.token_counts, self.frame_counts, *labels)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Digest of the recordings, texts, speakers and languages, in their order.

        Names and times of files do not count: a corpus may be copied.
        """
        digest = hashlib.blake2b(digest_size=16)
        for name in ("content", "speaker", "language"):
            digest.update(np.ascontiguousarray(self.index[name]).tobytes())
        names = (*self.speakers, *self.tokenizer.languages)
        digest.update("\n".join(names).encode(errors="surrogatepass"))
        return f"{len(self)} clips {digest.hexdigest()}"

    def clip_tokens(self, clip: int) -> npt.NDArray[np.int32]:
        return self.part_of(clip, "tokens")

    def clip_ends(self, clip: int) -> npt.NDArray[np.float32]:
        """Return where each symbol ends, as a fraction of the clip; zeros where unknown."""
        return self.part_of(clip, "ends")

    def clip_mel(self, clip: int) -> npt.NDArray[np.float16]:
        """Return the mel, [frames, mels]."""
        return self.part_of(clip, "mels")

    def clip_audio(self, clip: int) -> npt.NDArray[np.int16]:
        return self.part_of(clip, "audio")

    def clip_waveform(self, clip: int) -> npt.NDArray[np.float32]:
        """Return samples in [-1, 1]."""
        return self.clip_audio(clip).astype(np.float32) / np.float32(FULL_SCALE)

    def text(self, clip: int) -> str:
        return self._checked_texts(clip)[0]

    def audio_path(self, clip: int) -> Path:
        return Path(self._checked_texts(clip)[1])

    def part_of(
        self, clip: int, part: str, first: int = 0, count: int | None = None
    ) -> npt.NDArray[Any]:
        """Return rows of a part of a clip: all, or at most `count` from `first` on. Read only."""
        try:
            return self._rows(clip, part)[first : None if count is None else first + count]
        except ValueError:
            raise self.damaged([clip]) from None

    def damaged(self, clips: Iterable[int]) -> DataError:
        """Return the error for damaged clips."""
        names = []
        for clip in list(clips)[:3]:
            try:
                names.append(self._texts(clip)[1])
            except ValueError:
                names.append(f"clip {clip}")
        return DataError(
            f"{self.folder}: the prepared features of {', '.join(names)} are damaged; delete this "
            "folder, it will be recreated"
        )

    @functools.cached_property
    def _verified(self) -> dict[str, npt.NDArray[np.bool_]]:
        # Several threads may verify a clip twice, which is harmless.
        return {part: np.zeros(len(self), bool) for part in PARTS}

    def _rows(self, clip: int, part: str) -> npt.NDArray[Any]:
        """Return a part of a clip; a ValueError if its checksum is wrong when it is first read."""
        record = self.index[clip]
        start = int(record[f"{part}_start"])
        rows = self.arrays[part][start : start + int(record[f"{part}_count"])]
        if not self._verified[part][clip]:
            if checksum(rows) != int(record[f"{part}_checksum"]):
                raise ValueError(f"clip {clip}: checksum mismatch")
            self._verified[part][clip] = True
        return rows

    def _checked_texts(self, clip: int) -> tuple[str, str]:
        try:
            return self._texts(clip)
        except ValueError:
            raise self.damaged([clip]) from None

    def _texts(self, clip: int) -> tuple[str, str]:
        content = self._rows(clip, "texts").tobytes()
        length = int(self.index[clip]["text_bytes"])
        return content[:length].decode(), content[length:].decode()


def open_cache(folder: Path) -> FeatureCache:
    try:
        content = read_json(folder / "cache.json", _NAMES)
        if content["format"] != CACHE_FORMAT:
            raise ValueError(f"format {content['format']}")
        index = mapped(folder / "index.npy")
        if checksum(index) != content["index_checksum"]:
            raise ValueError("index.npy: checksum mismatch")
        arrays = {part: mapped(folder / f"{part}.npy") for part in PARTS}
        for part, array in arrays.items():
            starts, counts = index[f"{part}_start"], index[f"{part}_count"].astype(np.int64)
            if not ((starts >= 0) & (counts >= 0) & (starts <= len(array) - counts)).all():
                raise ValueError(f"{part}.npy: has fewer rows than its index says")
        return FeatureCache(
            folder=folder,
            index=index,
            arrays=arrays,
            tokenizer=Tokenizer(
                content["tokens"],
                tuple(content["symbols"]),
                tuple(content["languages"]),
                content["ezafe"],
            ),
            speakers=tuple(content["speakers"]),
            mel_mean=content["mel_mean"],
            mel_deviation=content["mel_deviation"],
            rejected=content["rejected"],
            rejections=tuple(content["rejections"]),
            description=content["description"],
        )
    except (OSError, EOFError, ValueError) as error:
        raise DataError(
            f"{folder}: the prepared features cannot be read ({error}); "
            "delete this folder, it will be recreated"
        ) from None


def checksum(rows: npt.NDArray[Any]) -> int:
    """Return a checksum that detects damage and is fast enough for every clip."""
    return zlib.crc32(np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data)


def mapped(file: Path) -> npt.NDArray[Any]:
    """Return a memory-mapped array, which stays readable when the file is deleted."""
    return np.asarray(np.load(file, mmap_mode="r"))


def write_header(stream: IO[bytes], dtype: Any, shape: tuple[int, ...]) -> None:
    """Begin a file whose rows are written after it."""
    header = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": shape,
    }
    np.lib.format.write_array_header_2_0(stream, header)


def save_array(file: Path, array: npt.NDArray[Any]) -> None:
    """Write like np.save, with a clear error on a full disk."""
    with open(file, "wb") as stream:
        write_header(stream, array.dtype, array.shape)
        stream.write(np.ascontiguousarray(array).data)


def prepare(
    dataset: LJSpeechDataset,
    config: XTTSConfig,
    cache_root: Path,
    on_progress: Progress = lambda done, total: None,
    *,
    dask: str | None = None,
) -> FeatureCache:
    """Open the cache of these utterances, or make it if there is none.

    A new cache replaces the earlier one of the same subset with the same settings. `dask` is the
    address of a scheduler whose workers make the chunks.
    """
    if not dataset:
        raise DataError(
            f"{dataset.folder}: too few clips to hold out a validation set; provide one with "
            "--val-data, or raise data.validation_fraction"
        )
    folder = cache_root / fingerprint(dataset, config)
    if not folder.is_dir():
        build_dir = folder.with_name(f"{folder.name}.build")
        about = {
            "source": f"{dataset.metadata.path.resolve()}:{dataset.subset}",
            "description": f"{dataset.metadata.path} read as {dataset.metadata.layout}",
            "settings": settings_fingerprint(config),
        }
        try:
            if build_dir.is_symlink():
                raise OSError(errno.ELOOP, f"{build_dir.name} is a link")
            build_dir.mkdir(parents=True, exist_ok=True)
            settings = about["settings"]
            chunks = _make_chunks(dataset, config, build_dir, settings, dask, on_progress)
            _join(dataset, config, chunks, folder, about)
            _remove_replaced(folder, about)
        except OSError as error:
            # Another process may have joined the chunks first.
            if not folder.is_dir():
                raise DataError(
                    f"{cache_root}: cannot write features there ({error.strerror}); "
                    "set data.cache_dir to a writable folder with enough space"
                ) from None
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


def fingerprint(dataset: LJSpeechDataset, config: XTTSConfig) -> str:
    """Return a digest of the settings, the rows, and the audio files' sizes and times."""

    def stamp(file: Path) -> list[int]:
        try:
            stat = file.stat()
        except OSError:
            return []
        return [stat.st_size, stat.st_mtime_ns]

    return _digest(
        settings_fingerprint(config),
        dataset.bad_rows,
        *(
            [
                str(item.audio_path),
                item.text,
                item.speaker,
                item.language,
                stamp(item.audio_path),
                item.pronunciation,
            ]
            for item in dataset
        ),
    )


def content_digest(item: Utterance) -> bytes:
    """Return a digest of what features depend on except settings, including the audio file."""
    spoken = f"{item.language}\n{item.text}\n{item.pronunciation or ''}\n"
    digest = hashlib.blake2b(spoken.encode(), digest_size=16)
    # An unreadable file has no cached features; checking it reports why.
    with contextlib.suppress(OSError), open(item.audio_path, "rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()


def _digest(*values: Any) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(json.dumps(value, ensure_ascii=False, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True)
class _Chunk:
    """Consecutive rows of a dataset, and the file of their features."""

    file: Path
    rows: range


def _make_chunks(
    dataset: LJSpeechDataset,
    config: XTTSConfig,
    build_dir: Path,
    settings: str,
    dask: str | None,
    on_progress: Progress,
) -> list[_Chunk]:
    speakers = sorted({item.speaker for item in dataset})
    languages = sorted({item.language for item in dataset})
    total = len(dataset)
    chunks = [
        _Chunk(build_dir / f"{number:06d}.npz", range(first, min(total, first + CLIPS_PER_CHUNK)))
        for number, first in enumerate(range(0, total, CLIPS_PER_CHUNK))
    ]
    missing = [chunk for chunk in chunks if not chunk.file.exists()]
    done = total - sum(len(chunk.rows) for chunk in missing)
    earlier = tuple(
        folder for folder, about in _caches(build_dir.parent) if about["settings"] == settings
    )
    make = functools.partial(_make_chunk, earlier, speakers, languages, config)
    tasks = ((chunk, [dataset[row] for row in chunk.rows]) for chunk in missing)
    workers = worker_count(config.data.workers, len(missing))
    results = (
        map_in_workers(make, tasks, workers, _use_one_thread)
        if dask is None or not missing
        else map_on_cluster(make, tasks, dask, _use_one_thread)
    )
    for clips in results:
        done += clips
        on_progress(done, total)
    if dask is not None and not all(chunk.file.exists() for chunk in missing):
        raise DataError(f"{build_dir}: the workers at {dask} wrote elsewhere; share this folder")
    return chunks


def _use_one_thread() -> None:
    """Limit TensorFlow to one thread: workers run in parallel and would compete for cores."""
    load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


@dataclass(frozen=True)
class _Features:
    symbols: tuple[str, ...]
    ends: npt.NDArray[np.float32]
    mel: npt.NDArray[np.float16]
    samples: npt.NDArray[np.int16]


def _make_chunk(
    earlier: tuple[Path, ...],
    speakers: Sequence[str],
    languages: Sequence[str],
    config: XTTSConfig,
    task: tuple[_Chunk, Sequence[Utterance]],
) -> int:
    """Make a chunk unless it exists, and return its number of clips."""
    chunk, utterances = task
    if chunk.file.exists():
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
    rejections: list[Finding] = []
    for row, item in zip(chunk.rows, utterances, strict=True):
        content = content_digest(item)
        found = _copy(earlier, content) or _extract(item, config)
        if isinstance(found, Finding):
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
        mels = found.mel.astype(np.float64)
        records.append(
            (
                *places,
                len(text),
                speaker_ids[item.speaker],
                language_ids[item.language],
                row,
                np.void(content),
                np.void(hashlib.blake2b(found.samples.tobytes(), digest_size=16).digest()),
                float(mels.sum()),
                float(np.square(mels).sum()),
                *(checksum(arrays[name]) for name in PARTS),
            )
        )
    stored: dict[str, Any] = {name: np.concatenate(parts[name]) for name in PARTS}
    stored["records"] = np.array(records, INDEX_TYPE)
    lists = {
        "symbols": list(symbols),
        "rejections": [dataclasses.astuple(rejection) for rejection in rejections],
    }
    stored["lists"] = np.frombuffer(json.dumps(lists).encode(), np.uint8)
    with atomic_file(chunk.file) as stream:
        np.savez(stream, **stored)
    return len(utterances)


def _extract(item: Utterance, config: XTTSConfig) -> _Features | Finding:
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
def _clips_of(folders: tuple[Path, ...]) -> dict[bytes, tuple[FeatureCache, int]]:
    """Return the clips of caches by the digest of their audio file and text."""
    clips: dict[bytes, tuple[FeatureCache, int]] = {}
    for folder in folders:
        try:
            cache = open_cache(folder)
        except DataError as error:
            _log.warning("%s: its clips are prepared again", error)
            continue
        contents = map(bytes, np.asarray(cache.index["content"]))
        clips |= {content: (cache, clip) for clip, content in enumerate(contents)}
    return clips


def _copy(earlier: tuple[Path, ...], content: bytes) -> _Features | None:
    """Copy the features of a clip from an earlier cache; None if it is new or damaged."""
    cache, clip = _clips_of(earlier).get(content, (None, 0))
    if cache is None:
        return None
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


class _ChunkReader:
    """Reader of the arrays of a chunk; zip files have checksums."""

    def __init__(self, chunk: _Chunk) -> None:
        self._file = chunk.file
        lists = json.loads(self.read("lists").tobytes())
        self.symbols: list[str] = lists["symbols"]
        self.rejections = [Finding(*values) for values in lists["rejections"]]
        self.records = self.read("records")

    def read(self, name: str) -> npt.NDArray[Any]:
        try:
            with np.load(self._file) as arrays:
                array: npt.NDArray[Any] = arrays[name]
                return array
        except (EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise DataError(
                f"{self._file}: this part of the features cannot be read ({error}); delete it, it "
                "will be recreated"
            ) from None


def _join(
    dataset: LJSpeechDataset,
    config: XTTSConfig,
    chunk_files: Sequence[_Chunk],
    folder: Path,
    about: dict[str, str],
) -> None:
    """Join all chunks into one cache: the same bytes whichever process made them."""
    chunks = [_ChunkReader(chunk) for chunk in chunk_files]
    records = np.concatenate([chunk.records for chunk in chunks])
    rows, sounds = records["row"].tolist(), map(bytes, records["sound"])
    duplicates = list(duplicate_audio((dataset[row] for row in rows), sounds))
    rejections = [
        *(Finding(source, "bad row", problem) for source, problem in dataset.bad_rows),
        *(rejection for chunk in chunks for rejection in chunk.rejections),
        *duplicates,
    ]
    reasons = dict(Counter(rejection.reason for rejection in rejections))
    lines = [str(rejection) for rejection in rejections]
    _require_few_rejected(reasons, lines, len(dataset) + len(dataset.bad_rows), config)
    left_out = {rejection.source for rejection in duplicates}
    kept = np.array([dataset[row].source not in left_out for row in rows], bool)
    tokenizer = Tokenizer.learn(
        config.text.tokens,
        {symbol for chunk in chunks for symbol in chunk.symbols},
        {item.language for item in dataset},
        ezafe=config.text.ezafe,
    )
    token_ids = {symbol: index for index, symbol in enumerate(tokenizer.symbols)}

    # Duplicates lose their record and do not count for the level; their arrays stay.
    with atomic_folder(folder) as part:
        for name in PARTS:
            length = int(records[f"{name}_count"].sum())
            first = written = 0
            with open(part / f"{name}.npy", "wb") as stream:
                for chunk in chunks:
                    array = chunk.read(name)
                    joined = records[first : first + len(chunk.records)]
                    first += len(joined)
                    if name == "tokens":
                        array = np.array([token_ids[symbol] for symbol in chunk.symbols])[array]
                        array = array.astype(np.int32)
                        joined["tokens_checksum"] = [
                            checksum(array[start : start + count])
                            for start, count in zip(
                                joined["tokens_start"], joined["tokens_count"], strict=True
                            )
                        ]
                    if not written:
                        write_header(stream, array.dtype, (length, *array.shape[1:]))
                    joined[f"{name}_start"] += written
                    written += len(array)
                    stream.write(array.tobytes())
        level = [0.0, 0.0]
        first = 0
        for chunk in chunks:
            rows_here = slice(first, first + len(chunk.records))
            first += len(chunk.records)
            for place, name in enumerate(("mel_sum", "mel_sum_of_squares")):
                level[place] += _sum_in_order(records[rows_here][kept[rows_here]][name])
        index = records[kept]
        count = int(index["mels_count"].sum()) * config.data.n_mels
        mean = level[0] / count
        save_array(part / "index.npy", index)
        content = {
            "index_checksum": checksum(index),
            "format": CACHE_FORMAT,
            **about,
            "tokens": tokenizer.kind,
            "ezafe": tokenizer.ezafe,
            "symbols": tokenizer.symbols,
            "languages": tokenizer.languages,
            "speakers": sorted({item.speaker for item in dataset}),
            "mel_mean": mean,
            "mel_deviation": float(np.sqrt(max(level[1] / count - mean**2, 1e-12))),
            "rejected": reasons,
            "rejections": lines,
        }
        (part / "cache.json").write_text(
            json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8"
        )
        part.chmod(0o755)


def _sum_in_order(values: npt.NDArray[np.float64]) -> float:
    """Return a sum with the same rounding in every version of Python and NumPy."""
    total = 0.0
    for value in values.tolist():
        total += value
    return total


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
        if not _NAME.fullmatch(file.parent.name) or file.parent.is_symlink():
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
