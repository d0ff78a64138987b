"""Speaks the text of a recording with the timing of the recording, frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.models.sampler import SentencePlan, SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.text_alignment import align_texts

FloatArray = npt.NDArray[np.float32]


class Recorded(NamedTuple):
    """A recording and what is said in it."""

    log_mel: FloatArray  # [frames, mels]
    token_ids: Sequence[int]
    language_id: int


class CopiedTiming:
    """Of a trained model; one trace for all lengths."""

    def __init__(self, sampler: SpeechSampler) -> None:
        self._sampler = sampler
        self._conditions = tf.function(
            self._aligned_conditions,
            input_signature=[
                tf.TensorSpec([None, sampler.n_mels]),
                tf.TensorSpec([None], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([1, sampler.model.sizes.voice_width]),
            ],
            autograph=False,
        )

    def mels(self, recordings: Sequence[Recorded]) -> list[FloatArray]:
        """As many frames as each recording has, in its own voice.

        Frames that no whole position has are recorded ones; so is a recording with fewer positions
        than its text has tokens.
        """
        can_align = [self._positions(it) >= len(it.token_ids) for it in recordings]
        plans = [self._plan(it) for it, can in zip(recordings, can_align, strict=True) if can]
        predicted = iter(self._sampler.decode(plans, SpeechOptions()))
        return [
            np.concatenate([mel := next(predicted), it.log_mel[len(mel) :]]) if can else it.log_mel
            for it, can in zip(recordings, can_align, strict=True)
        ]

    def _positions(self, recording: Recorded) -> int:
        return len(recording.log_mel) // self._sampler.frames_per_position

    def _plan(self, recording: Recorded) -> SentencePlan:
        frames = self._positions(recording) * self._sampler.frames_per_position
        voice = self._sampler.voice(recording.log_mel)
        condition, durations = self._conditions(
            recording.log_mel[:frames],
            np.array(recording.token_ids, np.int32),
            recording.language_id,
            voice.vector,
        )
        return SentencePlan(condition.numpy(), voice, durations.numpy().astype(np.int64))

    def _aligned_conditions(
        self, log_mel: tf.Tensor, token_ids: tf.Tensor, language_id: tf.Tensor, voice: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What the decoder is told at each position, and the positions of each token."""
        model = self._sampler.model
        found = align_texts(model, log_mel, token_ids[None], language_id, voice)
        durations = tf.reduce_sum(found.path, 1)
        positions = tf.shape(found.target)[1]
        return model.conditions(found.texts, durations, positions)[0], durations[0]
