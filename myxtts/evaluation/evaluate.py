"""Synthesizes sentences and compares their metrics with those of the recordings.

Metrics are meaningful only relative to their ceiling. The recordings are the upper bound;
copies of them through mel and vocoder are what a perfect model could reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.audio.files import clean_recording, read_audio
from myxtts.audio.griffin_lim import GriffinLim
from myxtts.audio.mel import clip_log_mel
from myxtts.audio.vocoder import Vocoder
from myxtts.evaluation.measure import FloatArray, Measure, Metric, Score, Sound, Speech
from myxtts.evaluation.sentences import Sentence
from myxtts.evaluation.similarity import OwnVoiceEncoder
from myxtts.evaluation.toolbox import LeftOut, Toolbox
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.vocoders import GRIFFIN_LIM
from myxtts.synthesis.tts import TTS

RECORDINGS, MODEL = "recordings", "model"


@dataclass(frozen=True, eq=False)
class Clip:
    """One sentence in one of the columns."""

    column: str
    sentence: Sentence
    sound: Sound
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Evaluation:
    run: str
    step: int
    sentences: tuple[Sentence, ...]
    toolbox: Toolbox
    vocoders: tuple[str, ...]
    """Names of those that copy the recordings."""
    clips: list[Clip] = field(default_factory=list)

    @property
    def columns(self) -> tuple[str, ...]:
        """Only the model, if there are no recordings."""
        recorded = any(sentence.recording for sentence in self.sentences)
        return (RECORDINGS, *map(copies_by, self.vocoders), MODEL) if recorded else (MODEL,)

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """Metrics without a value, with the reason."""
        reasons: dict[str, list[str]] = {}
        for measure in self.toolbox.measures:
            for metric in measure.metrics:
                if metric not in self.toolbox.metrics or self.mean(MODEL, metric) is not None:
                    continue
                if metric.needs_recording and self.columns == (MODEL,):
                    reason = "there are no recordings of these sentences"
                elif not any(measure.tool.understands(item.language) for item in self.sentences):
                    reason = f"{measure.tool.name} does not support the language"
                else:
                    reason = "no value for any of the model's clips"
                reasons.setdefault(reason, []).append(metric.title)
        found = (LeftOut(tuple(titles), reason) for reason, titles in reasons.items())
        return (*self.toolbox.left_out, *found)

    def mean(self, column: str, metric: Metric) -> float | None:
        scores = [
            clip.scores[metric.name]
            for clip in self.clips
            if clip.column == column and metric.name in clip.scores
        ]
        weight = sum(score.weight for score in scores)
        if not weight:
            return None
        return sum(score.value * score.weight for score in scores) / weight


def copies_by(vocoder: str) -> str:
    """The column of a vocoder's copies."""
    return f"{vocoder} copies"


def copying_vocoders(tts: TTS) -> dict[str, Vocoder]:
    """Griffin-Lim, and the trained one that the run speaks with if there is one."""
    vocoders: dict[str, Vocoder] = {GRIFFIN_LIM: GriffinLim(tts.config.audio)}
    if not isinstance(tts.vocoder, GriffinLim):
        vocoders["vocoder"] = tts.vocoder
    return vocoders


def own_voice(tts: TTS) -> OwnVoiceEncoder:
    return OwnVoiceEncoder(lambda waveform: tts.voice_of(waveform).vector.numpy()[0])


def evaluate(
    tts: TTS,
    run: str,
    sentences: Sequence[Sentence],
    toolbox: Toolbox,
    *,
    vocoders: Mapping[str, Vocoder] | None = None,
    columns: Sequence[str] | None = None,
    options: SpeechOptions | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """By default with copies by every vocoder, and with all columns."""
    vocoders = copying_vocoders(tts) if vocoders is None else vocoders
    evaluation = Evaluation(run, tts.step, tuple(sentences), toolbox, tuple(vocoders))
    wanted = [name for name in evaluation.columns if columns is None or name in columns]
    total = len(sentences) * len(wanted)
    speaker = _Speaker(tts, options or SpeechOptions(), vocoders, wanted)
    for sentence in sentences:
        # Finds text that cannot be spoken before the work begins.
        tts.tokenizer.encode(sentence.text, sentence.language)
    speaker.warm_up(sentences[0])
    for sentence in sentences:
        for column, speech in speaker.say(sentence):
            scores = scores_of(speech, toolbox.measures)
            evaluation.clips.append(Clip(column, sentence, speech, scores))
            on_progress(len(evaluation.clips), total)
    return evaluation


def scores_of(speech: Speech, measures: Sequence[Measure]) -> dict[str, Score]:
    """All metrics that apply to this clip."""
    scores: dict[str, Score] = {}
    for one in measures:
        needs_recording = any(metric.needs_recording for metric in one.metrics)
        if needs_recording and speech.recording is None:
            continue
        if one.tool.understands(speech.language):
            scores |= one.scores(speech)
    return scores


class _Speaker:
    """Makes the clip of a sentence for each column."""

    def __init__(
        self,
        tts: TTS,
        options: SpeechOptions,
        vocoders: Mapping[str, Vocoder],
        columns: Sequence[str],
    ) -> None:
        self._tts = tts
        self._options = options
        self._columns = columns
        self._copiers = {
            copies_by(name): vocoder
            for name, vocoder in vocoders.items()
            if copies_by(name) in columns
        }

    def warm_up(self, sentence: Sentence) -> None:
        """Compiles first, so that the first sentence takes no longer than the others."""
        speech = self._synthesize(sentence)
        for vocoder in self._copiers.values():
            self._copy(speech, vocoder)

    def say(self, sentence: Sentence) -> Iterator[tuple[str, Speech]]:
        reference = self._read(sentence.reference)
        recording = None if sentence.recording is None else self._read(sentence.recording)
        for column in self._columns:
            started = time.perf_counter()
            if column == MODEL:
                waveform = self._synthesize(sentence)
            elif recording is None:
                continue
            else:
                waveform = recording.waveform
                if column in self._copiers:
                    waveform = self._copy(waveform, self._copiers[column])
            seconds = time.perf_counter() - started
            yield (
                column,
                Speech(
                    waveform=waveform,
                    sample_rate_hz=self._tts.sample_rate_hz,
                    text=sentence.text,
                    language=sentence.language,
                    reference=reference,
                    recording=recording,
                    making_seconds=None if column == RECORDINGS else seconds,
                ),
            )

    def _read(self, file: Path) -> Sound:
        audio = self._tts.config.audio
        waveform = clean_recording(read_audio(file, audio.sample_rate_hz), audio)
        return Sound(waveform=waveform, sample_rate_hz=audio.sample_rate_hz)

    def _copy(self, recording: FloatArray, vocoder: Vocoder) -> FloatArray:
        config = self._tts.config
        mel = clip_log_mel(config.audio, config.data.n_mels)(recording)
        return vocoder.samples(mel)

    def _synthesize(self, sentence: Sentence) -> FloatArray:
        return self._tts.tts(
            sentence.text, sentence.reference, sentence.language, options=self._options
        )
