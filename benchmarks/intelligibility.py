"""Does a recogniser that knows nothing of this project follow what a run says?

    .venv/bin/pip install -e '.[eval]'
    .venv/bin/python benchmarks/intelligibility.py --run demo/run --data demo/corpus [--json FILE]

Says the corpus's held-out sentences, each in the voice of another clip of its speaker, and prints
the word error rate of the run beside that of the recordings and of their copy through mel and
Griffin-Lim. English only: the recogniser (Moonshine tiny, in the wheel) knows no other language.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from myxtts.devices.loading import load_tensorflow

load_tensorflow()

import jiwer  # noqa: E402
import numpy as np  # noqa: E402
import soxr  # noqa: E402
from moonshine_voice.moonshine_api import ModelArch  # noqa: E402
from moonshine_voice.transcriber import Transcriber  # noqa: E402
from moonshine_voice.utils import get_assets_path  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.audio.files import clean_recording, read_audio  # noqa: E402
from myxtts.audio.griffin_lim import griffin_lim  # noqa: E402
from myxtts.audio.mel import clip_log_mel  # noqa: E402
from myxtts.data.ljspeech import LJSpeechDataset, Utterance  # noqa: E402

RECOGNISER_RATE_HZ = 16_000
SILENCE_SECONDS = 0.5


def words(text: str) -> str:
    return " ".join(re.sub(r"[^a-z' ]", " ", text.lower()).split())


class Recogniser:
    def __init__(self) -> None:
        model = Path(str(get_assets_path())) / "tiny-en"
        self._transcriber = Transcriber(str(model), ModelArch.TINY)

    def hear(self, waveform: Any, sample_rate_hz: int) -> str:
        silence = np.zeros(int(SILENCE_SECONDS * RECOGNISER_RATE_HZ), np.float32)
        sound = soxr.resample(waveform, sample_rate_hz, RECOGNISER_RATE_HZ)
        padded = np.concatenate([silence, sound, silence])
        lines = self._transcriber.transcribe_without_streaming(
            padded.tolist(), RECOGNISER_RATE_HZ
        ).lines
        return words(" ".join(line.text for line in lines))


def speakers_of(tts: TTS, items: list[Utterance]) -> dict[str, Callable[[Utterance], Any]]:
    """The three who say a sentence."""
    audio, n_mels = tts.config.audio, tts.config.data.n_mels
    of_speaker = defaultdict(list)
    for item in items:
        of_speaker[item.speaker].append(item.audio_path)

    def recording(item: Utterance) -> Any:
        return clean_recording(read_audio(item.audio_path, audio.sample_rate_hz), audio)

    def copy(item: Utterance) -> Any:
        return griffin_lim(clip_log_mel(audio, n_mels)(recording(item)), audio)

    def run(item: Utterance) -> Any:
        others = [path for path in of_speaker[item.speaker] if path != item.audio_path]
        return tts.tts(item.text, others[0] if others else item.audio_path, item.language)

    return {"recordings": recording, "Griffin-Lim copies": copy, "the run": run}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tts, recogniser = TTS(options.run), Recogniser()
    items = [*LJSpeechDataset(options.data, "eval")][: options.sentences]
    results: dict[str, float] = {}
    for name, speak in speakers_of(tts, items).items():
        heard = [recogniser.hear(speak(item), tts.sample_rate_hz) or "-" for item in items]
        results[name] = jiwer.wer([words(item.text) for item in items], heard)
        print(
            f"{name:20} word error rate {results[name]:.3f} on {len(items)} sentences", flush=True
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
