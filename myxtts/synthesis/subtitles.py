"""Subtitles of spoken text: SubRip, WebVTT with a time for each word, or JSON. No TensorFlow."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import numpy as np

from myxtts.audio.files import require_writable
from myxtts.errors import DataError
from myxtts.files import write_file
from myxtts.synthesis.script import SpokenLine
from myxtts.text.languages import language_parts
from myxtts.text.tokenizer import EDGE_SYMBOL, STRESS_MARKS, Tokenizer, is_spoken


def require_subtitle_file(file: Path) -> None:
    require_writable(file, _WRITERS)


def write_subtitles(file: Path, lines: Sequence[TimedLine]) -> None:
    require_subtitle_file(file)
    try:
        write_file(file, _WRITERS[file.suffix.lower()](lines))
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


class TimedWord(NamedTuple):
    text: str
    start_seconds: float
    end_seconds: float


class TimedLine(NamedTuple):
    text: str
    start_seconds: float
    end_seconds: float
    words: Sequence[TimedWord]


def timed_line(spoken: SpokenLine, tokenizer: Tokenizer, offset_seconds: float) -> TimedLine:
    """Return the line and its words, with times from the start of the file."""
    symbols = [tokenizer.symbols[token] for token in spoken.line.token_ids]
    ends = offset_seconds + np.cumsum(spoken.token_seconds)
    starts = ends - spoken.token_seconds
    main = tokenizer.languages[spoken.line.language_id]
    words = list(_words(spoken.line.text, main, tokenizer))
    owners = _owners([own for _, own in words], symbols)
    timed: list[TimedWord] = []
    for index, (word, _) in enumerate(words):
        own = [
            token
            for token, owner in enumerate(owners)
            if owner == index and symbols[token] != EDGE_SYMBOL and is_spoken(symbols[token])
        ]
        previous = timed[-1].end_seconds if timed else float(ends[0])
        # A word without tokens begins and ends where the previous one ended.
        start = max(previous, float(starts[own[0]])) if own else previous
        timed.append(TimedWord(word, start, max(start, float(ends[own[-1]])) if own else start))
    return TimedLine(spoken.line.text, timed[0].start_seconds, timed[-1].end_seconds, timed)


def _words(text: str, main: str, tokenizer: Tokenizer) -> Iterator[tuple[str, list[str]]]:
    """Yield written words with their symbols; punctuation belongs to the previous word."""
    waiting: tuple[str, list[str]] | None = None
    for part in language_parts(text, main, tokenizer.languages):
        for word in part.text.split():
            symbols = list(tokenizer.symbols_of(word, part.language))
            if waiting is not None and not any(map(is_spoken, symbols)):
                waiting = f"{waiting[0]} {word}", [*waiting[1], *symbols]
                continue
            if waiting is not None:
                yield waiting
            waiting = word, symbols
    if waiting is not None:
        yield waiting


def _owners(words: Sequence[Sequence[str]], symbols: Sequence[str]) -> list[int]:
    """Return the index of the word that each symbol belongs to."""
    expected = [(symbol, index) for index, word in enumerate(words) for symbol in (*word, " ")] or [
        (" ", 0)
    ]
    matcher = SequenceMatcher(
        None,
        # A word by itself is stressed more than in a sentence.
        [symbol.lstrip(STRESS_MARKS) for symbol, _ in expected],
        [symbol.lstrip(STRESS_MARKS) for symbol in symbols],
        autojunk=False,
    )
    owners = [0] * len(symbols)
    for kind, first, last, start, end in matcher.get_opcodes():
        for place in range(start, end):
            if kind == "insert":
                source = min(first, len(expected) - 1)
            else:
                source = first + (place - start) * (last - first) // (end - start)
            owners[place] = expected[source][1]
    return owners
