"""From a text to the lines that are spoken: sentences as token ids, with pauses. No TensorFlow."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from myxtts.config.schema import did_you_mean
from myxtts.errors import DataError
from myxtts.text.languages import find_language, language_parts, main_language
from myxtts.text.markup import (
    Lexicon,
    read_text,
    split_at_pauses,
    split_at_pronunciations,
    without_pronunciations,
)
from myxtts.text.phonemes import split_symbols
from myxtts.text.sentences import shorter_parts
from myxtts.text.tokenizer import Tokenizer, is_spoken

# After a sentence by its last mark, after a line and after a paragraph.
_PAUSE_SECONDS = 0.25
_PAUSES_BY_MARK = {"…": 0.4, "؛": 0.15, ";": 0.15, ":": 0.2}
_LINE_PAUSE_SECONDS = 0.35
_PARAGRAPH_PAUSE_SECONDS = 0.7
_PAUSE_WITHIN_SENTENCE_SECONDS = 0.1
# Memory grows with the square of the number of tokens; no real sentence comes close.
_MOST_TOKENS = 2_000
_MOST_CHARACTERS = 1_000_000


class _Part(NamedTuple):
    """Words of one language, or a pronunciation in IPA."""

    text: str
    language: str
    is_ipa: bool = False


@dataclass(frozen=True)
class ScriptWriter:
    tokenizer: Tokenizer
    longest_sentence: int
    """In characters: a longer sentence is spoken in parts, since the model saw none like it."""

    def lines(
        self, text: str, language: str, *, split: bool = True, lexicon: Lexicon | None = None
    ) -> list[Line]:
        """Sentences without speakable text are skipped unless all are."""
        require_speakable_length(text)
        lines: list[Line] = []
        for stretch, pause_seconds in split_at_pauses(text):
            own = [
                line
                for sentence, pause in self._sentences(stretch, language, split)
                if (line := self._line(sentence, language, pause, lexicon)) is not None
            ]
            if own:
                own[-1] = own[-1]._replace(pause_seconds=pause_seconds or 0.0)
            elif pause_seconds is not None:
                own = [Line("", (), 0, pause_seconds)]
            lines += own
        if not any(line.token_ids for line in lines):
            self.tokenizer.encode_symbols((), text)  # raises the error that names the text
        return lines

    def _sentences(self, text: str, language: str, split: bool) -> Iterator[tuple[str, float]]:
        """Each with the pause after it."""
        if not split:
            yield text, 0.0
            return
        for sentence, break_after in find_language(language).sentences.split_with_breaks(text):
            *parts, last = shorter_parts(sentence, self.longest_sentence)
            for part in parts:
                yield part, _PAUSE_WITHIN_SENTENCE_SECONDS
            yield last, _pause_after(sentence, break_after)

    def _line(
        self, sentence: str, language: str, pause_seconds: float, lexicon: Lexicon | None
    ) -> Line | None:
        said = sentence if lexicon is None else lexicon.apply(sentence)
        parts = list(self._parts(said, language))
        symbols: list[str] = []
        for part in parts:
            own = self._symbols(part)
            symbols += [" ", *own] if symbols and own and is_spoken(own[0]) else own
        if not any(map(is_spoken, symbols)):
            return None
        try:
            token_ids = self.tokenizer.encode_symbols(symbols, sentence)
        except DataError:
            return None
        if len(token_ids) > _MOST_TOKENS:
            raise DataError(
                f"a sentence has {len(token_ids)} tokens, expected at most {_MOST_TOKENS}; end "
                "sentences with a full stop"
            )
        spoken_in = main_language([part[:2] for part in parts if not part.is_ipa], language)
        language_id = self.tokenizer.language_id(spoken_in)
        shown = without_pronunciations(sentence)
        return Line(shown, token_ids, language_id, pause_seconds)

    def _parts(self, text: str, language: str) -> Iterator[_Part]:
        for stretch, is_ipa in split_at_pronunciations(text):
            if is_ipa:
                yield _Part(stretch.strip(), language, is_ipa=True)
            else:
                for part in language_parts(stretch, language, self.tokenizer.languages):
                    yield _Part(*part)

    def _symbols(self, part: _Part) -> list[str]:
        if not part.is_ipa:
            return list(self.tokenizer.symbols_of(part.text, part.language))
        if self.tokenizer.kind != "phonemes":
            raise DataError(
                f"[[{part.text}]]: this model was trained on letters and reads no IPA; spell the "
                "word as it is said"
            )
        symbols = split_symbols(part.text)
        if unknown := self.tokenizer.unknown(symbols):
            raise DataError(
                f"[[{part.text}]]: this model does not know {', '.join(unknown)}; expected IPA as "
                "espeak-ng writes it for this language"
            )
        return symbols


def require_speakable_length(text: str) -> None:
    if len(text) > _MOST_CHARACTERS:
        raise DataError(
            f"text has {len(text)} characters, expected at most {_MOST_CHARACTERS}; split it into "
            "parts"
        )


def _pause_after(sentence: str, break_after: str) -> float:
    if break_after.count("\n") > 1:
        return _PARAGRAPH_PAUSE_SECONDS
    by_mark = _PAUSES_BY_MARK.get(sentence[-1], _PAUSE_SECONDS)
    if sentence.endswith("..."):
        by_mark = _PAUSES_BY_MARK["…"]
    return max(by_mark, _LINE_PAUSE_SECONDS) if "\n" in break_after else by_mark


FloatArray = npt.NDArray[np.float32]


class Line(NamedTuple):
    """A sentence to speak, and the pause after it; without tokens it is only the pause."""

    text: str
    """As it was written."""
    token_ids: Sequence[int]
    language_id: int
    pause_seconds: float


@dataclass(frozen=True, eq=False)
class SpokenLine:
    line: Line
    samples: FloatArray
    token_seconds: npt.NDArray[np.float64]
    """How long each token lasts; their sum may exceed the samples by a frame."""


COLUMNS = ("id", "text", "voice", "language")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
# Of a .csv without a comma in its first line; spreadsheets write ; where a comma is in numbers.
_OTHER_SEPARATORS = ("|", ";")
_ID = re.compile(r"[^\W_][\w. -]{0,99}", re.UNICODE)


class Request(NamedTuple):
    id: str
    """The name of its file, without the ending."""
    text: str
    voice: str | None = None
    """A saved voice, or a recording."""
    language: str | None = None


def read_batch(file: Path) -> list[Request]:
    """The first line may name the columns; without it they are id, text, voice, language."""
    if file.suffix.lower() not in _SEPARATORS:
        raise DataError(f"{file}: expected a name that ends in {' or '.join(_SEPARATORS)}")
    text = read_text(file)
    separator = _SEPARATORS[file.suffix.lower()]
    first_line = text.partition("\n")[0]
    if separator == "," and "," not in first_line:
        separator = next((other for other in _OTHER_SEPARATORS if other in first_line), ",")
    reader = csv.reader(
        io.StringIO(text),
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if separator in ",;" else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        rows = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise DataError(f"{file}: line {reader.line_num}: {error}") from None
    names: Sequence[str] = COLUMNS
    if rows and "text" in (first := [cell.strip().lower() for cell in rows[0][1]]):
        names, rows = _known(first, file), rows[1:]
    requests = [_request(file, number, names, row) for number, row in rows]
    if not requests:
        raise DataError(f"{file}: has no rows, expected {', '.join(COLUMNS)}")
    _require_distinct(file, requests)
    return requests


def _known(names: list[str], file: Path) -> list[str]:
    for name in names:
        if name not in COLUMNS:
            raise DataError(
                f"{file}: unknown column '{name}', expected {', '.join(COLUMNS)}"
                f"{did_you_mean(name, COLUMNS)}"
            )
    if "id" not in names:
        raise DataError(f"{file}: has no column 'id', expected {', '.join(COLUMNS)}")
    return names


def _request(file: Path, number: int, names: Sequence[str], row: Sequence[str]) -> Request:
    if len(row) > len(names):
        raise DataError(
            f"{file}: line {number}: found {len(row)} columns, expected at most {len(names)}: "
            f"{', '.join(names)}; a text with the separator in it needs quotation marks"
        )
    cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
    identity, text = cells.get("id", ""), cells.get("text", "")
    if not _ID.fullmatch(identity) or identity.endswith((".", " ")):
        raise DataError(
            f"{file}: line {number}: id {identity[:100]!r}, expected a name for a file: letters, "
            "digits and . _ -, at most 100"
        )
    if not text:
        raise DataError(f"{file}: line {number}: '{identity}' has no text")
    return Request(identity, text, cells.get("voice") or None, cells.get("language") or None)


def _require_distinct(file: Path, requests: Sequence[Request]) -> None:
    seen: dict[str, str] = {}
    for request in requests:
        # Some file systems are case-insensitive.
        key = request.id.casefold()
        if key in seen:
            raise DataError(f"{file}: the ids '{seen[key]}' and '{request.id}' are the same file")
        seen[key] = request.id
