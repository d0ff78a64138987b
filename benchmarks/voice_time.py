"""Time to a voice: WER and similarity after minutes of training on minutes of one voice.

    python benchmarks/voice_time.py --corpus CORPUS --peers PEERS [--minutes 10 30] [--speech 5 60]

CORPUS has one speaker in LJSpeech's layout. Its last clips are held out. Every contender trains on
the same clips with the same cores: ours from the base and from scratch, Matcha-TTS and a VITS of
Coqui TTS at their own settings, from scratch, because their weights are not in their packages. The
time includes preparation and start. The score is that of the held-out sentences, which ours speaks
in the voice of a training clip.
"""

from __future__ import annotations

import csv
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from harness import SkippedError, Table, arguments, ask_peer, interleave, report

from myxtts.devices.startup import load_tensorflow

_ENVIRONMENT = dict(os.environ)
load_tensorflow()

import soundfile  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.data.metadata import LJSpeechDataset, Utterance  # noqa: E402
from myxtts.evaluation.evaluate import mean_of, scores_of  # noqa: E402
from myxtts.evaluation.measures import Sound, Speech, Toolbox, open_toolbox  # noqa: E402

_TRIAL_STEPS = 40
_HELD_OUT = 40


class Part(NamedTuple):
    """A corpus of the first minutes, and what is held out."""

    folder: Path
    held_out: list[Utterance]
    reference: Path


Trainer = Callable[[Part, float, Path], list[Sound]]
"""Trains on a part for some minutes in a folder, and speaks the held-out sentences."""


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--minutes", type=float, nargs="+", default=[10, 30], help="of training")
    parser.add_argument("--speech", type=float, nargs="+", default=[5, 60], help="minutes of it")
    options = parser.parse_args()
    clips = list(LJSpeechDataset(options.corpus))
    toolbox = open_toolbox(only=["wer", "similarity"])
    trainers: dict[str, Trainer] = {
        "MyXTTS from the base": fine_tuned,
        "MyXTTS from scratch": from_scratch,
        "Matcha-TTS": by_peer(options.peers, "matcha"),
        "Coqui VITS": by_peer(options.peers, "coqui"),
        "recordings": recorded,
    }
    tables = []
    with tempfile.TemporaryDirectory() as parent:
        for speech, minutes in itertools.product(options.speech, options.minutes):
            folder = Path(parent, f"{speech:g}-{minutes:g}")
            part = make_part(clips, speech, folder)
            where = f"{speech:g} minutes of speech, {minutes:g} minutes of training"
            found = {
                "wer": Table(f"WER, {where}", "fraction", "lower"),
                "similarity": Table(f"Similarity, {where}", "cosine", "higher"),
            }
            contenders = {
                name: functools.partial(measure, part, minutes, train, toolbox)
                for name, train in trainers.items()
            }
            interleave(contenders, options.repeats, **found)
            tables += found.values()
    tables[-1].note = "; ".join(map(str, toolbox.left_out))
    report(tables, options)


def measure(part: Part, minutes: float, train: Trainer, toolbox: Toolbox) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as work:
        sounds = train(part, minutes, Path(work))
    scores = [
        scores_of(speech_of(part, clip, sound), toolbox.measures)
        for clip, sound in zip(part.held_out, sounds, strict=True)
    ]
    means = {
        metric.name: mean_of(it[metric.name] for it in scores if metric.name in it)
        for metric in toolbox.metrics
    }
    return {name: mean.value for name, mean in means.items() if mean}


def by_peer(peers: Path | None, name: str) -> Trainer:
    def train(part: Part, minutes: float, work: Path) -> list[Sound]:
        asked = {
            "kind": name,
            "corpus": str(part.folder),
            "texts": [clip.text for clip in part.held_out],
            "minutes": minutes,
            "work": str(work),
        }
        files = ask_peer(peers, name, "training.py", asked, 120 * minutes)
        return [read(Path(file)) for file in files]

    return train


def make_part(clips: list[Utterance], minutes: float, folder: Path) -> Part:
    training, held_out = clips[:-_HELD_OUT], clips[-_HELD_OUT:]
    (folder / "wavs").mkdir(parents=True)
    rows, seconds = [], 0.0
    for clip in training:
        if seconds >= 60 * minutes:
            break
        seconds += soundfile.info(clip.audio_path).duration
        # Copied as wav, which all contenders read.
        samples, rate_hz = soundfile.read(clip.audio_path)
        soundfile.write(folder / "wavs" / f"{clip.audio_path.stem}.wav", samples, rate_hz)
        rows.append([clip.audio_path.stem, clip.text, clip.text])
    if seconds < 54 * minutes:
        raise SystemExit(f"{minutes:g} minutes of training clips wanted, found {seconds / 60:.1f}")
    with open(folder / "metadata.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="|", quoting=csv.QUOTE_NONE, quotechar="").writerows(rows)
    return Part(folder, held_out, folder / "wavs" / f"{rows[0][0]}.wav")


def fine_tuned(part: Part, minutes: float, work: Path) -> list[Sound]:
    return ours(part, minutes, work, "base")


def from_scratch(part: Part, minutes: float, work: Path) -> list[Sound]:
    return ours(part, minutes, work, None)


def ours(part: Part, minutes: float, work: Path, start: str | None) -> list[Sound]:
    """Train for as many steps as fit into the time, found by a short trial."""
    start_flags = ["--init-from", start] if start else []

    def train(run: Path, steps: int) -> dict[str, float]:
        command = [sys.executable, "-m", "myxtts", "train", str(part.folder)]
        command += ["--run-dir", str(run), "--max-steps", str(steps), *start_flags]
        done = subprocess.run(command, env=_ENVIRONMENT, capture_output=True, check=False)
        if done.returncode:
            raise SkippedError(done.stderr.decode(errors="replace").strip().splitlines()[-1])
        seconds: dict[str, float] = json.loads((run / "report.json").read_text())["seconds"]
        return seconds

    trial = train(work / "trial", _TRIAL_STEPS)
    per_step = (trial["compute"] + trial["data_wait"] + trial["host"]) / _TRIAL_STEPS
    left = 60 * minutes - trial["start_up"] - trial["compile"]
    if left < per_step * _TRIAL_STEPS:
        raise SkippedError(f"starting takes longer than {minutes:g} minutes")
    train(work / "run", round(left / per_step))
    tts = TTS(work / "run")
    return [
        Sound(waveform=tts.tts(clip.text, part.reference), sample_rate_hz=tts.sample_rate_hz)
        for clip in part.held_out
    ]


def recorded(part: Part, minutes: float, work: Path) -> list[Sound]:
    return [read(clip.audio_path) for clip in part.held_out]


def read(file: Path) -> Sound:
    samples, rate_hz = soundfile.read(file, dtype="float32")
    return Sound(waveform=samples, sample_rate_hz=rate_hz)


def speech_of(part: Part, clip: Utterance, sound: Sound) -> Speech:
    return Speech(
        waveform=sound.waveform,
        sample_rate_hz=sound.sample_rate_hz,
        text=clip.text,
        language="en",
        reference=read(part.reference),
    )


if __name__ == "__main__":
    main()
