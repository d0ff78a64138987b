"""The whole model: training losses for a batch, and mel sampling."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.models.alignment import align
from myxtts.models.critics import MelDiscriminator, PhonemeClassifier, cross_entropy
from myxtts.models.decoder import FlowDecoder
from myxtts.models.frame_encoder import FrameEncoder
from myxtts.models.layers import gradients_only, length_mask, stack_frames
from myxtts.models.text_encoder import EncodedText, TextEncoder
from myxtts.models.voice_encoder import Voice, VoiceEncoder

if TYPE_CHECKING:
    from myxtts.data.batch import Batch

# Errors of the clean mel are weighted like errors of the velocity, which are larger by a factor of
# 1 / (1 - time). This bounds the weight near the end of the flow.
_MIN_TIME_LEFT = 0.4
# Synthesis starts with little noise, and its first step decides which sounds are produced. This
# share of the clips is trained on that step; all other flow times use full noise, or there would be
# nothing to learn.
_FIRST_STEP_SHARE = 0.25
_FIRST_STEP_NOISE = 0.1
# Mean of the weight over all times; dividing by it keeps the loss on the scale of mel errors.
_MEAN_TIME_WEIGHT = _FIRST_STEP_SHARE + (1.0 - _FIRST_STEP_SHARE) * (2.0 / _MIN_TIME_LEFT - 1.0)
# Upper bound of log-durations, about 400 positions: an undertrained model must not run out of
# memory.
_MAX_LOG_DURATION = 6.0
# Positions counted for tokens without a sound of their own, such as most spaces, whose log-duration
# would be infinite.
SHORTEST_DURATION = 0.25
# Half a position; tokens predicted to be shorter may get none.
_MAX_SILENT_LOG_DURATION = -0.693
# Noise at the start of the flow, around the expected mel of the frame encoder. White noise of 1
# would hide all but the coarsest features of a mel.
_NOISE_AROUND_EXPECTED = 0.5
# The duration loss is linear beyond e^2 times the predicted duration, so that a single long pause
# does not dominate a batch.
_STEEPEST_LOG_EXCESS = 2.0
# Adam adapts to the scale of a gradient; a small one leaves the clipped norm to the other losses.
_DISCRIMINATOR_WEIGHT = 0.02
_CLASSIFIER_WEIGHT = 0.02


class Draws(NamedTuple):
    """Random numbers of a step, drawn for the whole batch before it is split."""

    segment_starts: tf.Tensor  # [batch], as a fraction of the possible starts
    flow_times: tf.Tensor  # [batch]
    condition_mask: tf.Tensor  # [batch, 2]: 0 where text, or voice, conditioning is dropped
    noise: tf.Tensor  # [batch, segment positions, channels of a position]
    voice_noise: tf.Tensor  # [batch, voice_width], relative to the size of a voice vector
    loss_weights: tf.Tensor  # [batch, losses] in the order of `LOSSES`, the same for all clips


class Counts(NamedTuple):
    """Denominators of the losses, counted over the whole batch before it is split."""

    tokens: tf.Tensor
    positions: tf.Tensor
    segment_positions: tf.Tensor


class Segment(NamedTuple):
    """The segments of a batch that the decoder is trained on, all [batch, positions, ...]."""

    predicted: tf.Tensor
    recorded: tf.Tensor
    expected: tf.Tensor
    """Expected mels; without a frame encoder zero where text conditioning is dropped."""
    inside: tf.Tensor
    """[batch, positions, 1]: zero in the padding."""
    weight: tf.Tensor
    """Weight of squared errors by the flow time; zero in the padding."""
    symbols: tf.Tensor
    """[batch, positions]: ids of the spoken symbols; 0 in the padding."""

    @property
    def error(self) -> tf.Tensor:
        return self.predicted - self.recorded

    @property
    def gradient_norm(self) -> tf.Tensor:
        """Norm of the gradient of each clip's weighted squared error, [batch]."""
        return tf.sqrt(tf.reduce_sum(tf.square(2.0 * self.error * self.weight), [1, 2]))


class ForwardPass(NamedTuple):
    """Everything from which the losses of a batch or micro-batch are computed."""

    draws: Draws
    counts: Counts
    text: EncodedText
    target: tf.Tensor  # [batch, positions, channels]: the normalized mel
    inside: tf.Tensor  # [batch, positions, 1]: zero in the padding
    scores: tf.Tensor  # [batch, positions, tokens], by `alignment_scores`
    path: tf.Tensor  # [batch, positions, tokens]: the part of each position that a token fills
    durations: tf.Tensor  # [batch, tokens], in positions
    condition: tf.Tensor  # [batch, positions, condition channels]
    spoken: tf.Tensor  # [batch, positions]: ids of symbols
    logits: tf.Tensor | None  # [batch, positions, symbols], of the phoneme classifier
    segment: Segment
    training: bool

    @property
    def flow_scale(self) -> tf.Tensor:
        return 1.0 / (self.counts.segment_positions * self.target.shape[-1])

    def weight(self, loss: str) -> tf.Tensor:
        """Return the weight of a loss in this step, [batch], the same for all clips."""
        return self.draws.loss_weights[:, list(LOSSES).index(loss)]


class XTTS(keras.Model):
    """Text encoder, voice encoder, alignment and flow decoder.

    `adversarial` adds a discriminator and `classifies_phonemes` a phoneme classifier, both for
    training only.

    `precision` is the data type of products over positions. Inputs, outputs, weights, output heads,
    alignment and losses are float32. It only concerns training; synthesis may use float32 with
    the same weights.
    """

    def __init__(
        self,
        config: XTTSConfig,
        *,
        symbols: int,
        languages: int,
        mel_mean: float,
        mel_deviation: float,
        precision: str = "float32",
        adversarial: bool = False,
        classifies_phonemes: bool = False,
    ) -> None:
        super().__init__(name="xtts")
        self.sizes = config.model
        self.n_mels = config.data.n_mels
        self.mel_mean = mel_mean
        self.mel_deviation = mel_deviation
        self.channels = self.n_mels * self.sizes.frames_per_position
        self.segment_positions = self.sizes.segment_frames // self.sizes.frames_per_position
        policy = "float32" if precision == "float32" else f"mixed_{precision}"
        self.text_encoder = TextEncoder(
            self.sizes, symbols, languages, self.channels, dtype=policy, name="text_encoder"
        )
        self.voice_encoder = VoiceEncoder(
            self.sizes, self.n_mels, dtype=policy, name="voice_encoder"
        )
        # Needed only by weights without a frame encoder.
        self.frame_encoder = (
            FrameEncoder(
                self.sizes,
                self.channels + self.sizes.text_width + 2,
                self.channels,
                dtype=policy,
                name="frame_encoder",
            )
            if self.sizes.frame_blocks
            else None
        )
        self.decoder = FlowDecoder(self.sizes, self.channels, dtype=policy, name="decoder")
        self.discriminator = MelDiscriminator(name="discriminator") if adversarial else None
        self.phoneme_classifier = (
            PhonemeClassifier(symbols, self.channels, name="phoneme_classifier")
            if classifies_phonemes
            else None
        )
        self.build()

    def build(self, input_shape: Any = None) -> None:
        """Create all weights without calling the model."""
        for part in (self.text_encoder, self.voice_encoder, self.decoder):
            part.build()
        for optional in (self.frame_encoder, self.discriminator, self.phoneme_classifier):
            if optional is not None:
                optional.build()

    def normalized(self, mel: tf.Tensor) -> tf.Tensor:
        return (mel - self.mel_mean) / self.mel_deviation

    def draw(
        self,
        batch_size: Any,
        seed: tf.Tensor,
        drop_rates: tuple[float, float] = (0.0, 0.0),
        voice_noise: float = 0.0,
    ) -> Draws:
        """Draw random numbers of a step; `seed` is int32 [2], `drop_rates` for text and voice."""
        starts_seed, times_seed, noise_seed, mask_seed = tf.unstack(
            tf.random.experimental.stateless_split(seed, 4, alg="philox")
        )
        # Spread flow times evenly over the batch from a random offset, which gives less gradient
        # noise than independent times.
        offset = tf.random.stateless_uniform([], times_seed, alg="philox")
        spread = tf.range(batch_size, dtype=tf.float32) / tf.cast(batch_size, tf.float32)
        times = (tf.math.floormod(offset + spread, 1.0) - _FIRST_STEP_SHARE) / (
            1.0 - _FIRST_STEP_SHARE
        )
        noise_scale = tf.where(times < 0.0, _FIRST_STEP_NOISE, 1.0)
        voice_seed = tf.random.experimental.stateless_fold_in(noise_seed, 1, alg="philox")
        return Draws(
            tf.random.stateless_uniform([batch_size], starts_seed, alg="philox"),
            tf.maximum(times, 0.0),
            tf.cast(
                tf.random.stateless_uniform([batch_size, 2], mask_seed, alg="philox") >= drop_rates,
                tf.float32,
            ),
            noise_scale[:, None, None]
            * tf.random.stateless_normal(
                [batch_size, self.segment_positions, self.channels], noise_seed, alg="philox"
            ),
            voice_noise
            * tf.random.stateless_normal(
                [batch_size, self.sizes.voice_width], voice_seed, alg="philox"
            ),
            tf.ones([batch_size, len(LOSSES)]),
        )

    def count(self, batch: Batch) -> Counts:
        positions = self._position_lengths(batch)
        return Counts(
            *(
                tf.cast(tf.reduce_sum(lengths), tf.float32)
                for lengths in (
                    batch.token_lengths,
                    positions,
                    tf.minimum(positions, self.segment_positions),
                )
            )
        )

    def call(
        self, batch: Batch, draws: Draws, counts: Counts, training: bool = True
    ) -> tuple[Any, tf.Tensor]:
        """Return the losses of a batch or micro-batch, and the path [batch, positions, tokens].

        Without `training` the adversarial loss is zero: it needs gradients of the discriminator,
        and distributed variables have gradients only inside a replica.
        """
        voice = self.voice_encoder(self.normalized(batch.reference), batch.reference_lengths)
        text = self.text_encoder(
            batch.token_ids,
            batch.token_lengths,
            batch.slots,
            batch.language_ids,
            _noised(voice.vector, draws.voice_noise),
        )
        target = stack_frames(self.normalized(batch.mel), self.sizes.frames_per_position)
        lengths = self._position_lengths(batch)
        positions = tf.shape(target)[1]
        scores = alignment_scores(text.mean_mel, target)
        inside = length_mask(lengths, positions)
        logits = None
        if self.phoneme_classifier is not None:
            logits = self.phoneme_classifier(target, inside).logits
        found = align(
            scores if logits is None else scores + recognition_scores(logits, batch.token_ids),
            batch.token_lengths,
            lengths,
            silent_tokens(text),
        )
        ends = token_ends(batch, lengths, tf.cumsum(tf.reduce_sum(found, 1), axis=1))
        durations = tf.maximum(_durations(ends), SHORTEST_DURATION) * text.mask[:, :, 0]
        path = spread_path(ends, positions)
        # The token that fills most of a position.
        spoken = tf.gather(batch.token_ids, tf.argmax(path, -1, output_type=tf.int32), batch_dims=1)
        condition = self._condition(text, path, ends, inside, voice)
        segment = self._denoised_segment(condition, voice, target, spoken, lengths, draws)
        forward = ForwardPass(
            draws=draws,
            counts=counts,
            text=text,
            target=target,
            inside=inside,
            scores=scores,
            path=path,
            durations=durations,
            condition=condition,
            spoken=spoken,
            logits=logits,
            segment=segment,
            training=training,
        )
        return _loss_parts(*LOSSES)(*(loss(self, forward) for loss in LOSSES.values())), path

    def _position_lengths(self, batch: Batch) -> tf.Tensor:
        return batch.mel_lengths // self.sizes.frames_per_position

    def _denoised_segment(
        self,
        condition: tf.Tensor,
        voice: Voice,
        target: tf.Tensor,
        spoken: tf.Tensor,
        lengths: tf.Tensor,
        draws: Draws,
    ) -> Segment:
        """Noise and denoise one random segment of each clip.

        The flow follows a straight path from noise to data. Segments are never longer than the
        batch, so the decoder does not run on padding alone.
        """
        slack = tf.maximum(lengths - self.segment_positions, 0)
        starts = tf.cast(draws.segment_starts * tf.cast(slack + 1, tf.float32), tf.int32)
        positions = tf.minimum(self.segment_positions, tf.shape(target)[1])
        segment = starts[:, None] + tf.range(positions)
        inside = tf.cast(segment < lengths[:, None], tf.float32)[:, :, None]
        data, condition, symbols = (
            tf.gather(values, segment, batch_dims=1) for values in (target, condition, spoken)
        )
        amount = draws.flow_times[:, None, None]
        condition, voice = self.masked_conditions(draws.condition_mask, condition, voice)
        noise = self.first_mel(condition, draws.noise[:, :positions])
        noisy = (1.0 - amount) * noise + amount * data
        clean = self.decoder(noisy, condition, inside, draws.flow_times, voice)
        weight = inside / tf.square(tf.maximum(1.0 - amount, _MIN_TIME_LEFT))
        expected = tf.stop_gradient(condition[:, :, : self.channels])
        return Segment(
            clean,
            data,
            expected,
            inside,
            weight / _MEAN_TIME_WEIGHT,
            tf.where(inside[:, :, 0] > 0.0, symbols, 0),
        )

    def _condition(
        self, text: EncodedText, path: tf.Tensor, ends: tf.Tensor, inside: tf.Tensor, voice: Voice
    ) -> tf.Tensor:
        """Return expected mel and state per position, [batch, positions, condition channels]."""
        per_token = tf.concat([text.mean_mel, text.states], -1)
        spread = tf.concat([tf.matmul(path, per_token), _position_within_token(path, ends)], -1)
        if self.frame_encoder is None:
            return spread
        frames = self.frame_encoder(spread, spread[:, :, : self.channels], inside, voice)
        return tf.concat([frames.mel, frames.states], -1)

    def masked_conditions(
        self, condition_mask: tf.Tensor, condition: tf.Tensor, voice: Voice
    ) -> tuple[tf.Tensor, Voice]:
        """Zero text and voice conditioning where `condition_mask` [batch, 2] is zero.

        The expected mel of a frame encoder stays: the flow starts from it, with and without text.
        """
        text, of_voice = condition_mask[:, :1, None], condition_mask[:, 1:]
        if self.frame_encoder is None:
            condition *= text
        else:
            expected, states = tf.split(condition, [self.channels, -1], -1)
            condition = tf.concat([expected, states * text], -1)
        return condition, Voice(voice.vector * of_voice, voice.latents * of_voice[:, :, None])

    def first_mel(self, condition: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Return the start of the flow: `noise` of variance 1 around the expected mel."""
        if self.frame_encoder is None:
            return noise
        expected = tf.stop_gradient(condition[:, :, : self.channels])
        return expected + _NOISE_AROUND_EXPECTED * noise

    def plan_positions(self, text: EncodedText, speed: tf.Tensor) -> tf.Tensor:
        """Round durations to whole positions, [batch, tokens].

        Each token gets at least one, except those shorter than half a position, which usually have
        no sound of their own. Token ends are rounded rather than durations, so that rounding errors
        do not accumulate over a sentence.
        """
        mask = text.mask[:, :, 0]
        log_durations = tf.minimum(text.log_durations, _MAX_LOG_DURATION)
        durations = tf.exp(log_durations)
        shortest = 1.0 - silent_tokens(text)
        rounded = _durations(tf.round(tf.cumsum(durations / speed * mask, axis=1)))
        return tf.maximum(rounded, shortest) * mask

    def conditions(
        self, text: EncodedText, durations: tf.Tensor, positions: Any, voice: Voice
    ) -> tf.Tensor:
        """Return the conditioning of the decoder, [batch, positions, channels]."""
        ends = tf.cumsum(durations, axis=1)
        inside = length_mask(tf.cast(tf.reduce_max(ends, 1), tf.int32), positions)
        return self._condition(text, spread_path(ends, positions), ends, inside, voice)

    def flow(
        self,
        condition: tf.Tensor,
        lengths: tf.Tensor,
        voice: Voice,
        start: tf.Tensor,
        *,
        steps: tf.Tensor,
        guidance: tf.Tensor,
        first_step: int = 0,
    ) -> tf.Tensor:
        """Sample log-mels [batch, frames, mels] with Euler's method.

        `condition` is as from `conditions`, `lengths` [batch] in positions. `start` [batch,
        positions, channels of a position] is noise, or the state before `first_step`.
        Classifier-free guidance for text and voice: the decoder also predicts without that
        condition, and the prediction is extrapolated away from the unconditional one by `guidance`.
        """
        batch, positions, _ = tf.unstack(tf.shape(start))
        mask = length_mask(lengths, positions)
        is_used = tf.concat([[True], guidance > 0.0], 0)
        masks = tf.boolean_mask(tf.constant([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), is_used)
        weights = tf.concat([1.0 + tf.reduce_sum(guidance, keepdims=True), -guidance], 0)
        weights = tf.boolean_mask(weights, is_used)
        predictions = tf.shape(weights)[0]
        condition, mask, *voice_parts = (
            tf.tile(values, [predictions, *[1] * (values.shape.rank - 1)])
            for values in (condition, mask, *voice)
        )
        condition, voice = self.masked_conditions(
            tf.repeat(masks, batch, axis=0), condition, Voice(*voice_parts)
        )
        # Computed once instead of at every step.
        conditioning = self.decoder.project(condition, voice)

        def advance(step: tf.Tensor, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            time = tf.fill([predictions * batch], tf.cast(step / steps, tf.float32))
            outputs = self.decoder.denoised(
                tf.tile(mel, [predictions, 1, 1]), mask, time, conditioning
            )
            outputs = tf.reshape(outputs, [predictions, batch, positions, self.channels])
            clean = tf.tensordot(weights, outputs, 1)
            # One step of 1 / steps along (clean - mel) / (1 - time).
            return step + 1, mel + (clean - mel) / tf.cast(steps - step, tf.float32)

        _, mel = tf.while_loop(
            lambda step, _: step < steps,
            advance,
            (tf.constant(first_step), start),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None, self.channels])),
        )
        frames = tf.reshape(mel, [batch, -1, self.n_mels])
        return frames * self.mel_deviation + self.mel_mean


def _noised(vector: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """Add noise relative to the vector's size, so that a larger vector does not escape it."""
    size = tf.sqrt(tf.reduce_mean(tf.square(vector), -1, keepdims=True))
    return vector + tf.stop_gradient(size) * noise


def alignment_scores(mean_mel: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Return -||mean - target||^2 / 2 without the target's own term, which no path changes.

    Maps mean_mel [batch, tokens, channels] and target [batch, positions, channels] to [batch,
    positions, tokens].
    """
    cross = tf.matmul(target, mean_mel, transpose_b=True)
    return cross - 0.5 * tf.reduce_sum(tf.square(mean_mel), -1)[:, None]


def recognition_scores(logits: tf.Tensor, token_ids: tf.Tensor) -> tf.Tensor:
    """Return the log-probability of each token at each position, [batch, positions, tokens]."""
    return tf.gather(tf.nn.log_softmax(logits), token_ids, axis=2, batch_dims=1)


def token_ends(batch: Batch, lengths: tf.Tensor, found: tf.Tensor) -> tf.Tensor:
    """Return the end of each token in positions, [batch, tokens]: known ones, or else `found`."""
    is_known = tf.reduce_max(batch.token_ends, 1, keepdims=True) > 0.0
    # Tokens of the padding end where the last one does.
    inside = tf.sequence_mask(batch.token_lengths, tf.shape(batch.token_ends)[1])
    known = tf.where(inside, batch.token_ends, 1.0) * tf.cast(lengths, tf.float32)[:, None]
    return tf.where(is_known, known, found)


def silent_tokens(text: EncodedText) -> tf.Tensor:
    """Mark tokens that usually have no sound of their own, such as spaces, with 1; [batch, tokens].

    Never two in a row, and neither the first nor the last.
    """
    is_short = tf.cast(text.log_durations < _MAX_SILENT_LOG_DURATION, tf.float32)
    is_followed = tf.pad(text.mask[:, 1:, 0], [[0, 0], [0, 1]])
    follows_a_sound = tf.pad(1.0 - is_short[:, :-1], [[0, 0], [1, 0]])
    return is_short * is_followed * follows_a_sound


def _durations(ends: tf.Tensor) -> tf.Tensor:
    return ends - tf.pad(ends[:, :-1], [[0, 0], [1, 0]])


def spread_path(ends: tf.Tensor, positions: Any) -> tf.Tensor:
    """Return the part of each position that each token fills, [batch, positions, tokens]."""
    index = tf.range(positions, dtype=tf.float32)[None, :, None]
    starts = tf.pad(ends[:, :-1], [[0, 0], [1, 0]])
    overlap = tf.minimum(ends[:, None], index + 1.0) - tf.maximum(starts[:, None], index)
    return tf.clip_by_value(overlap, 0.0, 1.0)


def _position_within_token(path: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Return the relative position within the token, 0 to 1, and the token's log-duration."""
    durations = _durations(ends)
    features = tf.stack([ends - durations, durations], -1)  # [batch, tokens, 2]
    per_position = tf.matmul(path, features)
    starts, spans = per_position[:, :, :1], tf.maximum(per_position[:, :, 1:], 1.0)
    index = tf.range(tf.shape(path)[1], dtype=tf.float32)[None, :, None]
    return tf.concat([(index - starts + 0.5) / spans, tf.math.log(spans)], -1)


def prior_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    """Compute half the squared distance between each position and the mean mel of its token.

    The scores on the path are that distance, except for the sign and the term of the target alone.
    """
    inside = tf.reduce_sum(forward.path, -1)  # [batch, positions]
    own_part = 0.5 * tf.reduce_sum(tf.square(forward.target), -1) * inside
    error = tf.reduce_sum(own_part) - tf.reduce_sum(forward.path * forward.scores)
    return error / (forward.counts.positions * model.channels)


def duration_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    return duration_error(forward.text, forward.durations) / forward.counts.tokens


def duration_error(text: EncodedText, durations: tf.Tensor) -> tf.Tensor:
    """Compute the deviance of a gamma distribution, which is smallest at the mean duration.

    The squared error of log-durations is smallest at their mean, which makes speech too short where
    durations are uncertain. Both agree for small errors.
    """
    excess = tf.math.log(tf.maximum(durations, SHORTEST_DURATION)) - text.log_durations
    bounded = tf.minimum(excess, _STEEPEST_LOG_EXCESS)
    ratio = tf.exp(bounded) * (1.0 + excess - bounded)
    deviance = 2.0 * (ratio - 1.0 - excess)
    return tf.reduce_sum(deviance * text.mask[:, :, 0])


def mel_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    """Compute the squared error of the frame encoder's expected mel."""
    if model.frame_encoder is None:
        return tf.zeros([])
    error = forward.condition[:, :, : model.channels] - forward.target
    total = tf.reduce_sum(tf.square(error) * forward.inside)
    return total / (forward.counts.positions * model.channels)


def flow_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    segment = forward.segment
    return tf.reduce_sum(tf.square(segment.error) * segment.weight) * forward.flow_scale


def adversarial_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    """Compute the discriminator's loss; its gradient also includes the decoder's.

    The decoder's gradient is `adversarial_weight` times as large as that of the flow loss, clip by
    clip, regardless of the discriminator's scale.
    """
    if model.discriminator is None or not forward.training:
        return tf.zeros([])
    discriminator, segment = model.discriminator, forward.segment
    adversarial_weight, flow_scale = forward.weight("adversarial"), forward.flow_scale
    weights = [variable.value for variable in discriminator.trainable_variables]
    learning = [segment.predicted, *map(tf.convert_to_tensor, weights)]

    def loss_and_gradients() -> tuple[tf.Tensor, ...]:
        predicted, recorded, expected = (
            tf.reshape(values, [tf.shape(values)[0], -1, model.n_mels])
            for values in (segment.predicted, segment.recorded, segment.expected)
        )
        mask = tf.repeat(segment.inside, model.sizes.frames_per_position, axis=1)
        with tf.GradientTape() as tape:
            error, direction = discriminator.terms(predicted, recorded, expected, mask)
            loss = tf.reduce_sum(error) * _DISCRIMINATOR_WEIGHT * flow_scale * model.n_mels
        size = segment.gradient_norm * adversarial_weight * flow_scale
        direction = tf.reshape(direction, tf.shape(segment.predicted))
        return loss, size[:, None, None] * direction, *tape.gradient(loss, weights)

    # Skipped while the weight is zero, which saves most of the cost. Gradients are computed inside
    # the branch: what it would keep for outer gradients has no static shape under XLA.
    loss, *gradients = tf.cond(
        tf.reduce_max(adversarial_weight) > 0.0,
        loss_and_gradients,
        lambda: (tf.zeros([]), *map(tf.zeros_like, learning)),
    )
    return tf.stop_gradient(loss) + gradients_only(learning, gradients)


def phoneme_loss(model: XTTS, forward: ForwardPass) -> tf.Tensor:
    """Compute the phoneme classifier's loss; its gradient also includes the decoder's.

    The decoder gets none where text conditioning is dropped.
    """
    if model.phoneme_classifier is None:
        return tf.zeros([])
    segment, draws = forward.segment, forward.draws
    error = cross_entropy(forward.logits, forward.spoken, forward.inside)
    error *= tf.reduce_sum(forward.inside, [1, 2])
    own = tf.reduce_sum(error) * _CLASSIFIER_WEIGHT / forward.counts.positions
    direction = model.phoneme_classifier.decoder_gradient(
        segment.predicted, segment.recorded, segment.symbols, segment.inside
    )
    weight = forward.weight("phoneme") * draws.condition_mask[:, 0] * forward.flow_scale
    gradient = (segment.gradient_norm * weight)[:, None, None] * direction
    return own + gradients_only([segment.predicted], [gradient])


LOSSES: dict[str, Callable[[XTTS, ForwardPass], tf.Tensor]] = {
    "prior": prior_loss,
    "duration": duration_loss,
    "mel": mel_loss,
    "flow": flow_loss,
    "adversarial": adversarial_loss,
    "phoneme": phoneme_loss,
}
"""The losses by name. Their sum is minimized.

Each is weighted by `ForwardPass.weight`: the setting `training.NAME_weight`, or 1 without one.
"""


@functools.lru_cache
def _loss_parts(*names: str) -> Any:
    return namedtuple("LossParts", names)
