"""Third-party models for speech recognition and speaker embeddings."""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import soxr

from myxtts.audio.files import FloatArray
from myxtts.config.config import ASR_LANGUAGES
from myxtts.errors import DataError
from myxtts.text.languages import find_language, normalize

MEASURED_RATE_HZ = 16_000
# RMS level of Resemblyzer's training audio.
_RESEMBLYZER_LEVEL = 10 ** (-30 / 20)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """The library or model that a measure uses."""

    name: str
    license: str
    extra: str | None = None
    """Extra that installs it; None if it is always installed."""
    languages: tuple[str, ...] | None = None
    """The languages that it supports; None for all."""
    independent: bool = True
    """False if it was trained together with the model that it evaluates."""

    def understands(self, language: str) -> bool:
        return self.languages is None or find_language(language).base in self.languages


@dataclass(frozen=True, eq=False, kw_only=True)
class Sound:
    waveform: FloatArray
    sample_rate_hz: int

    @functools.cached_property
    def at_measured_rate(self) -> FloatArray:
        """Samples in [-1, 1] at the sample rate that all measures use."""
        samples = self.waveform
        if self.sample_rate_hz != MEASURED_RATE_HZ:
            samples = soxr.resample(samples, self.sample_rate_hz, MEASURED_RATE_HZ)
        return np.clip(samples, -1.0, 1.0).astype(np.float32)

    @property
    def seconds(self) -> float:
        return self.waveform.size / self.sample_rate_hz


class ASRModel(Protocol):
    tool: Tool

    def transcribe(self, samples: FloatArray, language: str) -> str:
        """Transcribe samples at MEASURED_RATE_HZ."""


class Moonshine:
    """Moonshine tiny, whose weights come with its wheel."""

    tool = Tool(name="Moonshine tiny", license="MIT", extra="eval", languages=ASR_LANGUAGES)

    def __init__(self, *, skips_noise: bool = False) -> None:
        """Load the model.

        `skips_noise` transcribes speech only, with a detector that remembers earlier clips. Without
        it, a clip always gets the same transcript.
        """
        from moonshine_voice.moonshine_api import ModelArch
        from moonshine_voice.transcriber import Transcriber
        from moonshine_voice.utils import get_assets_path

        model = Path(str(get_assets_path())) / "tiny-en"
        if not model.is_dir():
            # Later wheels fetch models over the network instead.
            raise ImportError("this version of moonshine-voice contains no model")
        options = {} if skips_noise else {"vad_threshold": "0"}
        self._transcriber: Any = Transcriber(str(model), ModelArch.TINY, options=options)

    def transcribe(self, samples: FloatArray, language: str) -> str:
        result = self._transcriber.transcribe_without_streaming(samples.tolist(), MEASURED_RATE_HZ)
        return " ".join(line.text for line in result.lines)


def require_whisper(folder: Path) -> None:
    # faster-whisper would download a missing tokenizer.
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
            license="that of the folder",
            extra="eval-whisper",
            languages=tuple(self._model.supported_languages),
        )

    def transcribe(self, samples: FloatArray, language: str) -> str:
        # Greedy: higher temperatures and beams make transcripts of one clip differ.
        segments, _ = self._model.transcribe(
            samples, language=find_language(language).base, temperature=0.0, beam_size=1
        )
        return " ".join(segment.text for segment in segments)


class ResemblyzerVectors:
    """Embeddings of a speaker encoder trained for speaker verification."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # Resemblyzer uses deprecated names.
            warnings.simplefilter("ignore")
            import resemblyzer

        self._prepare: Any = resemblyzer.preprocess_wav
        self._encoder: Any = resemblyzer.VoiceEncoder("cpu", verbose=False)

    def of(self, sound: Sound) -> FloatArray | None:
        """Return the embedding, None for silence."""
        found = self.with_windows(sound)
        return None if found is None else found[0]

    def with_windows(self, sound: Sound) -> tuple[FloatArray, FloatArray] | None:
        """Return the embedding and those of windows of 1.6 s, None for silence."""
        samples = sound.at_measured_rate
        level = float(np.sqrt(np.mean(np.square(samples)))) if samples.size else 0.0
        if not level:
            return None
        # Normalize the level, on which embeddings depend.
        voice = self._prepare(samples * (_RESEMBLYZER_LEVEL / level))
        # Resemblyzer trims silence, possibly the whole clip.
        if not voice.size:
            return None
        vector, windows, _ = self._encoder.embed_utterance(voice, return_partials=True)
        return vector, windows


def bare_words(text: str, language: str) -> str:
    """Return the words as spoken: numbers spelled out, lower case, no punctuation."""
    if not text.strip():
        return ""
    return " ".join(re.sub(r"[^\w']|_", " ", normalize(text, language).lower()).split())
