"""A synthetic corpus of any size: lengths are drawn like LJSpeech's, the audio is one clip.

Its features are in its cache and it has no audio files.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

from myxtts.config.config import XTTSConfig
from myxtts.data.cache import (
    CACHE_FORMAT,
    INDEX_TYPE,
    checksum,
    fingerprint,
    open_cache,
    settings_fingerprint,
)
from myxtts.data.corpus import cache_root, read_subset, remember
from myxtts.data.statistics import typical_lengths

_SYMBOLS = ("<padding>", "<edge>", *"abcdefghij")
_VALIDATION_CLIPS = 16


def write_corpus(folder: Path, rows: int, *, speakers: int = 1) -> None:
    folder.mkdir()
    for part, count in (("train", rows), ("eval", _VALIDATION_CLIPS)):
        lines = (
            f"clip{row:08d}|some words of text number {row}|speaker{row % speakers}"
            for row in range(count)
        )
        text = "audio_file|text|speaker_name\n" + "\n".join(lines) + "\n"
        (folder / f"metadata_{part}.csv").write_text(text)
    for part, count in (("train", rows), ("eval", _VALIDATION_CLIPS)):
        _write_features(folder, part, count, speakers)


def _write_features(folder: Path, part: str, count: int, speakers: int) -> None:
    config = XTTSConfig(train_data=str(folder))
    clips = typical_lengths(count)
    index = np.zeros(count, INDEX_TYPE)
    index["tokens_count"], index["mels_count"] = clips.token_counts, clips.frame_counts
    index["ends_count"] = clips.token_counts
    index["speaker"] = index["row"] = np.arange(count)
    index["speaker"] %= speakers
    generator = np.random.default_rng(0)
    tokens = generator.integers(2, len(_SYMBOLS), clips.token_counts.max()).astype(np.int32)
    mels = generator.normal(size=(clips.frame_counts.max(), config.data.n_mels))
    arrays = {
        "tokens": tokens,
        "ends": np.zeros(clips.token_counts.max(), np.float32),
        "mels": mels.astype(np.float16),
        "audio": np.zeros(1, np.int16),
        "texts": np.zeros(1, np.uint8),
    }
    dataset = read_subset(config, part)
    cache = cache_root(config, folder) / fingerprint(dataset, config)
    cache.mkdir(parents=True)
    for name, array in arrays.items():
        index[f"{name}_checksum"] = _checksums_of_beginnings(array, index[f"{name}_count"])
        np.save(cache / f"{name}.npy", array)
    np.save(cache / "index.npy", index)
    content = {
        "format": CACHE_FORMAT,
        "index_checksum": checksum(index),
        "settings": settings_fingerprint(config),
        "source": "",
        "description": "",
        "tokens": "phonemes",
        "ezafe": config.text.ezafe,
        "symbols": _SYMBOLS,
        "languages": ["en"],
        "speakers": [f"speaker{number}" for number in range(speakers)],
        "mel_mean": 0.0,
        "mel_deviation": 1.0,
        "rejected": {},
        "rejections": [],
    }
    (cache / "cache.json").write_text(json.dumps(content))
    remember(dataset, config, open_cache(cache))


def _checksums_of_beginnings(
    array: npt.NDArray[np.generic], counts: npt.NDArray[np.int32]
) -> npt.NDArray[np.uint32]:
    distinct, which = np.unique(counts, return_inverse=True)
    checksums: npt.NDArray[np.uint32] = np.array(
        [checksum(array[:count]) for count in distinct], np.uint32
    )[which]
    return checksums
