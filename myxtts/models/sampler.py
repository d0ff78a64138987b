"""Speaking with a trained model: compiled once, for texts and voices of any length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import VOICE_STEP_FRAMES, Guidance
from myxtts.models.packing import slots_without_padding
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS

_NO_GUIDANCE = Guidance(text=0.0, voice=0.0)


class SpeechSampler:
    """Log-mels from token ids and a reference mel. Knows nothing of text, files or waveforms."""

    def __init__(self, model: XTTS, usual_guidance: Guidance = _NO_GUIDANCE) -> None:
        self._usual_guidance = usual_guidance
        width = model.sizes.voice_width
        voice_signature = Voice(
            tf.TensorSpec([1, width]), tf.TensorSpec([1, model.sizes.voice_latents, width])
        )

        def encode_voice(reference: tf.Tensor) -> Voice:
            frames = tf.shape(reference)[1]
            padded = tf.pad(reference, [[0, 0], [0, -frames % VOICE_STEP_FRAMES], [0, 0]])
            return model.voice_encoder(model.normalised(padded), frames[None])

        def speak(
            token_ids: tf.Tensor,
            language_ids: tf.Tensor,
            voice: Voice,
            steps: tf.Tensor,
            temperature: tf.Tensor,
            guidance: tf.Tensor,
            speed: tf.Tensor,
            seed: tf.Tensor,
        ) -> tf.Tensor:
            lengths = tf.shape(token_ids)[1][None]
            slots = slots_without_padding(token_ids)
            text = model.text_encoder(token_ids, lengths, slots, language_ids, voice.vector)
            durations = model.plan_positions(text, speed)
            return model.flow(
                text,
                voice,
                durations,
                steps=steps,
                temperature=temperature,
                guidance=guidance,
                seed=seed,
            )

        self._encode_voice = tf.function(
            encode_voice,
            input_signature=[tf.TensorSpec([1, None, model.n_mels])],
            autograph=False,
        )
        self._speak = tf.function(
            speak,
            input_signature=[
                tf.TensorSpec([1, None], tf.int32),
                tf.TensorSpec([1], tf.int32),
                voice_signature,
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([]),
                tf.TensorSpec([2]),
                tf.TensorSpec([]),
                tf.TensorSpec([2], tf.int32),
            ],
            autograph=False,
        )

    def voice(self, reference_mel: npt.NDArray[np.float32]) -> Voice:
        """From [frames, mels] of any length."""
        return Voice(*self._encode_voice(tf.convert_to_tensor(reference_mel, tf.float32)[None]))

    def mel(
        self, token_ids: list[int], language_id: int, voice: Voice, options: SpeechOptions
    ) -> npt.NDArray[np.float32]:
        """[frames, mels]."""
        guidance = [
            usual if asked is None else asked
            for asked, usual in zip(
                (options.text_guidance, options.voice_guidance), self._usual_guidance, strict=True
            )
        ]
        spoken = self._speak(
            tf.constant([token_ids], tf.int32),
            tf.constant([language_id], tf.int32),
            voice,
            tf.constant(options.steps, tf.int32),
            tf.constant(options.temperature, tf.float32),
            tf.constant(guidance, tf.float32),
            tf.constant(options.speed, tf.float32),
            tf.constant([options.seed, 0], tf.int32),
        )
        mel: npt.NDArray[np.float32] = spoken[0].numpy()
        return mel
