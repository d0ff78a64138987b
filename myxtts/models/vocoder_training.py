"""The vocoder with what trains it: losses on spectrograms and pitch, and discriminators.

The spectral loss is an energy distance (Gritsenko et al., 2020): two copies of a segment, with
different noise, are to be close to the recording and as far from each other as recordings would
be. A distance to the recording alone would make noise buzz.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.audio.mel_geometry import span_samples
from myxtts.config.config import XTTSConfig
from myxtts.config.metrics import AdversarialLossParts, VocoderLossParts
from myxtts.models.discriminators import Discriminators, Judgement
from myxtts.models.excitation import Pitch, measured_pitch
from myxtts.models.spectral_distance import spectral_distance, spectrograms
from myxtts.models.vocoder import STFT_CONTEXT_FRAMES, VocoderNetwork

_PITCH_WEIGHT = 0.1
_SMALL = 1e-4


class SegmentDraws(NamedTuple):
    """For two copies of each segment."""

    first_cycles: tf.Tensor  # [batch, 2]
    noise: tf.Tensor  # [batch, 2, samples]


class SegmentCounts(NamedTuple):
    segments: tf.Tensor


class TrainedVocoder(keras.Model):
    """Discriminators only exist with a weight for their losses."""

    def __init__(self, config: XTTSConfig) -> None:
        super().__init__(name="vocoder_training")
        settings, audio = config.vocoder, config.audio
        self._audio = audio
        self._span = span_samples(settings.frames_per_segment, audio)
        self._adversarial_weight = settings.adversarial_weight
        self.network = VocoderNetwork(config, precision=config.training.precision)
        self.discriminators = None
        if settings.adversarial_weight:
            self.discriminators = Discriminators(
                settings.discriminator_width, name="discriminators"
            )
            self.discriminators.build()
        self.built = True

    def draw(self, batch_size: Any, seed: tf.Tensor) -> SegmentDraws:
        seeds = tf.random.experimental.stateless_split(seed, 2)
        return SegmentDraws(
            tf.random.stateless_uniform([batch_size, 2], seeds[0]),
            tf.random.stateless_normal([batch_size, 2, self._span], seeds[1]),
        )

    def count(self, batch: Any) -> SegmentCounts:
        return SegmentCounts(tf.cast(tf.shape(batch.samples)[0], tf.float32))

    def loss_parts(
        self, batch: Any, draws: SegmentDraws, counts: SegmentCounts
    ) -> VocoderLossParts | AdversarialLossParts:
        """Of a batch of segments; sums over segments, divided by those of the whole batch."""
        pitch = measured_pitch(batch.samples, self._audio)
        filters = self.network.filters(batch.mel)
        copies = [
            self._whole(
                self.network.waveform(
                    filters, pitch, draws.first_cycles[:, copy], draws.noise[:, copy]
                )
            )
            for copy in range(2)
        ]
        recording = self._whole(batch.samples)
        true, one, other = map(spectrograms, (recording, *copies))
        distance = spectral_distance(one, true) + spectral_distance(other, true)
        distance = (distance - spectral_distance(one, other)) / 2
        parts: Any = VocoderLossParts(distance, self._pitch_loss(batch.mel, pitch))
        if self.discriminators is not None:
            parts = AdversarialLossParts(*parts, *self._adversarial_losses(copies[0], recording))
        return type(parts)(*(tf.reduce_sum(part) / counts.segments for part in parts))

    def _adversarial_losses(self, copy: tf.Tensor, recording: tf.Tensor) -> tuple[tf.Tensor, ...]:
        assert self.discriminators is not None
        weight = self._adversarial_weight
        copy_judged = self.discriminators(copy, is_fixed=True)
        true_judged = self.discriminators(recording, is_fixed=False)
        rejected = self.discriminators(tf.stop_gradient(copy), is_fixed=False)
        return (
            weight * _mean_hinge(copy_judged, 1.0),
            weight * _feature_distance(copy_judged, true_judged),
            _mean_hinge(true_judged, 1.0) + _mean_hinge(rejected, -1.0),
        )

    def copy(self, batch: Any) -> tf.Tensor:
        """Waveforms by the predicted pitch, without the incomplete ends, for validation."""
        draws = self.draw(tf.shape(batch.mel)[0], tf.constant([0, -1]))
        pitch, filters = self.network.pitch(batch.mel), self.network.filters(batch.mel)
        return self._whole(
            self.network.waveform(filters, pitch, draws.first_cycles[:, 0], draws.noise[:, 0])
        )

    def _whole(self, waveform: tf.Tensor) -> tf.Tensor:
        """Without the frames at both ends that overlap with too few others."""
        ends = 2 * STFT_CONTEXT_FRAMES * self._audio.hop_samples
        return waveform[:, ends : self._span - ends]

    def _pitch_loss(self, log_mel: tf.Tensor, pitch: Pitch) -> tf.Tensor:
        """[batch]: cross-entropy of the classes in voiced frames, and of voicing in all."""
        logits, classes = self.network.pitch_logits(log_mel), self.network.log_classes
        distance = (classes - tf.math.log(pitch.hertz)[..., None]) / (classes[1] - classes[0])
        target = tf.nn.softmax(-tf.square(distance) / 2)
        voiced = tf.cast(pitch.voiced, tf.float32)
        of_classes = tf.nn.softmax_cross_entropy_with_logits(target, logits.classes) * voiced
        of_voicing = tf.nn.sigmoid_cross_entropy_with_logits(voiced, logits.voiced)
        return _PITCH_WEIGHT * tf.reduce_mean(of_classes + of_voicing, 1)


def _mean_hinge(judgement: Judgement, sign: float) -> tf.Tensor:
    """[batch]: small where scores have this sign."""
    hinges = [
        tf.reduce_mean(tf.nn.relu(1.0 - sign * score), [1, 2, 3]) for score in judgement.scores
    ]
    return tf.add_n(hinges) / len(hinges)


def _feature_distance(copy: Judgement, recording: Judgement) -> tf.Tensor:
    """[batch]: relative to the size of the recording's features."""
    distances = []
    for mine, theirs in zip(copy.features, map(tf.stop_gradient, recording.features), strict=True):
        difference = tf.reduce_mean(tf.abs(mine - theirs), [1, 2, 3])
        distances.append(difference / (tf.reduce_mean(tf.abs(theirs), [1, 2, 3]) + _SMALL))
    return tf.add_n(distances) / len(distances)
