"""Puts the weights of a run into the package: EMA weights in float16.

    .venv/bin/python tools/weights/include.py RUN myxtts/weights/base --voice NAME FILE [FILE ...]

The configuration is that of the run without machine-specific settings (folders and devices).
Synthesis does not use the discriminator and the phoneme classifier, but runs that start from these
weights continue to train them. Voices are encoded with the included weights and saved with them.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config, save_config
from myxtts.runs.checkpoint import CONFIG, TOKENIZER, write_sealed_folder
from myxtts.runs.run_dir import find_checkpoint

OF_THE_MACHINE = ("train_data", "val_data", "cache_dir", "workers", "visible_gpus")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="run folder or checkpoint")
    parser.add_argument("folder", type=Path, help="folder in the package")
    parser.add_argument("--voice", nargs="+", action="append", default=[], metavar="NAME FILE")
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE")
    options = parser.parse_args()
    checkpoint = find_checkpoint(options.run, for_synthesis=True)
    halves = {
        name: np.asarray(value, np.float16) for name, value in checkpoint.ema_weights().items()
    }
    if not all(np.isfinite(value).all() for value in halves.values()):
        sys.exit(f"{checkpoint.folder}: has weights beyond the range of float16")
    info = {
        "step": checkpoint.info.step,
        "mel_mean": checkpoint.info.mel_mean,
        "mel_deviation": checkpoint.info.mel_deviation,
    }
    if options.folder.exists():
        sys.exit(f"{options.folder}: exists already; remove it first")
    write_sealed_folder(
        options.folder,
        {
            "model.safetensors": halves,
            CONFIG: _portable(checkpoint.config(), options.set),
            TOKENIZER: (checkpoint.folder / TOKENIZER).read_bytes(),
            "checkpoint.json": json.dumps(info, indent=1).encode(),
        },
    )
    print(f"{options.folder}: {sum(value.nbytes for value in halves.values()) / 1e6:.1f} MB")
    if options.voice:
        add_voices(options.folder, options.voice)


def _portable(config: XTTSConfig, assignments: list[str]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / CONFIG
        save_config(config.with_(**dict.fromkeys(OF_THE_MACHINE)), file)
        save_config(load_config(file, assignments=assignments), file)
        return file.read_bytes()


def add_voices(folder: Path, voices: list[list[str]]) -> None:
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts import TTS

    tts = TTS(folder)
    # Saved next to the weights, where they are read-only for everybody else.
    tts.voice_store.folder, tts.voice_store.included = folder / "voices", None
    for name, *files in voices:
        tts.add_voice(name, files)
    print(f"voices: {', '.join(tts.voices)}")


if __name__ == "__main__":
    main()
