"""How often the watermark is found after what files go through, and where there is none.

    .venv/bin/python benchmarks/watermark.py my-corpus --seconds 3,10 --count 100

Takes stretches of the recordings in a folder. No TensorFlow.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import soundfile
import soxr

from myxtts.audio.files import FloatArray, read_recording
from myxtts.audio.watermark import find_watermark, with_watermark

RATE_HZ = 22_050
AUDIO_ENDINGS = (".wav", ".flac", ".ogg", ".mp3")
# Constant bit rate: 64 kbit/s at this sample rate.
MP3_COMPRESSION = 0.6


def through_mp3(samples: FloatArray) -> FloatArray:
    file = io.BytesIO()
    soundfile.write(
        file,
        samples,
        RATE_HZ,
        format="MP3",
        bitrate_mode="CONSTANT",
        compression_level=MP3_COMPRESSION,
    )
    file.seek(0)
    decoded: FloatArray = soundfile.read(file, dtype="float32")[0]
    return decoded


def with_noise(samples: FloatArray, ratio_db: float) -> FloatArray:
    noise = np.random.default_rng(1).standard_normal(samples.size, np.float32)
    return samples + noise * np.float32(samples.std() * 10 ** (-ratio_db / 20))


def resampled(samples: FloatArray, rate_hz: int) -> FloatArray:
    there = soxr.resample(samples, RATE_HZ, rate_hz)
    return np.asarray(soxr.resample(there, rate_hz, RATE_HZ), np.float32)


CHANGES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "nothing": lambda samples: samples,
    "mp3 at 64 kbit/s": through_mp3,
    "resampled to 16 kHz": lambda samples: resampled(samples, 16_000),
    "resampled to 8 kHz": lambda samples: resampled(samples, 8_000),
    "noise 20 dB below": lambda samples: with_noise(samples, 20),
    "noise 10 dB below": lambda samples: with_noise(samples, 10),
    "mp3, then noise 10 dB below": lambda samples: with_noise(through_mp3(samples), 10),
    "cut after 0.4 s": lambda samples: samples[int(0.4 * RATE_HZ) :],
}


def stretches(folder: Path, seconds: float, count: int) -> list[FloatArray]:
    """From as many recordings as there are, in turns."""
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in AUDIO_ENDINGS)
    np.random.default_rng(0).shuffle(files)  # type: ignore[arg-type]
    length, found = int(seconds * RATE_HZ), []
    waiting = np.zeros(0, np.float32)
    for file in files:
        waiting = np.concatenate([waiting, read_recording(file).at_rate(RATE_HZ)])
        while waiting.size >= length and len(found) < count:
            found.append(waiting[:length])
            waiting = waiting[length:]
        if len(found) == count:
            break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="folder with recordings")
    parser.add_argument("--seconds", default="3,10", help="lengths (default: 3,10)")
    parser.add_argument("--count", type=int, default=100, help="stretches (default: 100)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    options = parser.parse_args()
    rows = []
    for seconds in map(float, options.seconds.split(",")):
        sounds = stretches(options.folder, seconds, options.count)
        marked = [with_watermark(sound, RATE_HZ) for sound in sounds]
        below = [
            10 * np.log10(np.mean(one**2) / np.mean((other - one) ** 2))
            for one, other in zip(sounds, marked, strict=True)
        ]
        print(f"{seconds:g} s, {len(sounds)} stretches, mark {np.mean(below):.1f} dB below")
        for name, change in CHANGES.items():
            found = [find_watermark(change(sound), RATE_HZ) for sound in marked]
            alarms = [find_watermark(change(sound), RATE_HZ) for sound in sounds]
            row = {
                "seconds": seconds,
                "change": name,
                "found": float(np.mean([one.is_marked for one in found])),
                "false_alarms": sum(one.is_marked for one in alarms),
                "largest_unmarked_score": max(one.score for one in alarms),
            }
            rows.append(row | {"stretches": len(sounds)})
            print(
                f"  {name:28} found {row['found']:6.1%}   false alarms {row['false_alarms']}"
                f"   largest score without a mark {row['largest_unmarked_score']:.2f}"
            )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
