"""The whole way from token ids and a voice to samples as one graph that other runtimes can run."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.griffin_lim import SPEAKING_ITERATIONS, fluctuation, spectrum_from_mel
from myxtts.audio.mel import mel_weights
from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import Guidance, XTTSConfig
from myxtts.models.real_spectra import RealSpectra
from myxtts.models.refiner import Spectrum
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.vocoder import VocoderNetwork
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS

# Longer sentences are an error of the caller; half a minute of speech.
MOST_POSITIONS = 1_536
_PHASE_ITERATIONS = 32
_SPECTRUM_ITERATIONS = 30


class ExportedSpeech(tf.Module):
    """One sentence at a time. Randomness is stored: the same input gives the same samples."""

    def __init__(
        self,
        model: XTTS,
        vocoder: VocoderNetwork | None,
        config: XTTSConfig,
        guidance: Guidance,
        options: SpeechOptions,
    ) -> None:
        """Without a vocoder the waveform comes from Griffin-Lim."""
        super().__init__()
        self._vocoder = vocoder
        self._model, self._guidance, self._steps = model, guidance, options.steps
        self._spectra = RealSpectra(config.audio)
        self._mel_weights = mel_weights(config.audio, config.data.n_mels)
        self._hop = config.audio.hop_samples
        seed = tf.constant([options.seed, 0], tf.int32)
        shape = [MOST_POSITIONS, model.channels]
        noise = tf.random.stateless_normal(shape, seed, alg="philox") * options.temperature
        # Arrays, which become constants of the graph.
        self._noise = noise.numpy()
        samples = MOST_POSITIONS * model.sizes.frames_per_position * self._hop
        samples += config.audio.fft_samples
        generator = np.random.default_rng(options.seed)
        self._noise_samples = generator.standard_normal(samples, np.float32)
        self._audio = config.audio

    def signature(self) -> list[Any]:
        sizes = self._model.sizes
        return [
            tf.TensorSpec([1, None], tf.int32, name="token_ids"),
            tf.TensorSpec([1], tf.int32, name="language_id"),
            tf.TensorSpec([1, sizes.voice_width], tf.float32, name="voice_vector"),
            tf.TensorSpec(
                [1, sizes.voice_latents, sizes.voice_width], tf.float32, name="voice_latents"
            ),
            tf.TensorSpec([], tf.float32, name="speed"),
        ]

    def speak(
        self,
        token_ids: tf.Tensor,
        language_id: tf.Tensor,
        voice_vector: tf.Tensor,
        voice_latents: tf.Tensor,
        speed: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """`samples` [samples], `log_mel` [frames, mels] and `token_positions` [tokens]."""
        model, voice = self._model, Voice(voice_vector, voice_latents)
        tokens = tf.shape(token_ids)[1]
        slots = tf.range(tokens)[None]
        text = model.text_encoder(token_ids, tokens[None], slots, language_id, voice.vector)
        durations = model.plan_positions(text, speed)
        positions = tf.cast(tf.reduce_sum(durations), tf.int32)
        condition = model.conditions(text, durations, positions, voice)
        mel = self._decode(condition, positions, voice)
        log_mel = mel * model.mel_deviation + model.mel_mean
        return {
            "samples": self._waveform(log_mel),
            "log_mel": log_mel,
            "token_positions": tf.cast(durations[0], tf.int32),
        }

    def _decode(self, condition: tf.Tensor, positions: tf.Tensor, voice: Voice) -> tf.Tensor:
        """Euler's method, as `XTTS.flow`: [frames, mels]."""
        model, steps = self._model, self._steps
        mask = tf.ones_like(condition[:, :, :1])
        nobody = Voice(*map(tf.zeros_like, voice))
        guidance = self._guidance
        everything = model.decoder.told(condition, voice)
        # With the weight of each.
        less = []
        if guidance.text:
            less.append((guidance.text, model.decoder.told(tf.zeros_like(condition), voice)))
        if guidance.voice:
            less.append((guidance.voice, model.decoder.told(condition, nobody)))

        def advance(step: tf.Tensor, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            time = tf.cast(step, tf.float32)[None] / float(steps)
            clean = guided = model.decoder.denoised(mel, mask, time, everything)
            for weight, told in less:
                guided += weight * (clean - model.decoder.denoised(mel, mask, time, told))
            return step + 1, mel + (guided - mel) / tf.cast(steps - step, tf.float32)

        # A loop and not its steps written out: converting took four times as long with those.
        _, mel = tf.while_loop(
            lambda step, _: step < steps,
            advance,
            (
                tf.constant(0),
                model.first_mel(condition, tf.constant(self._noise)[None, :positions]),
            ),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([1, None, model.channels])),
        )
        return tf.reshape(mel, [-1, model.n_mels])

    def _waveform(self, log_mel: tf.Tensor) -> tf.Tensor:
        count = (tf.shape(log_mel)[0] - 1) * self._hop + self._audio.fft_samples
        noise = tf.constant(self._noise_samples)[:count]
        if self._vocoder is None:
            magnitudes = spectrum_from_mel(tf.exp(log_mel), self._mel_weights, _SPECTRUM_ITERATIONS)
            return self._spectra.with_magnitudes(magnitudes, noise, _PHASE_ITERATIONS)
        predicted, states = self._vocoder.predict_magnitudes(log_mel[None])
        real, imaginary = self._spectra.analyse(noise)
        magnitudes = predicted[0] * fluctuation(tf.square(real) + tf.square(imaginary), self._audio)
        found = self._spectra.with_magnitudes(magnitudes, noise, SPEAKING_ITERATIONS)
        padded = tf.pad(found, [padding_samples(self._audio)])
        spectrum = Spectrum(*(part[None] for part in self._spectra.analyse(padded)))
        refined = self._vocoder.refiner(spectrum, states)
        return self._spectra.without_padding(
            self._spectra.synthesise(refined.real[0], refined.imaginary[0])
        )
