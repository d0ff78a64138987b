"""Speed of synthesis: one sentence at a time, many together, first audio, a long text.

    python benchmarks/speaking.py [--run RUN] [--reference me.wav] [--vocoder RUN]
        [--words 10000] [--json FILE]

Real-time factors are seconds of work per second of speech, after warm-up. The default is the base
model in its first voice. listening.py compares with other systems.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.devices.startup import load_tensorflow

# Copied before TensorFlow adds variables that a user's command does not have.
USERS_ENVIRONMENT = dict(os.environ)
load_tensorflow()

from myxtts import TTS  # noqa: E402
from myxtts.text.languages import find_language  # noqa: E402

SENTENCES = 50
LONG_SENTENCE = (
    "The boat leaves at seven, and nobody has packed the tent, the ropes, the maps, the lamp or "
    "the bread for us, which happens every single time we go to the islands in the summer."
)
SHORT_SENTENCE = "Good morning, my friend."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", default="base", help="(default: the included base model)")
    parser.add_argument("--reference", type=Path, help="(default: a saved voice)")
    parser.add_argument("--vocoder")
    parser.add_argument(
        "--words", type=int, default=0, help="length of a long text (default: none)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    tts = TTS(options.run, vocoder=options.vocoder)
    if options.reference is None:
        voice = tts.saved_voice(tts.voices[0])
    else:
        voice = tts.voice(options.reference)
    tts.warm_up()
    traces = tts.traces
    texts = find_language("en").demo_sentences()[:SENTENCES]
    figures: dict[str, Any] = {
        # First, because idle threads of the other measurements slow down other programs.
        "cold command, CPU seconds": cold_command(options),
        "one sentence at a time": one_at_a_time(tts, voice, texts),
        "50 sentences together": together(tts, voice, texts),
        **first_audio(tts, voice),
    }
    if options.words:
        figures |= long_text(tts, voice, options.words)
    figures["traces after warm-up"] = tts.traces - traces
    for name, value in figures.items():
        print(f"{name:40} {value:.3f}" if isinstance(value, float) else f"{name:40} {value}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1))


def seconds_of(tts: TTS, samples: np.ndarray) -> float:
    return samples.size / tts.sample_rate_hz


def one_at_a_time(tts: TTS, voice: Any, texts: list[str]) -> float:
    """Return the median real-time factor."""
    factors = []
    for text in texts:
        started = time.perf_counter()
        samples = tts.tts(text, voice)
        factors.append((time.perf_counter() - started) / seconds_of(tts, samples))
    return statistics.median(factors)


def together(tts: TTS, voice: Any, texts: list[str]) -> float:
    started = time.perf_counter()
    samples = tts.tts("\n".join(texts), voice)
    return (time.perf_counter() - started) / seconds_of(tts, samples)


def first_audio(tts: TTS, voice: Any) -> dict[str, float]:
    """Measure the first audio of a long sentence, and how streamed samples differ from the whole.

    Levels are equalized before samples are compared.
    """
    shares = []
    for _ in range(3):
        started = time.perf_counter()
        whole = tts.tts(LONG_SENTENCE, voice, split_sentences=False)
        of_whole = time.perf_counter() - started
        started = time.perf_counter()
        stream = tts.stream(LONG_SENTENCE, voice, split_sentences=False)
        first = next(stream)
        shares.append((time.perf_counter() - started) / of_whole)
        joined = np.concatenate([first, *stream])
    gain = np.dot(joined, whole) / np.dot(joined, joined)
    difference = np.sqrt(np.mean(np.square(whole - gain * joined)) / np.mean(np.square(whole)))
    return {
        "long sentence, seconds": seconds_of(tts, whole),
        "first audio, share of the whole": statistics.median(shares),
        "stream against whole, relative RMS": float(difference),
        "stream against whole, level in dB": float(-20 * np.log10(gain)),
    }


def cold_command(options: argparse.Namespace) -> float:
    """Return the CPU time of the whole command for a short sentence."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "myxtts", "synthesize", str(options.run)]
        words += ["--text", SHORT_SENTENCE, "--out", str(Path(folder, "out.wav"))]
        words += ["--speaker-wav", str(options.reference)] if options.reference else []
        words += ["--vocoder", options.vocoder] if options.vocoder else []
        before = os.times()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=USERS_ENVIRONMENT)
        after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system


def long_text(tts: TTS, voice: Any, words: int) -> dict[str, Any]:
    sentences = find_language("en").demo_sentences()
    text, count = [], 0
    while count < words:
        text.append(sentences[len(text) % len(sentences)])
        count += len(text[-1].split())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out.wav")
        # Run batches of every shape first, so that further growth is due to the text.
        tts.tts(" ".join(text[:SENTENCES]), voice)
        before, started = _peak_megabytes(), time.perf_counter()
        tts.tts_to_file(text=" ".join(text), speaker_wav=voice, file_path=file)
        spent = time.perf_counter() - started
        seconds = file.stat().st_size / 2 / tts.sample_rate_hz
    return {
        f"{count} words, minutes of speech": seconds / 60,
        f"{count} words, words per minute": count / (seconds / 60),
        f"{count} words, real-time factor": spent / seconds,
        f"{count} words, peak memory grows by MB": _peak_megabytes() - before,
    }


def _peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024


if __name__ == "__main__":
    main()
