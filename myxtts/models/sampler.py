"""Samples mels from token ids and a voice; compiled per batch size, for texts of any length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import VOICE_STEP_FRAMES, Guidance
from myxtts.models.packing import slots_of
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS

FloatArray = npt.NDArray[np.float32]

_NO_GUIDANCE = Guidance(text=0.0, voice=0.0)
_PADDING_ID = 0


class SpeechSampler:
    """Log-mels from token ids and a reference mel. Knows nothing of text, files or waveforms."""

    def __init__(self, model: XTTS, default_guidance: Guidance = _NO_GUIDANCE) -> None:
        self._default_guidance = default_guidance
        self._model = model
        self._speak_of_size: dict[int, Any] = {}

        def encode_voice(reference: tf.Tensor) -> Voice:
            frames = tf.shape(reference)[1]
            padded = tf.pad(reference, [[0, 0], [0, -frames % VOICE_STEP_FRAMES], [0, 0]])
            return model.voice_encoder(model.normalised(padded), frames[None])

        self._encode_voice = tf.function(
            encode_voice,
            input_signature=[tf.TensorSpec([1, None, model.n_mels])],
            autograph=False,
        )

    def voice(self, reference_mel: npt.NDArray[np.float32]) -> Voice:
        """Encodes a reference mel [frames, mels] of any length."""
        return Voice(*self._encode_voice(tf.convert_to_tensor(reference_mel, tf.float32)[None]))

    def mels(
        self,
        texts: Sequence[Sequence[int]],
        language_ids: Sequence[int],
        voice: Voice,
        options: SpeechOptions,
    ) -> list[FloatArray]:
        """Mels, each [frames, mels], of a batch of texts given as token ids.

        `voice` is one for all texts, or one per text.
        """
        guidance = [
            usual if asked is None else asked
            for asked, usual in zip(
                (options.text_guidance, options.voice_guidance), self._default_guidance, strict=True
            )
        ]
        lengths = np.array(list(map(len, texts)), np.int32)
        token_ids = np.full((len(texts), lengths.max()), _PADDING_ID, np.int32)
        token_ids[np.arange(token_ids.shape[1]) < lengths[:, None]] = np.concatenate(texts)
        if len(texts) > 1 and voice.vector.shape[0] == 1:
            voice = Voice(*(tf.repeat(part, len(texts), axis=0) for part in voice))
        spoken, frame_counts = self._speak(len(texts))(
            tf.constant(token_ids),
            tf.constant(lengths),
            tf.constant(language_ids, tf.int32),
            voice,
            tf.constant(options.steps, tf.int32),
            tf.constant(options.temperature, tf.float32),
            tf.constant(guidance, tf.float32),
            tf.constant(options.speed, tf.float32),
            tf.constant([options.seed, 0], tf.int32),
        )
        return [
            mel[:frames] for mel, frames in zip(spoken.numpy(), frame_counts.numpy(), strict=True)
        ]

    def _speak(self, batch: int) -> Any:
        """Compiled once per batch size, for texts of any length."""
        if batch not in self._speak_of_size:
            self._speak_of_size[batch] = self._compile_speak(batch)
        return self._speak_of_size[batch]

    def _compile_speak(self, batch: int) -> Any:
        model = self._model
        width = model.sizes.voice_width

        def speak(
            token_ids: tf.Tensor,
            token_lengths: tf.Tensor,
            language_ids: tf.Tensor,
            voice: Voice,
            steps: tf.Tensor,
            temperature: tf.Tensor,
            guidance: tf.Tensor,
            speed: tf.Tensor,
            seed: tf.Tensor,
        ) -> tuple[tf.Tensor, tf.Tensor]:
            """Mels [batch, frames, mels] and their lengths in frames."""
            slots = slots_of(token_lengths, tf.shape(token_ids)[1])
            text = model.text_encoder(token_ids, token_lengths, slots, language_ids, voice.vector)
            durations = model.plan_positions(text, speed)
            mels = model.flow(
                text,
                voice,
                durations,
                steps=steps,
                temperature=temperature,
                guidance=guidance,
                seed=seed,
            )
            positions = tf.cast(tf.reduce_sum(durations, 1), tf.int32)
            return mels, positions * model.sizes.frames_per_position

        return tf.function(
            speak,
            input_signature=[
                tf.TensorSpec([batch, None], tf.int32),
                tf.TensorSpec([batch], tf.int32),
                tf.TensorSpec([batch], tf.int32),
                Voice(
                    tf.TensorSpec([batch, width]),
                    tf.TensorSpec([batch, model.sizes.voice_latents, width]),
                ),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([]),
                tf.TensorSpec([2]),
                tf.TensorSpec([]),
                tf.TensorSpec([2], tf.int32),
            ],
            autograph=False,
        )
