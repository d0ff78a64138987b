"""Synthesizes lines of token ids: sampler, vocoder and leveling. Waiting threads are batched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from myxtts.audio.files import FloatArray, window_levels
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

    It has no thread of its own: the waiting thread whose turn it is works for all.
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
            # An interrupted thread withdraws its own jobs.
            with self._list_lock:
                self._waiting = [one for one in self._waiting if one not in own]
        for one in own:
            if one.error is not None:
                raise one.error
        return [one.result for one in own]  # type: ignore[misc]

    def _do_some(self) -> None:
        with self._list_lock:
            # Unwanted jobs are withdrawn by the threads that submitted them.
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


# Length of the fades that avoid clicks at both ends of a line, and of the limiter's look-ahead.
_FADE_SECONDS = 0.005
# Lines that are computed before the first of them is yielded: enough to fill batches, few enough
# for a text of any length.
_LINES_AT_ONCE = 16
# Positions of the windows of a stream; the last number is that of all others. 40 are about 0.9 s,
# the later two thirds of which the vocoder holds back.
_WINDOW_POSITIONS = (40, 80, 160)
# Minimum duration for measuring the level of a sentence; the first window is longer.
_LEVEL_SECONDS = 0.25
# A shorter chunk may be an unusually soft or loud part of its sentence.
_RELIABLE_LEVEL_SECONDS = 0.6
# Typical level of speech, which is that of the training clips.
_USUAL_LEVEL_DBFS = -23.0
_SILENCE_BELOW_LOUDEST_DB = 40.0
# Below -1 dBFS, with room for what lossy formats add.
_MAX_PEAK = 10 ** (-1.2 / 20)


class _Job(NamedTuple):
    line: Line
    voice: Voice
    options: SpeechOptions


class Speaker:
    """Thread-safe, and independent of text, files and saved voices."""

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
        """Yield one line after the other; memory does not grow with their number.

        Raises UnwantedError once `is_wanted` returns False.
        """
        for first in range(0, len(lines), _LINES_AT_ONCE):
            some = lines[first : first + _LINES_AT_ONCE]
            jobs = [_Job(it, voice, _options_of(it, options)) for it in some if it.token_ids]
            spoken = iter(self._queue.do(jobs, is_wanted))
            for line in some:
                yield next(spoken) if line.token_ids else _silent(line)

    def stream(self, line: Line, voice: Voice, options: SpeechOptions) -> Iterator[FloatArray]:
        """Yield the samples of one line in chunks; they have the level of the first."""
        if not line.token_ids:
            return
        rate, options = self._audio.sample_rate_hz, _options_of(line, options)
        leveler: Leveler | None = None
        for chunk in self._in_turn(self._chunks(line, voice, options)):
            if leveler is None:
                # Shrink an unreliable level toward the usual one.
                share = min(chunk.size / rate / _RELIABLE_LEVEL_SECONDS, 1.0)
                level = share * speech_level_dbfs(chunk, rate) + (1.0 - share) * _USUAL_LEVEL_DBFS
                leveler = Leveler(options.loudness - level, rate)
            yield leveler.push(chunk)
        if leveler is not None:
            yield leveler.finish()

    def _in_turn(self, chunks: Iterator[FloatArray]) -> Iterator[FloatArray]:
        """Let other threads take their turn between chunks; the first is long enough to level."""
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
        """Run every shape up to these lengths once; a single sampling step is enough."""
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
                self._leveled(self._vocoder.samples(mel, seed=options.seed), options.loudness),
                seconds_of_frames(plan.token_positions * frames, self._audio),
            )
            for job, plan, mel in zip(jobs, plans, mels, strict=True)
        ]

    def _leveled(self, waveform: FloatArray, loudness: float) -> FloatArray:
        rate = self._audio.sample_rate_hz
        leveler = Leveler(loudness - speech_level_dbfs(waveform, rate), rate)
        return np.concatenate([leveler.push(waveform), leveler.finish()])


def speech_level_dbfs(waveform: FloatArray, sample_rate_hz: int) -> float:
    """Return the RMS level without pauses, or the usual level for silence."""
    levels = window_levels(waveform, sample_rate_hz)
    if levels.size == 0 or levels.max() <= 0:
        return _USUAL_LEVEL_DBFS
    spoken = levels[levels > levels.max() * 10 ** (-_SILENCE_BELOW_LOUDEST_DB / 20)]
    return float(10 * np.log10(np.mean(np.square(spoken))))


class Leveler:
    """Amplifies the chunks of a line, limits their peaks and fades the line in and out.

    The limiter's gain changes smoothly, with a look-ahead as long as a fade. That part of each
    chunk is held back until the next one. No sample is lost.
    """

    def __init__(self, gain_db: float, sample_rate_hz: int) -> None:
        self._gain = np.float32(10 ** (gain_db / 20))
        self._reach = int(_FADE_SECONDS * sample_rate_hz)
        self._ramp = np.linspace(0.0, 1.0, self._reach, endpoint=False, dtype=np.float32)
        self._to_fade_in = self._ramp
        # Finished samples that the gain still depends on, and then those that wait.
        self._window = np.zeros(self._reach, np.float32)

    def push(self, chunk: FloatArray) -> FloatArray:
        samples = chunk * self._gain
        fading = self._to_fade_in[: samples.size]
        samples[: fading.size] *= fading
        self._to_fade_in = self._to_fade_in[fading.size :]
        return self._limited(samples)

    def finish(self) -> FloatArray:
        """Return the samples that waited, faded out."""
        rest = self._limited(np.zeros(self._reach, np.float32))
        return rest * self._ramp[::-1][self._reach - rest.size :]

    def _limited(self, samples: FloatArray) -> FloatArray:
        reach = self._reach
        window = np.concatenate([self._window, samples])
        self._window = window[-2 * reach :]
        finished = window[reach : max(window.size - reach, reach)]
        if finished.size == 0 or np.abs(window).max() <= _MAX_PEAK:
            return finished
        # The mean of minima that all include a sample is no larger than its own allowed gain.
        allowed = _MAX_PEAK / np.maximum(np.abs(window), np.float32(_MAX_PEAK))
        minima = sliding_window_view(allowed, reach + 1).min(-1)
        return finished * sliding_window_view(minima, reach + 1).mean(-1)


def _options_of(line: Line, options: SpeechOptions) -> SpeechOptions:
    if line.speed == 1:
        return options
    return replace(options, speed=min(max(options.speed * line.speed, 0.25), 4.0))


def _silent(line: Line) -> SpokenLine:
    return SpokenLine(line, np.zeros(0, np.float32), np.zeros(0))
