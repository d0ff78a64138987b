"""Synthesizes sentences and compares their metrics with those of the recordings.

Metrics are meaningful only relative to their ceiling: the recordings, and their copy synthesis
through mel and vocoder, which a perfect model could reach.

This module is also the program that evaluates the checkpoints of a run in the background:

python -m myxtts.evaluation.evaluate choose CONFIG SENTENCES LANGUAGE...
python -m myxtts.evaluation.evaluate measure SNAPSHOT SENTENCES RESULT PRIORITY [MEASURE...]
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.audio.griffin_lim import GriffinLim, Vocoder
from myxtts.audio.mel import clip_log_mel
from myxtts.config.config import MEASURES, AudioConfig, XTTSConfig
from myxtts.config.loading import load_config
from myxtts.data.corpus import read_subset
from myxtts.data.metadata import Utterance
from myxtts.errors import ConfigError, DataError, MyXTTSError
from myxtts.evaluation.measures import (
    LeftOut,
    Measure,
    Metric,
    OwnVoiceEncoder,
    Score,
    Sound,
    Speech,
    Toolbox,
    open_toolbox,
)
from myxtts.files import read_json, write_file
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.trained_model import GRIFFIN_LIM
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.voices import MIN_REFERENCE_SECONDS
from myxtts.text.markup import read_text

RECORDINGS, MODEL = "recordings", "model"
_LOWEST_PRIORITY = 19
_MEASURED_SENTENCES = 24
_BOOTSTRAP_DRAWS = 1_000


@dataclass(frozen=True, kw_only=True)
class Sentence:
    text: str
    language: str
    speaker: str
    reference: Path | None
    """A clip of the target voice. None for a saved voice, whose name is the speaker."""
    recording: Path | None = None
    """The speaker's own recording of this sentence."""


@dataclass(frozen=True, eq=False)
class Clip:
    """One sentence of one column."""

    column: str
    sentence: Sentence
    sound: Sound
    scores: Mapping[str, Score]

    @property
    def transcript(self) -> str:
        return "".join(score.note for score in self.scores.values())


@dataclass(frozen=True)
class Evaluation:
    run: str
    step: int
    sentences: tuple[Sentence, ...]
    toolbox: Toolbox
    vocoders: tuple[str, ...]
    """Names of the vocoders used for copy synthesis."""
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
                elif metric.needs_reference and not any(it.reference for it in self.sentences):
                    reason = "saved voices have no recordings"
                elif not any(measure.tool.understands(item.language) for item in self.sentences):
                    reason = f"{measure.tool.name} does not support the language"
                else:
                    reason = "no value for any of the model's clips"
                reasons.setdefault(reason, []).append(metric.title)
        found = (LeftOut(tuple(titles), reason) for reason, titles in reasons.items())
        return (*self.toolbox.left_out, *found)

    def clips_of(self, sentence: Sentence) -> list[Clip]:
        return [clip for clip in self.clips if clip.sentence is sentence]

    def mean(self, column: str, metric: Metric) -> Mean | None:
        return mean_of(
            clip.scores[metric.name]
            for clip in self.clips
            if clip.column == column and metric.name in clip.scores
        )


class Mean(NamedTuple):
    """A weighted mean over clips."""

    value: float
    low: float
    high: float
    """The 95 % bootstrap interval goes from `low` to `high`."""
    clips: int


def mean_of(scores: Iterable[Score]) -> Mean | None:
    scores = list(scores)
    weights = np.array([score.weight for score in scores])
    if not weights.sum():
        return None
    sums = np.array([score.value for score in scores]) * weights
    drawn = np.random.default_rng(0).integers(len(scores), size=(_BOOTSTRAP_DRAWS, len(scores)))
    low, high = np.percentile(sums[drawn].sum(1) / weights[drawn].sum(1), (2.5, 97.5))
    return Mean(float(sums.sum() / weights.sum()), float(low), float(high), len(scores))


def copies_by(vocoder: str) -> str:
    """Return the column of a vocoder's copy synthesis."""
    return f"{vocoder} copies"


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
    """Measure all columns; by default with copies by Griffin-Lim and by the vocoder of `tts`."""
    if vocoders is None:
        vocoders = {GRIFFIN_LIM: GriffinLim(tts.config.audio)}
        if not isinstance(tts.vocoder, GriffinLim):
            vocoders["vocoder"] = tts.vocoder
    evaluation = Evaluation(run, tts.step, tuple(sentences), toolbox, tuple(vocoders))
    wanted = [name for name in evaluation.columns if columns is None or name in columns]
    copiers = {copies_by(name): it for name, it in vocoders.items() if copies_by(name) in wanted}
    audio, n_mels = tts.config.audio, tts.config.data.n_mels
    options = options or SpeechOptions()

    def synthesize(sentence: Sentence) -> FloatArray:
        voice = sentence.speaker if sentence.reference is None else None
        return tts.tts(
            sentence.text, sentence.reference, sentence.language, voice=voice, options=options
        )

    def copy(recording: FloatArray, vocoder: Vocoder) -> FloatArray:
        return vocoder.samples(clip_log_mel(audio, n_mels)(recording))

    def read(file: Path) -> Sound:
        waveform = clean_recording(read_audio(file, audio.sample_rate_hz), audio)
        return Sound(waveform=waveform, sample_rate_hz=audio.sample_rate_hz)

    for sentence in sentences:
        # Report unspeakable text before any work begins.
        tts.tokenizer.encode(sentence.text, sentence.language)
    # Compile first, so that the first sentence is as fast as the others.
    speech = synthesize(sentences[0])
    for vocoder in copiers.values():
        copy(speech, vocoder)
    for sentence in sentences:
        reference = None if sentence.reference is None else read(sentence.reference)
        recording = None if sentence.recording is None else read(sentence.recording)
        for column in wanted:
            if column != MODEL and recording is None:
                continue
            started = time.perf_counter()
            if recording is None or column == MODEL:
                waveform = synthesize(sentence)
            elif column in copiers:
                waveform = copy(recording.waveform, copiers[column])
            else:
                waveform = recording.waveform
            seconds = time.perf_counter() - started
            spoken = Speech(
                waveform=waveform,
                sample_rate_hz=audio.sample_rate_hz,
                text=sentence.text,
                language=sentence.language,
                reference=reference,
                recording=recording,
                making_seconds=None if column == RECORDINGS else seconds,
            )
            scores = scores_of(spoken, toolbox.measures)
            evaluation.clips.append(Clip(column, sentence, spoken, scores))
            on_progress(len(evaluation.clips), len(sentences) * len(wanted))
    return evaluation


def scores_of(speech: Speech, measures: Sequence[Measure]) -> dict[str, Score]:
    """Return all metrics that apply to this clip."""
    scores: dict[str, Score] = {}
    for one in measures:
        lacks = any(
            (metric.needs_recording and speech.recording is None)
            or (metric.needs_reference and speech.reference is None)
            for metric in one.metrics
        )
        if not lacks and one.tool.understands(speech.language):
            scores |= one.scores(speech)
    return scores


def with_corpus(config: XTTSConfig, folder: Path) -> XTTSConfig:
    """Return the configuration of a run with another corpus to take held-out sentences from."""
    return config.with_(train_data=str(folder), val_data=None)


def held_out_sentences(
    config: XTTSConfig, languages: Sequence[str], count: int
) -> tuple[Sentence, ...]:
    """Return clips that the run was not trained on, alternating speakers, the same every time.

    The reference is the speaker's next held-out clip or, for a speaker with only one, a training
    clip.
    """
    train = read_subset(config, "train")
    items = read_subset(config, "eval", train)
    if not items:
        raise DataError(
            f"{items.folder}: has no held-out clips; expected metadata_eval.csv, or "
            "data.validation_fraction above 0"
        )
    of_speaker = _by_speaker(item for item in items if item.language in languages)
    if not of_speaker:
        found = ", ".join(sorted({item.language for item in items}))
        raise DataError(
            f"{items.folder}: its held-out clips are in {found}, but the run speaks "
            f"{', '.join(languages)}"
        )
    alone = {speaker for speaker, clips in of_speaker.items() if len(clips) == 1}
    trained = _by_speaker(item for item in train if item.speaker in alone)
    sentences = []
    # The first clips of all speakers, then the second ones. Unusable clips are skipped; training
    # has left them out and reported them.
    turns = itertools.chain.from_iterable(itertools.zip_longest(*of_speaker.values()))
    usable = (
        item
        for item in turns
        if item and any(map(str.isalnum, item.text)) and _is_usable(item, config.audio)
    )
    for item in itertools.islice(usable, count):
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
            f"{items.folder}: no speaker of a held-out clip has a second usable clip as voice "
            "reference; expected at least two clips of a speaker"
        )
    return tuple(sentences)


def _by_speaker(items: Iterable[Utterance]) -> Mapping[str, list[Utterance]]:
    of_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for item in items:
        of_speaker[item.speaker].append(item)
    return of_speaker


def _next_usable(clips: Sequence[Utterance], item: Utterance, audio: AudioConfig) -> Path | None:
    start = clips.index(item) + 1 if item in clips else 0
    for other in (*clips[start:], *clips[:start]):
        if other.audio_path != item.audio_path and _is_usable(other, audio):
            return other.audio_path
    return None


def _is_usable(item: Utterance, audio: AudioConfig) -> bool:
    try:
        clip = clean_recording(read_audio(item.audio_path, audio.sample_rate_hz), audio)
    except DataError:
        return False
    return clip.size >= MIN_REFERENCE_SECONDS * audio.sample_rate_hz and bool(clip.any())


def sentences_of_file(
    file: Path, language: str, voices: Sequence[tuple[str, Path | None]]
) -> tuple[Sentence, ...]:
    """Return one sentence per line, spoken by the given voices (speaker and clip) in turn."""
    texts = [line.strip() for line in read_text(file).splitlines() if line.strip()]
    if not texts:
        raise DataError(f"{file}: contains no sentences; expected one per line")
    return sentences_in_turn(texts, language, voices)


def sentences_in_turn(
    texts: Sequence[str], language: str, voices: Sequence[tuple[str, Path | None]]
) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(text=text, language=language, speaker=speaker, reference=reference)
        for text, (speaker, reference) in zip(texts, itertools.cycle(voices), strict=False)
    )


def save_sentences(sentences: Iterable[Sentence], file: Path) -> None:
    rows = [
        {
            name: str(value.resolve()) if isinstance(value, Path) else value
            for name, value in asdict(sentence).items()
        }
        for sentence in sentences
    ]
    file.write_text(json.dumps(rows, ensure_ascii=False, indent=1), encoding="utf-8")


def load_sentences(file: Path) -> tuple[Sentence, ...]:
    return tuple(
        Sentence(
            text=row["text"],
            language=row["language"],
            speaker=row["speaker"],
            reference=row["reference"] and Path(row["reference"]),
            recording=row["recording"] and Path(row["recording"]),
        )
        for row in read_json(file)
    )


def _choose(config_file: str, sentences_file: str, *languages: str) -> None:
    """Save held-out sentences of the corpus, if best_metric can be computed for them."""
    config = load_config(Path(config_file))
    settings = config.evaluation
    sentences = held_out_sentences(config, languages, _MEASURED_SENTENCES)
    if settings.best_metric in MEASURES:
        toolbox = open_toolbox(only=[settings.best_metric])
        problems = [left_out.reason for left_out in toolbox.left_out]
        for measure in toolbox.measures:
            if not any(measure.tool.understands(item.language) for item in sentences):
                problems.append(f"{measure.tool.name} does not support {', '.join(languages)}")
        if problems:
            raise ConfigError(
                f"evaluation.best_metric: {settings.best_metric} cannot be computed here: "
                f"{problems[0]}"
            )
    save_sentences(sentences, Path(sentences_file))


def _measure(
    snapshot: str, sentences_file: str, result_file: str, priority: str, *only: str
) -> None:
    """Write the means of the model only; recordings and copy synthesis do not change."""
    if priority == "lowest":
        os.nice(_LOWEST_PRIORITY)
        if hasattr(os, "SCHED_IDLE"):
            # Yield the CPU immediately, not at the end of a time slice.
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    tts = TTS(Path(snapshot))
    toolbox = open_toolbox(own_voice=own_voice(tts), only=only)
    sentences = load_sentences(Path(sentences_file))
    evaluation = evaluate(tts, snapshot, sentences, toolbox, columns=(MODEL,))
    values: dict[str, float] = {}
    for metric in toolbox.metrics:
        if mean := evaluation.mean(MODEL, metric):
            values[metric.name] = mean.value
            if metric.shows_interval:
                interval = (f"{metric.name}_{name}" for name in ("low", "high", "sentences"))
                values |= zip(interval, mean[1:], strict=True)
    write_file(Path(result_file), json.dumps(values))


def _end_with_parent() -> None:
    """End this process when the parent is killed, which closes its end of the pipe."""
    # Not sys.stdin: Python cannot exit while a thread holds its buffer.
    while os.read(0, 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    try:
        _choose(*sys.argv[2:]) if sys.argv[1] == "choose" else _measure(*sys.argv[2:])
    except MyXTTSError as error:
        print(error, file=sys.stderr)  # noqa: T201 - this is a program
        sys.exit(2)
