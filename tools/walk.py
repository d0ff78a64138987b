"""Count the modules that run between metadata.csv and a gradient, and between a sentence and a wav.

    .venv/bin/python tools/walk.py [--list]

Trains one step on a small demo corpus, then speaks one sentence with the included base model, and
counts the modules whose functions ran until the first gradients are applied and the file is
written, with their lines. Imports do not count. A corpus as small
as this one is prepared without worker processes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import myxtts
from myxtts import XTTSConfig

PACKAGE = Path(myxtts.__file__).parent
# Aim and bound on the number of files.
AIMS = {"metadata.csv to a gradient": (30, 35), "sentence to wav": (20, 25)}


def modules_run(action: Callable[[], Any], last: tuple[str, str] | None = None) -> list[Path]:
    """Return the modules whose functions ran, in order, until `last` (module, function) returns."""
    found: dict[str, None] = {}
    is_over = False

    def record(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal is_over
        code = frame.f_code
        if is_over or not code.co_filename.startswith(str(PACKAGE)):
            return
        # Skip the bodies of modules and classes.
        if event == "call" and code.co_flags & 0x2:
            found.setdefault(code.co_filename)
        if event == "return" and last == (Path(code.co_filename).stem, code.co_name):
            is_over = True

    threading.setprofile(record)
    sys.setprofile(record)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return [Path(file) for file in found]


def walk_training(folder: Path) -> list[Path]:
    from myxtts.data.demo import make_demo_corpus

    corpus = folder / "corpus"
    make_demo_corpus(corpus, speakers=1, utterances=60)
    config = XTTSConfig(train_data=str(corpus), size="tiny", batch_size=4, max_steps=1)
    return modules_run(lambda: myxtts.train(config, folder / "run"), last=("optimizer", "apply"))


def walk_speaking(folder: Path) -> list[Path]:
    from myxtts import TTS

    return modules_run(
        lambda: TTS().tts_to_file(text="Hello there.", file_path=folder / "hello.wav")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the modules and their lines")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        walks = (walk_training(Path(name)), walk_speaking(Path(name)))
    for (title, (aim, bound)), modules in zip(AIMS.items(), walks, strict=True):
        lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in modules}
        total = sum(lines.values())
        print(f"{title}: {len(modules)} files, {total:,} lines (aim {aim}, bound {bound} files)")
        for file, count in lines.items() if options.list else ():
            print(f"    {count:>5}  {file.relative_to(PACKAGE)}")


if __name__ == "__main__":
    main()
