"""Batches per second of other data loaders; run by `pipeline.py --parts peers`.

Reads the audio file names of a corpus as a JSON list from standard input. Needs the packages of the
`benchmark` extra, but not the project itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import librosa
import numpy as np
import soundfile
import torch
from lhotse import CutSet, Fbank, FbankConfig, MonoCut, Recording
from lhotse.dataset import DynamicBucketingSampler, OnTheFlyFeatures
from torch.utils.data import DataLoader, Dataset

_BATCH = 16
_WORKERS = 2


class ClipByClip(Dataset):
    """Reads a file and computes its mel, clip by clip, as most trainers do."""

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> torch.Tensor:
        samples, rate_hz = soundfile.read(self._files[index], dtype="float32")
        mel = librosa.feature.melspectrogram(
            y=samples, sr=rate_hz, n_fft=1_024, hop_length=256, n_mels=80, fmax=8_000
        )
        return torch.from_numpy(np.log(np.maximum(mel.T, 1e-5)))


class LhotseBatches(Dataset):
    def __init__(self, rate_hz: int) -> None:
        config = FbankConfig(sampling_rate=rate_hz, num_filters=80)
        self._features = OnTheFlyFeatures(Fbank(config))

    def __getitem__(self, cuts: CutSet) -> torch.Tensor:
        return self._features(cuts)[0]


def padded(mels: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(mels, batch_first=True)


def batches_per_second(loader: DataLoader, seconds: float) -> float:
    def without_end() -> Iterator[Any]:
        while True:
            yield from loader

    batches = without_end()
    # Batches prefetched before timing starts are discarded first.
    for _ in range(4 * _WORKERS):
        next(batches)
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        next(batches)
        count += 1
    return count / (time.perf_counter() - started)


def main() -> None:
    files, seconds = json.loads(sys.stdin.read()), float(sys.argv[1])
    torch.set_num_threads(1)
    clip_by_clip = DataLoader(
        ClipByClip(files),
        batch_size=_BATCH,
        shuffle=True,
        num_workers=_WORKERS,
        collate_fn=padded,
        persistent_workers=True,
    )
    recordings = [Recording.from_file(file) for file in files]
    cuts = CutSet.from_cuts(
        MonoCut(id=str(index), start=0, duration=item.duration, channel=0, recording=item)
        for index, item in enumerate(recordings)
    )
    sampler = DynamicBucketingSampler(
        cuts, max_cuts=_BATCH, max_duration=1_000.0, shuffle=True, num_buckets=16
    )
    lhotse_batches = DataLoader(
        LhotseBatches(recordings[0].sampling_rate),
        sampler=sampler,
        batch_size=None,
        num_workers=_WORKERS,
        persistent_workers=True,
    )
    found = {
        "PyTorch DataLoader, a mel per clip": batches_per_second(clip_by_clip, seconds),
        "lhotse, features on the fly": batches_per_second(lhotse_batches, seconds),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
