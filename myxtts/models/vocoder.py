"""The vocoder network, from a log-mel to a waveform, with its training losses.

A mel blurs the detail within each band, harmonics above all. The first estimate of the STFT
magnitudes is the pseudo-inverse of the mel bands (as in FreeV, 2024), so the network only learns
the difference. The result is scaled so that its mel matches the input. `audio.griffin_lim` finds
phases for the magnitudes, and a second network, the refiner, corrects the remaining errors. Only
convolutions mix frames, so any length works.

Magnitudes are trained in the first part of a run only. After a few hundred steps their loss still
falls, but Griffin-Lim finds worse phases for magnitudes that get sharper and not more accurate. The
refiner's input has other phases than the recording, so its losses are spectral losses without
phases and discriminators.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.griffin_lim import (
    SPEAKING_ITERATIONS,
    context_frames,
    overlapping_frames,
    spectrum,
    squared_magnitude,
    waveform_of,
    waveform_with_magnitudes,
)
from myxtts.audio.mel import (
    LOG_FLOOR,
    cut_frames,
    hann_window,
    log_mel,
    mel_weights,
    span_samples,
    used_bins,
)
from myxtts.config.config import AudioConfig, VocoderLossParts, XTTSConfig
from myxtts.models.critics import Convolution, Critique, PatchDiscriminator, band_heights
from myxtts.models.layers import ConvBlock, dense, gradients_only, root_mean_square_norm

FloatArray = npt.NDArray[np.float32]

_SMALL, _SMALL_POWER = 1e-8, 1e-9
KERNEL_FRAMES = 7
# Speech has harmonics in the lower half of the spectrum. Above it is noise, whose phases are
# arbitrary.
_SHARE_WITH_PHASES = 0.5
# Approximate mean and deviation of speech levels in nepers.
_LEVEL_MEAN, _LEVEL_DEVIATION = -4.0, 2.0
# Quieter bins hardly count. Phases count in even fewer: those of the quietest depend on rounding,
# and so on how a mel was cut into chunks.
_MIN_LEVEL, _MIN_LEVEL_WITH_PHASE = 5e-4, 2e-3
_MIN_LOG_FACTOR, _MAX_LOG_FACTOR = -6.0, 3.0


class Spectrum(NamedTuple):
    """[batch, frames, bins] each."""

    real: tf.Tensor
    imaginary: tf.Tensor


class SpectrumRefiner(keras.layers.Layer):
    """Starts as the identity."""

    def __init__(self, audio: AudioConfig, width: int, blocks: int, **kwargs: Any) -> None:
        super().__init__(autocast=False, **kwargs)
        policy = self.dtype_policy
        self._width = width
        self._bins = audio.fft_samples // 2 + 1
        self._bins_with_phases = round(self._bins * _SHARE_WITH_PHASES)
        # White noise then has the level of its samples.
        self._level_scale = (2.0 / audio.fft_samples) ** 0.5
        # Phase advance per hop at each bin's center frequency.
        turns = np.arange(self._bins_with_phases) * audio.hop_samples / audio.fft_samples
        self._advance = np.exp(-2j * np.pi * turns).astype(np.complex64)
        self.widen = keras.layers.Dense(width, dtype=policy, name="widen")
        self.blocks = [
            ConvBlock(width, KERNEL_FRAMES, dtype=policy, name=f"block_{index}")
            for index in range(blocks)
        ]
        self.project = keras.layers.Dense(
            self._bins + self._bins_with_phases, kernel_initializer="zeros", name="project"
        )
        # Receptive field of a refined frame, in frames on either side.
        self.context_frames = blocks * (KERNEL_FRAMES // 2) + 1

    def build(self, input_shape: Any = None) -> None:
        self.widen.build((None, self._bins + 4 * self._bins_with_phases + self._width))
        for block in self.blocks:
            block.build()
        self.project.build((None, self._width))

    def call(self, spectrum: Spectrum, states: tf.Tensor) -> Spectrum:
        """Refine a spectrum; `states` [batch, frames, width] come from the magnitude network."""
        values = tf.concat([*self._features(spectrum), states], -1)
        values = tf.cast(dense(self.widen, values), tf.float32)
        for block in self.blocks:
            values = block.call_whole(values)
        outputs = dense(self.project, root_mean_square_norm(values))
        log_factor, angle = tf.split(outputs, [self._bins, self._bins_with_phases], -1)
        factor = tf.exp(tf.clip_by_value(log_factor, _MIN_LOG_FACTOR, _MAX_LOG_FACTOR))
        angle = tf.pad(angle, [[0, 0], [0, 0], [0, self._bins - self._bins_with_phases]])
        cosine, sine = factor * tf.cos(angle), factor * tf.sin(angle)
        real, imaginary = spectrum
        return Spectrum(real * cosine - imaginary * sine, real * sine + imaginary * cosine)

    def _features(self, spectrum: Spectrum) -> list[tf.Tensor]:
        power = (tf.square(spectrum.real) + tf.square(spectrum.imaginary)) * self._level_scale**2
        level = tf.math.log(power + _MIN_LEVEL**2) / 2.0
        bins = self._bins_with_phases
        size = tf.math.rsqrt(power[..., :bins] + _MIN_LEVEL_WITH_PHASE**2) * self._level_scale
        real, imaginary = spectrum.real[..., :bins] * size, spectrum.imaginary[..., :bins] * size
        over_time = _product_with_conjugate(
            real[:, 1:], imaginary[:, 1:], real[:, :-1], imaginary[:, :-1]
        )
        advance = self._advance.real, self._advance.imag
        over_time = Spectrum(
            over_time.real * advance[0] - over_time.imaginary * advance[1],
            over_time.real * advance[1] + over_time.imaginary * advance[0],
        )
        over_bins = _product_with_conjugate(
            real[..., 1:], imaginary[..., 1:], real[..., :-1], imaginary[..., :-1]
        )
        return [
            (level - _LEVEL_MEAN) / _LEVEL_DEVIATION,
            *(tf.pad(part, [[0, 0], [1, 0], [0, 0]]) for part in over_time),
            # Frames are centered, so neighboring bins of a single tone have opposite signs.
            *(tf.pad(-part, [[0, 0], [0, 0], [0, 1]]) for part in over_bins),
        ]


def _product_with_conjugate(
    real: tf.Tensor, imaginary: tf.Tensor, other_real: tf.Tensor, other_imaginary: tf.Tensor
) -> Spectrum:
    return Spectrum(
        real * other_real + imaginary * other_imaginary,
        imaginary * other_real - real * other_imaginary,
    )


# Approximate mean and deviation of log-mels of speech at the usual level.
_MEL_MEAN, _MEL_DEVIATION = -5.5, 2.5
_MIN_AMPLITUDE, _MAX_LOG_AMPLITUDE = 1e-4, 6.0
# Bins at the upper edge of the bands whose mean level is used above it.
_EDGE_BINS = 12


class Prediction(NamedTuple):
    magnitudes: tf.Tensor  # [batch, frames, bins]
    states: tf.Tensor  # [batch, frames, width]: hidden state of each frame


class VocoderNetwork(keras.Model):
    def __init__(self, config: XTTSConfig, *, precision: str = "float32") -> None:
        super().__init__(name="vocoder")
        policy = keras.DTypePolicy(precision if precision == "float32" else f"mixed_{precision}")
        sizes = config.vocoder
        self.audio = config.audio
        self.n_mels = config.data.n_mels
        self._width = sizes.width
        self._bins = config.audio.fft_samples // 2 + 1
        weights = mel_weights(config.audio, self.n_mels)
        # The highest bin of the highest band has almost no weight.
        self._covered_bins = used_bins(weights) - 1
        self._from_mel = _pseudo_inverse(weights)
        self._to_mel = weights
        # Shares of the bands in each bin; bins in no band are not scaled.
        shares = weights / np.maximum(weights.sum(1, keepdims=True), _SMALL)
        self._shares_of_bands = shares.T.astype(np.float32)
        self._in_no_band = (weights.sum(1) == 0).astype(np.float32)
        self.widen = keras.layers.Dense(sizes.width, dtype=policy, name="widen")
        self.blocks = [
            ConvBlock(sizes.width, KERNEL_FRAMES, dtype=policy, name=f"block_{index}")
            for index in range(sizes.blocks)
        ]
        small = keras.initializers.RandomNormal(stddev=0.01)
        self.project = keras.layers.Dense(self._bins, kernel_initializer=small, name="project")
        self.refiner = SpectrumRefiner(
            config.audio, sizes.width, sizes.refining_blocks, dtype=policy, name="refiner"
        )
        # Receptive field of a frame's samples, in frames on either side.
        self.context_frames = (
            sizes.blocks * (KERNEL_FRAMES // 2)
            + context_frames(config.audio)
            + self.refiner.context_frames
            + 2 * overlapping_frames(config.audio)
        )
        self._build()

    def _build(self) -> None:
        self.widen.build((None, self.n_mels))
        for block in self.blocks:
            block.build()
        self.project.build((None, self._width))
        self.refiner.build()
        self.built = True

    def waveform(
        self, log_mel: tf.Tensor, noise: tf.Tensor, iterations: int = SPEAKING_ITERATIONS
    ) -> tf.Tensor:
        """Convert [batch, frames, mels] to [batch, samples from the first to the last frame].

        The search for phases begins with those of white noise, [batch, samples].
        """
        magnitudes, states = self.predict_magnitudes(log_mel)
        found = waveform_with_magnitudes(magnitudes, noise, self.audio, iterations)
        return self.refined(found, states)

    def refined(self, waveform: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Refine a waveform [batch, samples] whose phases Griffin-Lim found."""
        found = spectrum(waveform, self.audio)
        parts = self.refiner(Spectrum(tf.math.real(found), tf.math.imag(found)), states)
        return waveform_of(tf.complex(*parts), self.audio)

    def predict_magnitudes(self, log_mel: tf.Tensor) -> Prediction:
        values = tf.cast(dense(self.widen, (log_mel - _MEL_MEAN) / _MEL_DEVIATION), tf.float32)
        for block in self.blocks:
            values = block.call_whole(values)
        values = root_mean_square_norm(values)
        difference = dense(self.project, values)
        logarithm = tf.minimum(self._log_amplitude(log_mel) + difference, _MAX_LOG_AMPLITUDE)
        magnitudes = tf.exp(logarithm)
        ratio = tf.exp(log_mel) / (tf.matmul(magnitudes, self._to_mel) + _SMALL)
        magnitudes *= tf.matmul(ratio, self._shares_of_bands) + self._in_no_band
        return Prediction(magnitudes, values)

    def _log_amplitude(self, log_mel: tf.Tensor) -> tf.Tensor:
        """Estimate log-amplitudes of bins from the mel; above the highest band they stay level."""
        amplitude = tf.matmul(tf.exp(log_mel), self._from_mel[:, : self._covered_bins])
        amplitude = tf.maximum(amplitude, _MIN_AMPLITUDE)
        edge = tf.reduce_mean(amplitude[..., -_EDGE_BINS:], -1, keepdims=True)
        above = tf.repeat(edge, self._bins - self._covered_bins, axis=-1)
        return tf.math.log(tf.concat([amplitude, above], -1))


def _pseudo_inverse(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Invert [bins, mels] through the small matrix product of the bands, a tenth of the work."""
    wide = weights.astype(np.float64)
    return (np.linalg.pinv(wide.T @ wide, hermitian=True) @ wide.T).astype(np.float32)


_NOISE_SAMPLES = 1 << 18


class NeuralVocoder:
    """A Vocoder with one compiled function for all lengths."""

    def __init__(self, network: VocoderNetwork, *, compiled: bool = True) -> None:
        """Wrap a network; without `compiled` the first mel is faster and all others are slower."""
        self.network = network
        # Padding before and after a mel: all frames that overlap a sample, and one to spare.
        self._silent_frames = overlapping_frames(network.audio) + 2
        self._traced = tf.function(
            self._window,
            input_signature=[
                tf.TensorSpec([None, network.n_mels], tf.float32),
                tf.TensorSpec([None], tf.float32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.int32),
            ],
            autograph=False,
        )
        self._speak = self._traced if compiled else self._traced.python_function

    @property
    def traces(self) -> int:
        """Number of TensorFlow traces of the function."""
        count: int = self._traced.experimental_get_tracing_count()
        return count

    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        chunks = self._samples_of([(log_mel, True)], seed)
        return np.concatenate([np.zeros(0, np.float32), *chunks])

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """Yield the samples of a mel that arrives in chunks, [frames, mels] each.

        Joined, they equal those of the whole mel. The last frames of a chunk wait for the next.
        """
        nothing = np.zeros((0, self.network.n_mels), np.float32)
        chunks = ((chunk, False) for chunk in log_mels)
        yield from self._samples_of(chain(chunks, [(nothing, True)]), seed)

    def _samples_of(
        self, chunks: Iterable[tuple[FloatArray, bool]], seed: int
    ) -> Iterator[FloatArray]:
        """Yield the samples of chunks, each given with a flag that marks the last one."""
        hop = self.network.audio.hop_samples
        shape = self._silent_frames, self.network.n_mels
        silence = np.full(shape, np.log(LOG_FLOOR), np.float32)
        window = silence
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        before = self._silent_frames
        for chunk, is_last in chunks:
            window = np.concatenate([window, chunk, *([silence] if is_last else [])])
            after = self._silent_frames if is_last else self.network.context_frames
            spoken = len(window) - 1 - before - after
            if spoken < 1:
                continue
            noise = _noise(noise_start, (len(window) - 1) * hop)
            yield self._speak(window, noise, before, after).numpy()
            left_behind = max(before + spoken - self.network.context_frames, 0)
            window = window[left_behind:]
            noise_start += left_behind * hop
            before += spoken - left_behind

    def _window(
        self, log_mel: tf.Tensor, noise: tf.Tensor, before: tf.Tensor, after: tf.Tensor
    ) -> tf.Tensor:
        """Return samples without those of the first `before` and the last `after` frames."""
        hop = self.network.audio.hop_samples
        samples = self.network.waveform(log_mel[None], noise[None])[0]
        return samples[before * hop : tf.size(samples) - after * hop]


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """Return white noise that does not depend on how a mel is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")


# Weight of the magnitudes relative to their logarithms.
_LINEAR_WEIGHT = 2.0
# Fewer than in synthesis: the refiner sees the errors of Griffin-Lim more clearly, and steps are
# faster.
_TRAINING_ITERATIONS = 12
# No extra emphasis, unlike in synthesis: the refiner would learn to remove it.
_TRAINING_EMPHASIS = 1.0
_REFINED_MEL_WEIGHT = 5.0
# Adam adapts to the scale of a gradient; a small one keeps its norm from being clipped.
_REFINING_WEIGHT = 0.02
# Keeps the gradients of single bins above the smallest float16: loss scaling does not apply inside
# a branch.
_GRADIENT_SCALE = 2.0**12


class SegmentDraws(NamedTuple):
    """Random numbers of a step, drawn for the whole batch before it is split."""

    noise: tf.Tensor  # [batch, samples]
    is_predicted: tf.Tensor  # [batch]: whether the refiner gets a predicted mel, if there is one
    is_refined: tf.Tensor  # [batch], the same for all


class SegmentCounts(NamedTuple):
    segments: tf.Tensor


class TrainedVocoder(keras.Model):
    def __init__(self, config: XTTSConfig) -> None:
        super().__init__(name="vocoder_training")
        self._audio = config.audio
        # Frames at both ends of a segment, whose windows reach past it.
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
        """Draw the random numbers of a step; `seed` is int32 [2]."""
        return SegmentDraws(
            tf.random.stateless_normal([batch_size, self._span], seed, alg="philox"),
            # Alternate rows between steps, because clips of similar length tend to share a row.
            (tf.range(batch_size) + seed[1]) % 2 == 0,
            tf.fill([batch_size], is_refined),
        )

    def count(self, batch: Any) -> SegmentCounts:
        return SegmentCounts(tf.cast(tf.shape(batch.samples)[0], tf.float32))

    def loss_parts(
        self, batch: Any, draws: SegmentDraws, counts: SegmentCounts, training: bool = True
    ) -> VocoderLossParts:
        """Return the sums over segments, divided by the number of segments of the whole batch.

        Without `training` the refiner and the discriminators get no gradients, because distributed
        variables have gradients only inside a replica.
        """
        prediction = self.network.predict_magnitudes(batch.mel)
        recorded = tf.sqrt(squared_magnitude(spectrum(batch.samples, self._audio)) + _SMALL_POWER)
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
        """Return the losses of refiner and discriminators; neither trains the magnitudes."""
        of_refiner = [it.value for it in self.network.refiner.trainable_variables]
        of_critics = [
            it.value for critic in self.discriminators for it in critic.trainable_variables
        ]

        def losses_and_gradients() -> tuple[tf.Tensor, ...]:
            found, states = self._searched(batch, prediction, draws)
            with tf.GradientTape(persistent=True) as tape:
                refined = self.network.refined(found, states)
                errors = _REFINED_MEL_WEIGHT * self.mel_error(refined, batch.mel)
                critic_errors = tf.zeros_like(errors)
                for index, samples in enumerate(window_lengths(self._audio)):
                    levels, target = (
                        log_levels(self._inside(it), samples) for it in (refined, batch.samples)
                    )
                    errors += tf.reduce_mean(tf.abs(levels - target), [1, 2])
                    if self.discriminators:
                        scored = self.discriminators[index].errors(levels, target)
                        errors += self._adversarial_weight * scored.of_copy
                        critic_errors += scored.of_discriminator
                refining, critic_loss = map(tf.reduce_sum, (errors, critic_errors))
                scaled = _GRADIENT_SCALE * refining
            weight = _REFINING_WEIGHT / counts.segments
            if not training:
                return weight * refining, weight * critic_loss
            gradients = tape.gradient(scaled, of_refiner)
            return (
                weight * refining,
                weight * critic_loss,
                *(weight / _GRADIENT_SCALE * it for it in gradients),
                *(weight * it for it in tape.gradient(critic_loss, of_critics)),
            )

        # Gradients are computed inside the branch: what it would keep for outer gradients has no
        # static shape under XLA.
        learning = [tf.convert_to_tensor(it) for it in (*of_refiner, *of_critics) if training]
        refining, critic_loss, *gradients = tf.cond(
            tf.reduce_any(draws.is_refined),
            losses_and_gradients,
            lambda: (tf.zeros([]), tf.zeros([]), *map(tf.zeros_like, learning)),
        )
        pull = gradients_only(learning, gradients) if training else 0.0
        return tf.stop_gradient(refining) + pull, tf.stop_gradient(critic_loss)

    def _searched(
        self, batch: Any, prediction: Prediction, draws: SegmentDraws
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return waveforms before refinement, and the states of their frames."""
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
        """Trim the ends of segments, whose frames are incomplete."""
        margin = self._audio.fft_samples
        return waveform[:, margin : self._span - margin]

    def mel_error(self, waveform: tf.Tensor, mel: tf.Tensor) -> tf.Tensor:
        """Return the mean distance of the log-mels without the ends, [batch]."""
        distance = tf.abs(log_mel(waveform, self._audio, mel.shape[2]) - mel)
        margin = self._audio.fft_samples // self._audio.hop_samples
        return tf.reduce_mean(distance[:, margin:-margin], [1, 2])

    def copy(self, batch: Any) -> tf.Tensor:
        """Resynthesize waveforms for validation."""
        shape = [tf.shape(batch.mel)[0], self._span]
        noise = tf.random.stateless_normal(shape, tf.constant([0, -1]))
        return self.network.waveform(batch.mel, noise)


def _distances(predicted: tf.Tensor, recorded: tf.Tensor) -> tf.Tensor:
    """Return the mean distance of magnitudes [batch, frames, bins] per clip, [batch]."""
    linear = tf.reduce_mean(tf.abs(predicted - recorded), [1, 2])
    ratio = tf.math.log((predicted + _MIN_LEVEL) / (recorded + _MIN_LEVEL))
    logarithmic = tf.sqrt(tf.reduce_mean(tf.square(ratio), 2) + _SMALL_POWER)
    return _LINEAR_WEIGHT * linear + tf.reduce_mean(logarithmic, 1)


# Ratios of the window lengths to the mel's, and of a window to its hop.
_WINDOW_RATIOS = (0.5, 1.25)
_OVERLAP = 4


class AdversarialErrors(NamedTuple):
    """[batch] each."""

    of_discriminator: tf.Tensor
    of_copy: tf.Tensor


class SpectrumDiscriminator(PatchDiscriminator):
    """Scores the levels of `log_levels` as those of a recording or of a resynthesis."""

    convolutions = (
        Convolution(12, (3, 7), (1, 2)),
        Convolution(24, (3, 5), (2, 2)),
        Convolution(32, (3, 3), (2, 2)),
        Convolution(48, (3, 3), (1, 2)),
        Convolution(1, (3, 3), (1, 1)),
    )
    input_channels = 2
    feature_matching_weight = 2.0

    def call(self, levels: tf.Tensor) -> Critique:
        planes = [(levels - _LEVEL_MEAN) / _LEVEL_DEVIATION, band_heights(levels)]
        return self.score(tf.stack(planes, -1))

    def errors(self, copied: tf.Tensor, recorded: tf.Tensor) -> AdversarialErrors:
        """Return least-squares errors; each clip is scored by itself."""
        of_copied, of_recorded = self(copied), self(recorded)
        features = tf.zeros([])
        for ours, theirs in zip(of_copied.features, of_recorded.features, strict=True):
            theirs = tf.stop_gradient(theirs)
            size = _clip_means(tf.abs(theirs)) + _SMALL_POWER
            features += _clip_means(tf.abs(ours - theirs)) / size
        return AdversarialErrors(
            _clip_means(tf.square(of_recorded.scores - 1.0))
            + _clip_means(tf.square(of_copied.scores)),
            _clip_means(tf.square(of_copied.scores - 1.0))
            + self.feature_matching_weight * features,
        )


def window_lengths(audio: AudioConfig) -> tuple[int, ...]:
    """Return window lengths in samples, each a multiple of the overlap."""
    return tuple(round(audio.fft_samples * ratio / _OVERLAP) * _OVERLAP for ratio in _WINDOW_RATIOS)


def log_levels(waveform: tf.Tensor, window_samples: int) -> tf.Tensor:
    """Return log-magnitudes [batch, frames, bins] of [batch, samples]."""
    frames = cut_frames(waveform, window_samples, window_samples // _OVERLAP)
    power = squared_magnitude(tf.signal.rfft(frames * hann_window(window_samples)))
    return tf.math.log(tf.sqrt(power * (2.0 / window_samples) + _SMALL_POWER) + _MIN_LEVEL)


def _clip_means(values: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(values, list(range(1, values.shape.rank)))
