"""Speed of feature extraction: one worker against two, and the mel compared with librosa.

    .venv/bin/pip install librosa
    .venv/bin/python benchmarks/prepare.py [--utterances 1000] [--rounds 3] [--json FILE]

Each measurement is a separate process, and they alternate, so that none profits from warm files.
Startup (importing TensorFlow or librosa) is excluded.
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
    from myxtts.devices.startup import load_tensorflow
    load_tensorflow()
    from myxtts.config.config import XTTSConfig
    from myxtts.data import features as module
    from myxtts.data.metadata import LJSpeechDataset
    corpus, cache, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    config = XTTSConfig(train_data=corpus, workers=workers)
    dataset = LJSpeechDataset(corpus)
    marks = []
    started = time.perf_counter()
    made = module.prepare(
        dataset, config, cache, lambda done, total: marks.append((time.perf_counter(), done))
    )
    # From the first finished chunks on, which excludes the startup of workers.
    first = workers - 1
    seconds = marks[-1][0] - marks[first][0]
    share = (marks[-1][1] - marks[first][1]) / marks[-1][1]
    hours = made.reader.nbytes("audio") / 2 / 22050 / 3600
    print(json.dumps({"hours": hours * share, "seconds": seconds,
                      "with start": time.perf_counter() - started}))
"""

# Decoding and log-mel only, one process and one thread each.
MEL_ALONE = """
import json, sys, time
import numpy as np
from myxtts.data.metadata import LJSpeechDataset
items = list(LJSpeechDataset(sys.argv[1]))
if sys.argv[2] == "librosa":
    import librosa
    def one(item):
        audio, _ = librosa.load(item.audio_path, sr=22050)
        mel = librosa.feature.melspectrogram(
            y=audio, sr=22050, n_fft=1024, hop_length=256, n_mels=80, fmax=8000, power=1.0)
        np.log(np.maximum(mel, 1e-5)).astype(np.float16)
        return audio.size
else:
    from myxtts.devices.startup import load_tensorflow
    load_tensorflow()
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from myxtts.audio.files import read_audio
    from myxtts.audio.mel import clip_log_mel
    from myxtts.config.config import AudioConfig
    log_mel = clip_log_mel(AudioConfig(), 80)
    def one(item):
        audio = read_audio(item.audio_path, 22050)
        log_mel(audio).astype(np.float16)
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
    programs = {"ours": folder / "ours.py", "mel": folder / "mel_alone.py"}
    programs["ours"].write_text(OURS)
    programs["mel"].write_text(MEL_ALONE)
    names = ("prepare, 1 worker", "prepare, 2 workers", "mel alone, ours", "mel alone, librosa")
    times: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds):
        for workers in (1, 2):
            cache = folder / f"cache-{number}-{workers}"
            name = names[workers - 1]
            arguments = (str(corpus), str(cache), str(workers))
            times[name].append(seconds_per_hour(programs["ours"], *arguments))
            shutil.rmtree(cache)
        for whose in ("ours", "librosa"):
            seconds = seconds_per_hour(programs["mel"], str(corpus), whose)
            times[f"mel alone, {whose}"].append(seconds)
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
        print(f"{name:28}{value:6.1f} s per hour of audio")
    librosa = results["mel alone, librosa"]
    ratios = {
        "2 workers over 1": results["prepare, 1 worker"] / results["prepare, 2 workers"],
        "mel over librosa's mel": librosa / results["mel alone, ours"],
        "prepare over librosa's mel": librosa / results["prepare, 2 workers"],
    }
    for name, value in ratios.items():
        print(f"{name:28}{value:6.2f} x")
    results |= ratios
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
