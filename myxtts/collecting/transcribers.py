"""Transcripts of clips: by Moonshine, by Whisper, or by any command that prints text for a wav."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

import numpy as np
import soxr

from myxtts.audio.files import FloatArray, read_audio
from myxtts.audio.writing import write_audio
from myxtts.collecting.records import TRANSCRIPT_LINE, CorpusFolder, append, read_lines
from myxtts.devices.checkup import install_command
from myxtts.errors import DataError
from myxtts.evaluation.measure import MEASURED_RATE_HZ
from myxtts.evaluation.recogniser import Moonshine, Recogniser, Whisper
from myxtts.text.languages import find_language

# Recognisers expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5
# A second hearing at another speed and pitch: what is certain stays the same.
_SECOND_SPEED = 0.93
_SECONDS_ALLOWED = 300
# A command that fails on its first clips will fail on all.
_FAILURES_AT_FIRST = 3


class TranscriberError(Exception):
    """Why there is no transcript of this clip."""


class Transcriber(Protocol):
    name: str

    def transcribe(self, samples: FloatArray) -> str:
        """Of samples at MEASURED_RATE_HZ; raises TranscriberError."""


class NoTranscriberError(DataError):
    """No recogniser for this language; says what to do."""


def open_transcriber(
    language: str, command: str | None = None, whisper: Path | None = None
) -> Transcriber:
    if command is not None:
        return CommandTranscriber(command)
    try:
        if whisper is not None:
            return RecogniserTranscriber(Whisper(whisper), language)
        if find_language(language).base not in (Moonshine.tool.languages or ()):
            raise NoTranscriberError(
                f"no recogniser for '{language}'; give --whisper DIR or --transcriber CMD"
            )
        return RecogniserTranscriber(Moonshine(), language)
    except ImportError:
        extra = "eval" if whisper is None else "eval-whisper"
        raise NoTranscriberError(
            f"no recogniser is installed: {install_command(extra)}; or give --transcriber CMD"
        ) from None


class RecogniserTranscriber:
    def __init__(self, recogniser: Recogniser, language: str) -> None:
        if not recogniser.tool.understands(language):
            raise NoTranscriberError(f"{recogniser.tool.name} does not know '{language}'")
        self.name = recogniser.tool.name
        self._recogniser, self._language = recogniser, language

    def transcribe(self, samples: FloatArray) -> str:
        silence = np.zeros(int(_SILENCE_SECONDS * MEASURED_RATE_HZ), np.float32)
        padded = np.concatenate([silence, samples, silence])
        return self._recogniser.transcribe(padded, self._language)


class CommandTranscriber:
    """`{}` in the command is the wav; without it the wav is the last argument."""

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise DataError(f"--transcriber: cannot be read ({error})") from None
        if not self._words or shutil.which(self._words[0]) is None:
            program = self._words[0] if self._words else ""
            raise DataError(f"--transcriber: no program '{program}'; expected a command")
        if not any("{}" in word for word in self._words):
            self._words.append("{}")
        self.name = f"command {command}"

    def transcribe(self, samples: FloatArray) -> str:
        with tempfile.TemporaryDirectory() as folder:
            wav = Path(folder) / "clip.wav"
            write_audio(wav, samples, MEASURED_RATE_HZ)
            words = [word.replace("{}", str(wav)) for word in self._words]
            try:
                result = subprocess.run(
                    words,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_SECONDS_ALLOWED,
                    check=False,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise TranscriberError(f"{words[0]}: {type(error).__name__}") from None
        if result.returncode:
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            said = lines[-1] if lines else f"exit code {result.returncode}"
            raise TranscriberError(f"{words[0]}: {said}")
        return result.stdout.decode(errors="replace")


class Transcripts:
    """What was heard in each clip, and in which clips nothing could be."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.seconds: dict[str, str] = {}
        """The second hearing, where there is one."""
        self.problems: dict[str, str] = {}


def transcribe_clips(
    clip_ids: Iterable[str],
    folder: CorpusFolder,
    transcriber: Transcriber,
    *,
    twice: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Transcripts:
    """Continues where it stopped: each transcript is recorded at once."""
    heard = Transcripts()
    for line in read_lines(folder.transcripts, TRANSCRIPT_LINE):
        if line["by"] == transcriber.name:
            heard.texts[line["id"]] = line["text"]
            if line["second"] is not None:
                heard.seconds[line["id"]] = line["second"]
    clip_ids = list(clip_ids)
    waiting = [
        clip_id
        for clip_id in clip_ids
        if clip_id not in heard.texts or (twice and clip_id not in heard.seconds)
    ]
    done = len(clip_ids) - len(waiting)
    for clip_id in waiting:
        try:
            samples = read_audio(folder.clip(clip_id), MEASURED_RATE_HZ)
            text = heard.texts.get(clip_id)
            text = tidy(transcriber.transcribe(samples)) if text is None else text
            second = tidy(transcriber.transcribe(_slower(samples))) if twice else None
        except (TranscriberError, DataError) as error:
            heard.problems[clip_id] = str(error)
            if len(heard.problems) == _FAILURES_AT_FIRST and not heard.texts:
                raise DataError(f"--transcriber: failed on every clip so far ({error})") from None
            continue
        line = {"id": clip_id, "by": transcriber.name, "text": text, "second": second}
        append(folder.transcripts, line)
        heard.texts[clip_id] = text
        if second is not None:
            heard.seconds[clip_id] = second
        done += 1
        on_progress(done, len(clip_ids))
    return heard


def tidy(text: str) -> str:
    """One line that a metadata file can contain."""
    return " ".join(text.replace("|", " ").split())


def _slower(samples: FloatArray) -> FloatArray:
    slower = soxr.resample(samples, MEASURED_RATE_HZ * _SECOND_SPEED, MEASURED_RATE_HZ)
    return np.asarray(slower, np.float32)
