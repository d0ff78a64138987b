"""Speaks sentences with Kokoro-82M or hibari. Asked by benchmarks/listening.py.

Writes one wav per sentence, and prints the CPU seconds after loading.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import soundfile

_KOKORO_VOICES = ("af_heart", "am_adam", "bf_emma", "am_liam", "af_bella")


def open_hibari(given: dict[str, Any]) -> tuple[Callable[[str, int], Any], int, Path]:
    import hibari

    model = hibari.Hibari(threads=given["threads"])
    return lambda text, _: model(text), 24_000, Path(hibari.__file__).parent


def open_kokoro(given: dict[str, Any]) -> tuple[Callable[[str, int], Any], int, Path]:
    import kokoro_onnx
    import numpy as np
    import onnxruntime

    folder = Path(given["model"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = given["threads"]
    session = onnxruntime.InferenceSession(
        str(folder / "kokoro.onnx"), options, providers=["CPUExecutionProvider"]
    )
    tokenizer = kokoro_onnx.tokenizer.Tokenizer()
    styles = [
        np.fromfile(folder / f"package/voices/{name}.bin", np.float32).reshape(-1, 256)
        for name in _KOKORO_VOICES
    ]

    def speak(text: str, turn: int) -> Any:
        tokens = tokenizer.tokenize(tokenizer.phonemize(text, "en-us"))
        style = styles[turn % len(styles)][len(tokens) - 1][None]
        given = {
            "input_ids": np.array([[0, *tokens, 0]], np.int64),
            "style": style,
            "speed": np.ones(1, np.float32),
        }
        return session.run(["waveform"], given)[0].ravel()

    return speak, 24_000, folder / "kokoro.onnx"


def main() -> None:
    given = json.load(sys.stdin)
    began = time.process_time()
    speak, rate_hz, place = {"hibari": open_hibari, "kokoro": open_kokoro}[given["kind"]](given)
    speak("Good morning, my friend.", 0)
    cold = time.process_time() - began
    seconds, started = 0.0, time.process_time()
    for turn, text in enumerate(given["texts"]):
        samples = speak(text, turn)
        seconds += len(samples) / rate_hz
        soundfile.write(Path(given["out"], f"{turn:03d}.wav"), samples, rate_hz)
    spent = time.process_time() - started
    files = [place] if place.is_file() else [file for file in place.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files) / 2**20
    print(json.dumps({"cpu": spent / seconds, "cold": cold, "size": size}))


if __name__ == "__main__":
    main()
