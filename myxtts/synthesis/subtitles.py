"""Subtitles of spoken text: SubRip, WebVTT with a time for each word, or JSON. No TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from myxtts.audio.formats import require_writable
from myxtts.errors import DataError
from myxtts.synthesis.word_times import TimedLine
from myxtts.whole_files import write_whole_file


def require_subtitle_file(file: Path) -> None:
    require_writable(file, _WRITERS)


def write_subtitles(file: Path, lines: Sequence[TimedLine]) -> None:
    require_subtitle_file(file)
    try:
        write_whole_file(file, _WRITERS[file.suffix.lower()](lines))
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror})") from None


def _srt(lines: Sequence[TimedLine]) -> str:
    return "\n".join(
        f"{number}\n{_time(line.start_seconds, ',')} --> {_time(line.end_seconds, ',')}\n"
        f"{line.text}\n"
        for number, line in enumerate(lines, start=1)
    )


def _vtt(lines: Sequence[TimedLine]) -> str:
    cues = []
    for line in lines:
        first, *others = line.words
        timed = (f"<{_time(word.start_seconds)}>{_escaped(word.text)}" for word in others)
        words = " ".join([_escaped(first.text), *timed])
        cues.append(f"{_time(line.start_seconds)} --> {_time(line.end_seconds)}\n{words}\n")
    return "\n".join(["WEBVTT\n", *cues])


def _json(lines: Sequence[TimedLine]) -> str:
    content = [
        {
            "text": line.text,
            "start": round(line.start_seconds, 3),
            "end": round(line.end_seconds, 3),
            "words": [
                {"word": word, "start": round(start, 3), "end": round(end, 3)}
                for word, start, end in line.words
            ],
        }
        for line in lines
    ]
    return json.dumps({"sentences": content}, ensure_ascii=False, indent=1) + "\n"


def _time(seconds: float, point: str = ".") -> str:
    minutes, thousandths = divmod(round(seconds * 1_000), 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{thousandths // 1_000:02d}{point}{thousandths % 1_000:03d}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_WRITERS: dict[str, Callable[[Sequence[TimedLine]], str]] = {
    ".srt": _srt,
    ".vtt": _vtt,
    ".json": _json,
}
