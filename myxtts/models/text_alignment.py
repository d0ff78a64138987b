"""Aligns the mel of a recording with texts, as training does."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from myxtts.models.alignment import align
from myxtts.models.layers import stack_frames
from myxtts.models.packing import slots_of
from myxtts.models.text_encoder import EncodedText
from myxtts.models.xtts import XTTS, alignment_scores


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
    path = align(scores, lengths, tf.fill([rows], tf.shape(target)[1]))
    return AlignedTexts(texts, target, scores, path)
