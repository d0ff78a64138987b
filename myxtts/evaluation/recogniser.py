"""Does a recogniser that knows nothing of this project follow what is said?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from myxtts.errors import DataError
from myxtts.evaluation.measure import (
    MEASURED_RATE_HZ,
    Figure,
    FloatArray,
    Measure,
    Score,
    Speech,
    Tool,
)
from myxtts.text.languages import find_language
from myxtts.text.normalise import normalise

# Recognisers are trained on speech that does not start at the first sample.
_SILENCE_SECONDS = 0.5

WORD_ERROR_RATE = Figure(name="wer", title="word error rate", unit="share", decimals=3)
CHARACTER_ERROR_RATE = Figure(name="cer", title="character error rate", unit="share", decimals=3)


class Recogniser(Protocol):
    tool: Tool

    def hear(self, samples: FloatArray, language: str) -> str:
        """What is said in samples at MEASURED_RATE_HZ."""


class Moonshine:
    """Moonshine tiny, which its wheel carries whole."""

    tool = Tool(name="Moonshine tiny", licence="MIT", extra="eval", languages=("en",))

    def __init__(self) -> None:
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber
        from moonshine_voice.utils import get_assets_path

        model = Path(str(get_assets_path())) / "tiny-en"
        if not model.is_dir():
            # Later wheels fetch models over the network instead.
            raise ImportError("this version of moonshine-voice carries no model")
        self._transcriber: Any = Transcriber(str(model), ModelArch.TINY)

    def hear(self, samples: FloatArray, language: str) -> str:
        heard = self._transcriber.transcribe_without_streaming(samples.tolist(), MEASURED_RATE_HZ)
        return " ".join(line.text for line in heard.lines)


class Whisper:
    """A Whisper model in CTranslate2's format, from a folder of the user."""

    def __init__(self, folder: Path) -> None:
        # It would fetch a tokenizer that is not there.
        for name in ("model.bin", "tokenizer.json"):
            if not (folder / name).is_file():
                raise DataError(
                    f"{folder}: holds no Whisper model; expected the folder of a faster-whisper "
                    f"(CTranslate2) model, with {name} in it"
                )
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

    def hear(self, samples: FloatArray, language: str) -> str:
        segments, _ = self._model.transcribe(samples, language=find_language(language).base)
        return " ".join(segment.text for segment in segments)


class WordErrors(Measure):
    """Errors of the recogniser over the words and characters of the sentence."""

    figures = (WORD_ERROR_RATE, CHARACTER_ERROR_RATE)

    def __init__(self, recogniser: Recogniser) -> None:
        import jiwer

        self._jiwer: Any = jiwer
        self._recogniser = recogniser
        self.tool = recogniser.tool

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        said = bare_words(speech.text, speech.language)
        if not said:
            return {}
        silence = np.zeros(int(_SILENCE_SECONDS * MEASURED_RATE_HZ), np.float32)
        padded = np.concatenate([silence, speech.at_measured_rate, silence])
        heard = self._recogniser.hear(padded, speech.language)
        heard_words = bare_words(heard, speech.language)
        return {
            "wer": Score(float(self._jiwer.wer(said, heard_words)), len(said.split()), heard),
            "cer": Score(float(self._jiwer.cer(said, heard_words)), len(said)),
        }


def bare_words(text: str, language: str) -> str:
    """Numbers in words, small letters, no punctuation: what can be heard of a text."""
    if not text.strip():
        return ""
    return " ".join(re.sub(r"[^\w']|_", " ", normalise(text, language).lower()).split())
