"""Intelligibility: error rates of an independent speech recogniser."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.config.metrics import RECOGNISER_LANGUAGES
from myxtts.errors import DataError
from myxtts.evaluation.measure import (
    MEASURED_RATE_HZ,
    FloatArray,
    Measure,
    Metric,
    Score,
    Speech,
    Tool,
)
from myxtts.text.languages import find_language, normalise

# Recognisers expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5

WORD_ERROR_RATE = Metric(name="wer", title="word error rate", unit="fraction", decimals=3)
CHARACTER_ERROR_RATE = Metric(name="cer", title="character error rate", unit="fraction", decimals=3)


class Recogniser(Protocol):
    tool: Tool

    def transcribe(self, samples: FloatArray, language: str) -> str:
        """Transcribes samples at MEASURED_RATE_HZ."""


class Moonshine:
    """Moonshine tiny, whose weights come with its wheel."""

    tool = Tool(name="Moonshine tiny", licence="MIT", extra="eval", languages=RECOGNISER_LANGUAGES)

    def __init__(self) -> None:
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber
        from moonshine_voice.utils import get_assets_path

        model = Path(str(get_assets_path())) / "tiny-en"
        if not model.is_dir():
            # Later wheels fetch models over the network instead.
            raise ImportError("this version of moonshine-voice contains no model")
        self._transcriber: Any = Transcriber(str(model), ModelArch.TINY)

    def transcribe(self, samples: FloatArray, language: str) -> str:
        result = self._transcriber.transcribe_without_streaming(samples.tolist(), MEASURED_RATE_HZ)
        return " ".join(line.text for line in result.lines)


def require_whisper(folder: Path) -> None:
    # It would download a missing tokenizer.
    for name in ("model.bin", "tokenizer.json"):
        if not (folder / name).is_file():
            raise DataError(
                f"{folder}: contains no Whisper model; expected a faster-whisper (CTranslate2) "
                f"model with {name}"
            )


class Whisper:
    """A Whisper model in CTranslate2 format, from a folder that the user names."""

    def __init__(self, folder: Path) -> None:
        require_whisper(folder)
        from faster_whisper import WhisperModel

        try:
            self._model: Any = WhisperModel(str(folder), device="cpu", local_files_only=True)
        except (RuntimeError, ValueError) as error:
            raise DataError(f"{folder}: the Whisper model cannot be read ({error})") from None
        self.tool = Tool(
            name=f"Whisper in {folder.name}",
            licence="that of the folder",
            extra="eval-whisper",
            languages=tuple(self._model.supported_languages),
        )

    def transcribe(self, samples: FloatArray, language: str) -> str:
        segments, _ = self._model.transcribe(samples, language=find_language(language).base)
        return " ".join(segment.text for segment in segments)


class WordErrors(Measure):
    """Word and character error rates of the recogniser."""

    metrics = (WORD_ERROR_RATE, CHARACTER_ERROR_RATE)

    def __init__(self, recogniser: Recogniser) -> None:
        import jiwer

        self._jiwer: Any = jiwer
        self._recogniser = recogniser
        self.tool = recogniser.tool

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        expected = bare_words(speech.text, speech.language)
        if not expected:
            return {}
        silence = np.zeros(int(_SILENCE_SECONDS * MEASURED_RATE_HZ), np.float32)
        padded = np.concatenate([silence, speech.at_measured_rate, silence])
        transcript = self._recogniser.transcribe(padded, speech.language)
        words = bare_words(transcript, speech.language)
        return {
            "wer": Score(
                float(self._jiwer.wer(expected, words)), len(expected.split()), transcript
            ),
            "cer": Score(float(self._jiwer.cer(expected, words)), len(expected)),
        }


def bare_words(text: str, language: str) -> str:
    """The words as spoken: numbers spelt out, lower case, no punctuation."""
    if not text.strip():
        return ""
    return " ".join(re.sub(r"[^\w']|_", " ", normalise(text, language).lower()).split())
