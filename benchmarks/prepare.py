"""How fast features are made: one worker against two, and beside librosa's mel on the same files.

    .venv/bin/pip install librosa
    .venv/bin/python benchmarks/prepare.py [--utterances 1000] [--rounds 3] [--json FILE]

Each measurement is a process of its own, in turns, so that none profits from another's warm files.
Starting up (importing TensorFlow or librosa) is measured apart and left out of the rates.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

OURS = """
import json, os, sys, time
from pathlib import Path
if __name__ == "__main__":
    from myxtts.devices.loading import load_tensorflow
    load_tensorflow()
    from myxtts.config.config import XTTSConfig
    from myxtts.data import prepare as module
    from myxtts.data.ljspeech import LJSpeechDataset
    corpus, cache, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    config = XTTSConfig(train_data=corpus, workers=workers)
    dataset = LJSpeechDataset(corpus)
    marks = []
    started = time.perf_counter()
    made = module.prepare(
        dataset, config, cache, lambda done, total: marks.append((time.perf_counter(), done))
    )
    # From the first finished chunks on: what comes before is the workers' start.
    first = workers - 1
    seconds = marks[-1][0] - marks[first][0]
    share = (marks[-1][1] - marks[first][1]) / marks[-1][1]
    hours = made.arrays["audio"].size / 22050 / 3600
    print(json.dumps({"hours": hours * share, "seconds": seconds,
                      "with start": time.perf_counter() - started}))
"""

LIBROSA = """
import json, sys, time
import librosa, numpy as np
from myxtts.data.ljspeech import LJSpeechDataset
items = list(LJSpeechDataset(sys.argv[1]))
def one(item):
    audio, _ = librosa.load(item.audio_path, sr=22050)
    audio, _ = librosa.effects.trim(audio, top_db=40)
    mel = librosa.feature.melspectrogram(
        y=audio, sr=22050, n_fft=1024, hop_length=256, n_mels=80, fmax=8000, power=1.0)
    np.log(np.maximum(mel, 1e-5)).astype(np.float16)
    return audio.size
one(items[0])
started = time.perf_counter()
samples = sum(map(one, items))
print(json.dumps({"hours": samples / 22050 / 3600, "seconds": time.perf_counter() - started}))
"""


def seconds_per_hour(program: Path, *arguments: str) -> float:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    result = subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | threads,
        check=False,
    )
    if result.returncode:
        sys.exit(result.stderr)
    measured = json.loads(result.stdout.splitlines()[-1])
    return float(measured["seconds"] / measured["hours"])


def measure(utterances: int, rounds: int, folder: Path) -> dict[str, float]:
    from myxtts.data.demo import make_demo_corpus

    corpus = folder / "corpus"
    make_demo_corpus(corpus, utterances=utterances)
    programs = {"ours": folder / "ours.py", "librosa": folder / "librosa_mel.py"}
    programs["ours"].write_text(OURS)
    programs["librosa"].write_text(LIBROSA)
    times: dict[str, list[float]] = {"1 worker": [], "2 workers": [], "librosa, 1 process": []}
    for number in range(rounds):
        for workers in (1, 2):
            cache = folder / f"cache-{number}-{workers}"
            name = "1 worker" if workers == 1 else "2 workers"
            arguments = (str(corpus), str(cache), str(workers))
            times[name].append(seconds_per_hour(programs["ours"], *arguments))
            shutil.rmtree(cache)
        times["librosa, 1 process"].append(seconds_per_hour(programs["librosa"], str(corpus)))
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--utterances", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(options.utterances, options.rounds, Path(folder))
    for name, value in results.items():
        print(f"{name:22}{value:8.1f} s per hour of audio")
    results["2 workers over 1"] = results["1 worker"] / results["2 workers"]
    results["ours over librosa"] = results["librosa, 1 process"] / results["1 worker"]
    for name in ("2 workers over 1", "ours over librosa"):
        print(f"{name:22}{results[name]:8.2f} x")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
