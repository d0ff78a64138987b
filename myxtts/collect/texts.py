"""Texts of clips: transcribed by an ASR model or a command, or taken from a script."""

from __future__ import annotations

import bisect
import contextlib
import difflib
import functools
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from myxtts.audio.files import FloatArray, read_audio, write_audio
from myxtts.audio.pretrained import MEASURED_RATE_HZ, ASRModel, Moonshine, Whisper, bare_words
from myxtts.collect.folder import TRANSCRIPT_LINE, CorpusFolder, append, read_lines, tidy
from myxtts.devices.doctor import install_command
from myxtts.errors import DataError
from myxtts.text.languages import find_language

# ASR models expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5
_MAX_SECONDS = 300
_MAX_BYTES = 1 << 20
# A command that fails on its first clips will fail on all.
_MAX_FIRST_FAILURES = 3


class TranscriberError(Exception):
    """A clip cannot be transcribed, with the reason."""


class Transcriber(Protocol):
    name: str

    def transcribe(self, samples: FloatArray) -> str:
        """Transcribe samples at MEASURED_RATE_HZ, or raise TranscriberError."""


class NoTranscriberError(DataError):
    """No ASR model supports the language."""


def open_transcriber(
    language: str, command: str | None = None, whisper: Path | None = None
) -> Transcriber:
    if command is not None:
        return CommandTranscriber(command)
    try:
        if whisper is not None:
            return ModelTranscriber(Whisper(whisper), language)
        if find_language(language).base not in (Moonshine.tool.languages or ()):
            raise NoTranscriberError(
                f"no ASR model for '{language}'; give --whisper DIR or --transcriber CMD"
            )
        return ModelTranscriber(Moonshine(skips_noise=True), language)
    except ImportError:
        extra = "eval" if whisper is None else "eval-whisper"
        raise NoTranscriberError(
            f"no ASR model is installed: {install_command(extra)}; or give --transcriber CMD"
        ) from None


class ModelTranscriber:
    def __init__(self, model: ASRModel, language: str) -> None:
        if not model.tool.understands(language):
            raise NoTranscriberError(f"{model.tool.name} does not support '{language}'")
        self.name = model.tool.name
        self._model, self._language = model, language

    def transcribe(self, samples: FloatArray) -> str:
        padded = np.pad(samples, int(_SILENCE_SECONDS * MEASURED_RATE_HZ))
        return self._model.transcribe(padded, self._language)


class CommandTranscriber:
    """Runs a program. `{}` in the command is the wav; without it the wav is the last argument."""

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
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except OSError as error:
                raise TranscriberError(f"{words[0]}: {error.strerror}") from None
            clock = threading.Timer(_MAX_SECONDS, _end, [process])
            with process, ThreadPoolExecutor(2) as pool:
                clock.start()
                try:
                    streams = (process.stdout, process.stderr)
                    output, messages = pool.map(lambda stream: _read(stream, process), streams)
                    code = process.wait()
                finally:
                    clock.cancel()
                    _end(process)
        if code:
            last = messages.strip().splitlines()[-1:] or [
                f"ended with code {code}, or wrote over {_MAX_BYTES:,} bytes, or took over "
                f"{_MAX_SECONDS} s"
            ]
            raise TranscriberError(f"{words[0]}: {last[0]}")
        return output


def _read(stream: IO[bytes] | None, process: subprocess.Popen[bytes]) -> str:
    """Return the output of a program; kill it if the output is too long."""
    assert stream is not None
    content = stream.read(_MAX_BYTES)
    if len(content) == _MAX_BYTES:
        _end(process)
    return content.decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program and its children, which may hold its pipes open."""
    with contextlib.suppress(OSError):
        getattr(os, "killpg", os.kill)(process.pid, signal.SIGTERM)


def transcribe_clips(
    clip_ids: Sequence[str],
    folder: CorpusFolder,
    transcriber: Transcriber,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the text of each clip, and the problem of each that has none.

    Each transcript is saved immediately, so that an interrupted command resumes.
    """
    texts = {
        line["id"]: line["text"]
        for line in read_lines(folder.transcripts, TRANSCRIPT_LINE)
        if line["by"] == transcriber.name
    }
    problems: dict[str, str] = {}
    for done, clip_id in enumerate(clip_ids, 1):
        if clip_id not in texts:
            try:
                samples = read_audio(folder.clip(clip_id), MEASURED_RATE_HZ)
                text = tidy(transcriber.transcribe(samples))
            except (TranscriberError, DataError) as error:
                problems[clip_id] = str(error)
                if len(problems) == _MAX_FIRST_FAILURES and not texts:
                    raise DataError(
                        f"--transcriber: failed on every clip so far ({error})"
                    ) from None
                continue
            append(folder.transcripts, {"id": clip_id, "by": transcriber.name, "text": text})
            texts[clip_id] = text
        on_progress(done, len(clip_ids))
    return texts, problems


# Maximum number of script words between two words of one clip.
_MAX_GAP_WORDS = 4


@dataclass(frozen=True)
class Script:
    """The spoken words of a text, each with its position."""

    tokens: list[str]
    """Words as written, with punctuation."""
    words: list[str]
    token_of_word: list[int]

    @staticmethod
    def read(text: str, language: str) -> Script:
        spoken = functools.lru_cache(maxsize=None)(lambda token: bare_words(token, language))
        tokens, words, places = text.split(), [], []
        for place, token in enumerate(tokens):
            for word in spoken(token).split():
                words.append(word)
                places.append(place)
        return Script(tokens, words, places)

    def text(self, first: int, last: int) -> str:
        """Return the text from one word to another, with surrounding marks."""
        start, end = self.token_of_word[first], self.token_of_word[last] + 1
        # An isolated dash or quotation mark belongs to the previous word.
        while end < len(self.tokens) and not any(map(str.isalnum, self.tokens[end])):
            end += 1
        return " ".join(self.tokens[start:end])


@dataclass(frozen=True)
class Place:
    """Position of a clip in the script."""

    text: str
    agreement: float
    """Share of the words on which the ASR model and the script agree."""
    certain_edges: bool
    """False if the script has uncovered words directly before or after the clip."""


def find_in_script(clips: Sequence[Sequence[str]], script: Script) -> list[Place | None]:
    """Place clips of a recording, given by their recognized words in order."""
    match = _align([word for words in clips for word in words], script.words)
    spans = []
    start = 0
    for words in clips:
        spans.append(_without_strays([at for at in match[start : start + len(words)] if at >= 0]))
        start += len(words)
    taken = sorted(at for span in spans for at in span)
    return [
        _place(words, span, script, taken) if span else None
        for words, span in zip(clips, spans, strict=True)
    ]


def _align(heard: Sequence[str], script: Sequence[str]) -> list[int]:
    """Return the word of the script for each recognized word, or -1.

    Finds the longest common subsequence. Between two matches, equally long gaps on both sides count
    as recognition errors.
    """
    from rapidfuzz.distance import LCSseq

    match = [-1] * len(heard)
    before, to_before = -1, -1
    for code in LCSseq.opcodes(heard, script):
        first, end, to = code.src_start, code.src_end, code.dest_start
        if code.tag == "equal":
            if before >= 0 and first - before == to - to_before:
                match[before:first] = range(to_before, to)
            match[first:end] = range(to, to + end - first)
            before, to_before = end, to + end - first
    return match


def _without_strays(span: list[int]) -> list[int]:
    """Drop words at the edges that were aligned far away from the rest of their clip."""
    while len(span) > 1 and span[1] - span[0] > _MAX_GAP_WORDS:
        span = span[1:]
    while len(span) > 1 and span[-1] - span[-2] > _MAX_GAP_WORDS:
        span = span[:-1]
    return span


def _place(
    words: Sequence[str], aligned: Sequence[int], script: Script, taken: Sequence[int]
) -> Place:
    first, last = aligned[0], aligned[-1]
    spoken = script.words[first : last + 1]
    matcher = difflib.SequenceMatcher(None, list(words), spoken, autojunk=False)
    before = bisect.bisect_left(taken, first)
    after = bisect.bisect_right(taken, last)
    # The ends of the script have no neighbors to compare with.
    joins_before = before == 0 or taken[before - 1] == first - 1
    joins_after = after == len(taken) or taken[after] == last + 1
    return Place(script.text(first, last), matcher.ratio(), joins_before and joins_after)
