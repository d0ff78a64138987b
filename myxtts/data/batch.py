"""Batches of static shape, assembled from the feature cache, with augmentation.

A batch has cached mels, or samples from which `compile_features` computes mels on a device. Without
augmentation both give the same mels. Augmentation is a pure function of (seed, step). It never
resamples the waveform: speed changes the hop between frames, pitch shifts the frequencies of the
mel bands, tone scales the bands, and formants are moved in the mel itself.

Speed, pitch, formants and tone belong to the voice, so a clip and its reference get the same ones.
Gain and noise are applied to the reference only: the model should recognize a voice in a bad
recording, not learn to sound like one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel import (
    cosines_over_bands,
    formant_weights,
    frames_in_padded,
    log_mel_of_frames,
    mel_weights,
    padded_samples,
    span_samples,
    used_bins,
    window_start,
)
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.cache import FULL_SCALE, FeatureCache
from myxtts.data.schedule import PlannedBatch, Stream, generator_at
from myxtts.data.shapes import IntArray, Shape, ShapePlan, round_up
from myxtts.text.tokenizer import PADDING_ID, Tokenizer

# Number of evenly spaced pitch and formant factors; each needs its own weight matrix.
_PITCHES = 33
_FORMANTS = 17
# Number of cosines in a tone curve; higher ones have smaller amplitudes.
_TONE_WAVES = 4
# Noise levels range from the maximum down to this much below it.
NOISE_RANGE_DB = 20.0
NOISE_SAMPLES = 1 << 19
# With changed speed, frames start at multiples of a block; a hop has at least this many blocks. A
# frame is then gathered from a few contiguous blocks.
_BLOCKS_PER_HOP = 4

FloatArray = npt.NDArray[np.float32]


class Changes(NamedTuple):
    """Augmentation of each clip of a batch."""

    speed: Any  # float32: speed factor
    pitch: Any  # int32: index into Augmentation.pitches
    formants: Any  # int32: index into Augmentation.formants
    tone: Any  # float32 [mels]: added to each band of the log-mel
    gain: Any  # float32: gain of the reference
    noise: Any  # float32: standard deviation of the reference's noise
    noise_start: Any  # int32: offset into Augmentation.noise()

    def part(self, worker: int, workers: int) -> Changes:
        """Return the rows of one worker in multi-worker training."""
        size = len(self.speed) // workers
        return Changes(*(values[worker * size : (worker + 1) * size] for values in self))


class Augmentation:
    def __init__(self, config: XTTSConfig) -> None:
        settings = config.augmentation
        self._seed = config.training.seed
        self._frames_per_position = config.model.frames_per_position
        self._speed = settings.speed
        self._tone_curves = tone_curves(config.data.n_mels) * settings.tone_db
        self._gain_db = settings.gain_db
        self._noise_dbfs = settings.noise_dbfs
        semitones = settings.pitch_semitones
        steps = np.linspace(-semitones, semitones, _PITCHES) if semitones else np.zeros(1)
        self.pitches = tuple(float(factor) for factor in 2.0 ** (steps / 12.0))
        share = settings.formants
        self.formants = tuple(np.linspace(1.0 - share, 1.0 + share, _FORMANTS if share else 1))
        self.is_on = bool(
            self._speed
            or semitones
            or share
            or settings.tone_db
            or self._gain_db
            or self._noise_dbfs is not None
        )

    @property
    def max_speed(self) -> float:
        return 1.0 + self._speed

    def changes(
        self, step: int, token_counts: IntArray, frame_counts: IntArray, max_frames: int
    ) -> Changes:
        """Draw the augmentation of a step.

        Speeds are limited so that a clip fits its shape and has a position per token.
        """
        generator = generator_at(self._seed, Stream.AUGMENTATION, step)
        count = len(frame_counts)
        slowest = (frame_counts - 1) / max(max_frames - 1, 1)
        min_frames = token_counts * self._frames_per_position
        fastest = (frame_counts - 1) / np.maximum(min_frames - 1, 1)
        wished = 1.0 + self._speed * generator.uniform(-1.0, 1.0, count)
        gain_db = generator.uniform(-self._gain_db, self._gain_db, count)
        softer_db = generator.uniform(0.0, NOISE_RANGE_DB, count)
        pitch = generator.integers(len(self.pitches), size=count)
        noise_start = generator.integers(NOISE_SAMPLES, size=count)
        formants = generator.integers(len(self.formants), size=count)
        tone_db = generator.uniform(-1.0, 1.0, (count, _TONE_WAVES)) @ self._tone_curves
        noise = np.zeros(count)
        if self._noise_dbfs is not None:
            noise = 10.0 ** ((self._noise_dbfs - softer_db) / 20.0)
        return Changes(
            speed=np.clip(wished, np.minimum(slowest, 1.0), np.maximum(fastest, 1.0)).astype(
                np.float32
            ),
            pitch=pitch.astype(np.int32),
            formants=formants.astype(np.int32),
            tone=(tone_db / 20.0 * np.log(10.0)).astype(np.float32),
            gain=(10.0 ** (gain_db / 20.0)).astype(np.float32),
            noise=noise.astype(np.float32),
            noise_start=noise_start.astype(np.int32),
        )

    def noise(self) -> FloatArray:
        """Return white noise of unit variance, from which each reference gets a random excerpt."""
        generator = generator_at(self._seed, Stream.NOISE)
        return generator.standard_normal(NOISE_SAMPLES, np.float32)


def tone_curves(n_mels: int) -> npt.NDArray[np.float64]:
    """Return [waves, mels]: cosines over the bands whose amplitudes sum to one."""
    waves = np.arange(1, _TONE_WAVES + 1)
    return cosines_over_bands(waves, n_mels) / waves[:, None] / np.sum(1 / waves)


def frames_at_speed(frame_counts: IntArray, speed: Any) -> IntArray:
    """Return the mel frames of clips at `speed` times their speed."""
    # Rounding a speed to float32 must not change the frame count.
    return (np.floor((frame_counts - 1) / np.float64(speed) + 1e-4) + 1).astype(np.int32)


class Batch(NamedTuple):
    """The input of a training step: arrays, tensors or tensor specs.

    Mels are log-mels from `audio.mel`.
    """

    token_ids: Any  # [batch, tokens] int32
    token_lengths: Any  # [batch] int32
    token_ends: Any  # [batch, tokens] float32: as a fraction of the clip; zeros where unknown
    slots: Any  # [shares, slots] int32: packed texts, see models.layers
    mel: Any  # [batch, frames, mels] float32
    mel_lengths: Any  # [batch] int32
    reference: Any  # [batch, reference frames, mels] float32: the same voice, another clip
    reference_lengths: Any  # [batch] int32
    language_ids: Any  # [batch] int32


class WaveformBatch(NamedTuple):
    """A batch with samples instead of mels."""

    token_ids: Any  # [batch, tokens] int32
    token_lengths: Any  # [batch] int32
    token_ends: Any  # [batch, tokens] float32
    slots: Any  # [shares, slots] int32
    samples: Any  # [batch, samples] int16, starting half a window before the first frame
    mel_lengths: Any  # [batch] int32
    reference_samples: Any  # [batch, samples] int16, likewise
    reference_lengths: Any  # [batch] int32
    language_ids: Any  # [batch] int32
    changes: Changes


class BatchLoader:
    """Loader that copies the clips of a planned batch from the cache into padded arrays."""

    def __init__(self, cache: FeatureCache, tokenizer: Tokenizer, config: XTTSConfig) -> None:
        if cache.arrays["mels"].shape[1:] != (config.data.n_mels,):
            raise cache.damaged(range(len(cache)))
        self._cache = cache
        self._audio = config.audio
        self._n_mels = config.data.n_mels
        self._reference_frames = config.model.reference_frames
        self._augmentation = Augmentation(config)
        # Maps the cache's own symbol and language ids to those of the run's tokenizer.
        self._token_ids = np.array(
            [tokenizer.symbols.index(symbol) for symbol in cache.tokenizer.symbols], np.int32
        )
        self._language_ids = np.array(
            [tokenizer.language_id(language) for language in cache.tokenizer.languages], np.int32
        )

    def token_ids(self, clip: int) -> npt.NDArray[np.int32]:
        return self._token_ids[self._cache.clip_tokens(clip)]

    def language_id(self, clip: int) -> int:
        return int(self._language_ids[self._cache.index[clip]["language"]])

    def load(self, planned: PlannedBatch) -> Batch:
        """Load a batch with cached mels."""
        starts, lengths = self._references(planned)
        return Batch(
            **self._texts(planned),
            mel=self._mels(
                planned.clips, 0, self._frame_counts(planned.clips), planned.shape.frames
            ),
            mel_lengths=self._frame_counts(planned.clips),
            reference=self._mels(planned.references, starts, lengths, self._reference_frames),
            reference_lengths=lengths,
        )

    def load_waveforms(self, planned: PlannedBatch, changes: Changes) -> WaveformBatch:
        """Load a batch with cached samples and their augmentation, to compute mels from."""
        audio = self._audio
        starts, lengths = self._references(planned, changes.speed)
        max_speed = self._augmentation.max_speed
        reference_span = span_samples(self._reference_frames, audio) * max_speed
        return WaveformBatch(
            **self._texts(planned),
            samples=self._samples(planned.clips, 0, span_samples(planned.shape.frames, audio)),
            mel_lengths=frames_at_speed(self._frame_counts(planned.clips), changes.speed),
            reference_samples=self._samples(planned.references, starts, reference_span),
            reference_lengths=lengths,
            changes=changes,
        )

    def changes(self, step: int, planned: PlannedBatch) -> Changes:
        """Return the augmentation of the clips of a step."""
        records = self._cache.index[planned.clips]
        return self._augmentation.changes(
            step, records["tokens_count"], records["mels_count"], planned.shape.frames
        )

    def _frame_counts(self, clips: IntArray) -> IntArray:
        return self._cache.index["mels_count"][clips]

    def _texts(self, planned: PlannedBatch) -> dict[str, npt.NDArray[Any]]:
        records, shape = self._cache.index[planned.clips], planned.shape
        lengths = records["tokens_count"]
        inside = np.arange(shape.tokens) < lengths[:, None]
        stored = np.zeros((shape.batch, shape.tokens), np.int32)
        ends = np.zeros((shape.batch, shape.tokens), np.float32)
        for row, row_ends, clip in zip(stored, ends, planned.clips.tolist(), strict=True):
            tokens = self._cache.clip_tokens(clip)
            row[: tokens.size] = tokens
            row_ends[: tokens.size] = self._cache.clip_ends(clip)
        known = ((stored >= 0) & (stored < len(self._token_ids))).all(axis=1)
        if not known.all():
            raise self._cache.damaged(planned.clips[~known].tolist())
        token_ids = np.where(inside, self._token_ids[stored], PADDING_ID)
        return {
            "token_ids": token_ids,
            "token_lengths": lengths,
            "token_ends": ends,
            "slots": filled_slots(lengths, shape, planned.shares),
            "language_ids": self._language_ids[records["language"]],
        }

    def _references(self, planned: PlannedBatch, speed: Any = 1.0) -> tuple[IntArray, IntArray]:
        """Return the first frame and number of frames of each reference."""
        counts = self._frame_counts(planned.references)
        wanted = np.ceil(self._reference_frames * speed)
        slack = np.maximum(0, counts - wanted)
        starts = (planned.reference_starts * (slack + 1)).astype(np.int32)
        lengths = np.minimum(self._reference_frames, frames_at_speed(counts - starts, speed))
        return starts, lengths.astype(np.int32)

    def _mels(
        self, clips: IntArray, first_frames: Any, lengths: IntArray, frames: int
    ) -> npt.NDArray[np.float32]:
        firsts = np.broadcast_to(first_frames, clips.shape)
        mels = np.full((clips.size, frames, self._n_mels), self._cache.mel_mean, np.float32)
        for row, clip, first, length in zip(
            mels, clips.tolist(), firsts.tolist(), lengths.tolist(), strict=True
        ):
            row[:length] = self._cache.part_of(clip, "mels", first, length)
        finite = np.isfinite(mels.sum(axis=(1, 2)))
        if not finite.all():
            raise self._cache.damaged(clips[~finite].tolist())
        return mels

    def _samples(self, clips: IntArray, first_frames: Any, span: float) -> npt.NDArray[np.int16]:
        """Return samples from half a window before the first frame to half after the span."""
        audio = self._audio
        befores = np.broadcast_to(window_start(first_frames, audio), clips.shape)
        width = padded_samples(round_up(math.ceil(span), block_samples(audio)), audio)
        samples = np.zeros((clips.size, width), np.int16)
        for row, clip, before in zip(samples, clips.tolist(), befores.tolist(), strict=True):
            place = max(0, -before)
            there = self._cache.part_of(clip, "audio", max(0, before), max(0, width - place))
            row[place : place + there.size] = there
        return samples


def filled_slots(token_lengths: IntArray, shape: Shape, shares: int) -> IntArray:
    """Return the index of each real token in its share's [clips, tokens], then -1."""
    slots = np.full((shares, shape.slots), -1, np.int32)
    is_token = np.arange(shape.tokens) < token_lengths[:, None]
    for share, rows in enumerate(is_token.reshape(shares, -1)):
        places = np.flatnonzero(rows)
        slots[share, : places.size] = places
    return slots


def block_samples(audio: AudioConfig) -> int:
    """Return the longest block that divides windows and hops."""
    common = math.gcd(audio.hop_samples, audio.fft_samples)
    return max(
        size for size in range(1, audio.hop_samples // _BLOCKS_PER_HOP + 1) if common % size == 0
    )


def batch_signature(config: XTTSConfig, plan: ShapePlan | None = None) -> Batch:
    """Return the tensor specs of a batch: static if the plan has a single shape."""
    n_mels, reference_frames = config.data.n_mels, config.model.reference_frames
    if plan is None or plan.dynamic or len(plan.shapes) > 1:
        size = tokens = frames = slots = shares = None
    else:
        (size, tokens, frames, slots), shares = plan.shapes[0], plan.shares
    return Batch(
        token_ids=tf.TensorSpec([size, tokens], tf.int32),
        token_lengths=tf.TensorSpec([size], tf.int32),
        token_ends=tf.TensorSpec([size, tokens], tf.float32),
        slots=tf.TensorSpec([shares, slots], tf.int32),
        mel=tf.TensorSpec([size, frames, n_mels], tf.float32),
        mel_lengths=tf.TensorSpec([size], tf.int32),
        reference=tf.TensorSpec([size, reference_frames, n_mels], tf.float32),
        reference_lengths=tf.TensorSpec([size], tf.int32),
        language_ids=tf.TensorSpec([size], tf.int32),
    )


def waveform_signature() -> WaveformBatch:
    per_clip, per_clip_and_place = [None], [None, None]
    return WaveformBatch(
        token_ids=tf.TensorSpec(per_clip_and_place, tf.int32),
        token_lengths=tf.TensorSpec(per_clip, tf.int32),
        token_ends=tf.TensorSpec(per_clip_and_place, tf.float32),
        slots=tf.TensorSpec(per_clip_and_place, tf.int32),
        samples=tf.TensorSpec(per_clip_and_place, tf.int16),
        mel_lengths=tf.TensorSpec(per_clip, tf.int32),
        reference_samples=tf.TensorSpec(per_clip_and_place, tf.int16),
        reference_lengths=tf.TensorSpec(per_clip, tf.int32),
        language_ids=tf.TensorSpec(per_clip, tf.int32),
        changes=Changes(
            speed=tf.TensorSpec(per_clip, tf.float32),
            pitch=tf.TensorSpec(per_clip, tf.int32),
            formants=tf.TensorSpec(per_clip, tf.int32),
            tone=tf.TensorSpec(per_clip_and_place, tf.float32),
            gain=tf.TensorSpec(per_clip, tf.float32),
            noise=tf.TensorSpec(per_clip, tf.float32),
            noise_start=tf.TensorSpec(per_clip, tf.int32),
        ),
    )


def blank_batch(shape: Shape, shares: int, config: XTTSConfig) -> Batch:
    """Return a batch of zeros with the maximum lengths of a shape."""
    size, n_mels = shape.batch, config.data.n_mels
    lengths = np.full(size, min(shape.tokens, shape.slots * shares // size), np.int32)
    reference_frames = config.model.reference_frames
    return Batch(
        token_ids=np.full((size, shape.tokens), PADDING_ID, np.int32),
        token_lengths=lengths,
        token_ends=np.zeros((size, shape.tokens), np.float32),
        slots=filled_slots(lengths, shape, shares),
        mel=np.zeros((size, shape.frames, n_mels), np.float32),
        mel_lengths=np.full(size, shape.frames, np.int32),
        reference=np.zeros((size, reference_frames, n_mels), np.float32),
        reference_lengths=np.full(size, reference_frames, np.int32),
        language_ids=np.zeros(size, np.int32),
    )


def compile_features(config: XTTSConfig, mel_mean: float) -> Callable[[WaveformBatch], Batch]:
    """Return a function traced once for all shapes; padding has the value `mel_mean`."""
    audio, n_mels = config.audio, config.data.n_mels
    reference_frames = config.model.reference_frames
    augmentation = Augmentation(config)
    block = block_samples(audio)
    blocks_per_frame = audio.fft_samples // block
    weights_by_pitch = [mel_weights(audio, n_mels, pitch) for pitch in augmentation.pitches]
    bins = max(map(used_bins, weights_by_pitch))
    weights = np.stack([weights[:bins] for weights in weights_by_pitch])
    formants = np.stack([formant_weights(audio, n_mels, to) for to in augmentation.formants])

    def mel_of(samples: tf.Tensor, frames: Any, changes: Changes) -> tf.Tensor:
        blocks = tf.reshape(samples, [tf.shape(samples)[0], -1, block])
        distance = changes.speed[:, None] * (audio.hop_samples / block)
        first_blocks = tf.cast(tf.round(tf.range(frames, dtype=tf.float32) * distance), tf.int32)
        last_first_block = tf.shape(blocks)[1] - blocks_per_frame
        places = tf.minimum(first_blocks, last_first_block)[:, :, None] + tf.range(blocks_per_frame)
        cut = tf.gather(blocks, places, batch_dims=1)
        cut = tf.reshape(cut, [tf.shape(samples)[0], frames, audio.fft_samples])
        bands = weights[0] if len(weights) == 1 else tf.gather(tf.constant(weights), changes.pitch)
        if config.augmentation.tone_db:
            # Scales the bands before the logarithm's floor, so that silence does not change.
            bands *= tf.exp(changes.tone)[:, None]
        mel = log_mel_of_frames(cut, bands)
        if len(formants) > 1:
            mel = tf.matmul(mel, tf.gather(tf.constant(formants), changes.formants))
        # Same precision as the cache.
        return tf.cast(tf.cast(mel, tf.float16), tf.float32)

    def degraded(samples: tf.Tensor, changes: Changes) -> tf.Tensor:
        noise = augmentation.noise()
        places = changes.noise_start[:, None] + tf.range(tf.shape(samples)[1])
        cuts = tf.gather(tf.constant(noise), places % len(noise))
        return samples * changes.gain[:, None] + cuts * changes.noise[:, None]

    def blanked(mel: tf.Tensor, lengths: tf.Tensor) -> tf.Tensor:
        inside = tf.sequence_mask(lengths, tf.shape(mel)[1])[:, :, None]
        return tf.where(inside, mel, mel_mean)

    def features(waveforms: WaveformBatch) -> Batch:
        changes = waveforms.changes
        samples, reference = (
            tf.cast(values, tf.float32) / FULL_SCALE
            for values in (waveforms.samples, waveforms.reference_samples)
        )
        frames = frames_in_padded(tf.shape(samples)[1], audio)
        if augmentation.is_on:
            reference = degraded(reference, changes)
        return Batch(
            token_ids=waveforms.token_ids,
            token_lengths=waveforms.token_lengths,
            token_ends=waveforms.token_ends,
            slots=waveforms.slots,
            mel=blanked(mel_of(samples, frames, changes), waveforms.mel_lengths),
            mel_lengths=waveforms.mel_lengths,
            reference=blanked(
                mel_of(reference, reference_frames, changes), waveforms.reference_lengths
            ),
            reference_lengths=waveforms.reference_lengths,
            language_ids=waveforms.language_ids,
        )

    return tf.function(features, input_signature=[waveform_signature()], autograph=False)
