"""Features of a few clips: the unit of work of a worker, and what a killed run keeps.

    BUILD/000012/   records.npy tokens.npy mels.npy audio.npy texts.npy chunk.json

A chunk is renamed into place, so one that exists is complete, and two processes may safely make the
same one. What was damaged since, as by a power failure, is noticed by its checksums when the chunk
is read. Token ids refer to the chunk's own symbols until all chunks are joined.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.array_files import save_array
from myxtts.data.cache import (
    FULL_SCALE,
    INDEX_TYPE,
    PARTS,
    FeatureCache,
    require_rows,
)
from myxtts.data.checks import CheckedClip, Rejection, check_clip
from myxtts.data.clip_reader import checksum
from myxtts.data.metadata import Utterance
from myxtts.errors import DataError
from myxtts.json_files import read_json
from myxtts.text.tokenizer import EDGE_SYMBOL
from myxtts.whole_files import whole_folder

CLIPS_PER_CHUNK = 64
_READ_BYTES = 1 << 20
_RECORDS = "records"
_NAMES = ("symbols", "rejections", "levels", "checksums")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Level:
    """Sums that give the mean and standard deviation of mel values."""

    count: int = 0
    total: float = 0.0
    total_of_squares: float = 0.0

    @classmethod
    def of_mel(cls, mel: npt.NDArray[np.float16]) -> Level:
        values = mel.astype(np.float64)
        return cls(values.size, float(values.sum()), float(np.square(values).sum()))

    def plus(self, other: Level) -> Level:
        return Level(
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
class Chunk:
    """A chunk, read from disk."""

    records: npt.NDArray[Any]
    arrays: dict[str, npt.NDArray[Any]]
    symbols: tuple[str, ...]
    rejections: tuple[Rejection, ...]
    levels: tuple[Level, ...]
    """One per clip: which clips are kept is known only when all chunks are made."""

    def level_of(self, kept: npt.NDArray[np.bool_]) -> Level:
        """Level of the kept clips."""
        total = Level()
        for level, keep in zip(self.levels, kept, strict=True):
            if keep:
                total = total.plus(level)
        return total


def chunk_folder(build_dir: Path, number: int) -> Path:
    return build_dir / f"{number:06d}"


def chunk_count(clips: int) -> int:
    return -(-clips // CLIPS_PER_CHUNK)


def rows_of_chunk(number: int, clips: int) -> range:
    return range(number * CLIPS_PER_CHUNK, min(clips, (number + 1) * CLIPS_PER_CHUNK))


def read_chunk(build_dir: Path, number: int, rows: range) -> Chunk:
    """The chunk of these rows of the metadata."""
    folder = chunk_folder(build_dir, number)
    try:
        content = read_json(folder / "chunk.json", _NAMES)
        arrays = {name: np.load(folder / f"{name}.npy") for name in PARTS}
        records = np.load(folder / f"{_RECORDS}.npy")
        for name, array in (*arrays.items(), (_RECORDS, records)):
            if content["checksums"].get(name) != checksum(array):
                raise ValueError(f"{name}.npy: checksum mismatch")
        chunk = Chunk(
            records=records,
            arrays=arrays,
            symbols=tuple(content["symbols"]),
            rejections=tuple(Rejection(**fields) for fields in content["rejections"]),
            levels=tuple(Level(*sums) for sums in content["levels"]),
        )
        require_rows(records, arrays)
        if not set(records["row"].tolist()) <= set(rows):
            raise ValueError(f"{_RECORDS}.npy: has other clips")
        return chunk
    # An OSError is for the caller: another process may have joined the chunks and removed them.
    except (EOFError, ValueError, TypeError) as error:
        raise DataError(
            f"{folder}: this part of the features cannot be read ({error}); delete this folder, it "
            "will be recreated"
        ) from None


def make_chunk(
    earlier: EarlierClips,
    build_dir: Path,
    number: int,
    rows: range,
    utterances: Sequence[Utterance],
    speakers: Sequence[str],
    languages: Sequence[str],
    config: XTTSConfig,
) -> int:
    """Makes the chunk of these utterances unless it exists; returns its number of clips."""
    folder = chunk_folder(build_dir, number)
    if folder.is_dir():
        return len(utterances)
    writer = _ChunkWriter(speakers, languages)
    for row, item in zip(rows, utterances, strict=True):
        content = _content_key(item)
        found = earlier.features(content) or _extract(item, config)
        if isinstance(found, Rejection):
            writer.rejections.append(found)
        else:
            writer.add(row, item, content, found)
    try:
        with whole_folder(folder) as part:
            writer.write(part, config.data.n_mels)
    except OSError:
        # Another process may have made the same chunk first.
        if not folder.is_dir():
            raise
    return len(utterances)


class EarlierClips:
    """Clips of earlier caches, by content: their audio file and text."""

    def __init__(self, caches: Sequence[FeatureCache]) -> None:
        self._places = {
            bytes(content): (cache, clip)
            for cache in caches
            for clip, content in enumerate(np.asarray(cache.index["content"]))
        }

    def features(self, content: bytes) -> _Features | None:
        """The features of a clip, or None if it is new or damaged."""
        if content not in self._places:
            return None
        cache, clip = self._places[content]
        try:
            return _Features(
                tuple(cache.tokenizer.symbols[token] for token in cache.clip_tokens(clip)),
                cache.clip_mel(clip),
                cache.clip_audio(clip),
            )
        except (DataError, OSError, IndexError) as error:
            _log.warning("%s: preparing the clip again", error)
            return None


@dataclass(frozen=True)
class _Features:
    symbols: tuple[str, ...]
    mel: npt.NDArray[np.float16]
    samples: npt.NDArray[np.int16]


def _extract(item: Utterance, config: XTTSConfig) -> _Features | Rejection:
    clip = check_clip(item, config)
    return clip.rejections[0] if clip.rejections else _features(clip, config)


def _features(clip: CheckedClip, config: XTTSConfig) -> _Features:
    from myxtts.audio.mel import clip_log_mel

    samples = np.round(np.clip(clip.waveform, -1.0, 1.0) * FULL_SCALE).astype(np.int16)
    # From the quantised samples, so that a data device computes the same mel.
    mel = clip_log_mel(config.audio, config.data.n_mels)(
        np.divide(samples, FULL_SCALE, dtype=np.float32)
    )
    symbols = (EDGE_SYMBOL, *clip.symbols, EDGE_SYMBOL)
    return _Features(symbols, mel.astype(np.float16), samples)


def _content_key(item: Utterance) -> bytes:
    """Key of everything the features depend on except settings: the audio file and the text."""
    digest = hashlib.blake2b(f"{item.language}\n{item.text}\n".encode(), digest_size=16)
    # An unreadable file has no cached features; checking it reports why.
    with contextlib.suppress(OSError), open(item.audio_path, "rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.digest()


class _ChunkWriter:
    def __init__(self, speakers: Sequence[str], languages: Sequence[str]) -> None:
        self._speaker_ids = {name: index for index, name in enumerate(speakers)}
        self._language_ids = {name: index for index, name in enumerate(languages)}
        self._records: list[tuple[Any, ...]] = []
        self._parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in PARTS}
        self._lengths = dict.fromkeys(PARTS, 0)
        self._symbols: dict[str, int] = {}
        self._levels: list[Level] = []
        self.rejections: list[Rejection] = []

    def add(self, row: int, item: Utterance, content: bytes, features: _Features) -> None:
        text, path = item.text.encode(), str(item.audio_path).encode()
        ids = [self._symbols.setdefault(symbol, len(self._symbols)) for symbol in features.symbols]
        parts: dict[str, npt.NDArray[Any]] = {
            "tokens": np.array(ids, np.int32),
            "mels": features.mel,
            "audio": features.samples,
            "texts": np.frombuffer(text + path, np.uint8),
        }
        places: list[int] = []
        for name in PARTS:
            places += [self._lengths[name], len(parts[name])]
            self._lengths[name] += len(parts[name])
            self._parts[name].append(parts[name])
        self._levels.append(Level.of_mel(features.mel))
        self._records.append(
            (
                *places,
                len(text),
                self._speaker_ids[item.speaker],
                self._language_ids[item.language],
                row,
                np.void(content),
                np.void(hashlib.blake2b(features.samples.tobytes(), digest_size=16).digest()),
                *(0 for _ in PARTS),  # checksums are of what is joined
            )
        )

    def write(self, folder: Path, n_mels: int) -> None:
        empty = {
            "tokens": np.zeros(0, np.int32),
            "mels": np.zeros((0, n_mels), np.float16),
            "audio": np.zeros(0, np.int16),
            "texts": np.zeros(0, np.uint8),
        }
        arrays = {_RECORDS: np.array(self._records, INDEX_TYPE)}
        for name in PARTS:
            arrays[name] = np.concatenate([empty[name], *self._parts[name]])
        for name, array in arrays.items():
            save_array(folder / f"{name}.npy", array)
        content = {
            "checksums": {name: checksum(array) for name, array in arrays.items()},
            "symbols": list(self._symbols),
            "rejections": [asdict(rejection) for rejection in self.rejections],
            "levels": [astuple(level) for level in self._levels],
        }
        (folder / "chunk.json").write_text(
            json.dumps(content, ensure_ascii=False), encoding="utf-8"
        )
