"""Writes a run as a model that runs without MyXTTS: SavedModel, ONNX or LiteRT.

FOLDER/model/ | model.onnx | model.tflite   token ids and a voice to samples
       model.json                           symbols, languages, voices, inputs and outputs
       example.py                           speaks with it, using only its runtime
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import tensorflow as tf

from myxtts.errors import DataError
from myxtts.models.neural_vocoder import NeuralVocoder
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.export_formats import HALF, require_format, require_new_folder
from myxtts.synthesis.export_graph import MOST_POSITIONS, ExportedSpeech
from myxtts.synthesis.tts import TTS
from myxtts.text.languages import find_language
from myxtts.text.tokenizer import EDGE_ID
from myxtts.version import VERSION
from myxtts.whole_files import whole_folder

_OPSET = 17
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
    """`kind` is one of `FORMATS`; `language` that of texts which name none, if not the run's."""
    require_format(kind)
    require_new_folder(folder)
    options = options or SpeechOptions()
    module = exported_speech(tts, options)
    function = tf.function(module.speak, input_signature=module.signature(), autograph=False)
    try:
        with whole_folder(folder, replace=folder.is_dir()) as part:
            name = _EXPORTERS[kind](module, function, part)
            facts = _facts(tts, options, kind, name, language or tts.languages[0])
            content = json.dumps(facts, ensure_ascii=False, indent=1)
            (part / "model.json").write_text(content, encoding="utf-8")
            examples = resources.files("myxtts.synthesis") / "export_examples"
            example = examples / f"{kind.removesuffix(HALF)}.txt"
            (part / "example.py").write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return folder


def exported_speech(tts: TTS, options: SpeechOptions) -> ExportedSpeech:
    """With the trained vocoder of a TTS, or else Griffin-Lim."""
    return ExportedSpeech(
        tts.sampler.model,
        tts.vocoder.network if isinstance(tts.vocoder, NeuralVocoder) else None,
        tts.config,
        tts.config.training.default_guidance,
        options,
    )


def _saved_model(module: ExportedSpeech, function: Any, folder: Path) -> str:
    module.speak_function = function
    tf.saved_model.save(module, str(folder / "model"), signatures=function.get_concrete_function())
    return "model"


def _onnx(module: ExportedSpeech, function: Any, folder: Path) -> str:
    import tf2onnx

    logging.getLogger("tf2onnx").setLevel(logging.ERROR)
    tf2onnx.convert.from_function(
        function,
        input_signature=module.signature(),
        opset=_OPSET,
        output_path=str(folder / "model.onnx"),
    )
    return "model.onnx"


def _litert(module: ExportedSpeech, function: Any, folder: Path, *, is_half: bool = False) -> str:
    # Frozen first: the converter reads wrong numbers from variables of Keras in a module.
    from tensorflow.python.framework.convert_to_constants import (
        convert_variables_to_constants_v2,
    )

    frozen = convert_variables_to_constants_v2(function.get_concrete_function())
    # It would rather have the module, from which it reads those.
    logging.getLogger("absl").setLevel(logging.ERROR)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    if is_half:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.target_spec.supported_types = [tf.float16]
    (folder / "model.tflite").write_bytes(converter.convert())
    return "model.tflite"


_EXPORTERS: dict[str, Callable[[ExportedSpeech, Any, Path], str]] = {
    "saved-model": _saved_model,
    "onnx": _onnx,
    "litert": _litert,
    f"litert{HALF}": partial(_litert, is_half=True),
}


def _facts(tts: TTS, options: SpeechOptions, kind: str, name: str, language: str) -> dict[str, Any]:
    """All that is needed to feed the model."""
    voices = {}
    for voice in tts.voices:
        vector, latents = tts.saved_voice(voice)
        voices[voice] = {"vector": vector.numpy().tolist(), "latents": latents.numpy().tolist()}
    return {
        "format": "myxtts-export-1",
        "made_by": f"MyXTTS {VERSION}",
        "runtime": kind.removesuffix(HALF),
        "file": name,
        "step": tts.step,
        "sample_rate_hz": tts.sample_rate_hz,
        "hop_samples": tts.config.audio.hop_samples,
        "frames_per_position": tts.config.model.frames_per_position,
        "most_positions": MOST_POSITIONS,
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
