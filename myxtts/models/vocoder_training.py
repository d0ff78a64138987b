"""The vocoder network with its training loss: the distance of its magnitudes from a recording's."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.audio.mel_geometry import span_samples
from myxtts.config.config import XTTSConfig
from myxtts.config.metrics import VocoderLossParts
from myxtts.models.phases import spectrum, squared_magnitude, waveform_with_magnitudes
from myxtts.models.vocoder import VocoderNetwork

# Frames at both ends of a segment whose windows reach past it.
_INCOMPLETE_FRAMES = 2
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
        recorded = tf.sqrt(squared_magnitude(spectrum(batch.samples, self._audio)) + _SMALL)
        distances = self._distances(self.network.magnitudes(batch.mel), recorded)
        return VocoderLossParts(tf.reduce_sum(distances) / counts.segments)

    def copy(self, batch: Any) -> tf.Tensor:
        """Waveforms for validation."""
        draws = self.draw(tf.shape(batch.mel)[0], tf.constant([0, -1]))
        magnitudes = self.network.magnitudes(batch.mel)
        return waveform_with_magnitudes(magnitudes, draws.noise, self._audio)

    def _distances(self, copied: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
        """[batch]: the mean over frames, scaled so that white noise has its samples' level."""
        complete = slice(_INCOMPLETE_FRAMES, -_INCOMPLETE_FRAMES)
        scale = (2.0 / self._audio.fft_samples) ** 0.5
        copied, recorded = (values[:, complete] * scale for values in (copied, recorded))
        linear = tf.reduce_mean(tf.abs(copied - recorded), [1, 2])
        ratio = tf.math.log((copied + _LOG_FLOOR) / (recorded + _LOG_FLOOR))
        logarithmic = tf.sqrt(tf.reduce_mean(tf.square(ratio), 2) + _SMALL)
        return _LINEAR_WEIGHT * linear + tf.reduce_mean(logarithmic, 1)
