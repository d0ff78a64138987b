"""Texts of clips: transcribed, taken from a script, compared with the sound."""

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import numpy as np
import soxr

from myxtts.audio.files import FloatArray, clean_recording, read_audio, write_audio
from myxtts.audio.pretrained import MEASURED_RATE_HZ, Moonshine, Recogniser, Whisper, bare_words
from myxtts.collect.corpus import (
    AGREEMENT_LINE,
    TRANSCRIPT_LINE,
    CorpusFolder,
    append,
    read_lines,
    tidy,
)
from myxtts.devices.doctor import install_command
from myxtts.errors import CheckpointError, DataError
from myxtts.runs.run_dir import run_or_base
from myxtts.text.languages import find_language

# Recognisers expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5
# A second hearing at another speed and pitch: what is certain stays the same.
_SECOND_SPEED = 0.93
_SECONDS_ALLOWED = 300
_MAX_OUTPUT_BYTES = 1 << 16
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
            code, output, errors = _run_bounded(words)
        if code:
            lines = errors.decode(errors="replace").strip().splitlines()
            raise TranscriberError(f"{words[0]}: {lines[-1] if lines else f'exit code {code}'}")
        return output.decode(errors="replace")


def _run_bounded(words: Sequence[str]) -> tuple[int, bytes, bytes]:
    """Run a program. One that prints too much, or takes too long, is killed with its children."""
    problems: list[str] = []
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

    def kill(problem: str) -> None:
        problems.append(problem)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def read(stream: IO[bytes]) -> bytes:
        content = stream.read(_MAX_OUTPUT_BYTES + 1)
        if len(content) > _MAX_OUTPUT_BYTES:
            kill(f"more than {_MAX_OUTPUT_BYTES:,} bytes of output")
        return content

    clock = threading.Timer(_SECONDS_ALLOWED, kill, [f"longer than {_SECONDS_ALLOWED} s"])
    clock.start()
    try:
        with process, ThreadPoolExecutor(2) as pool:
            output, errors = pool.map(read, filter(None, (process.stdout, process.stderr)))
    finally:
        clock.cancel()
    if problems:
        raise TranscriberError(f"{words[0]}: {problems[0]}")
    return process.returncode, output, errors


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


def _slower(samples: FloatArray) -> FloatArray:
    slower = soxr.resample(samples, MEASURED_RATE_HZ * _SECOND_SPEED, MEASURED_RATE_HZ)
    return np.asarray(slower, np.float32)


# Words of the script between two words of one clip.
_MAX_GAP_WORDS = 4


@dataclass(frozen=True)
class Script:
    """The words of a text as they are spoken, each with its place in the text."""

    tokens: list[str]
    """As they are written, with their punctuation."""
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
        """From one word to another, with what stands around them."""
        start, end = self.token_of_word[first], self.token_of_word[last] + 1
        # A dash or a quotation mark by itself belongs to what is before it.
        while end < len(self.tokens) and not any(map(str.isalnum, self.tokens[end])):
            end += 1
        return " ".join(self.tokens[start:end])


@dataclass(frozen=True)
class Place:
    """A clip in the script."""

    text: str
    agreement: float
    """Share of the words on which the recogniser and the script agree."""
    certain_edges: bool
    """False: the script has words just before or after that are in no clip."""


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

    As many equal words as possible, in order. Between two of them as many words on both sides count
    as misheard.
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
    # At the ends of what was read there is nothing to compare with.
    joins_before = before == 0 or taken[before - 1] == first - 1
    joins_after = after == len(taken) or taken[after] == last + 1
    return Place(script.text(first, last), matcher.ratio(), joins_before and joins_after)


if TYPE_CHECKING:
    from myxtts.runs.trained_model import LoadedModel

_OTHERS = 4
_SENTENCES_OF_OTHERS = 160


class Listener(Protocol):
    name: str
    sample_rate_hz: int

    def agreement(self, samples: FloatArray, text: str) -> float | None:
        """About 0 if the text is of something else; None if it cannot be said."""


def open_listener(language: str) -> Listener | None:
    """None if there is no base model, or none that knows the language."""
    from myxtts.devices.startup import load_tensorflow

    try:
        folder = run_or_base(None)
    except CheckpointError:
        return None
    load_tensorflow()
    from myxtts.runs.trained_model import load_model

    model = load_model(folder, compiled=False)
    # One that knows English can judge British English too.
    for tag in (language, find_language(language).base):
        with contextlib.suppress(DataError):
            return BaseListener(model, tag)
    return None


class BaseListener:
    def __init__(self, model: LoadedModel, language: str) -> None:
        """Raises DataError for a language that the model does not know."""
        from myxtts.audio.mel import clip_log_mel
        from myxtts.models.sampler import TextAgreement

        self._audio, self._tokenizer = model.config.audio, model.tokenizer
        self.sample_rate_hz = self._audio.sample_rate_hz
        self.name = f"base {model.weights_sha256[:16]}"
        self._language = self._tokenizer.own_language(language)
        self._language_id = self._tokenizer.language_id(language)
        self._log_mel = clip_log_mel(self._audio, model.config.data.n_mels)
        self._measure = TextAgreement(model.sampler)
        sentences = find_language(self._language).demo_sentences()[:_SENTENCES_OF_OTHERS]
        if not sentences:
            raise DataError(f"no sentences to compare with in '{language}'")
        # Without the tokens at both ends of a sentence.
        self._other_ids = [
            token
            for text in sentences
            for token in self._tokenizer.encode(text, self._language)[1:-1]
        ]

    def agreement(self, samples: FloatArray, text: str) -> float | None:
        try:
            token_ids = self._tokenizer.encode(text, self._language)
        except DataError:
            return None
        log_mel = self._log_mel(clean_recording(samples, self._audio))
        start, *inner, end = token_ids
        others = [[start, *self._others(n, len(inner)), end] for n in range(_OTHERS)]
        return self._measure.of(log_mel, token_ids, others, self._language_id)

    def _others(self, number: int, count: int) -> list[int]:
        """Tokens of other sentences, beginning with one of them."""
        first = number * len(self._other_ids) // _OTHERS
        every = len(self._other_ids)
        return [self._other_ids[(first + index) % every] for index in range(count)]


def measure_agreement(
    texts: Mapping[str, str],
    folder: CorpusFolder,
    listener: Listener,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, float]:
    """By clip, of those that can be measured; continues where it stopped."""
    known = {
        (line["id"], line["text"]): line["agreement"]
        for line in read_lines(folder.agreements, AGREEMENT_LINE)
        if line["by"] == listener.name
    }
    found: dict[str, float] = {}
    for done, (clip_id, text) in enumerate(texts.items(), 1):
        if (clip_id, text) not in known:
            samples = read_audio(folder.clip(clip_id), listener.sample_rate_hz)
            value = listener.agreement(samples, text)
            known[clip_id, text] = value
            line = {"id": clip_id, "text": text, "by": listener.name, "agreement": value}
            append(folder.agreements, line)
        value = known[clip_id, text]
        if value is not None:
            found[clip_id] = value
        on_progress(done, len(texts))
    return found
