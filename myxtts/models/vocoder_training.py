"""The vocoder network with its training losses.

Magnitudes are compared with those of the recording, in the first part of a run only: after some
hundred steps their distance still falls, but a search finds worse phases for what is ever sharper
and not quite right. The refiner corrects waveforms whose phases were found by a search. They have
other phases than the recording, so it is trained by spectra without phases, and by discriminators.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.audio.griffin_lim import spectrum, squared_magnitude, waveform_with_magnitudes
from myxtts.audio.mel import cut_frames, hann_window, log_mel
from myxtts.audio.mel_geometry import span_samples
from myxtts.config.config import AudioConfig, VocoderLossParts, XTTSConfig
from myxtts.models.discriminator import add_convolution_weights
from myxtts.models.gradients import gradients_only
from myxtts.models.vocoder import Prediction, VocoderNetwork

# Weight of the magnitudes beside their logarithms.
_LINEAR_WEIGHT = 2.0
# Quieter parts of a spectrum hardly count; speech at the usual level is at 0.06.
_LOG_FLOOR = 5e-4
_SMALL = 1e-9
# Fewer than it is spoken with: the refiner sees more clearly what a search leaves, and steps are
# faster.
_TRAINING_ITERATIONS = 12
# That of noise itself: what is added for speaking, the refiner would learn to take away.
_TRAINING_EMPHASIS = 1.0
_REFINED_MEL_WEIGHT = 5.0
# Adam adapts to the scale of a gradient; with a small one its norm is not clipped.
_REFINING_WEIGHT = 0.02
# Keeps the gradients of single bins above the smallest float16: loss scaling does not reach what is
# computed inside a branch.
_GRADIENT_SCALE = 2.0**12


class SegmentDraws(NamedTuple):
    """Random numbers of a step, drawn for the whole batch before it is split."""

    noise: tf.Tensor  # [batch, samples]
    is_predicted: tf.Tensor  # [batch]: whether the refiner gets the mel of a model, if there is one
    is_refined: tf.Tensor  # [batch], the same for all


class SegmentCounts(NamedTuple):
    segments: tf.Tensor


class TrainedVocoder(keras.Model):
    def __init__(self, config: XTTSConfig) -> None:
        super().__init__(name="vocoder_training")
        self._audio = config.audio
        # At both ends of a segment, whose windows reach past it.
        self._incomplete_frames = math.ceil(config.audio.fft_samples / 2 / config.audio.hop_samples)
        self._span = span_samples(config.vocoder.frames_per_segment, config.audio)
        self.network = VocoderNetwork(config, precision=config.training.precision)
        self._adversarial_weight = config.training.adversarial_weight
        self.discriminators = [
            SpectrumDiscriminator(name=f"discriminator_{samples}")
            for samples in (window_lengths(config.audio) if self._adversarial_weight > 0.0 else ())
        ]
        for discriminator in self.discriminators:
            discriminator.build()
        self.built = True

    def draw(self, batch_size: Any, seed: tf.Tensor, *, is_refined: tf.Tensor) -> SegmentDraws:
        """`seed` is int32 [2]."""
        return SegmentDraws(
            tf.random.stateless_normal([batch_size, self._span], seed, alg="philox"),
            # Not the same rows in every step: clips of similar length tend to have the same row.
            (tf.range(batch_size) + seed[1]) % 2 == 0,
            tf.fill([batch_size], is_refined),
        )

    def count(self, batch: Any) -> SegmentCounts:
        return SegmentCounts(tf.cast(tf.shape(batch.samples)[0], tf.float32))

    def loss_parts(
        self, batch: Any, draws: SegmentDraws, counts: SegmentCounts, training: bool = True
    ) -> VocoderLossParts:
        """Return the sums over segments, divided by the number of segments of the whole batch.

        Without `training` they bring no gradients for the refiner and the discriminators, which
        distributed variables have only inside a replica.
        """
        prediction = self.network.predict_magnitudes(batch.mel)
        recorded = tf.sqrt(squared_magnitude(spectrum(batch.samples, self._audio)) + _SMALL)
        # White noise then has the level of its samples.
        scale = (2.0 / self._audio.fft_samples) ** 0.5
        complete = slice(self._incomplete_frames, -self._incomplete_frames)
        distances = _distances(
            prediction.magnitudes[:, complete] * scale, recorded[:, complete] * scale
        )
        distances = tf.where(draws.is_refined, tf.stop_gradient(distances), distances)
        refining, discriminator = self._refining_losses(batch, prediction, draws, counts, training)
        return VocoderLossParts(tf.reduce_sum(distances) / counts.segments, refining, discriminator)

    def _refining_losses(
        self,
        batch: Any,
        prediction: Prediction,
        draws: SegmentDraws,
        counts: SegmentCounts,
        training: bool,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Losses of the refiner and of the discriminators; neither changes predicted magnitudes."""
        of_refiner = [it.value for it in self.network.refiner.trainable_variables]
        of_judges = [it.value for judge in self.discriminators for it in judge.trainable_variables]

        def losses_and_gradients() -> tuple[tf.Tensor, ...]:
            found, states = self._searched(batch, prediction, draws)
            with tf.GradientTape(persistent=True) as tape:
                refined = self.network.refined(found, states)
                errors = _REFINED_MEL_WEIGHT * self.mel_error(refined, batch.mel)
                mistakes = tf.zeros_like(errors)
                for index, samples in enumerate(window_lengths(self._audio)):
                    levels, target = (
                        log_levels(self._inside(it), samples) for it in (refined, batch.samples)
                    )
                    errors += tf.reduce_mean(tf.abs(levels - target), [1, 2])
                    if self.discriminators:
                        judged = self.discriminators[index].errors(levels, target)
                        errors += self._adversarial_weight * judged.of_copy
                        mistakes += judged.of_discriminator
                refining, judging = map(tf.reduce_sum, (errors, mistakes))
                scaled = _GRADIENT_SCALE * refining
            weight = _REFINING_WEIGHT / counts.segments
            if not training:
                return weight * refining, weight * judging
            gradients = tape.gradient(scaled, of_refiner)
            return (
                weight * refining,
                weight * judging,
                *(weight / _GRADIENT_SCALE * it for it in gradients),
                *(weight * it for it in tape.gradient(judging, of_judges)),
            )

        # Gradients are taken inside: what a branch keeps for a gradient outside has no static shape
        # under XLA.
        learning = [tf.convert_to_tensor(it) for it in (*of_refiner, *of_judges) if training]
        refining, judging, *gradients = tf.cond(
            tf.reduce_any(draws.is_refined),
            losses_and_gradients,
            lambda: (tf.zeros([]), tf.zeros([]), *map(tf.zeros_like, learning)),
        )
        pull = gradients_only(learning, gradients) if training else 0.0
        return tf.stop_gradient(refining) + pull, tf.stop_gradient(judging)

    def _searched(
        self, batch: Any, prediction: Prediction, draws: SegmentDraws
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Waveforms without refinement, and the states of their frames."""
        mel = batch.mel
        if batch.predicted_mel.shape[1]:
            mel = tf.where(draws.is_predicted[:, None, None], batch.predicted_mel, mel)
            prediction = self.network.predict_magnitudes(mel)
        magnitudes, states = map(tf.stop_gradient, prediction)
        found = waveform_with_magnitudes(
            magnitudes, draws.noise, self._audio, _TRAINING_ITERATIONS, _TRAINING_EMPHASIS
        )
        return tf.stop_gradient(found), states

    def _inside(self, waveform: tf.Tensor) -> tf.Tensor:
        """Without the ends of segments, whose frames are not complete."""
        margin = self._audio.fft_samples
        return waveform[:, margin : self._span - margin]

    def mel_error(self, waveform: tf.Tensor, mel: tf.Tensor) -> tf.Tensor:
        """[batch]: the mean distance of its log-mel, without the ends."""
        distance = tf.abs(log_mel(waveform, self._audio, mel.shape[2]) - mel)
        margin = self._audio.fft_samples // self._audio.hop_samples
        return tf.reduce_mean(distance[:, margin:-margin], [1, 2])

    def copy(self, batch: Any) -> tf.Tensor:
        """Waveforms for validation."""
        shape = [tf.shape(batch.mel)[0], self._span]
        noise = tf.random.stateless_normal(shape, tf.constant([0, -1]))
        return self.network.waveform(batch.mel, noise)


def _distances(predicted: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
    """[batch]: the mean over frames, of levels [batch, frames, bins]."""
    linear = tf.reduce_mean(tf.abs(predicted - recorded), [1, 2])
    ratio = tf.math.log((predicted + _LOG_FLOOR) / (recorded + _LOG_FLOOR))
    logarithmic = tf.sqrt(tf.reduce_mean(tf.square(ratio), 2) + _SMALL)
    return _LINEAR_WEIGHT * linear + tf.reduce_mean(logarithmic, 1)


class _Convolution(NamedTuple):
    channels: int
    kernel_size: tuple[int, int]  # frames, bins
    stride: tuple[int, int]


_CONVOLUTIONS = (
    _Convolution(12, (3, 7), (1, 2)),
    _Convolution(24, (3, 5), (2, 2)),
    _Convolution(32, (3, 3), (2, 2)),
    _Convolution(48, (3, 3), (1, 2)),
    _Convolution(1, (3, 3), (1, 1)),
)
# The level, and how high each bin is.
_INPUT_CHANNELS = 2
_NEGATIVE_SLOPE = 0.2
# Of the lengths of windows to that of the mel, and of windows to their hop.
_WINDOW_RATIOS = (0.5, 1.25)
_OVERLAP = 4
# Levels of speech in nepers have about this mean and deviation; quieter ones hardly count.
_LEVEL_MEAN, _LEVEL_DEVIATION, _LEAST_LEVEL = -4.0, 2.0, 5e-4
_FEATURE_MATCHING_WEIGHT = 2.0


class Judgement(NamedTuple):
    scores: tf.Tensor  # [batch, frames / 4, bins / 16]: 1 is recorded, 0 is a copy
    features: list[tf.Tensor]


class AdversarialErrors(NamedTuple):
    """[batch] each."""

    of_discriminator: tf.Tensor
    of_copy: tf.Tensor


class SpectrumDiscriminator(keras.layers.Layer):
    """A stack of two-dimensional convolutions over frames and bins, always in float32."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)

    def build(self, input_shape: Any = None) -> None:
        sizes = ((*it.kernel_size, it.channels) for it in _CONVOLUTIONS)
        self.kernels, self.biases = add_convolution_weights(self, _INPUT_CHANNELS, sizes)

    def call(self, levels: tf.Tensor) -> Judgement:
        """Of what `log_levels` gives."""
        height = tf.broadcast_to(tf.linspace(-1.0, 1.0, tf.shape(levels)[2]), tf.shape(levels))
        values = tf.stack([(levels - _LEVEL_MEAN) / _LEVEL_DEVIATION, height], -1)
        features: list[tf.Tensor] = []
        for (_, size, stride), kernel, bias in zip(
            _CONVOLUTIONS, self.kernels, self.biases, strict=True
        ):
            if features:
                values = tf.nn.leaky_relu(values, _NEGATIVE_SLOPE)
            margins = [[0, 0], *([length // 2] * 2 for length in size), [0, 0]]
            values = tf.nn.conv2d(values, tf.convert_to_tensor(kernel), stride, margins)
            values = tf.nn.bias_add(values, tf.convert_to_tensor(bias))
            features.append(values)
        return Judgement(features.pop()[..., 0], features)

    def errors(self, copied: tf.Tensor, recorded: tf.Tensor) -> AdversarialErrors:
        """Least-squares errors for levels; each clip is judged by itself."""
        of_copied, of_recorded = self(copied), self(recorded)
        features = tf.zeros([])
        for ours, theirs in zip(of_copied.features, of_recorded.features, strict=True):
            theirs = tf.stop_gradient(theirs)
            features += _clip_means(tf.abs(ours - theirs)) / (_clip_means(tf.abs(theirs)) + _SMALL)
        return AdversarialErrors(
            _clip_means(tf.square(of_recorded.scores - 1.0))
            + _clip_means(tf.square(of_copied.scores)),
            _clip_means(tf.square(of_copied.scores - 1.0)) + _FEATURE_MATCHING_WEIGHT * features,
        )


def window_lengths(audio: AudioConfig) -> tuple[int, ...]:
    """In samples, each a multiple of its overlap."""
    return tuple(round(audio.fft_samples * ratio / _OVERLAP) * _OVERLAP for ratio in _WINDOW_RATIOS)


def log_levels(waveform: tf.Tensor, window_samples: int) -> tf.Tensor:
    """Of [batch, samples]: logarithms of magnitudes, [batch, frames, bins]."""
    frames = cut_frames(waveform, window_samples, window_samples // _OVERLAP)
    power = squared_magnitude(tf.signal.rfft(frames * hann_window(window_samples)))
    return tf.math.log(tf.sqrt(power * (2.0 / window_samples) + _SMALL) + _LEAST_LEVEL)


def _clip_means(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(values, list(range(1, values.shape.rank)))
