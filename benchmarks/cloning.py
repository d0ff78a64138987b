"""Voice cloning of unseen speakers: is a clone closest to its own speaker?

    .venv/bin/pip install -e '.[eval-torch]'
    .venv/bin/myxtts demo-data twelve --speakers 12 --utterances 1500
    .venv/bin/python benchmarks/cloning.py split twelve ten --hold-out victor f4
    .venv/bin/myxtts train --train-data ten --run-dir runs/ten ...
    .venv/bin/python benchmarks/cloning.py trial --run runs/ten --data twelve --hold-out victor f4

A trial gives the run one reference clip of a held-out speaker and synthesizes a held-out sentence.
Resemblyzer, an independent speaker-verification model, then finds which of the twelve speakers'
recordings are closest. The reference clip is not among them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.audio.files import read_audio
from myxtts.data.metadata import LJSpeechDataset, Utterance
from myxtts.evaluation.measures import MEASURED_RATE_HZ, ResemblyzerVectors, Sound, cosine

RECORDINGS_PER_SPEAKER = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    split = commands.add_parser("split", help="a copy of a corpus without the held-out voices")
    split.add_argument("corpus", type=Path)
    split.add_argument("out", type=Path)
    trial = commands.add_parser("trial", help="find the speaker closest to each clone")
    trial.add_argument("--run", type=Path, required=True)
    trial.add_argument("--data", type=Path, required=True, help="the corpus with all voices")
    trial.add_argument("--trials", type=int, default=30, help="trials per held-out voice")
    trial.add_argument("--text-guidance", type=float, help="(default: the run's own)")
    trial.add_argument("--json", type=Path)
    for command in (split, trial):
        command.add_argument("--hold-out", nargs="+", required=True, metavar="SPEAKER")
    options = parser.parse_args()
    if options.command == "split":
        leave_out(options.corpus, options.out, options.hold_out)
    else:
        results = try_voices(
            options.run, options.data, options.hold_out, options.trials, options.text_guidance
        )
        report(results)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def leave_out(corpus: Path, out: Path, speakers: list[str]) -> None:
    (out / "wavs").mkdir(parents=True)
    for subset in ("train", "eval"):
        rows = ["audio_file|text|speaker_name|language"]
        for clip in LJSpeechDataset(corpus, subset=subset):
            if clip.speaker not in speakers:
                shutil.copy(clip.audio_path, out / "wavs")
                name = f"wavs/{clip.audio_path.name}"
                rows.append(f"{name}|{clip.text}|{clip.speaker}|{clip.language}")
        (out / f"metadata_{subset}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        print(f"{subset}: {len(rows) - 1} clips")


def try_voices(
    run: Path, corpus: Path, held_out: list[str], trials: int, text_guidance: float | None
) -> dict[str, Any]:
    from myxtts import TTS
    from myxtts.models.speech_options import SpeechOptions

    speech = SpeechOptions(text_guidance=text_guidance)
    tts, vectors = TTS(run), ResemblyzerVectors()
    sentences = [clip.text for clip in LJSpeechDataset(corpus, subset="eval")]
    clips_of: dict[str, list[Utterance]] = defaultdict(list)
    for clip in LJSpeechDataset(corpus, subset="train"):
        clips_of[clip.speaker].append(clip)
    centres = {
        speaker: np.mean(
            [vectors.of(sound_of(clip)) for clip in clips[:RECORDINGS_PER_SPEAKER]], axis=0
        )
        for speaker, clips in clips_of.items()
    }
    results: dict[str, Any] = {}
    for speaker in held_out:
        others = clips_of[speaker][RECORDINGS_PER_SPEAKER:]
        spoken, recorded = [], []
        for reference, text in itertools.islice(
            zip(others, itertools.cycle(sentences), strict=False), trials
        ):
            waveform = tts.tts(text, reference.audio_path, options=speech)
            clone = Sound(waveform=waveform, sample_rate_hz=tts.sample_rate_hz)
            spoken.append(_similarities(vectors.of(clone), centres))
            recorded.append(_similarities(vectors.of(sound_of(reference)), centres))
        results[speaker] = {"clones": _judged(speaker, spoken), "clips": _judged(speaker, recorded)}
    return results


def sound_of(clip: Utterance) -> Sound:
    samples = read_audio(clip.audio_path, MEASURED_RATE_HZ)
    return Sound(waveform=samples, sample_rate_hz=MEASURED_RATE_HZ)


def _similarities(vector: Any, centres: dict[str, Any]) -> dict[str, float]:
    return {speaker: cosine(vector, centre) for speaker, centre in centres.items()}


def _judged(speaker: str, trials: list[dict[str, float]]) -> dict[str, Any]:
    nearest = Counter(max(trial, key=trial.__getitem__) for trial in trials)
    others = [max(value for name, value in one.items() if name != speaker) for one in trials]
    return {
        "trials": len(trials),
        "own_voice_is_nearest": nearest[speaker] / len(trials),
        "nearest": dict(nearest.most_common()),
        "similarity_to_own": float(np.mean([trial[speaker] for trial in trials])),
        "similarity_to_nearest_other": float(np.mean(others)),
    }


def report(results: dict[str, Any]) -> None:
    print(f"{'voice':10} {'of':8} {'trials':>6} {'own is nearest':>15} {'own':>6} {'other':>6}")
    for speaker, kinds in results.items():
        for kind, result in kinds.items():
            print(
                f"{speaker:10} {kind:8} {result['trials']:6} {result['own_voice_is_nearest']:15.1%}"
                f" {result['similarity_to_own']:6.3f} {result['similarity_to_nearest_other']:6.3f}"
                f"  {result['nearest']}"
            )
    clones = [kinds["clones"] for kinds in results.values()]
    trials = sum(result["trials"] for result in clones)
    right = sum(result["trials"] * result["own_voice_is_nearest"] for result in clones)
    print(f"all clones: {right / trials:.1%} of {trials} trials")


if __name__ == "__main__":
    main()
