"""Speaks lines of token ids: sampler, vocoder and level. Threads that wait are served together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from myxtts.audio.files import FloatArray, loudness_gain
from myxtts.audio.griffin_lim import StreamingVocoder, Vocoder
from myxtts.audio.mel import seconds_of_frames
from myxtts.config.config import AudioConfig
from myxtts.models.sampler import Sentence, SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.synthesis.script import Line, SpokenLine

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class UnwantedError(Exception):
    """The result is no longer wanted."""


def always_wanted() -> bool:
    return True


class _Waiting(Generic[_Item, _Result]):
    def __init__(self, job: _Item, is_wanted: Callable[[], bool]) -> None:
        self.job = job
        self.is_wanted = is_wanted
        self.result: _Result | None = None
        self.error: BaseException | None = None
        self.is_done = False


class WorkQueue(Generic[_Item, _Result]):
    """Calls `work` with at most `max_jobs` jobs of one kind at a time, in one thread at a time.

    There is no thread of its own: whichever waiting thread gets its turn works for all.
    """

    def __init__(
        self,
        work: Callable[[Sequence[_Item]], Sequence[_Result]],
        kind_of: Callable[[_Item], Hashable],
        max_jobs: int,
    ) -> None:
        self._work, self._kind_of, self._max_jobs = work, kind_of, max_jobs
        self._waiting: list[_Waiting[_Item, _Result]] = []
        self._list_lock = threading.Lock()
        self.turn = threading.Lock()
        """Held by the thread that works; also by work that does not go through the queue."""

    def do(
        self, jobs: Sequence[_Item], is_wanted: Callable[[], bool] = always_wanted
    ) -> list[_Result]:
        """Return the results of jobs, in their order; UnwantedError if they became unwanted.

        Any thread may call `is_wanted`, before the jobs are begun.
        """
        own: list[_Waiting[_Item, _Result]] = [_Waiting(job, is_wanted) for job in jobs]
        with self._list_lock:
            self._waiting += own
        try:
            while not all(one.is_done for one in own):
                with self.turn:
                    if not all(one.is_done for one in own):
                        if not is_wanted():
                            raise UnwantedError
                        self._do_some()
        finally:
            # An interrupted thread leaves no work behind for others.
            with self._list_lock:
                self._waiting = [one for one in self._waiting if one not in own]
        for one in own:
            if one.error is not None:
                raise one.error
        return [one.result for one in own]  # type: ignore[misc]

    def _do_some(self) -> None:
        with self._list_lock:
            # Unwanted jobs are withdrawn by the threads that asked for them.
            wanted = [one for one in self._waiting if one.is_wanted()]
            if not wanted:
                return
            kind = self._kind_of(wanted[0].job)
            alike = [one for one in wanted if self._kind_of(one.job) == kind]
            chosen = alike[: self._max_jobs]
            self._waiting = [one for one in self._waiting if one not in chosen]
        try:
            results = self._work([one.job for one in chosen])
            for one, result in zip(chosen, results, strict=True):
                one.result = result
        except BaseException as error:
            for one in chosen:
                one.error = error
            # A failure is raised in the threads that asked; Ctrl-C also in the one that works.
            if not isinstance(error, Exception):
                raise
        finally:
            for one in chosen:
                one.is_done = True


_FADE_SECONDS = 0.005
_SPOKEN_LOUDNESS_DBFS = -23.0
# Lines that are computed before the first of them is given: enough to fill batches, few enough
# for a text of any length.
_LINES_AT_ONCE = 16
# Positions of the windows of a stream; the last number is that of all others. 40 are about 0.9 s,
# the later two thirds of which the vocoder holds back.
_WINDOW_POSITIONS = (40, 80, 160)
# The level of a sentence is measured on at least as much of it, and the first window has more.
_LEVEL_SECONDS = 0.25
# So much of a sentence tells its level; less may be a soft or a loud part of it.
_TELLING_SECONDS = 0.6
_LARGEST_SAMPLE = 0.99


class _Job(NamedTuple):
    line: Line
    voice: Voice
    options: SpeechOptions


class Speaker:
    """Thread-safe. Knows nothing of text, files or saved voices."""

    def __init__(self, sampler: SpeechSampler, vocoder: Vocoder, audio: AudioConfig) -> None:
        self._sampler, self._vocoder, self._audio = sampler, vocoder, audio
        self._queue = WorkQueue(self._speak_together, lambda job: job.options, _LINES_AT_ONCE)

    def speak(
        self,
        lines: Sequence[Line],
        voice: Voice,
        options: SpeechOptions,
        is_wanted: Callable[[], bool] = always_wanted,
    ) -> Iterator[SpokenLine]:
        """One line after the other; memory does not grow with their number.

        Ends with UnwantedError once `is_wanted` says no.
        """
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = lines[first : first + _LINES_AT_ONCE]
            jobs = [_Job(line, voice, options) for line in some if line.token_ids]
            spoken = iter(self._queue.do(jobs, is_wanted))
            for line in some:
                yield next(spoken) if line.token_ids else _silent(line)

    def stream(self, line: Line, voice: Voice, options: SpeechOptions) -> Iterator[FloatArray]:
        """The samples of one line in chunks; they have the level of the first."""
        if not line.token_ids:
            return
        chunks = self._chunks(line, voice, options)
        fade = int(_FADE_SECONDS * self._audio.sample_rate_hz)
        gain, held = None, np.zeros(0, np.float32)
        for chunk in self._in_turn(chunks):
            if gain is None:
                gain = self._gain_by_start(chunk)
                chunk = np.concatenate([_faded_in(chunk[:fade]), chunk[fade:]])
            # A later part may be louder than the one that the level was measured on.
            levelled = np.clip(chunk * np.float32(gain), -_LARGEST_SAMPLE, _LARGEST_SAMPLE)
            samples = np.concatenate([held, levelled])
            # The end of a chunk may be the end of the line, which is faded out.
            held = samples[max(0, samples.size - fade) :]
            yield samples[: samples.size - held.size]
        yield _faded_in(held[::-1])[::-1]

    def _in_turn(self, chunks: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """Other threads take their turn between chunks; the first is long enough for its level."""
        waiting = np.zeros(0, np.float32)
        is_first = True
        while True:
            with self._queue.turn:
                chunk = next(chunks, None)
            if chunk is None:
                break
            waiting = np.concatenate([waiting, chunk])
            if not is_first or waiting.size >= _LEVEL_SECONDS * self._audio.sample_rate_hz:
                yield waiting
                waiting, is_first = np.zeros(0, np.float32), False
        if waiting.size:
            yield waiting

    def _chunks(self, line: Line, voice: Voice, options: SpeechOptions) -> Iterator[FloatArray]:
        sentence = Sentence(line.token_ids, line.language_id, voice)
        [plan] = self._sampler.plan([sentence], options.speed)
        if isinstance(self._vocoder, StreamingVocoder):
            mels = self._sampler.stream(plan, options, _WINDOW_POSITIONS)
            yield from self._vocoder.stream(mels, seed=options.seed)
        else:
            [mel] = self._sampler.decode([plan], options)
            yield self._vocoder.samples(mel, seed=options.seed)

    def voice(self, log_mel: FloatArray) -> Voice:
        with self._queue.turn:
            return self._sampler.voice(log_mel)

    def warm_up(self, options: SpeechOptions, *, tokens: int, positions: int) -> None:
        """Runs every shape up to these lengths once; one sampling step is like another."""
        options = replace(options, steps=1)
        noise = np.random.default_rng(0).normal(-5.0, 2.0, (256, self._sampler.n_mels))
        voice = self.voice(noise.astype(np.float32))
        with self._queue.turn:
            self._sampler.warm_up(voice, options, tokens=tokens, positions=positions)
            self._vocoder.samples(noise.astype(np.float32)[:64], seed=options.seed)

    def _speak_together(self, jobs: Sequence[_Job]) -> list[SpokenLine]:
        options = jobs[0].options
        sentences = [Sentence(job.line.token_ids, job.line.language_id, job.voice) for job in jobs]
        plans = self._sampler.plan(sentences, options.speed)
        mels = self._sampler.decode(plans, options)
        frames = self._sampler.frames_per_position
        return [
            SpokenLine(
                job.line,
                self._levelled(self._vocoder.samples(mel, seed=options.seed)),
                seconds_of_frames(plan.token_positions * frames, self._audio),
            )
            for job, plan, mel in zip(jobs, plans, mels, strict=True)
        ]

    def _levelled(self, waveform: FloatArray) -> FloatArray:
        """At the usual level, and faded in and out to avoid clicks."""
        fade = min(int(_FADE_SECONDS * self._audio.sample_rate_hz), waveform.size // 2)
        levelled = waveform * np.float32(self._gain(waveform))
        start, middle, end = np.split(levelled, [fade, waveform.size - fade])
        return np.concatenate([_faded_in(start), middle, _faded_in(end[::-1])[::-1]])

    def _gain_by_start(self, chunk: FloatArray) -> float:
        """Of a sentence whose rest is not known yet.

        A model speaks at about the level of its training clips, so as much of the gain as a short
        chunk cannot tell is none.
        """
        seconds = chunk.size / self._audio.sample_rate_hz
        return float(self._gain(chunk) ** min(seconds / _TELLING_SECONDS, 1.0))

    def _gain(self, waveform: FloatArray) -> float:
        return loudness_gain(waveform, self._audio.sample_rate_hz, _SPOKEN_LOUDNESS_DBFS)


def _silent(line: Line) -> SpokenLine:
    return SpokenLine(line, np.zeros(0, np.float32), np.zeros(0))


def _faded_in(waveform: FloatArray) -> FloatArray:
    return waveform * np.linspace(0.0, 1.0, waveform.size, endpoint=False, dtype=np.float32)
