"""Loads batches with a PyTorch DataLoader or with lhotse. Asked by benchmarks/feeding.py."""

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
        self._features = OnTheFlyFeatures(Fbank(FbankConfig(sampling_rate=rate_hz, num_filters=80)))

    def __getitem__(self, cuts: CutSet) -> tuple[torch.Tensor, torch.Tensor]:
        return self._features(cuts)[:2]


def padded(mels: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.tensor([len(mel) for mel in mels])
    return torch.nn.utils.rnn.pad_sequence(mels, batch_first=True), lengths


def loader_of(kind: str, files: list[str], batch: int, workers: int) -> DataLoader:
    if kind == "dataloader":
        return DataLoader(
            ClipByClip(files),
            batch_size=batch,
            shuffle=True,
            num_workers=workers,
            collate_fn=padded,
            persistent_workers=True,
        )
    recordings = [Recording.from_file(file) for file in files]
    cuts = CutSet.from_cuts(
        MonoCut(id=str(index), start=0, duration=item.duration, channel=0, recording=item)
        for index, item in enumerate(recordings)
    )
    sampler = DynamicBucketingSampler(
        cuts, max_cuts=batch, max_duration=1_000.0, shuffle=True, num_buckets=16
    )
    return DataLoader(
        LhotseBatches(recordings[0].sampling_rate),
        sampler=sampler,
        batch_size=None,
        num_workers=workers,
        persistent_workers=True,
    )


def main() -> None:
    given = json.load(sys.stdin)
    torch.set_num_threads(1)
    loader = loader_of(given["kind"], given["files"], given["batch"], given["workers"])

    def without_end() -> Iterator[Any]:
        while True:
            yield from loader

    batches = without_end()
    # Batches that were prefetched before the clock starts do not count.
    for _ in range(4 * given["workers"]):
        next(batches)
    clips, real, computed, shapes = 0, 0, 0, set()
    started = time.perf_counter()
    while time.perf_counter() - started < given["seconds"]:
        mels, lengths = next(batches)
        clips += len(mels)
        real += int(lengths.sum())
        computed += mels.shape[0] * mels.shape[1]
        shapes.add(tuple(mels.shape))
    rate = clips / (time.perf_counter() - started)
    print(json.dumps({"rate": rate, "real": real / computed, "shapes": len(shapes)}))


if __name__ == "__main__":
    main()
