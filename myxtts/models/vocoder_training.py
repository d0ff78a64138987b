"""The vocoder network with its training loss: the distance of its magnitudes from recordings."""

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


class NoDraws(NamedTuple):
    """The loss of a vocoder has nothing random."""


class SegmentCounts(NamedTuple):
    segments: tf.Tensor


class TrainedVocoder(keras.Model):
    def __init__(self, config: XTTSConfig) -> None:
        super().__init__(name="vocoder_training")
        self._audio = config.audio
        self._span = span_samples(config.vocoder.frames_per_segment, config.audio)
        self.network = VocoderNetwork(config, precision=config.training.precision)
        self.built = True

    def draw(self, batch_size: Any, seed: tf.Tensor) -> NoDraws:
        return NoDraws()

    def count(self, batch: Any) -> SegmentCounts:
        return SegmentCounts(tf.cast(tf.shape(batch.samples)[0], tf.float32))

    def loss_parts(self, batch: Any, draws: NoDraws, counts: SegmentCounts) -> VocoderLossParts:
        """Of a batch of segments; sums over segments, divided by those of the whole batch."""
        predicted = self.network.magnitudes(batch.mel)
        recorded = tf.sqrt(squared_magnitude(spectrum(batch.samples, self._audio)) + _SMALL)
        # White noise then has the level of its samples.
        scale = (2.0 / self._audio.fft_samples) ** 0.5
        distances = _distances(predicted * scale, recorded * scale)
        return VocoderLossParts(tf.reduce_sum(distances) / counts.segments)

    def copy(self, batch: Any) -> tf.Tensor:
        """Waveforms for validation."""
        shape = [tf.shape(batch.mel)[0], self._span]
        noise = tf.random.stateless_normal(shape, tf.constant([0, -1]))
        return waveform_with_magnitudes(self.network.magnitudes(batch.mel), noise, self._audio)


def _distances(predicted: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
    """[batch]: the mean over frames, of levels [batch, frames, bins]."""
    complete = slice(_INCOMPLETE_FRAMES, -_INCOMPLETE_FRAMES)
    predicted, recorded = predicted[:, complete], recorded[:, complete]
    linear = tf.reduce_mean(tf.abs(predicted - recorded), [1, 2])
    ratio = tf.math.log((predicted + _LOG_FLOOR) / (recorded + _LOG_FLOOR))
    logarithmic = tf.sqrt(tf.reduce_mean(tf.square(ratio), 2) + _SMALL)
    return _LINEAR_WEIGHT * linear + tf.reduce_mean(logarithmic, 1)
