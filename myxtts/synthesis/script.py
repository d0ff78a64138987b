"""Turns a text into lines: sentences as token ids, with pauses. No TensorFlow."""

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

from myxtts.errors import DataError
from myxtts.synthesis.ssml import Span, is_ssml, read_ssml
from myxtts.text.languages import find_language, language_parts, main_language
from myxtts.text.markup import (
    Lexicon,
    read_text,
    split_at_pauses,
    split_at_pronunciations,
    without_pronunciations,
)
from myxtts.text.sentences import shorter_parts
from myxtts.text.tokenizer import Tokenizer, is_spoken, split_symbols

FloatArray = npt.NDArray[np.float32]

# Pauses after sentences by their last mark, after lines and after paragraphs.
_PAUSE_SECONDS = 0.25
_PAUSES_BY_MARK = {"…": 0.4, "؛": 0.15, ";": 0.15, ":": 0.2}
_LINE_PAUSE_SECONDS = 0.35
_PARAGRAPH_PAUSE_SECONDS = 0.7
_PAUSE_WITHIN_SENTENCE_SECONDS = 0.1
# Memory grows with the square of the number of tokens; no real sentence comes close.
_MAX_TOKENS = 2_000
_MAX_CHARACTERS = 1_000_000


class Line(NamedTuple):
    """A sentence to speak, and the pause after it; without tokens it is only the pause."""

    text: str
    """Text as written."""
    token_ids: Sequence[int]
    language_id: int
    pause_seconds: float
    speed: float = 1.0
    """Times that of the speech options."""


@dataclass(frozen=True, eq=False)
class SpokenLine:
    line: Line
    samples: FloatArray
    token_seconds: npt.NDArray[np.float64]
    """How long each token lasts; their sum may exceed the samples by a frame."""


@dataclass(frozen=True)
class ScriptWriter:
    tokenizer: Tokenizer
    max_sentence_characters: int
    """Longer sentences are split, because the model was not trained on such lengths."""

    def lines(
        self, text: str, language: str, *, split: bool = True, lexicon: Lexicon | None = None
    ) -> list[Line]:
        """Return the sentences of a text, which may be SSML.

        Those without speakable text are skipped unless all are.
        """
        if len(text) > _MAX_CHARACTERS:
            raise DataError(
                f"text has {len(text)} characters, expected at most {_MAX_CHARACTERS}; split it "
                "into parts"
            )
        lines: list[Line] = []
        for span in read_ssml(text) if is_ssml(text) else [Span(text, None)]:
            own_language = self.tokenizer.own_language(span.language) if span.language else language
            for segment, pause_seconds in split_at_pauses(span.text):
                own = [
                    line._replace(speed=span.speed)
                    for sentence, pause in self._sentences(segment, own_language, split)
                    if (line := self._line(sentence, own_language, pause, lexicon)) is not None
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
        """Yield each sentence with the pause after it."""
        if not split:
            yield text, 0.0
            return
        for sentence, break_after in find_language(language).sentences.split_with_breaks(text):
            *parts, last = shorter_parts(sentence, self.max_sentence_characters)
            for part in parts:
                yield part, _PAUSE_WITHIN_SENTENCE_SECONDS
            pause = _PAUSES_BY_MARK.get(sentence[-1], _PAUSE_SECONDS)
            if sentence.endswith("..."):
                pause = _PAUSES_BY_MARK["…"]
            if break_after.count("\n") > 1:
                pause = _PARAGRAPH_PAUSE_SECONDS
            elif "\n" in break_after:
                pause = max(pause, _LINE_PAUSE_SECONDS)
            yield last, pause

    def _line(
        self, sentence: str, language: str, pause_seconds: float, lexicon: Lexicon | None
    ) -> Line | None:
        parts: list[tuple[str, str]] = []
        symbols: list[str] = []

        def add(own: Sequence[str]) -> None:
            if symbols and own and is_spoken(own[0]):
                symbols.append(" ")
            symbols.extend(own)

        said = sentence if lexicon is None else lexicon.apply(sentence)
        for segment, is_ipa in split_at_pronunciations(said):
            if is_ipa:
                add(self._ipa_symbols(segment.strip()))
                continue
            for part in language_parts(segment, language, self.tokenizer.languages):
                parts.append((part.text, part.language))
                add(list(self.tokenizer.symbols_of(part.text, part.language)))
        if not any(map(is_spoken, symbols)):
            return None
        try:
            token_ids = self.tokenizer.encode_symbols(symbols, sentence)
        except DataError:
            return None
        if len(token_ids) > _MAX_TOKENS:
            raise DataError(
                f"a sentence has {len(token_ids)} tokens, expected at most {_MAX_TOKENS}; end "
                "sentences with a full stop"
            )
        language_id = self.tokenizer.language_id(main_language(parts, language))
        return Line(without_pronunciations(sentence), token_ids, language_id, pause_seconds)

    def _ipa_symbols(self, ipa: str) -> list[str]:
        if self.tokenizer.kind != "phonemes":
            raise DataError(
                f"[[{ipa}]]: this model was trained on letters and cannot read IPA; respell the "
                "word instead"
            )
        symbols = split_symbols(ipa)
        if unknown := self.tokenizer.unknown(symbols):
            raise DataError(
                f"[[{ipa}]]: this model does not know {', '.join(unknown)}; expected IPA as "
                "espeak-ng writes it for this language"
            )
        return symbols


COLUMNS = ("id", "text", "voice", "language")
_ID = re.compile(r"[^\W_](?:[\w. -]{0,98}[\w-])?")


class Request(NamedTuple):
    id: str
    """The name of its file, without the ending."""
    text: str
    voice: str | None = None
    """A saved voice, or a recording."""
    language: str | None = None


def read_batch(file: Path) -> list[Request]:
    """Read a table; without names in the first line, its columns are those of `COLUMNS`."""
    if file.suffix.lower() not in (".csv", ".tsv"):
        raise DataError(f"{file}: expected a name that ends in .csv or .tsv")
    text = read_text(file)
    # Spreadsheets use ; in countries with decimal commas.
    separators = "\t" if file.suffix.lower() == ".tsv" else ",|;"
    first_line = text.partition("\n")[0]
    separator = next((one for one in separators if one in first_line), separators[0])
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
    if rows and set(COLUMNS) & set(first := [cell.strip().lower() for cell in rows[0][1]]):
        names, rows = first, rows[1:]
        if "text" not in names:
            raise DataError(f"{file}: its header has no column 'text': {', '.join(names)}")
        if unknown := [name for name in names if name not in COLUMNS]:
            raise DataError(f"{file}: unknown column '{unknown[0]}', expected {', '.join(COLUMNS)}")
    requests: dict[str, Request] = {}
    for number, row in rows:
        if len(row) > len(names):
            raise DataError(
                f"{file}: line {number}: found {len(row)} columns, expected at most {len(names)}: "
                f"{', '.join(names)}; a text with the separator in it needs quotation marks"
            )
        cells = {name: cell.strip() for name, cell in zip(names, row, strict=False)}
        request = Request(
            cells.get("id", ""),
            cells.get("text", ""),
            cells.get("voice") or None,
            cells.get("language") or None,
        )
        if not _ID.fullmatch(request.id):
            raise DataError(
                f"{file}: line {number}: id {request.id[:100]!r}, expected a name for a file: "
                "letters, digits and . _ -, at most 100"
            )
        if not request.text:
            raise DataError(f"{file}: line {number}: '{request.id}' has no text")
        # Some file systems are case-insensitive.
        other = requests.setdefault(request.id.casefold(), request)
        if other is not request:
            raise DataError(f"{file}: the ids '{other.id}' and '{request.id}' are the same file")
    if not requests:
        raise DataError(f"{file}: has no rows, expected {', '.join(COLUMNS)}")
    return list(requests.values())
