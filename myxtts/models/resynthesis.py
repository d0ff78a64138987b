"""Speaks the text of a recording as the recording does: its voice, its timing and its pitch.

Sampling begins half-way, with a mixture of the recording and noise. The coarse shape of the mel is
then that of the recording, harmonics included, and the fine structure is the model's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.text_agreement import align_texts
from myxtts.models.voice_encoder import Voice

FloatArray = npt.NDArray[np.float32]

# Earlier, the model chooses a pitch of its own; later, it leaves the recording as it is.
_FIRST_TIME = 0.5


class Resynthesis:
    """By a trained model; one trace for all lengths."""

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
        """As many frames as the recording has, [frames, mels].

        Frames that no whole position has are recorded ones; so is a recording with fewer positions
        than its text has tokens.
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
