"""The vocoder network with its training loss: the distance of its copies from recordings.

Magnitudes that no waveform has are what the search for phases cannot keep. So the loss is that of
the waveform after some iterations of the search, and the network learns what survives them.
Without iterations the magnitudes themselves are compared, which is much faster.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.audio.mel_geometry import span_samples
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.config.metrics import VocoderLossParts
from myxtts.models.phases import spectrum, squared_magnitude, waveform_with_magnitudes
from myxtts.models.vocoder import VocoderNetwork

# Frames at both ends of a segment whose windows reach past it.
_INCOMPLETE_FRAMES = 2
# Waveforms are compared with the window of the mel, and with a quarter of it for times.
_SHORTER_WINDOW = 4
_HOPS_PER_WINDOW = 4
# Weight of the magnitudes beside their logarithms.
_LINEAR_WEIGHT = 2.0
# Quieter parts of a spectrum hardly count; speech at the usual level is at 0.06.
_LOG_FLOOR = 5e-4
_SMALL = 1e-9


class SegmentDraws(NamedTuple):
    noise: tf.Tensor  # [batch, samples]


class SegmentCounts(NamedTuple):
    segments: tf.Tensor


class TrainedVocoder(keras.Model):
    def __init__(self, config: XTTSConfig) -> None:
        super().__init__(name="vocoder_training")
        self._audio = config.audio
        self._iterations = config.vocoder.phase_iterations
        self._span = span_samples(config.vocoder.frames_per_segment, config.audio)
        self.network = VocoderNetwork(config, precision=config.training.precision)
        self.built = True

    def draw(self, batch_size: Any, seed: tf.Tensor) -> SegmentDraws:
        return SegmentDraws(tf.random.stateless_normal([batch_size, self._span], seed))

    def count(self, batch: Any) -> SegmentCounts:
        return SegmentCounts(tf.cast(tf.shape(batch.samples)[0], tf.float32))

    def loss_parts(
        self, batch: Any, draws: SegmentDraws, counts: SegmentCounts
    ) -> VocoderLossParts:
        """Of a batch of segments; sums over segments, divided by those of the whole batch."""
        magnitudes = self.network.magnitudes(batch.mel)
        if self._iterations:
            copied = waveform_with_magnitudes(
                magnitudes, draws.noise, self._audio, self._iterations
            )
            distances = self._waveform_distances(copied, batch.samples)
        else:
            recorded = tf.sqrt(squared_magnitude(spectrum(batch.samples, self._audio)) + _SMALL)
            scale = (2.0 / self._audio.fft_samples) ** 0.5
            distances = _distances(magnitudes * scale, recorded * scale)
        return VocoderLossParts(tf.reduce_sum(distances) / counts.segments)

    def copy(self, batch: Any) -> tf.Tensor:
        """Waveforms for validation."""
        draws = self.draw(tf.shape(batch.mel)[0], tf.constant([0, -1]))
        magnitudes = self.network.magnitudes(batch.mel)
        return waveform_with_magnitudes(magnitudes, draws.noise, self._audio)

    def _waveform_distances(self, copied: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
        """[batch]: the mean over two resolutions."""
        edge = _INCOMPLETE_FRAMES * self._audio.hop_samples
        distances = []
        for window in (self._audio.fft_samples, self._audio.fft_samples // _SHORTER_WINDOW):
            audio = dataclasses.replace(
                self._audio, fft_samples=window, hop_samples=window // _HOPS_PER_WINDOW
            )
            pair = (_levels(it[:, edge:-edge], audio) for it in (copied, recorded))
            distances.append(_distances(*pair))
        return tf.add_n(distances) / len(distances)


def _levels(waveform: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """Magnitudes, scaled so that white noise has the level of its samples."""
    power = squared_magnitude(spectrum(waveform, audio))
    return tf.sqrt(power * (2.0 / audio.fft_samples) + _SMALL)


def _distances(copied: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
    """[batch]: the mean over frames, of levels [batch, frames, bins]."""
    complete = slice(_INCOMPLETE_FRAMES, -_INCOMPLETE_FRAMES)
    copied, recorded = copied[:, complete], recorded[:, complete]
    linear = tf.reduce_mean(tf.abs(copied - recorded), [1, 2])
    ratio = tf.math.log((copied + _LOG_FLOOR) / (recorded + _LOG_FLOOR))
    logarithmic = tf.sqrt(tf.reduce_mean(tf.square(ratio), 2) + _SMALL)
    return _LINEAR_WEIGHT * linear + tf.reduce_mean(logarithmic, 1)
