"""Mels of a whole batch, computed from samples on the device where the function is called.

Without augmentation they equal the cached mels. Augmentation never resamples the waveform: speed
changes the hop between frames, pitch shifts the frequencies of the mel bands, tone scales the
bands, and formants are moved in the mel itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from myxtts.audio.formants import formant_weights
from myxtts.audio.mel import log_mel_of_frames, mel_weights, used_bins
from myxtts.audio.mel_geometry import frames_in_padded
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.augmentation import Augmentation, Changes
from myxtts.data.batch_type import Batch
from myxtts.data.cache import FULL_SCALE

# With changed speed, frames start at multiples of a block; a hop has at least this many blocks. A
# frame is then gathered from a few contiguous blocks.
_BLOCKS_PER_HOP = 4


class WaveformBatch(NamedTuple):
    """A batch with samples instead of mels."""

    token_ids: Any  # [batch, tokens] int32
    token_lengths: Any  # [batch] int32
    slots: Any  # [shares, slots] int32
    samples: Any  # [batch, samples] int16, starting half a window before the first frame
    mel_lengths: Any  # [batch] int32
    reference_samples: Any  # [batch, samples] int16, likewise
    reference_lengths: Any  # [batch] int32
    language_ids: Any  # [batch] int32
    changes: Changes


def block_samples(audio: AudioConfig) -> int:
    """The longest block that divides windows and hops."""
    common = math.gcd(audio.hop_samples, audio.fft_samples)
    return max(
        size for size in range(1, audio.hop_samples // _BLOCKS_PER_HOP + 1) if common % size == 0
    )


def compile_features(config: XTTSConfig, mel_mean: float) -> Callable[[WaveformBatch], Batch]:
    """A function traced once for all shapes; padding has the value `mel_mean`."""
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


def waveform_signature() -> WaveformBatch:
    per_clip, per_clip_and_place = [None], [None, None]
    return WaveformBatch(
        token_ids=tf.TensorSpec(per_clip_and_place, tf.int32),
        token_lengths=tf.TensorSpec(per_clip, tf.int32),
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
