"""Speaks a text in the voice of one or more recordings, then with another seed and faster.

    .venv/bin/python examples/clone_a_voice.py RUN me.wav me-again.wav --text "Good morning."

RUN is the folder of a trained run; `make demo` creates one in demo/run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from myxtts.errors import MyXTTSError


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Speaks a text in the voice of one or more recordings."
    )
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("recordings", type=Path, nargs="+", help="a few seconds of speech")
    parser.add_argument("--text", default="The little boat sailed home before the storm arrived.")
    parser.add_argument("--language", help="language tag such as en (default: the model's first)")
    parser.add_argument("--out", type=Path, default=Path("cloned.wav"), help="wav file to write")
    options = parser.parse_args()
    try:
        clone(options.run, options.recordings, options.text, options.language, options.out)
    except MyXTTSError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    return 0


def clone(run: Path, recordings: list[Path], text: str, language: str | None, out: Path) -> None:
    from myxtts import TTS
    from myxtts.models.speech_options import SpeechOptions

    tts = TTS(run)
    # The voice is encoded once from all recordings and used three times.
    voice = tts.voice(recordings)
    print(f"Encoded {len(recordings)} recording{'s'[: len(recordings) > 1]}; speaking: {text}")
    takes = {
        out: SpeechOptions(),
        out.with_stem(f"{out.stem}-seed-1"): SpeechOptions(seed=1),
        out.with_stem(f"{out.stem}-faster"): SpeechOptions(speed=1.3),
    }
    for file, how in takes.items():
        tts.tts_to_file(
            text=text, speaker_wav=voice, language=language, file_path=file, options=how
        )
        print(f"{file}: seed {how.seed}, speed {how.speed:g}")


if __name__ == "__main__":
    sys.exit(main())
