"""Writes a run as a model that runs without MyXTTS: SavedModel, ONNX or LiteRT.

FOLDER/model/ | model.onnx | model.tflite   token ids and a voice to samples
       model.json                           symbols, languages, voices, inputs and outputs
       example.py                           speaks with it, using only its runtime
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.griffin_lim import (
    SPEAKING_ITERATIONS,
    fluctuation,
    search_phases,
    spectrum_from_mel,
)
from myxtts.audio.mel import hann_window, inverse_window, mel_weights, padding_samples
from myxtts.config.config import AudioConfig
from myxtts.devices.doctor import install_command
from myxtts.errors import CheckpointError, ConfigError, DataError
from myxtts.files import atomic_folder
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.vocoder import NeuralVocoder, Spectrum
from myxtts.models.voice_encoder import Voice
from myxtts.synthesis.tts import TTS
from myxtts.text.languages import find_language
from myxtts.text.tokenizer import EDGE_ID
from myxtts.version import VERSION

_OPSET = 17
_HALF = "-float16"
_OUTPUTS = {
    "samples": "float32 [samples] in about [-1, 1] at sample_rate_hz",
    "log_mel": "float32 [frames, mels]",
    "token_positions": "int32 [tokens]",
}


def export_model(
    tts: TTS,
    folder: Path,
    kind: str,
    *,
    options: SpeechOptions | None = None,
    language: str | None = None,
) -> Path:
    """Write a format of `EXPORTERS`; `language` is the default of texts without one."""
    if kind not in EXPORTERS:
        raise ConfigError(f"format '{kind}', expected {', '.join(EXPORTERS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists, expected a new or empty folder")
    options = options or SpeechOptions()
    module = ExportedSpeech(tts, options)
    function = tf.function(module.speak, input_signature=module.signature(), autograph=False)
    try:
        with atomic_folder(folder, replace=folder.is_dir()) as part:
            name = EXPORTERS[kind](module, function, part)
            facts = _facts(tts, options, kind, name, language or tts.languages[0])
            content = json.dumps(facts, ensure_ascii=False, indent=1)
            (part / "model.json").write_text(content, encoding="utf-8")
            examples = resources.files("myxtts.synthesis") / "export_examples"
            example = examples / f"{kind.removesuffix(_HALF)}.txt"
            (part / "example.py").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return folder


def _saved_model(module: ExportedSpeech, function: Any, folder: Path) -> str:
    module.speak_function = function
    tf.saved_model.save(module, str(folder / "model"), signatures=function.get_concrete_function())
    return "model"


def _onnx(module: ExportedSpeech, function: Any, folder: Path) -> str:
    try:
        import tf2onnx
    except ImportError:
        raise ConfigError(
            f"format onnx: needs the package tf2onnx; install it with {install_command('export')}"
        ) from None

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    tf2onnx.convert.from_function(
        function,
        input_signature=module.signature(),
        opset=_OPSET,
        output_path=str(folder / "model.onnx"),
    )
    return "model.onnx"


def _litert(module: ExportedSpeech, function: Any, folder: Path) -> str:
    return _convert(function, folder, [])


def _litert_half(module: ExportedSpeech, function: Any, folder: Path) -> str:
    return _convert(function, folder, [tf.float16])


def _convert(function: Any, folder: Path, types: list[tf.DType]) -> str:
    # Frozen first: the converter reads wrong numbers from variables of Keras in a module.
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    # It warns about the missing module.
    logging.getLogger("absl").setLevel(logging.ERROR)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if types:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = types
    (folder / "model.tflite").write_bytes(converter.convert())
    return "model.tflite"


EXPORTERS: dict[str, Callable[[ExportedSpeech, Any, Path], str]] = {
    "saved-model": _saved_model,
    "onnx": _onnx,
    "litert": _litert,
    f"litert{_HALF}": _litert_half,
}


def _facts(tts: TTS, options: SpeechOptions, kind: str, name: str, language: str) -> dict[str, Any]:
    """Return the metadata of model.json."""
    voices = {}
    for voice in tts.voices:
        vector, latents = tts.saved_voice(voice)
        voices[voice] = {"vector": vector.numpy().tolist(), "latents": latents.numpy().tolist()}
    return {
        "format": "myxtts-export-1",
        "made_by": f"MyXTTS {VERSION}",
        "runtime": kind.removesuffix(_HALF),
        "file": name,
        "step": tts.step,
        "sample_rate_hz": tts.sample_rate_hz,
        "hop_samples": tts.config.audio.hop_samples,
        "frames_per_position": tts.config.model.frames_per_position,
        "most_positions": _MAX_POSITIONS,
        "sampling_steps": options.steps,
        "tokens": tts.tokenizer.kind,
        "symbols": list(tts.tokenizer.symbols),
        "edge_id": EDGE_ID,
        "languages": list(tts.tokenizer.languages),
        "language_id": tts.tokenizer.language_id(language),
        "espeak_voices": {
            language: find_language(language).espeak_voice for language in tts.languages
        },
        "inputs": {
            "token_ids": "int32 [1, tokens]: ids of symbols, with edge_id first and last",
            "language_id": "int32 [1]: index in languages",
            "voice_vector": "float32 [1, width]",
            "voice_latents": "float32 [1, latents, width]",
            "speed": "float32 []: 1 is the usual speaking rate",
        },
        "outputs": _OUTPUTS,
        # Runtimes that do not name outputs have them in this order.
        "output_order": sorted(_OUTPUTS),
        "voices": voices,
    }


_SMALL = 1e-8


class RealSpectra:
    """Spectra as matrix products, because converters lack the Fourier transform."""

    def __init__(self, audio: AudioConfig) -> None:
        size, hop = audio.fft_samples, audio.hop_samples
        if size % hop:
            raise CheckpointError(
                f"audio.fft_samples is {size}, expected a multiple of audio.hop_samples ({hop}) "
                "for an export"
            )
        self._audio, self._hop, self._overlap = audio, hop, size // hop
        bins = np.arange(size // 2 + 1)
        angles = 2 * np.pi * np.outer(np.arange(size), bins) / size
        window = hann_window(size)[:, None]
        # Arrays, because eager tensors become inputs of a graph instead of constants.
        self._cosines = (np.cos(angles) * window).astype(np.float32)  # [size, bins]
        self._sines = (-np.sin(angles) * window).astype(np.float32)
        # Bins between the first and the last count twice, as in a real FFT.
        twice = np.where((bins == 0) | (bins == size // 2), 1.0, 2.0)[:, None] / size
        undo = inverse_window(size, hop)
        self._from_real = (twice * np.cos(angles).T * undo).astype(np.float32)
        self._from_imaginary = (-twice * np.sin(angles).T * undo).astype(np.float32)

    def analyze(self, samples: tf.Tensor) -> Spectrum:
        """Return real and imaginary part, [frames, bins] each; the samples include the padding."""
        blocks = tf.reshape(samples, [-1, self._hop])
        frames = tf.shape(blocks)[0] - self._overlap + 1
        framed = tf.concat([blocks[index : index + frames] for index in range(self._overlap)], -1)
        return Spectrum(tf.matmul(framed, self._cosines), tf.matmul(framed, self._sines))

    def synthesize(self, real: tf.Tensor, imaginary: tf.Tensor) -> tf.Tensor:
        """Return samples with the padding."""
        framed = tf.matmul(real, self._from_real) + tf.matmul(imaginary, self._from_imaginary)
        parts = tf.split(framed, self._overlap, -1)
        last = self._overlap - 1
        blocks = [tf.pad(part, [[index, last - index], [0, 0]]) for index, part in enumerate(parts)]
        return tf.reshape(tf.add_n(blocks), [-1])

    def with_magnitudes(
        self, magnitudes: tf.Tensor, noise: tf.Tensor, iterations: int
    ) -> tf.Tensor:
        """Return samples from the first to the last frame.

        The search begins with the phases of `noise`, [samples with the padding].
        """

        def improve(samples: tf.Tensor) -> tf.Tensor:
            real, imaginary = self.analyze(samples)
            scale = magnitudes / (tf.sqrt(tf.square(real) + tf.square(imaginary)) + _SMALL)
            return self.synthesize(real * scale, imaginary * scale)

        return self.without_padding(search_phases(improve(noise), improve, iterations))

    def without_padding(self, samples: tf.Tensor) -> tf.Tensor:
        before, after = padding_samples(self._audio)
        return samples[before : tf.shape(samples)[0] - after]


# Longer sentences are an error of the caller; half a minute of speech.
_MAX_POSITIONS = 1_536
_PHASE_ITERATIONS = 32
_SPECTRUM_ITERATIONS = 30


class ExportedSpeech(tf.Module):
    """One sentence at a time. Randomness is stored: the same input gives the same samples."""

    def __init__(self, tts: TTS, options: SpeechOptions) -> None:
        super().__init__()
        config, model = tts.config, tts.sampler.model
        # Without a trained vocoder the waveform comes from Griffin-Lim.
        self._vocoder = tts.vocoder.network if isinstance(tts.vocoder, NeuralVocoder) else None
        self._model, self._steps = model, options.steps
        self._guidance = config.training.default_guidance
        self._spectra = RealSpectra(config.audio)
        self._mel_weights = mel_weights(config.audio, config.data.n_mels)
        self._hop = config.audio.hop_samples
        seed = tf.constant([options.seed, 0], tf.int32)
        shape = [_MAX_POSITIONS, model.channels]
        noise = tf.random.stateless_normal(shape, seed, alg="philox") * options.temperature
        # Arrays, which become constants of the graph.
        self._noise = noise.numpy()
        samples = _MAX_POSITIONS * model.sizes.frames_per_position * self._hop
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
        """Return `samples` [samples], `log_mel` [frames, mels] and `token_positions` [tokens]."""
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
        """Sample [frames, mels] with Euler's method, as `XTTS.flow` does."""
        model, steps = self._model, self._steps
        mask = tf.ones_like(condition[:, :, :1])
        guidance = self._guidance
        everything = model.decoder.project(condition, voice)
        # Pairs of weight and conditioning.
        less = []
        for weight, kept in ((guidance.text, [[0.0, 1.0]]), (guidance.voice, [[1.0, 0.0]])):
            if weight:
                others = model.masked_conditions(tf.constant(kept), condition, voice)
                less.append((weight, model.decoder.project(*others)))

        def advance(step: tf.Tensor, mel: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            time = tf.cast(step, tf.float32)[None] / float(steps)
            clean = guided = model.decoder.denoised(mel, mask, time, everything)
            for weight, other in less:
                guided += weight * (clean - model.decoder.denoised(mel, mask, time, other))
            return step + 1, mel + (guided - mel) / tf.cast(steps - step, tf.float32)

        # A loop converts four times as fast as unrolled steps.
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
        real, imaginary = self._spectra.analyze(noise)
        magnitudes = predicted[0] * fluctuation(tf.square(real) + tf.square(imaginary), self._audio)
        found = self._spectra.with_magnitudes(magnitudes, noise, SPEAKING_ITERATIONS)
        padded = tf.pad(found, [padding_samples(self._audio)])
        spectrum = Spectrum(*(part[None] for part in self._spectra.analyze(padded)))
        refined = self._vocoder.refiner(spectrum, states)
        return self._spectra.without_padding(
            self._spectra.synthesize(refined.real[0], refined.imaginary[0])
        )
