"""Every clip decoded once, up front: tokens and mels in a memory-mapped cache on disk.

    CACHE/<fingerprint>/index.npy    one record per clip: where its tokens and frames are
                        tokens.npy   symbol ids of all clips, end to end
                        mels.npy     log-mel frames of all clips, end to end, float16
                        cache.json   symbols, speakers, languages, mel level, rejected clips

The fingerprint covers the rows, the audio files' sizes and times and every setting that changes
a feature, so a cache that is found is a cache that fits. It is written beside its place and
moved there when whole.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import hashlib
import json
import multiprocessing
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import clean_recording, read_audio
from myxtts.config.config import XTTSConfig
from myxtts.data.checks import Rejection, check_clip
from myxtts.data.ljspeech import Utterance
from myxtts.devices.loading import load_tensorflow
from myxtts.errors import DataError
from myxtts.text.tokenizer import Tokenizer, text_symbols

_FORMAT = "myxtts-features-1"
_INDEX_TYPE = np.dtype(
    [
        ("token_start", np.int64),
        ("token_count", np.int32),
        ("frame_start", np.int64),
        ("frame_count", np.int32),
        ("speaker", np.int32),
        ("language", np.int32),
        ("row", np.int32),
    ]
)
_CLIPS_PER_TASK = 16

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class FeatureCache:
    """The prepared clips of one corpus part; arrays are memory-mapped and read on demand."""

    folder: Path
    index: npt.NDArray[Any]
    tokens: npt.NDArray[np.int32]
    mels: npt.NDArray[np.float16]
    tokenizer: Tokenizer
    speakers: tuple[str, ...]
    mel_mean: float
    mel_deviation: float
    rejected: dict[str, int]
    rejections: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.index)

    @property
    def token_counts(self) -> npt.NDArray[np.int32]:
        counts: npt.NDArray[np.int32] = self.index["token_count"]
        return counts

    @property
    def frame_counts(self) -> npt.NDArray[np.int32]:
        counts: npt.NDArray[np.int32] = self.index["frame_count"]
        return counts

    def clip_tokens(self, clip: int) -> npt.NDArray[np.int32]:
        record = self.index[clip]
        return self.tokens[record["token_start"] :][: record["token_count"]]

    def clip_mel(self, clip: int) -> npt.NDArray[np.float16]:
        record = self.index[clip]
        return self.mels[record["frame_start"] :][: record["frame_count"]]


@dataclass(frozen=True)
class _Clip:
    row: int
    symbols: tuple[str, ...]
    mel: npt.NDArray[np.float16]


def prepare(
    utterances: Sequence[Utterance],
    config: XTTSConfig,
    cache_root: Path,
    on_progress: Progress = lambda done, total: None,
) -> FeatureCache:
    """The cache for these utterances: opened when it is there, built when it is not."""
    if not utterances:
        raise DataError("no clips to prepare: the corpus has no rows for this part")
    folder = cache_root / fingerprint(utterances, config)
    if not folder.is_dir():
        _build(utterances, config, folder, on_progress)
    return open_cache(folder)


def open_cache(folder: Path) -> FeatureCache:
    try:
        content = json.loads((folder / "cache.json").read_text(encoding="utf-8"))
        return FeatureCache(
            folder=folder,
            index=np.load(folder / "index.npy", mmap_mode="r"),
            tokens=np.load(folder / "tokens.npy", mmap_mode="r"),
            mels=np.load(folder / "mels.npy", mmap_mode="r"),
            tokenizer=Tokenizer(
                content["tokens"], tuple(content["symbols"]), tuple(content["languages"])
            ),
            speakers=tuple(content["speakers"]),
            mel_mean=content["mel_mean"],
            mel_deviation=content["mel_deviation"],
            rejected=content["rejected"],
            rejections=tuple(content["rejections"]),
        )
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{folder}: the prepared features cannot be read ({error}); "
            "remove this folder, it is made again"
        ) from None


def fingerprint(utterances: Sequence[Utterance], config: XTTSConfig) -> str:
    digest = hashlib.blake2b(digest_size=16)

    def add(value: Any) -> None:
        digest.update(json.dumps(value, ensure_ascii=False, sort_keys=True).encode() + b"\n")

    add([_FORMAT, dataclasses.asdict(config.audio), config.text.tokens, config.data.n_mels])
    for item in utterances:
        try:
            stat = item.audio_path.stat()
            stamp = [stat.st_size, stat.st_mtime_ns]
        except OSError:
            stamp = []
        add([item.id, str(item.audio_path), item.text, item.speaker, item.language, stamp])
    return digest.hexdigest()


def _build(
    utterances: Sequence[Utterance], config: XTTSConfig, folder: Path, on_progress: Progress
) -> None:
    part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
    except OSError as error:
        raise DataError(
            f"{folder.parent}: prepared features cannot be written there ({error.strerror}); "
            "set data.cache_dir to a folder with room"
        ) from None
    try:
        _write_cache(utterances, config, part, on_progress)
        try:
            os.replace(part, folder)
        except OSError:
            # Another process finished the same cache first; theirs is as good as ours.
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_cache(
    utterances: Sequence[Utterance], config: XTTSConfig, part: Path, on_progress: Progress
) -> None:
    speakers = sorted({item.speaker for item in utterances})
    languages = sorted({item.language for item in utterances})
    tokenizer = Tokenizer.learn(config.text.tokens, (), languages)
    records: list[tuple[int, ...]] = []
    token_lists: list[npt.NDArray[np.int32]] = []
    rejections: list[Rejection] = []
    level = _RunningLevel()
    tokens_written = frames_written = 0
    with open(part / "mels.raw", "wb") as mel_file:
        for done, result in enumerate(_extract_all(utterances, config), 1):
            if isinstance(result, Rejection):
                rejections.append(result)
            else:
                item = utterances[result.row]
                tokenizer = tokenizer.grown(result.symbols, ())
                ids = np.array(tokenizer.encode_symbols(result.symbols, item.text), np.int32)
                records.append(
                    (
                        tokens_written,
                        ids.size,
                        frames_written,
                        len(result.mel),
                        speakers.index(item.speaker),
                        languages.index(item.language),
                        result.row,
                    )
                )
                token_lists.append(ids)
                tokens_written += ids.size
                frames_written += len(result.mel)
                mel_file.write(result.mel.tobytes())
                level.add(result.mel)
            on_progress(done, len(utterances))
    _stop_when_too_many_rejected(rejections, len(utterances), config)
    raw = np.memmap(part / "mels.raw", np.float16, "r", shape=(frames_written, config.data.n_mels))
    np.save(part / "mels.npy", raw)
    (part / "mels.raw").unlink()
    np.save(part / "tokens.npy", np.concatenate(token_lists))
    np.save(part / "index.npy", np.array(records, _INDEX_TYPE))
    content = {
        "format": _FORMAT,
        "tokens": tokenizer.kind,
        "symbols": tokenizer.symbols,
        "languages": languages,
        "speakers": speakers,
        "mel_mean": level.mean,
        "mel_deviation": level.deviation,
        "rejected": dict(Counter(rejection.reason for rejection in rejections)),
        "rejections": [str(rejection) for rejection in rejections],
    }
    (part / "cache.json").write_text(
        json.dumps(content, ensure_ascii=False, indent=1), encoding="utf-8"
    )


def _stop_when_too_many_rejected(
    rejections: Sequence[Rejection], clips: int, config: XTTSConfig
) -> None:
    limit = config.data.max_rejected_fraction
    if len(rejections) == clips or len(rejections) > limit * clips:
        reasons = Counter(rejection.reason for rejection in rejections)
        counted = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
        raise DataError(
            f"{len(rejections)} of {clips} clips cannot be used ({counted}), more than "
            f"data.max_rejected_fraction = {limit:g} allows; the first is {rejections[0]}"
        )


def _extract_all(
    utterances: Sequence[Utterance], config: XTTSConfig
) -> Iterator[_Clip | Rejection]:
    """Features in the order of the rows, from worker processes when there is enough to do."""
    workers = min(config.data.workers or os.cpu_count() or 1, len(utterances) // _CLIPS_PER_TASK)
    rows = list(enumerate(utterances))
    if workers <= 1:
        yield from (_extract(row, item, config) for row, item in rows)
        return
    tasks = [
        rows[first : first + _CLIPS_PER_TASK] for first in range(0, len(rows), _CLIPS_PER_TASK)
    ]
    # TensorFlow's threads do not survive a fork, so every worker starts afresh.
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_use_one_thread
    ) as pool:
        for results in pool.map(_extract_many, tasks, [config] * len(tasks)):
            yield from results


def _use_one_thread() -> None:
    """Workers run side by side; threads of each would only stand in one another's way."""
    load_tensorflow()
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def _extract_many(
    rows: Sequence[tuple[int, Utterance]], config: XTTSConfig
) -> list[_Clip | Rejection]:
    return [_extract(row, item, config) for row, item in rows]


def _extract(row: int, item: Utterance, config: XTTSConfig) -> _Clip | Rejection:
    from myxtts.audio.mel import log_mel

    try:
        symbols = text_symbols(item.text, item.language, config.text.tokens)
        waveform = read_audio(item.audio_path, config.audio.sample_rate_hz)
    except DataError as error:
        reason = "unreadable audio" if item.audio_path.exists() else "missing audio"
        return Rejection(item.source, reason, str(error))
    waveform = clean_recording(waveform, config.audio)
    rejection = check_clip(item, symbols, waveform.size, config)
    if rejection is not None:
        return rejection
    mel = log_mel(waveform, config.audio, config.data.n_mels).numpy().astype(np.float16)
    return _Clip(row, symbols, mel)


class _RunningLevel:
    """Mean and deviation of all mel values, one clip at a time."""

    def __init__(self) -> None:
        self._count = 0
        self._sum = 0.0
        self._sum_of_squares = 0.0

    def add(self, mel: npt.NDArray[np.float16]) -> None:
        values = mel.astype(np.float64)
        self._count += values.size
        self._sum += float(values.sum())
        self._sum_of_squares += float(np.square(values).sum())

    @property
    def mean(self) -> float:
        return self._sum / self._count

    @property
    def deviation(self) -> float:
        return float(np.sqrt(max(self._sum_of_squares / self._count - self.mean**2, 1e-12)))
