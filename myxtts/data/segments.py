"""Data of vocoder training: segments of recordings with their mels, and predicted mels on disk.

Segments are augmented, so that the vocoder generalizes to any voice and recording. Unlike in
`data.batch`, the samples themselves are changed, both the input and the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import soxr
import tensorflow as tf

from myxtts.audio.mel import (
    LOG_FLOOR,
    log_mel_of_frames,
    mel_weights,
    padded_samples,
    padding_samples,
    span_samples,
    used_bins,
    window_start,
)
from myxtts.config.config import AugmentationConfig, XTTSConfig
from myxtts.data.batch import NOISE_RANGE_DB, tone_curves
from myxtts.data.cache import FULL_SCALE, FeatureCache, mapped, write_header
from myxtts.data.corpus import CorpusPart
from myxtts.data.pipeline import BatchSource
from myxtts.data.schedule import Stream, generator_at
from myxtts.data.shapes import IntArray, ShapePlan
from myxtts.errors import DataError
from myxtts.files import atomic_file

_TONE_BANDS = 64

FloatArray = npt.NDArray[np.float32]


class SegmentBatch(NamedTuple):
    samples: Any  # float32 [batch, samples from the first to the last frame]
    mel: Any  # float32 [batch, frames, mels]
    predicted_mel: Any  # the same by a model; without frames if there is none
    frame_counts: Any  # int32 [batch]: frames up to the end of the clip


class PaddedSegments(NamedTuple):
    """Samples with half a window before and after, to compute mels from."""

    samples: Any  # float32 [batch, samples]
    predicted_mel: Any  # float32 [batch, frames, mels]; without frames if there is none
    frame_counts: Any  # int32 [batch]


class SegmentLoader:
    """Loader of a random segment of each clip, with its predicted mel, if given."""

    def __init__(
        self, part: CorpusPart, config: XTTSConfig, predicted_mels: ClipMels | None = None
    ) -> None:
        self._cache = part.cache
        self._predicted_mels = predicted_mels
        self._n_mels = config.data.n_mels
        self._audio = config.audio
        self._augmentation = config.augmentation
        self._frames = config.vocoder.frames_per_segment
        self._width = _padded_width(config)

    def load(
        self, clips: IntArray, seeds: npt.NDArray[np.int64], *, is_changed: bool
    ) -> PaddedSegments:
        """Load segments, changed at random if `is_changed`; there is a seed for each clip.

        With predicted mels segments are not changed, because the mels would not fit.
        """
        is_changed = is_changed and self._predicted_mels is None
        max_pitch = 2.0 ** (self._augmentation.pitch_semitones / 12) if is_changed else 1
        width = math.ceil(self._width * max_pitch)
        segments, mels, frame_counts = [], [], []
        for clip, seed in zip(clips.tolist(), seeds.tolist(), strict=True):
            generator = np.random.default_rng(seed)
            frames_there = int(self._cache.index["mels_count"][clip])
            start = int(generator.integers(max(0, frames_there - self._frames) + 1))
            samples = self._samples(clip, start, width)
            if is_changed:
                samples = changed_segment(samples, generator, self._augmentation)
            segments.append(samples[: self._width])
            mels.append(self._predicted_mel(clip, start))
            frame_counts.append(min(frames_there - start, self._frames))
        return PaddedSegments(np.stack(segments), np.stack(mels), np.array(frame_counts, np.int32))

    def _predicted_mel(self, clip: int, first_frame: int) -> npt.NDArray[np.float32]:
        """Return the predicted mel, with silence after the end of the clip."""
        if self._predicted_mels is None:
            return np.zeros((0, self._n_mels), np.float32)
        found = self._predicted_mels.of(clip, first_frame, self._frames)
        mel = np.full((self._frames, self._n_mels), np.log(LOG_FLOOR), np.float32)
        mel[: len(found)] = found
        return mel

    def _samples(self, clip: int, first_frame: int, width: int) -> npt.NDArray[np.float32]:
        """Return samples from half a window before the first frame, zeros outside the clip."""
        first = window_start(first_frame, self._audio)
        place = max(0, -first)
        samples = np.zeros(width, np.float32)
        there = self._cache.part_of(clip, "audio", max(0, first), width - place)
        samples[place : place + there.size] = there
        return samples / np.float32(FULL_SCALE)


class SegmentSource(BatchSource):
    """Segments of the clips of each step, with mels computed from their samples."""

    computes_features = True

    def __init__(
        self,
        part: CorpusPart,
        config: XTTSConfig,
        predicted_mels: ClipMels | None = None,
        *,
        data_device: str | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        super().__init__(part, config, data_device=data_device, worker=worker, workers=workers)
        self._loader = SegmentLoader(part, config, predicted_mels)
        numbers = _padded_width(config) + config.vocoder.frames_per_segment * config.data.n_mels
        self.largest_batch_bytes = 4 * part.plan.shapes[0].batch * numbers

    @property
    def signature(self) -> PaddedSegments:
        width = _padded_width(self._config)
        return PaddedSegments(
            tf.TensorSpec([None, width], tf.float32),
            _predicted_mel_spec(self._config, None),
            tf.TensorSpec([None], tf.int32),
        )

    def load(self, step: int) -> PaddedSegments:
        clips = self._schedule.batch_at(step).clips
        generator = generator_at(self._config.training.seed, Stream.SEGMENTS, step)
        seeds = generator.integers(1 << 62, size=clips.size)
        worker, workers = self._place
        clips, seeds = np.split(clips, workers)[worker], np.split(seeds, workers)[worker]
        return self._loader.load(clips, seeds, is_changed=True)

    def _compile_features(self) -> Callable[[PaddedSegments], SegmentBatch]:
        features: Callable[[PaddedSegments], SegmentBatch] = tf.function(
            lambda segments: with_mels(segments, self._config),
            input_signature=[self.signature],
            autograph=False,
        )
        return features


def with_mels(segments: PaddedSegments, config: XTTSConfig) -> SegmentBatch:
    """Compute the mels of segments from their samples."""
    audio = config.audio
    before, _ = padding_samples(audio)
    span = span_samples(config.vocoder.frames_per_segment, audio)
    weights = mel_weights(audio, config.data.n_mels)
    frames = tf.signal.frame(segments.samples, audio.fft_samples, audio.hop_samples)
    return SegmentBatch(
        segments.samples[:, before : before + span],
        log_mel_of_frames(frames, weights[: used_bins(weights)]),
        segments.predicted_mel,
        segments.frame_counts,
    )


def segment_signature(config: XTTSConfig, plan: ShapePlan | None = None) -> SegmentBatch:
    frames = config.vocoder.frames_per_segment
    size = None if plan is None else plan.shapes[0].batch
    return SegmentBatch(
        tf.TensorSpec([size, span_samples(frames, config.audio)], tf.float32),
        tf.TensorSpec([size, frames, config.data.n_mels], tf.float32),
        _predicted_mel_spec(config, size),
        tf.TensorSpec([size], tf.int32),
    )


def _predicted_mel_spec(config: XTTSConfig, size: int | None) -> tf.TensorSpec:
    frames = config.vocoder.frames_per_segment if config.vocoder.mels_from else 0
    return tf.TensorSpec([size, frames, config.data.n_mels], tf.float32)


def _padded_width(config: XTTSConfig) -> int:
    span = span_samples(config.vocoder.frames_per_segment, config.audio)
    return padded_samples(span, config.audio)


def changed_segment(
    samples: FloatArray, generator: np.random.Generator, settings: AugmentationConfig
) -> FloatArray:
    """Change a segment at random.

    A higher pitch shortens it by the same factor; a lower one cuts off its end.
    """
    pitch = float(2.0 ** (settings.pitch_semitones * generator.uniform(-1.0, 1.0) / 12))
    gain_db = settings.gain_db * generator.uniform(-1.0, 1.0)
    curves = tone_curves(_TONE_BANDS)
    tone_db = settings.tone_db * (generator.uniform(-1.0, 1.0, len(curves)) @ curves)
    softer_db = generator.uniform(0.0, NOISE_RANGE_DB)
    noise = None
    if settings.noise_dbfs is not None:
        level = np.float32(10 ** ((settings.noise_dbfs - softer_db) / 20))
        noise = level * generator.standard_normal(samples.size, np.float32)
    if pitch != 1.0:
        samples = soxr.resample(samples, pitch, 1.0)[: samples.size]
    if settings.tone_db:
        spectrum = np.fft.rfft(samples)
        places = np.linspace(0, _TONE_BANDS - 1, spectrum.size)
        curve_db = np.interp(places, np.arange(_TONE_BANDS), tone_db)
        shaped = np.fft.irfft(spectrum * 10 ** (curve_db / 20), samples.size)
        samples = shaped.astype(np.float32)
    samples = samples * np.float32(10 ** (gain_db / 20))
    return samples if noise is None else samples + noise[: samples.size]


class ClipMels:
    """Mels of all clips in a file of their own: [frames, mels], float16, clip after clip."""

    def __init__(self, file: Path, cache: FeatureCache, n_mels: int) -> None:
        self._file = file
        ends = np.cumsum(cache.frame_counts, dtype=np.int64)
        # Clips that were rejected leave gaps in the arrays of a cache, and none here.
        self._starts = (ends - cache.frame_counts).tolist()
        self._counts = cache.frame_counts.tolist()
        try:
            self._rows = mapped(file)
            expected = (int(ends[-1]), n_mels)
            if self._rows.shape != expected:
                raise ValueError(f"shape {self._rows.shape}, expected {expected}")
        except ValueError as error:
            raise self._damaged(str(error)) from None

    def of(self, clip: int, first: int = 0, count: int | None = None) -> npt.NDArray[np.float16]:
        """Return the frames of a clip, or at most `count` from the `first` on."""
        frames = self._counts[clip]
        last = frames if count is None else min(first + count, frames)
        start = self._starts[clip]
        mel = self._rows[start + first : start + last]
        if not np.isfinite(mel).all():
            raise self._damaged("has values that are not finite")
        return mel

    def _damaged(self, how: str) -> DataError:
        return DataError(f"{self._file}: {how}; delete it, it will be recreated")


def write_clip_mels(
    file: Path, cache: FeatureCache, n_mels: int, mels: Iterable[npt.NDArray[np.float32]]
) -> None:
    with atomic_file(file) as stream:
        write_header(stream, np.float16, (int(cache.frame_counts.sum()), n_mels))
        for mel in mels:
            stream.write(mel.astype(np.float16).tobytes())
