"""How far exported models are from the original, how large they are and how fast they speak.

    .venv/bin/python benchmarks/exports.py --run RUN --reference me.wav [--json FILE]

Every format is exported, run in its own runtime by the example beside it, in a
process of its own, and compared on 20 sentences of other lengths than at export. The original is
what the run says in TensorFlow, with the same noise.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.models.speech_options import SpeechOptions  # noqa: E402
from myxtts.synthesis.export import export_model, exported_speech  # noqa: E402
from myxtts.synthesis.export_formats import FORMATS  # noqa: E402
from myxtts.text.languages import find_language  # noqa: E402

SENTENCES = 20
DECIBELS_PER_NEPER = 20 / np.log(10)
# Beside nothing but the runtime: speaks a sentence to warm up, then all of them.
PROGRAM = """
import json, runpy, sys, time
import numpy as np
example = runpy.run_path(sys.argv[1] + "/example.py")
facts = json.load(open(sys.argv[1] + "/model.json", encoding="utf-8"))
sentences = json.load(open(sys.argv[2]))
example["speak"](sentences[-1], facts["voices"]["exported"])
started = time.perf_counter()
said = [example["speak"](ids, facts["voices"]["exported"]) for ids in sentences]
seconds = time.perf_counter() - started
arrays = {f"{name}_{i}": value for i, one in enumerate(said) for name, value in one.items()}
np.savez(sys.argv[3], seconds=seconds, **arrays)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--only", choices=FORMATS, help="one of them (default: all)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    tts = TTS(options.run)
    voice = tts.add_voice("exported", options.reference, replace=True)
    language = tts.languages[0]
    words = " ".join(find_language(language).demo_sentences()).split()
    # From one word to twenty; nothing has a length at export.
    texts = [" ".join(words[:count]) for count in range(1, SENTENCES + 1)]
    sentences = [tts.tokenizer.encode(text, language) for text in texts]
    print("tokens of the sentences:", sorted(map(len, sentences)))
    original = said_by_original(tts, sentences, voice)
    rows = {}
    for kind in FORMATS:
        if options.only in (None, kind):
            rows[kind] = row = measure(tts, kind, sentences, original)
            print(kind, row, flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


def said_by_original(tts: TTS, sentences: list[list[int]], voice: Any) -> list[dict[str, Any]]:
    """The mel of the sampler that speaks in MyXTTS, and the exported graph in TensorFlow."""
    options = SpeechOptions()
    graph = exported_speech(tts, options)
    speak = tf.function(graph.speak, input_signature=graph.signature(), autograph=False)
    said, language_id = [], tts.tokenizer.language_id(tts.languages[0])
    for ids in sentences:
        outputs = speak(tf.constant([ids]), tf.constant([language_id]), *voice, tf.constant(1.0))
        [mel] = tts.sampler.mels([ids], [language_id], voice, options)
        said.append({name: value.numpy() for name, value in outputs.items()} | {"log_mel": mel})
    return said


def measure(
    tts: TTS,
    kind: str,
    sentences: list[list[int]],
    original: list[dict[str, Any]],
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder, inputs, outputs = (Path(name, it) for it in ("out", "in.json", "out.npz"))
        started = time.perf_counter()
        export_model(tts, folder, kind)
        of_export = time.perf_counter() - started
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        inputs.write_text(json.dumps(sentences))
        words = [sys.executable, "-c", PROGRAM, str(folder), str(inputs), str(outputs)]
        subprocess.run(words, check=True)
        with np.load(outputs) as arrays:
            said = dict(arrays)
    same, apart, mel_errors, sample_errors, speech = 0, 0, [], [], 0.0
    for index, expected in enumerate(original):
        mel, samples = said[f"log_mel_{index}"], said[f"samples_{index}"]
        speech += samples.size / tts.sample_rate_hz
        durations, of_original = said[f"token_positions_{index}"], expected["token_positions"]
        apart = max(apart, int(np.abs(durations - of_original).max()))
        if not np.array_equal(durations, of_original):
            continue
        same += 1
        mel_errors.append(float(np.abs(mel - expected["log_mel"]).mean() * DECIBELS_PER_NEPER))
        difference = np.square(samples - expected["samples"]).mean()
        sample_errors.append(float(np.sqrt(difference / np.square(expected["samples"]).mean())))
    return {
        "MB": round(size / 1e6, 1),
        "export_seconds": round(of_export, 1),
        "same_durations": f"{same} of {len(original)}",
        "positions_apart": apart,
        "mel_error_db": max(mel_errors, default=None),
        "samples_relative_rms": max(sample_errors, default=None),
        "real_time_factor": round(float(said["seconds"]) / speech, 3),
    }


if __name__ == "__main__":
    main()
