"""Known phonemes and durations of a corpus, in `durations.jsonl` next to its metadata.

One JSON object per clip: `audio_file` as in the metadata, and `units`, a list of
`[phoneme, ..., start, end]` in seconds without gaps, in the symbols of espeak-ng. Such a clip
needs no phonemizer and no alignment search. `audible`, a start and an end in seconds, is optional.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from myxtts.errors import DataError
from myxtts.text.tokenizer import STRESS_MARKS, is_modifier

DURATIONS_FILE = "durations.jsonl"
_MARKS = ".,;:?!…"
_DASHES = "—–"
# A shorter space belongs to the next sound, usually as the closure of a stop.
_SHORTEST_PAUSE_SECONDS = 0.2


class Pronunciation(NamedTuple):
    """The symbols of a clip and where each of them ends."""

    symbols: tuple[str, ...]
    start: float
    """Seconds of silence before the first symbol."""
    ends: tuple[float, ...]
    """One per symbol, in seconds; a symbol that ends where it starts has no sound of its own."""


def read_durations(folder: Path) -> dict[str, Pronunciation]:
    """Return the pronunciations of a corpus by `audio_file`, none if it has no such file."""
    file = folder / DURATIONS_FILE
    if not file.exists():
        return {}
    content = file.read_text(encoding="utf-8")
    found = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            clip = json.loads(line)
            found[str(clip["audio_file"])] = pronunciation(clip)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(
                f"{file}:{number}: expected audio_file and units [phoneme, ..., start, end] "
                f"({type(error).__name__}: {error})"
            ) from None
    return found


def pronunciation(clip: Mapping[str, Any]) -> Pronunciation:
    """Merge the units of a clip into symbols as `text.phonemes` gives them.

    The time of a stress mark goes to the sound after it. So does that of a space, unless it is a
    pause. A pause after a punctuation mark belongs to the mark.
    """
    symbols: list[str] = []
    ends: list[float] = []
    stress = ""
    start = None
    units = _merged(clip["units"])
    for piece, begin, end in units:
        if start is None:
            start = begin
        if piece in STRESS_MARKS:
            stress = piece
        elif piece.isspace():
            if symbols and symbols[-1] in _MARKS:
                ends[-1] = end
                symbols.append(" ")
                ends.append(end)
            elif symbols:
                is_pause = end - begin >= _SHORTEST_PAUSE_SECONDS
                symbols.append(" ")
                ends.append(end if is_pause else ends[-1])
        elif piece in _MARKS or piece in _DASHES:
            symbols.append("," if piece in _DASHES else piece)
            ends.append(end)
        elif is_modifier(piece) and symbols:
            symbols[-1] += piece
            ends[-1] = end
        elif piece.isalpha():
            symbols.append(stress + piece)
            ends.append(end)
            stress = ""
        elif symbols:  # quotes and brackets
            ends[-1] = end
    audible_end = clip.get("audible", (0.0, float("inf")))[1]
    while_silent = [min(end, max(audible_end, start or 0.0)) for end in ends]
    return Pronunciation(tuple(symbols), float(start or 0.0), tuple(map(float, while_silent)))


def _merged(units: Sequence[Sequence[Any]]) -> list[tuple[str, float, float]]:
    """Split the time of each unit evenly over its characters; modifiers get none."""
    found = []
    for unit in units:
        text, begin, end = str(unit[0]), float(unit[-2]), float(unit[-1])
        letters = sum(not is_modifier(character) for character in text)
        step = (end - begin) / max(letters, 1)
        at = begin
        for character in text:
            after = at if is_modifier(character) else at + step
            found.append((character, at, after))
            at = after
    return found
