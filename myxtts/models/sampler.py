"""Samples mels from token ids and a voice, in a few static shapes.

Texts, positions and rows are padded to those shapes. Dimensions are open, so one trace serves all
of them; shapes are few, so kernels and buffers of one sentence are reused by the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import VOICE_STEP_FRAMES, Guidance
from myxtts.models.alignment import align
from myxtts.models.decoder import condition_channels
from myxtts.models.layers import slots_of, stack_frames
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.text_encoder import EncodedText
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS, alignment_scores, silent_tokens

FloatArray = npt.NDArray[np.float32]

_Item = TypeVar("_Item")

TEXT_SIZES = (64, 128, 192, 256, 512, 1_024, 2_048)
"""Padded lengths of a sentence in tokens."""
POSITION_SIZES = (48, 64, 112, 128, 192, 256, 384, 512, 1_024)
"""Padded lengths in positions; longer sentences are decoded in windows.

Nothing between 64 and 112: oneDNN uses a single core for products that fit into its cache, so 96
positions take longer than 112.
"""
ROWS_OF_BATCH = 4
# Larger batches are no faster on a CPU because they no longer fit into its caches.
_MAX_POSITIONS = 2_048


def size_for(length: int, sizes: Sequence[int]) -> int:
    """Return the smallest size that holds `length`, or `length` itself if none does."""
    return next((size for size in sizes if size >= length), length)


def row_counts(size: int) -> tuple[int, ...]:
    """Return the allowed batch sizes for sentences of a size: several, or one."""
    return (ROWS_OF_BATCH, 1) if ROWS_OF_BATCH * size <= _MAX_POSITIONS else (1,)


def batches(
    items: Iterable[_Item], length_of: Callable[[_Item], int], sizes: Sequence[int]
) -> Iterator[tuple[int, list[_Item]]]:
    """Split items into full batches of one size: (size, items) with a count of `row_counts`.

    The size of an item depends on its length only.
    """

    def size_of(item: _Item) -> int:
        return size_for(length_of(item), sizes)

    for size, alike in groupby(sorted(items, key=size_of), size_of):
        waiting = list(alike)
        for count in row_counts(size):
            while len(waiting) >= count:
                yield size, waiting[:count]
                waiting = waiting[count:]


_NO_GUIDANCE = Guidance(text=0.0, voice=0.0)
_PADDING_ID = 0
# Positions on either side of a window that are decoded as context and discarded. The receptive
# field over all steps is larger, but the difference is inaudible, as measured in
# docs/en/speaking.md.
CONTEXT_POSITIONS = 16


class Sentence(NamedTuple):
    token_ids: Sequence[int]
    language_id: int
    voice: Voice
    """Voice with a single row."""


@dataclass(frozen=True, eq=False)
class SentencePlan:
    """A sentence with known durations, ready to be decoded."""

    condition: FloatArray  # [positions, channels]
    voice: Voice
    token_positions: npt.NDArray[np.int64]  # [tokens]

    @property
    def positions(self) -> int:
        return len(self.condition)


class Window(NamedTuple):
    """A span of a sentence, and the span that is decoded for it."""

    start: int
    end: int
    context_start: int
    context_end: int


class SpeechSampler:
    """Samples log-mels from token ids and a reference mel, without text, files or waveforms."""

    def __init__(
        self, model: XTTS, default_guidance: Guidance = _NO_GUIDANCE, *, compiled: bool = True
    ) -> None:
        """Wrap a model; compiling takes seconds and makes every sentence faster.

        Without it, a single sentence is finished sooner, in its own shape.
        """
        self._default_guidance = default_guidance
        self._model = model
        functions = _compile(model)
        self._traced = functions if compiled else ()
        self._text_sizes = TEXT_SIZES if compiled else ()
        self._position_sizes = POSITION_SIZES if compiled else ()
        self._encode_voice, self._encode_text, self._spread, self._decode = (
            function if compiled else function.python_function for function in functions
        )

    @property
    def model(self) -> XTTS:
        return self._model

    @property
    def frames_per_position(self) -> int:
        return self._model.sizes.frames_per_position

    @property
    def n_mels(self) -> int:
        return self._model.n_mels

    @property
    def traces(self) -> int:
        """Number of TensorFlow traces of all functions."""
        return sum(function.experimental_get_tracing_count() for function in self._traced)

    def voice(self, reference_mel: npt.NDArray[np.float32]) -> Voice:
        """Encode a reference mel [frames, mels] of any length."""
        return Voice(*self._encode_voice(tf.convert_to_tensor(reference_mel, tf.float32)[None]))

    def mels(
        self,
        texts: Sequence[Sequence[int]],
        language_ids: Sequence[int],
        voice: Voice,
        options: SpeechOptions,
    ) -> list[FloatArray]:
        """Return mels, each [frames, mels], of texts given as token ids.

        `voice` is one for all texts, or one per text.
        """
        rows = [Voice(*(part[row : row + 1] for part in voice)) for row in range(len(voice.vector))]
        rows = rows * len(texts) if len(rows) == 1 else rows
        sentences = list(map(Sentence, texts, language_ids, rows))
        return self.decode(self.plan(sentences, options.speed), options)

    def plan(self, sentences: Sequence[Sentence], speed: float) -> list[SentencePlan]:
        """Predict durations and the conditioning of the decoder at each position."""
        plans: dict[int, SentencePlan] = {}
        indices = range(len(sentences))
        for tokens, chosen in batches(
            indices, lambda index: len(sentences[index].token_ids), self._text_sizes
        ):
            plans |= zip(
                chosen, self._plan([sentences[i] for i in chosen], tokens, speed), strict=True
            )
        return [plans[index] for index in indices]

    def decode(self, plans: Sequence[SentencePlan], options: SpeechOptions) -> list[FloatArray]:
        """Return the mels of planned sentences, none of which depends on the others."""
        parts: dict[tuple[int, int], FloatArray] = {}
        stretches = [
            (index, window) for index, plan in enumerate(plans) for window in windows(plan)
        ]

        def length_of(stretch: tuple[int, Window]) -> int:
            return stretch[1].context_end - stretch[1].context_start

        for size, chosen in batches(stretches, length_of, self._position_sizes):
            asked = [(plans[index], window) for index, window in chosen]
            decoded = self._decode_windows(asked, size, options)
            for (index, window), mel in zip(chosen, decoded, strict=True):
                parts[index, window.start] = mel
        return [
            np.concatenate([parts[index, window.start] for window in windows(plan)])
            for index, plan in enumerate(plans)
        ]

    def stream(
        self, plan: SentencePlan, options: SpeechOptions, lengths: Sequence[int]
    ) -> Iterator[FloatArray]:
        """Yield the mel of one sentence in windows, as from `windows`."""
        for window in windows(plan, lengths):
            size = size_for(window.context_end - window.context_start, self._position_sizes)
            [mel] = self._decode_windows([(plan, window)], size, options)
            yield mel

    def warm_up(self, voice: Voice, options: SpeechOptions, *, positions: int, tokens: int) -> None:
        """Run every shape up to the given lengths once, so that the first sentence is fast too."""
        for size in TEXT_SIZES:
            if size <= size_for(tokens, TEXT_SIZES):
                for rows in row_counts(size):
                    self.plan([Sentence([1] * size, 0, voice)] * rows, options.speed)
        for size in POSITION_SIZES:
            if size <= size_for(positions, POSITION_SIZES):
                for rows in row_counts(size):
                    blank = np.zeros((size, self._condition_channels), np.float32)
                    plan = SentencePlan(blank, voice, np.zeros(0, np.int64))
                    self.decode([plan] * rows, options)

    @property
    def _condition_channels(self) -> int:
        return condition_channels(self._model.sizes, self._model.channels)

    def _plan(self, rows: Sequence[Sentence], tokens: int, speed: float) -> Iterator[SentencePlan]:
        """Plan sentences that are padded to `tokens`."""
        token_ids = np.full((len(rows), tokens), _PADDING_ID, np.int32)
        for row, sentence in enumerate(rows):
            token_ids[row, : len(sentence.token_ids)] = sentence.token_ids
        lengths = np.array([len(sentence.token_ids) for sentence in rows], np.int32)
        text, durations = self._encode_text(
            tf.constant(token_ids),
            tf.constant(lengths),
            tf.constant([sentence.language_id for sentence in rows], tf.int32),
            tf.concat([sentence.voice.vector for sentence in rows], 0),
            tf.constant(speed, tf.float32),
        )
        counts = durations.numpy().astype(np.int64)  # [rows, tokens]
        size = size_for(int(counts.sum(axis=1).max()), self._position_sizes)
        voices = _joined([sentence.voice for sentence in rows])
        conditions = self._spread(text, durations, tf.constant(size), voices).numpy()
        for sentence, condition, token_positions in zip(rows, conditions, counts, strict=True):
            own = token_positions[: len(sentence.token_ids)]
            yield SentencePlan(condition[: own.sum()], sentence.voice, own)

    def _decode_windows(
        self, stretches: Sequence[tuple[SentencePlan, Window]], size: int, options: SpeechOptions
    ) -> list[FloatArray]:
        """Return the mels of windows, each decoded with its context in `size` positions."""
        channels = self._condition_channels
        condition = np.zeros((len(stretches), size, channels), np.float32)
        for row, (plan, window) in enumerate(stretches):
            context = plan.condition[window.context_start : window.context_end]
            condition[row, : len(context)] = context
        voices = _joined([plan.voice for plan, _ in stretches])
        spoken = self._decode(
            tf.constant(condition),
            tf.constant([w.context_end - w.context_start for _, w in stretches], tf.int32),
            tf.constant([w.context_start for _, w in stretches], tf.int32),
            voices,
            tf.constant(options.steps, tf.int32),
            tf.constant(options.temperature, tf.float32),
            tf.constant(self.guidance(options), tf.float32),
            tf.constant([options.seed, 0], tf.int32),
        ).numpy()
        frames = self.frames_per_position
        return [
            mel[(w.start - w.context_start) * frames : (w.end - w.context_start) * frames]
            for mel, (_, w) in zip(spoken, stretches, strict=True)
        ]

    def guidance(self, options: SpeechOptions) -> list[float]:
        """Return the guidance scales for text and voice, by default those of the run."""
        asked = (options.text_guidance, options.voice_guidance)
        return [
            usual if one is None else one
            for one, usual in zip(asked, self._default_guidance, strict=True)
        ]


def _joined(voices: Sequence[Voice]) -> Voice:
    return Voice(*(tf.concat(parts, 0) for parts in zip(*voices, strict=True)))


def windows(plan: SentencePlan, lengths: Sequence[int] | None = None) -> Iterator[Window]:
    """Cut a sentence into windows of the given lengths, by default as few as possible.

    The last length applies to all further windows.
    """
    largest = POSITION_SIZES[-1]
    if lengths is None:
        is_one = plan.positions <= largest
        lengths = [largest if is_one else largest - 2 * CONTEXT_POSITIONS]
    start = 0
    for length in chain(lengths, repeat(lengths[-1])):
        if start >= plan.positions:
            return
        end = min(start + length, plan.positions)
        yield Window(
            start,
            end,
            max(0, start - CONTEXT_POSITIONS),
            min(plan.positions, end + CONTEXT_POSITIONS),
        )
        start = end


def _compile(model: XTTS) -> tuple[Any, Any, Any, Any]:
    """Make the compiled functions, each traced once for all shapes."""
    width, latents = model.sizes.voice_width, model.sizes.voice_latents
    channels = condition_channels(model.sizes, model.channels)

    def encode_voice(reference: tf.Tensor) -> Voice:
        frames = tf.shape(reference)[1]
        padded = tf.pad(reference, [[0, 0], [0, -frames % VOICE_STEP_FRAMES], [0, 0]])
        return model.voice_encoder(model.normalized(padded), frames[None])

    def encode_text(
        token_ids: tf.Tensor,
        token_lengths: tf.Tensor,
        language_ids: tf.Tensor,
        voice: tf.Tensor,
        speed: tf.Tensor,
    ) -> tuple[EncodedText, tf.Tensor]:
        slots = slots_of(token_lengths, tf.shape(token_ids)[1])
        text = model.text_encoder(token_ids, token_lengths, slots, language_ids, voice)
        return text, model.plan_positions(text, speed)

    def spread(
        text: EncodedText, durations: tf.Tensor, positions: tf.Tensor, voice: Voice
    ) -> tf.Tensor:
        return model.conditions(text, durations, positions, voice)

    def decode(
        condition: tf.Tensor,
        lengths: tf.Tensor,
        first_positions: tf.Tensor,
        voice: Voice,
        steps: tf.Tensor,
        temperature: tf.Tensor,
        guidance: tf.Tensor,
        seed: tf.Tensor,
    ) -> tf.Tensor:
        """Return mels [batch, frames, mels] of windows that begin at `first_positions`."""
        # Noise depends on the position only, not on the batch or on the windows.
        index = first_positions[:, None] + tf.range(tf.shape(condition)[1])
        drawn = tf.random.stateless_normal(
            [tf.reduce_max(index) + 1, model.channels], seed, alg="philox"
        )
        start = model.first_mel(condition, tf.gather(drawn, index) * temperature)
        return model.flow(condition, lengths, voice, start, steps=steps, guidance=guidance)

    numbers = tf.TensorSpec([None], tf.int32)
    signatures: list[tuple[Any, list[Any]]] = [
        (encode_voice, [tf.TensorSpec([1, None, model.n_mels])]),
        (
            encode_text,
            [
                tf.TensorSpec([None, None], tf.int32),
                numbers,
                numbers,
                tf.TensorSpec([None, width]),
                tf.TensorSpec([]),
            ],
        ),
        (
            spread,
            [
                EncodedText(
                    states=tf.TensorSpec([None, None, model.sizes.text_width]),
                    mean_mel=tf.TensorSpec([None, None, model.channels]),
                    log_durations=tf.TensorSpec([None, None]),
                    mask=tf.TensorSpec([None, None, 1]),
                ),
                tf.TensorSpec([None, None]),
                tf.TensorSpec([], tf.int32),
                Voice(tf.TensorSpec([None, width]), tf.TensorSpec([None, latents, width])),
            ],
        ),
        (
            decode,
            [
                tf.TensorSpec([None, None, channels]),
                numbers,
                numbers,
                Voice(tf.TensorSpec([None, width]), tf.TensorSpec([None, latents, width])),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([]),
                tf.TensorSpec([2]),
                tf.TensorSpec([2], tf.int32),
            ],
        ),
    ]
    encode, encode_tokens, condition, decode_mel = (
        tf.function(function, input_signature=signature, autograph=False)
        for function, signature in signatures
    )
    return encode, encode_tokens, condition, decode_mel


class AlignedTexts(NamedTuple):
    texts: EncodedText
    target: tf.Tensor  # [1, positions, channels]: the normalized mel
    scores: tf.Tensor  # [texts, positions, tokens]
    path: tf.Tensor  # [texts, positions, tokens]


def align_texts(
    model: XTTS,
    log_mel: tf.Tensor,
    token_ids: tf.Tensor,
    language_id: tf.Tensor,
    voice: tf.Tensor,
) -> AlignedTexts:
    """Align one mel [frames, mels] with each of several texts [texts, tokens] in one language.

    `voice` is the voice vector, [1, width]. The mel must consist of whole positions.
    """
    rows, tokens = tf.unstack(tf.shape(token_ids))
    lengths = tf.fill([rows], tokens)
    texts = model.text_encoder(
        token_ids,
        lengths,
        slots_of(lengths, tokens),
        tf.fill([rows], language_id),
        tf.repeat(voice, rows, 0),
    )
    target = stack_frames(model.normalized(log_mel[None]), model.sizes.frames_per_position)
    scores = alignment_scores(texts.mean_mel, tf.repeat(target, rows, 0))
    path = align(scores, lengths, tf.fill([rows], tf.shape(target)[1]), silent_tokens(texts))
    return AlignedTexts(texts, target, scores, path)


# Starting earlier, the model chooses its own pitch; starting later, it reproduces the recording.
_FIRST_TIME = 0.5


class Resynthesis:
    """Resynthesizes recordings with a trained model; one trace for all lengths."""

    def __init__(self, sampler: SpeechSampler) -> None:
        self._sampler = sampler
        sizes = sampler.model.sizes
        self._speak = tf.function(
            self._mel,
            input_signature=[
                tf.TensorSpec([None, sampler.n_mels]),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([], tf.int32),
                Voice(
                    tf.TensorSpec([1, sizes.voice_width]),
                    tf.TensorSpec([1, sizes.voice_latents, sizes.voice_width]),
                ),
            ],
            autograph=False,
        )

    def mel(self, log_mel: FloatArray, token_ids: Sequence[int], language_id: int) -> FloatArray:
        """Return a mel as long as the recording, [frames, mels].

        Frames beyond the last whole position are copied from the recording. So is a whole recording
        with fewer positions than tokens.
        """
        positions = len(log_mel) // self._sampler.frames_per_position
        if positions < len(token_ids):
            return log_mel
        frames = positions * self._sampler.frames_per_position
        voice = self._sampler.voice(log_mel)
        spoken = self._speak(log_mel[:frames], np.array(token_ids, np.int32), language_id, voice)
        return np.concatenate([spoken.numpy(), log_mel[frames:]])

    def _mel(
        self, log_mel: tf.Tensor, token_ids: tf.Tensor, language_id: tf.Tensor, voice: Voice
    ) -> tf.Tensor:
        model, options = self._sampler.model, SpeechOptions()
        found = align_texts(model, log_mel, token_ids[None], language_id, voice.vector)
        positions = tf.shape(found.target)[1]
        durations = tf.reduce_sum(found.path, 1)
        condition = model.conditions(found.texts, durations, positions, voice)
        noise = options.temperature * tf.random.stateless_normal(
            tf.shape(found.target), [options.seed, 0], alg="philox"
        )
        start = model.first_mel(condition, noise)
        mel = model.flow(
            condition,
            positions[None],
            voice,
            start + _FIRST_TIME * (found.target - start),
            first_step=round(_FIRST_TIME * options.steps),
            steps=tf.constant(options.steps),
            guidance=tf.constant(self._sampler.guidance(options)),
        )
        return mel[0]
