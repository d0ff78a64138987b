"""Vocoders side by side: copies of recordings through mel and back.

    .venv/bin/pip install -e '.[eval,eval-torch,benchmark]'
    .venv/bin/python benchmarks/vocoders.py --corpus CORPUS [CORPUS ...] \\
        [--clips FILE] [--speakers a,b,c] [--count 40] [--vocoder VOCODER ...] \\
        [--save FOLDER] [--json FILE]

Rows are the recordings, their copies by Griffin-Lim with 32 and 100 iterations, and by every
--vocoder: the folder of a vocoder's run, griffin-lim:ITERATIONS or cargan. The latter is CARGAN
(Morrison et al., 2022; MIT), whose wheel carries weights trained on VCTK: pip install cargan.
Choose voices that no vocoder was trained on.

FILE has a clip's id or file name per line. Figures are means with bootstrapped standard errors;
the JSON also has every clip, and differences from the recordings, clip by clip. The real-time
factor is that of the vocoder alone, all vocoders taking turns in one run after a first second.
Copies that are in --save already are not made again (CARGAN takes about as long as the speech), and
have no real-time factor.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import numpy as np  # noqa: E402
from bootstrap import standard_error, weighted_mean  # noqa: E402

from myxtts.audio.files import clean_recording, read_audio  # noqa: E402
from myxtts.audio.griffin_lim import GriffinLim  # noqa: E402
from myxtts.audio.mel import clip_log_mel  # noqa: E402
from myxtts.audio.writing import write_audio  # noqa: E402
from myxtts.config.config import AudioConfig, XTTSConfig  # noqa: E402
from myxtts.data.metadata import LJSpeechDataset, Utterance  # noqa: E402
from myxtts.errors import ConfigError, DataError, MyXTTSError, plural  # noqa: E402
from myxtts.evaluation.evaluate import scores_of  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402  # noqa: E402
    MEASURED_RATE_HZ,
    SPEECH_METRICS,
    FloatArray,
    Measure,
    Metric,
    Score,
    Sound,
    Speech,
    Tool,
    open_toolbox,
    torchaudio_or_blank,
)
from myxtts.runs.trained_model import find_vocoder  # noqa: E402

AUDIO = AudioConfig()
MELS = 80
RECORDINGS = "recordings"
ALWAYS = ("griffin-lim:32", "griffin-lim:100")
# As evaluate calls them, in the order of the table; PESQ is computed here.
METRICS = ("distillmos", "mel_cepstral_distance", "pitch_error", "wer", "real_time_factor")
WARM_UP_SAMPLES = AUDIO.sample_rate_hz

Scores = list[Mapping[str, Score]]
Copier = Callable[[FloatArray], tuple[FloatArray, float]]
"""Takes a recording, returns its copy and the seconds that the vocoder took."""


class Pesq(Measure):
    """Compares sample by sample, so it is for copies and not for other sayings of a sentence."""

    tool = Tool(name="pesq", licence="MIT", extra="benchmark")
    metrics = (Metric(name="pesq", title="PESQ wideband", needs_recording=True),)

    def __init__(self) -> None:
        import pesq

        self._pesq = pesq

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        assert speech.recording is not None
        value = self._pesq.pesq(
            MEASURED_RATE_HZ,
            speech.recording.at_measured_rate,
            speech.at_measured_rate,
            mode="wb",
            on_error=self._pesq.PesqError.RETURN_VALUES,
        )
        return {"pesq": Score(float(value))} if value > 0 else {}  # negative: found no speech


def open_vocoder(name: str) -> Copier:
    kind, _, iterations = name.partition(":")
    if kind == "griffin-lim" and iterations.isdecimal():
        vocoder = GriffinLim(AUDIO, phase_iterations=int(iterations))
        return copier(AUDIO, vocoder.samples)
    if name == "cargan":
        return open_cargan()
    return copier(AUDIO, find_vocoder(name, XTTSConfig()).samples)


def copier(audio: AudioConfig, vocode: Callable[[FloatArray], FloatArray]) -> Copier:
    log_mel = clip_log_mel(audio, MELS)

    def copy(recording: FloatArray) -> tuple[FloatArray, float]:
        mel = log_mel(recording)
        started = time.perf_counter()
        samples = vocode(mel)
        return samples, time.perf_counter() - started

    return copy


def open_cargan() -> Copier:
    try:
        with torchaudio_or_blank():
            import cargan
        import torch
    except ModuleNotFoundError as error:
        raise ConfigError(f"--vocoder cargan: {error}; pip install cargan") from None

    def vocode(log_mel: FloatArray) -> FloatArray:
        decimal = torch.from_numpy(log_mel.T[None] / np.float32(np.log(10)))
        # Its frames are centred half a hop later than the project's.
        samples: FloatArray = cargan.from_features(decimal).numpy()[0, AUDIO.hop_samples // 2 :]
        return samples

    # Its mel is the project's with a wider range, and a decimal logarithm.
    return copier(dataclasses.replace(AUDIO, highest_hz=AUDIO.sample_rate_hz / 2), vocode)


def choose_clips(
    corpora: Sequence[Path], names: Path | None, speakers: Sequence[str], count: int
) -> list[tuple[str, Utterance]]:
    """Corpus and clip: those of the file, or else the speakers' in turn."""
    known = [
        (corpus.name, clip)
        for corpus in corpora
        for clip in LJSpeechDataset(corpus, validation_fraction=None)
    ]
    counts = Counter(clip.audio_path.stem for _, clip in known)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(f"--corpus: two clips are called '{twice[0]}', expected different names")
    if names is not None:
        wanted = [Path(line).stem for line in names.read_text(encoding="utf-8").split()]
        by_name = {clip.audio_path.stem: (corpus, clip) for corpus, clip in known}
        for name in wanted:
            if name not in by_name:
                raise DataError(f"{names}: no clip '{name}' in {', '.join(map(str, corpora))}")
        return [by_name[name] for name in wanted]
    of_speaker: dict[str, list[tuple[str, Utterance]]] = defaultdict(list)
    for corpus, clip in known:
        if not speakers or clip.speaker in speakers:
            of_speaker[clip.speaker].append((corpus, clip))
    for speaker in speakers:
        if speaker not in of_speaker:
            raise DataError(f"--speakers: no speaker is called '{speaker}'")
    turns = itertools.zip_longest(*of_speaker.values())
    return [item for turn in turns for item in turn if item is not None][:count]


def judge(
    clips: Sequence[tuple[str, Utterance]],
    copiers: Mapping[str, Copier],
    measures: Sequence[Measure],
    save: Path | None,
) -> dict[str, Scores]:
    """The scores of each clip, by row of the table."""
    recordings = [
        clean_recording(read_audio(clip.audio_path, AUDIO.sample_rate_hz), AUDIO)
        for _, clip in clips
    ]
    for name, copy in copiers.items():
        if save is None or not all(saved_file(save, name, clip).is_file() for _, clip in clips):
            copy(recordings[0][:WARM_UP_SAMPLES])
    scores: dict[str, Scores] = {name: [] for name in (RECORDINGS, *copiers)}
    for number, ((_, clip), waveform) in enumerate(zip(clips, recordings, strict=True), 1):
        recording = Sound(waveform=waveform, sample_rate_hz=AUDIO.sample_rate_hz)
        for name in scores:
            file = None if save is None else saved_file(save, name, clip)
            samples, seconds = waveform, None
            if file is not None and file.is_file():
                samples = read_audio(file, AUDIO.sample_rate_hz)
            elif name != RECORDINGS:
                samples, seconds = copiers[name](waveform)
            speech = Speech(
                waveform=samples[: waveform.size],
                sample_rate_hz=AUDIO.sample_rate_hz,
                text=clip.text,
                language=clip.language,
                reference=recording,
                recording=recording,
                making_seconds=seconds,
            )
            scores[name].append(scores_of(speech, measures))
            if file is not None and not file.is_file():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_audio(file, speech.waveform, AUDIO.sample_rate_hz)
        print(f"\r{number} of {len(clips)} clips", end="", flush=True)
    print()
    return scores


def saved_file(save: Path, row: str, clip: Utterance) -> Path:
    return save / row.replace(":", "-").replace("/", "-") / f"{clip.audio_path.stem}.wav"


def estimate(scores: Sequence[Score]) -> dict[str, float] | None:
    """Weighted mean and its standard error, by drawing clips again."""
    if not scores:
        return None
    return {
        "mean": weighted_mean(scores),
        "standard_error": standard_error(scores, weighted_mean),
    }


def compare(name: str, rows: Scores, recordings: Scores) -> dict[str, Any]:
    """The estimate of a metric, and that of its difference from the recordings."""
    own = estimate([row[name] for row in rows if name in row])
    pairs = [
        Score(row[name].value - recorded[name].value, row[name].weight)
        for row, recorded in zip(rows, recordings, strict=True)
        if name in row and name in recorded
    ]
    return {"value": own, "difference": estimate(pairs)}


def print_table(title: str, table: Mapping[str, Any], metrics: Sequence[Metric]) -> None:
    widths = [max(16, len(metric.title) + 2) for metric in metrics]
    heads = zip((metric.title for metric in metrics), widths, strict=True)
    print(f"\n{title}\n{'':<18}" + "".join(f"{head:>{width}}" for head, width in heads))
    for row, cells in table.items():
        line = f"{row:<18}"
        for metric, width in zip(metrics, widths, strict=True):
            value = cells[metric.name]["value"]
            text = value and " ± ".join(f"{part:.{metric.decimals}f}" for part in value.values())
            line += f"{text or '':>{width}}"
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, metavar="CORPUS")
    parser.add_argument("--clips", type=Path, metavar="FILE", help="ids of clips, one per line")
    parser.add_argument("--speakers", default="", metavar="NAMES", help="(default: all)")
    parser.add_argument("--count", type=int, default=40, help="clips without --clips")
    parser.add_argument("--vocoder", nargs="+", default=[], metavar="VOCODER")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="keep the copies")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    speakers = [name for name in options.speakers.split(",") if name]
    clips = choose_clips(options.corpus, options.clips, speakers, options.count)
    copiers = {name: open_vocoder(name) for name in (*ALWAYS, *options.vocoder)}
    toolbox = open_toolbox(only=METRICS)
    measures = list(toolbox.measures)
    try:
        measures.append(Pesq())
    except ModuleNotFoundError:
        print(f"Left out: PESQ wideband: pip install 'myxtts[{Pesq.tool.extra}]'")
    for left_out in toolbox.left_out:
        print(left_out)
    by_name = {metric.name: metric for metric in SPEECH_METRICS}
    metrics = [by_name[name] for name in METRICS]
    metrics[1:1] = Pesq.metrics
    scores = judge(clips, copiers, measures, options.save)
    corpora = [corpus for corpus, _ in clips]
    groups = {name: [corpus == name for corpus in corpora] for name in dict.fromkeys(corpora)}
    if len(groups) > 1:
        groups["all"] = [True] * len(clips)
    tables = {}
    for name, chosen in groups.items():
        of_group = {row: list(itertools.compress(all_, chosen)) for row, all_ in scores.items()}
        tables[name] = {
            row: {
                metric.name: compare(metric.name, rows, of_group[RECORDINGS]) for metric in metrics
            }
            for row, rows in of_group.items()
        }
        print_table(f"{name}: {sum(chosen)} {plural(sum(chosen), 'clip')}", tables[name], metrics)
    if options.json:
        rows = [
            {
                "corpus": corpus,
                "clip": clip.audio_path.stem,
                "speaker": clip.speaker,
                "scores": {
                    row: {name: score.value for name, score in scores[row][place].items()}
                    for row in scores
                },
            }
            for place, (corpus, clip) in enumerate(clips)
        ]
        content = {"tables": tables, "clips": rows}
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except MyXTTSError as error:
        raise SystemExit(f"error: {error}") from None
