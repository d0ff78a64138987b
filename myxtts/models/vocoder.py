"""The vocoder: from a log-mel to a waveform, at the frame rate.

An excitation of pulses and noise is shaped in every frame by a filter that the network predicts
from the mel and the pulses, and an inverse STFT joins the frames. The first guess of the filter is
the mel itself: its amplitude by the pseudo-inverse of the mel bands (as in FreeV, 2024), so that
only the difference is learnt. Only convolutions mix frames, so it works at any length and in
chunks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from myxtts.audio.mel import mel_weights
from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import XTTSConfig
from myxtts.models.excitation import HIGHEST_HZ, LOWEST_HZ, Pitch, pulses, spectrum
from myxtts.models.layers import ConvBlock, root_mean_square_norm

_KERNEL_FRAMES = 7
_PITCH_WIDTH, _PITCH_BLOCKS = 96, 3
_PITCH_CLASSES = 128
# The pitch is the mean of the classes this close to the likeliest.
_NEAR_CLASSES = 4
# Log-mels of speech at the usual level have about this mean and deviation.
_MEL_MEAN, _MEL_DEVIATION = -5.5, 2.5
_LEAST_AMPLITUDE, _MOST_LOG_AMPLITUDE = 1e-4, 6.0
# Bands at the upper edge whose mean continues above it.
_EDGE_BINS = 12
# Noise starts weaker than pulses by this log-amplitude.
_NOISE_AT_START = -1.0
# The network sees the pulses up to this frequency.
_SEEN_HZ = 4_000
# Frames on either side that an STFT, or an inverse one, depends on.
STFT_CONTEXT_FRAMES = 2


class PitchLogits(NamedTuple):
    classes: tf.Tensor  # [batch, frames, classes]
    voiced: tf.Tensor  # [batch, frames]


class FrameStack(keras.layers.Layer):
    """Convolution blocks from frame to frame."""

    def __init__(self, inputs: int, width: int, blocks: int, outputs: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        self.inputs, self.width = inputs, width
        policy = self.dtype_policy
        self.widen = keras.layers.Dense(width, dtype=policy, name="widen")
        self.blocks = [
            ConvBlock(width, _KERNEL_FRAMES, dtype=policy, name=f"block_{index}")
            for index in range(blocks)
        ]
        small = keras.initializers.RandomNormal(stddev=0.01)
        self.project = keras.layers.Dense(outputs, kernel_initializer=small, name="project")

    def build(self, input_shape: Any = None) -> None:
        self.widen.build((None, self.inputs))
        for block in self.blocks:
            block.build()
        self.project.build((None, self.width))

    def call(self, frames: tf.Tensor) -> tf.Tensor:
        values = tf.cast(self.widen(frames), tf.float32)
        for block in self.blocks:
            values = block.call_whole(values)
        return self.project(root_mean_square_norm(values))


class VocoderNetwork(keras.Model):
    def __init__(self, config: XTTSConfig, *, precision: str = "float32") -> None:
        super().__init__(name="vocoder")
        policy = keras.DTypePolicy(precision if precision == "float32" else f"mixed_{precision}")
        self.audio = config.audio
        self.n_mels = n_mels = config.data.n_mels
        sizes = config.vocoder
        self._bins = config.audio.fft_samples // 2 + 1
        weights = mel_weights(config.audio, n_mels)
        self._covered_bins = int(np.flatnonzero(weights.any(axis=1))[-1])
        self._from_mel = np.linalg.pinv(weights).astype(np.float32)
        self._seen_bins = round(_SEEN_HZ * config.audio.fft_samples / config.audio.sample_rate_hz)
        self.filter_stack = FrameStack(
            n_mels + 2 * self._seen_bins,
            sizes.width,
            sizes.blocks,
            4 * self._bins,
            dtype=policy,
            name="filters",
        )
        self.pitch_stack = FrameStack(
            n_mels, _PITCH_WIDTH, _PITCH_BLOCKS, _PITCH_CLASSES + 1, dtype=policy, name="pitch"
        )
        self.log_classes = np.linspace(
            np.log(LOWEST_HZ), np.log(HIGHEST_HZ), _PITCH_CLASSES, dtype=np.float32
        )
        # Of the excitation's STFT: a harmonic, and white noise of unit variance.
        window = np.hanning(config.audio.fft_samples + 1)[:-1]
        self._harmonic_amplitude = float(window.sum() / 2)
        self._noise_amplitude = float(np.sqrt(np.square(window).sum()))
        # Frames on either side that the pitch of a frame, and its samples, depend on.
        self.pitch_context_frames = _PITCH_BLOCKS * (_KERNEL_FRAMES // 2)
        self.context_frames = (
            self.pitch_context_frames
            + sizes.blocks * (_KERNEL_FRAMES // 2)
            + 2 * STFT_CONTEXT_FRAMES
        )
        for stack in (self.filter_stack, self.pitch_stack):
            stack.build()
        self.built = True

    def pitch_logits(self, log_mel: tf.Tensor) -> PitchLogits:
        outputs = self.pitch_stack(_normalised(log_mel))
        return PitchLogits(outputs[..., :-1], outputs[..., -1])

    def pitch(self, log_mel: tf.Tensor) -> Pitch:
        classes, voiced = self.pitch_logits(log_mel)
        likeliest = tf.argmax(classes, -1, output_type=tf.int32)[..., None]
        near = tf.abs(tf.range(_PITCH_CLASSES) - likeliest) <= _NEAR_CLASSES
        shares = tf.nn.softmax(tf.where(near, classes, classes.dtype.min))
        hertz = tf.exp(tf.reduce_sum(shares * self.log_classes, -1))
        return Pitch(hertz, voiced > 0)

    def waveform(
        self, log_mel: tf.Tensor, pitch: Pitch, first_cycle: tf.Tensor, noise: tf.Tensor
    ) -> tf.Tensor:
        """[batch, samples from the first to the last frame].

        `noise` is white, of unit variance and of the same size. Two frames at both ends of the
        result are incomplete: they overlap with too few others.
        """
        audio = self.audio
        train = spectrum(pulses(pitch, first_cycle, audio) / self._harmonic_amplitude, audio)
        hiss = spectrum(noise / self._noise_amplitude, audio)
        of_train, of_hiss = self._filters(log_mel, train)
        joined = tf.signal.inverse_stft(
            of_train * train + of_hiss * hiss,
            audio.fft_samples,
            audio.hop_samples,
            audio.fft_samples,
            window_fn=tf.signal.inverse_stft_window_fn(audio.hop_samples),
        )
        before, after = padding_samples(audio)
        return joined[:, before : tf.shape(joined)[1] - after]

    def _filters(self, log_mel: tf.Tensor, train: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Of the pulses and of the noise, [batch, frames, bins] complex each."""
        seen = train[..., : self._seen_bins]
        frames = tf.concat([_normalised(log_mel), tf.math.real(seen), tf.math.imag(seen)], -1)
        amplitude, real, imaginary, noise = tf.split(self.filter_stack(frames), 4, -1)
        first_guess = self._log_amplitude(log_mel)
        of_pulses = _amplitude(first_guess + amplitude)
        of_noise = _amplitude(first_guess + noise + _NOISE_AT_START)
        return (
            tf.complex(of_pulses * (1.0 + real), of_pulses * imaginary),
            tf.complex(of_noise, tf.zeros_like(of_noise)),
        )

    def _log_amplitude(self, log_mel: tf.Tensor) -> tf.Tensor:
        """Of the bins, by the mel; bins above the highest band have the level below its edge."""
        amplitude = tf.matmul(tf.exp(log_mel), self._from_mel[:, : self._covered_bins])
        amplitude = tf.maximum(amplitude, _LEAST_AMPLITUDE)
        edge = tf.reduce_mean(amplitude[..., -_EDGE_BINS:], -1, keepdims=True)
        above = tf.repeat(edge, self._bins - self._covered_bins, axis=-1)
        return tf.math.log(tf.concat([amplitude, above], -1))


def _normalised(log_mel: tf.Tensor) -> tf.Tensor:
    return (log_mel - _MEL_MEAN) / _MEL_DEVIATION


def _amplitude(log_amplitude: tf.Tensor) -> tf.Tensor:
    return tf.exp(tf.minimum(log_amplitude, _MOST_LOG_AMPLITUDE))
