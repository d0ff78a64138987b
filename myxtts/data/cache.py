"""The feature cache that training reads: a few large arrays for any corpus size.

    CACHE/<fingerprint>/index.npy    one record per clip: offsets, lengths and checksums
                        tokens.npy   symbol ids of all clips, concatenated
                        ends.npy     where each symbol ends, as a fraction of its clip; zeros
                                     where that is not known
                        mels.npy     log-mel frames of all clips, concatenated, float16
                        audio.npy    samples of all clips, concatenated, int16
                        texts.npy    texts and audio paths, UTF-8, concatenated
                        cache.json   symbols, speakers, languages, mel level, rejected clips

A cache is immutable: `data.features` writes it to a temporary folder and renames it. Later damage
is detected by checksums: of the index when it is opened, of a clip when it is first read.
"""

from __future__ import annotations

import functools
import hashlib
import re
import zlib
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from myxtts.data.shapes import Clips
from myxtts.errors import DataError
from myxtts.files import read_json
from myxtts.text.tokenizer import Tokenizer

CACHE_FORMAT = "myxtts-features-5"
# The stored value of a sample of 1.0.
FULL_SCALE = 32_767
_NAME = re.compile("[0-9a-f]{32}")
_NAMES = (
    *("format", "tokens", "ezafe", "symbols", "languages", "speakers", "mel_mean", "mel_deviation"),
    *("rejected", "rejections", "description", "index_checksum"),
)
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
        *((f"{part}_checksum", np.uint32) for part in PARTS),
    ]
)
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class FeatureCache:
    """The prepared clips of a subset of a corpus; features are read on demand."""

    folder: Path
    index: npt.NDArray[Any]
    reader: ClipReader
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
        """Return rows of a part of a clip: all, or `count` from the `first` on. Read only."""
        try:
            return self.reader.read(clip, part, first, count)
        except DamagedClipError:
            raise self.damaged([clip]) from None

    def damaged(self, clips: Iterable[int]) -> DataError:
        """Return the error for damaged clips."""
        names = []
        for clip in list(clips)[:3]:
            try:
                names.append(str(Path(self._texts(clip)[1])))
            except (DamagedClipError, UnicodeDecodeError, DataError):
                names.append(f"clip {clip}")
        return DataError(
            f"{self.folder}: the prepared features of {', '.join(names)} are damaged; delete this "
            "folder, it will be recreated"
        )

    def _checked_texts(self, clip: int) -> tuple[str, str]:
        try:
            return self._texts(clip)
        except (DamagedClipError, UnicodeDecodeError):
            raise self.damaged([clip]) from None

    def _texts(self, clip: int) -> tuple[str, str]:
        content = self.reader.read(clip, "texts").tobytes()
        length = int(self.index[clip]["text_bytes"])
        return content[:length].decode(), content[length:].decode()


def open_cache(folder: Path) -> FeatureCache:
    try:
        content = read_json(folder / "cache.json", _NAMES)
        if content["format"] != CACHE_FORMAT:
            raise ValueError(f"format {content['format']}")
        index = np.load(folder / "index.npy")
        if checksum(index) != content["index_checksum"]:
            raise ValueError("index.npy: checksum mismatch")
        arrays = {part: mapped(folder / f"{part}.npy") for part in PARTS}
        require_rows(index, arrays)
        return FeatureCache(
            folder=folder,
            index=index,
            reader=ClipReader(index, arrays),
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


def require_rows(index: npt.NDArray[Any], arrays: Mapping[str, Sized]) -> None:
    """Raise a ValueError unless the arrays contain all clips of an index."""
    for part, array in arrays.items():
        starts, counts = index[f"{part}_start"], index[f"{part}_count"].astype(np.int64)
        rows = len(array)
        if not ((starts >= 0) & (counts >= 0) & (starts <= rows - counts)).all():
            raise ValueError(f"{part}.npy: has fewer rows than its index says")


def is_cache_name(name: str) -> bool:
    """Return whether a folder has the name of a cache: a fingerprint."""
    return _NAME.fullmatch(name) is not None


class DamagedClipError(Exception):
    """Checksum mismatch: a clip is not what was prepared."""

    def __init__(self, clip: int) -> None:
        super().__init__(f"clip {clip}: checksum mismatch")
        self.clip = clip


class ClipReader:
    """Reader of clips from memory-mapped files, or from memory once `hold` has copied a part.

    Several threads may read.
    """

    def __init__(self, index: npt.NDArray[Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._index = index
        self._arrays = arrays
        # Two threads may verify the same clip, which is harmless.
        self._verified = {part: np.zeros(len(index), bool) for part in arrays}
        self._held: dict[str, npt.NDArray[Any]] = {}

    def nbytes(self, part: str) -> int:
        return self._arrays[part].nbytes

    def row_shape(self, part: str) -> tuple[int, ...]:
        return self._arrays[part].shape[1:]

    def is_held(self, part: str) -> bool:
        return part in self._held

    def read(
        self, clip: int, part: str, first: int = 0, count: int | None = None
    ) -> npt.NDArray[Any]:
        """Return rows of a part of a clip, each part verified when it is first read."""
        record = self._index[clip]
        start, length = int(record[f"{part}_start"]), int(record[f"{part}_count"])
        stop = length if count is None else min(length, first + count)
        if not self._verified[part][clip]:
            whole = self._rows(part, start, start + length)
            self._verify(clip, part, whole)
            return whole[first:stop]
        return self._rows(part, start + first, start + max(first, stop))

    def hold(self, part: str, is_stopped: Any = lambda: False) -> None:
        """Load a whole part into memory and read from there afterwards."""
        array = self._arrays[part]
        copy = np.empty_like(array)
        for start in range(0, len(array), _ROWS_AT_ONCE):
            if is_stopped():
                return
            stop = min(len(array), start + _ROWS_AT_ONCE)
            copy[start:stop] = array[start:stop]
        copy.flags.writeable = False
        self._held[part] = copy

    def _rows(self, part: str, start: int, stop: int) -> npt.NDArray[Any]:
        return self._held.get(part, self._arrays[part])[start:stop]

    def _verify(self, clip: int, part: str, rows: npt.NDArray[Any]) -> None:
        if checksum(rows) != int(self._index[clip][f"{part}_checksum"]):
            raise DamagedClipError(clip)
        self._verified[part][clip] = True


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
