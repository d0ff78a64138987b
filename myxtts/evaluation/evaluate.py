"""Synthesizes sentences and compares their metrics with those of the recordings.

Metrics are meaningful only relative to their ceiling. The recordings are the upper bound;
copies of them through mel and vocoder are what a perfect model could reach.
"""

from __future__ import annotations

import itertools
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.audio.griffin_lim import GriffinLim, Vocoder
from myxtts.audio.mel import clip_log_mel
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data.corpus import CorpusSubset
from myxtts.data.metadata import Utterance
from myxtts.errors import DataError
from myxtts.evaluation.measures import (
    LeftOut,
    Measure,
    Metric,
    OwnVoiceEncoder,
    Score,
    Sound,
    Speech,
    Toolbox,
)
from myxtts.files import read_json
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.trained_model import GRIFFIN_LIM
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


_SHORTEST_CLIP_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class Sentence:
    text: str
    language: str
    speaker: str
    reference: Path
    """A clip of the target voice."""
    recording: Path | None = None
    """The speaker's own recording of this sentence."""


def with_corpus(config: XTTSConfig, folder: Path) -> XTTSConfig:
    """The configuration of a run, with another corpus to take held-out sentences from."""
    return config.with_(train_data=str(folder), val_data=None)


def held_out_sentences(
    config: XTTSConfig, languages: Sequence[str], count: int
) -> tuple[Sentence, ...]:
    """Clips that the run was not trained on, alternating speakers; the same clips every time.

    The reference is the speaker's next held-out clip or, for a speaker with only one, a training
    clip.
    """
    items = list(_part(config, "eval"))
    if not items:
        raise DataError(
            f"{_folder(config)}: has no held-out clips; expected metadata_eval.csv, or "
            "data.validation_fraction above 0"
        )
    known = [item for item in items if item.language in languages]
    if not known:
        raise DataError(
            f"{_folder(config)}: its held-out clips are in {', '.join(_languages(items))}, but "
            f"the run speaks {', '.join(languages)}"
        )
    of_speaker = _by_speaker(known)
    alone = {speaker for speaker, clips in of_speaker.items() if len(clips) == 1}
    trained = _by_speaker(item for item in _part(config, "train") if item.speaker in alone)
    sentences = []
    for item in _in_turn(of_speaker, config.audio, count):
        others = of_speaker[item.speaker] if item.speaker not in alone else trained[item.speaker]
        reference = _next_usable(others, item, config.audio)
        if reference is not None:
            sentences.append(
                Sentence(
                    text=item.text,
                    language=item.language,
                    speaker=item.speaker,
                    reference=reference,
                    recording=item.audio_path,
                )
            )
    if not sentences:
        raise DataError(
            f"{_folder(config)}: no speaker of a held-out clip has a second usable clip as voice "
            "reference; expected at least two clips of a speaker"
        )
    return tuple(sentences)


def sentences_of_file(
    file: Path, language: str, references: Sequence[tuple[str, Path]]
) -> tuple[Sentence, ...]:
    """One sentence per line, spoken by the given voices (speaker and clip) in turn."""
    try:
        content = file.read_bytes()
        lines = [line.strip() for line in content.decode("utf-8-sig").splitlines()]
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise DataError(f"{file}: not UTF-8; save the file as UTF-8") from None
    texts = [line for line in lines if line]
    if not texts:
        raise DataError(f"{file}: contains no sentences; expected one per line")
    return tuple(
        Sentence(text=text, language=language, speaker=speaker, reference=reference)
        for text, (speaker, reference) in (
            (text, references[number % len(references)]) for number, text in enumerate(texts)
        )
    )


def save_sentences(sentences: Iterable[Sentence], file: Path) -> None:
    rows = [
        {
            "text": sentence.text,
            "language": sentence.language,
            "speaker": sentence.speaker,
            "reference": str(sentence.reference.resolve()),
            "recording": sentence.recording and str(sentence.recording.resolve()),
        }
        for sentence in sentences
    ]
    file.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


def load_sentences(file: Path) -> tuple[Sentence, ...]:
    rows = read_json(file)
    return tuple(
        Sentence(
            text=row["text"],
            language=row["language"],
            speaker=row["speaker"],
            reference=Path(row["reference"]),
            recording=Path(row["recording"]) if row["recording"] else None,
        )
        for row in rows
    )


def _part(config: XTTSConfig, subset: str) -> Sequence[Utterance]:
    return CorpusSubset.of(config, subset).dataset()


def _folder(config: XTTSConfig) -> Path:
    return CorpusSubset.of(config, "eval").folder


def _languages(items: Iterable[Utterance]) -> list[str]:
    return sorted({item.language for item in items})


def _by_speaker(items: Iterable[Utterance]) -> Mapping[str, list[Utterance]]:
    of_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for item in items:
        of_speaker[item.speaker].append(item)
    return of_speaker


def _in_turn(
    of_speaker: Mapping[str, list[Utterance]], audio: AudioConfig, count: int
) -> list[Utterance]:
    """The first clips of all speakers, then the second ones.

    Unusable clips are skipped; training has left them out and reported them.
    """
    chosen: list[Utterance] = []
    for clips_of_turn in itertools.zip_longest(*of_speaker.values()):
        for clip in clips_of_turn:
            if clip is None or len(chosen) == count:
                continue
            if any(map(str.isalnum, clip.text)) and _usable(clip, audio):
                chosen.append(clip)
    return chosen


def _next_usable(clips: Sequence[Utterance], item: Utterance, audio: AudioConfig) -> Path | None:
    start = clips.index(item) + 1 if item in clips else 0
    others = [*clips[start:], *clips[:start]]
    return next(
        (
            other.audio_path
            for other in others
            if other.audio_path != item.audio_path and _usable(other, audio)
        ),
        None,
    )


def _usable(item: Utterance, audio: AudioConfig) -> bool:
    try:
        clip = clean_recording(read_audio(item.audio_path, audio.sample_rate_hz), audio)
    except DataError:
        return False
    return clip.size >= _SHORTEST_CLIP_SECONDS * audio.sample_rate_hz and bool(clip.any())
