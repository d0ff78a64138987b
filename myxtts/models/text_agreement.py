"""Aligns recordings with texts, and says how well the sound of a clip agrees with its text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.models.alignment import align
from myxtts.models.layers import stack_frames
from myxtts.models.packing import slots_of
from myxtts.models.sampler import SpeechSampler
from myxtts.models.text_encoder import EncodedText
from myxtts.models.xtts import XTTS, alignment_scores, silent_tokens


class AlignedTexts(NamedTuple):
    texts: EncodedText
    target: tf.Tensor  # [1, positions, channels]: the normalised mel
    scores: tf.Tensor  # [texts, positions, tokens]
    path: tf.Tensor  # [texts, positions, tokens]


def align_texts(
    model: XTTS,
    log_mel: tf.Tensor,
    token_ids: tf.Tensor,
    language_id: tf.Tensor,
    voice: tf.Tensor,
) -> AlignedTexts:
    """Of one mel [frames, mels] with each of some texts [texts, tokens], all in one language.

    `voice` is the vector of the voice, [1, width]. The number of frames is one of whole positions.
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
    target = stack_frames(model.normalised(log_mel[None]), model.sizes.frames_per_position)
    scores = alignment_scores(texts.mean_mel, tf.repeat(target, rows, 0))
    path = align(scores, lengths, tf.fill([rows], tf.shape(target)[1]), silent_tokens(texts))
    return AlignedTexts(texts, target, scores, path)


class TextAgreement:
    """Of a trained model; one trace for all lengths."""

    def __init__(self, sampler: SpeechSampler) -> None:
        self._sampler = sampler
        self._model = sampler.model
        self._errors = tf.function(
            self._alignment_errors,
            input_signature=[
                tf.TensorSpec([None, self._model.n_mels]),
                tf.TensorSpec([None, None], tf.int32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([1, self._model.sizes.voice_width]),
            ],
            autograph=False,
        )

    def of(
        self,
        log_mel: npt.NDArray[np.float32],
        token_ids: Sequence[int],
        others: Sequence[Sequence[int]],
        language_id: int,
    ) -> float:
        """How much smaller the distance from the text is than that from others, as a share of it.

        About 0 for a text of something else. `others` are as long as the text.
        """
        per_position = self._sampler.frames_per_position
        positions = len(log_mel) // per_position
        if positions < len(token_ids):
            return 0.0
        errors = self._errors(
            log_mel[: positions * per_position],
            np.array([token_ids, *others], np.int32),
            language_id,
            self._sampler.voice(log_mel).vector,
        ).numpy()
        return float(1.0 - errors[0] / errors[1:].mean())

    def _alignment_errors(
        self, log_mel: tf.Tensor, token_ids: tf.Tensor, language_id: tf.Tensor, voice: tf.Tensor
    ) -> tf.Tensor:
        """Half the squared distances from the mean mels along the best path, [texts]."""
        found = align_texts(self._model, log_mel, token_ids, language_id, voice)
        own_part = tf.reduce_sum(tf.square(found.target)) / 2
        return own_part - tf.reduce_sum(found.path * found.scores, [1, 2])
