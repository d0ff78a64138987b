"""The registry entry of a language, and languages without rules of their own."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources

from num2words import CONVERTER_CLASSES, num2words  # type: ignore[import-untyped, unused-ignore]

from myxtts.text.characters import (
    LONGEST_CARDINAL,
    PLAIN_QUOTES_AND_DASHES,
    fold_spaces,
    remove_invisible,
    scripts_of,
    settle,
)
from myxtts.text.sentences import SentenceRules


@dataclass(frozen=True, kw_only=True)
class Language:
    code: str
    """Canonical tag, such as en or pt-br, as stored in corpora, vocabularies and runs."""
    names: tuple[str, ...] = ()
    """English names, for users who write a name instead of the tag."""
    normalise: Callable[[str], str]
    """Written text to the words a reader would say, in a standard spelling."""
    normalise_for_phonemes: Callable[[str], str] | None = None
    """The same, keeping marks that help espeak-ng beyond the standard spelling."""
    phonemes: Callable[[str, bool, int], str] | None = None
    """A clause to IPA, given text.ezafe and the version of the text rules; else by espeak-ng."""
    espeak_voice: str
    scripts: frozenset[str]
    """As in `text.scripts`."""
    sentences: SentenceRules = dataclasses.field(default_factory=SentenceRules)
    greeting: str = ""
    """A word to try the voice with."""
    example: str = "TEXT"
    """A sentence to try a model with."""
    demo_file: str | None = None
    """File of demo corpus sentences, one per line, in the folder demo_sentences."""

    @property
    def base(self) -> str:
        """The language without its variety, such as en for en-gb."""
        return self.code.partition("-")[0]

    def variety(self, code: str, espeak_voice: str) -> Language:
        """Another variety of the same language."""
        return dataclasses.replace(self, code=code, espeak_voice=espeak_voice)

    def demo_sentences(self) -> list[str]:
        if self.demo_file is None:
            return []
        file = resources.files("myxtts.text") / "demo_sentences" / self.demo_file
        return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


DECIMAL_COMMA_LANGUAGES = frozenset({
    "az", "be", "ca", "cs", "da", "de", "eo", "es", "fi", "fr", "hu", "id", "is", "it", "kz", "lt",
    "lv", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "tg", "tr", "uk", "vi",
})  # fmt: skip
UNSPACED_LANGUAGES = frozenset({"ja", "ko", "th"})

# Bugs of num2words 0.5.14: Amharic hangs on a million, these decimals are rounded or wrong, and
# these negatives fail or lose the sign.
UNUSABLE_CONVERTERS = frozenset({"am"})
UNUSABLE_DECIMALS = frozenset({"ar", "bn", "tr", "vi"})
UNUSABLE_NEGATIVES = frozenset({"bn", "ce", "cs", "kn", "pl", "sk", "te", "vi"})
# Raised by num2words for unsupported numbers.
CONVERTER_FAILURES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip


def general_language(code: str, espeak_voice: str) -> Language:
    return Language(
        code=code,
        normalise=partial(normalise_general, language=code),
        espeak_voice=espeak_voice,
        scripts=scripts_of(code),
    )


def normalise_general(text: str, language: str) -> str:
    """Return text with numbers as words, where supported, and plain quotes and dashes."""
    return settle(lambda current: _normalise_once(current, language), text)


def _normalise_once(text: str, language: str) -> str:
    text = remove_invisible(unicodedata.normalize("NFC", text))
    text = text.translate(PLAIN_QUOTES_AND_DASHES)
    text = _speak_numbers(text, language)
    return fold_spaces(unicodedata.normalize("NFC", text))


def _converter_for(language: str) -> str | None:
    base, _, region = language.partition("-")
    names = (f"{base}_{region.upper()}", base)
    usable = (name for name in names if name in CONVERTER_CLASSES)
    return next((name for name in usable if name not in UNUSABLE_CONVERTERS), None)


def _speak_numbers(text: str, language: str) -> str:
    converter = _converter_for(language)
    if converter is None:
        return text
    base = converter.partition("_")[0]
    group, point = (".", ",") if base in DECIMAL_COMMA_LANGUAGES else (",", ".")
    space = "" if base in UNSPACED_LANGUAGES else " "

    def speak(match: re.Match[str]) -> str:
        written = match.group().replace(group, "").replace(point, ".")
        words = _number_words(written, converter)
        if words is None:
            return match.group()
        start, end = match.span()
        before = space if text[max(start - 1, 0) : start].isalnum() else ""
        after = space if text[end : end + 1].isalnum() else ""
        return before + words + after

    return _general_number(group, point).sub(speak, text)


@cache
def _general_number(group: str, point: str) -> re.Pattern[str]:
    group, point = re.escape(group), re.escape(point)
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+(?!\d)|\d+)"
    return re.compile(rf"(?:(?<!\S)-)?{whole}(?:{point}\d+)?")


def _number_words(written: str, converter: str) -> str | None:
    """Words for a number with an ASCII decimal point, or None if num2words cannot convert it."""
    base = converter.partition("_")[0]
    if "." in written and base in UNUSABLE_DECIMALS:
        return None
    if written.startswith("-") and base in UNUSABLE_NEGATIVES:
        words = _number_words(written[1:], converter)
        return words and "-" + words
    whole = written.partition(".")[0].lstrip("-")
    by_digit = len(whole) > LONGEST_CARDINAL or (len(whole) > 2 and whole.startswith("0"))
    pieces = list(written.replace(".", "").lstrip("-")) if by_digit else [written]
    try:
        words = " ".join(str(num2words(_value(piece), lang=converter)) for piece in pieces)
    except CONVERTER_FAILURES:
        return None
    return fold_spaces(words) if words and not any(map(str.isdigit, words)) else None


def _value(written: str) -> int | float:
    # Several converters drop the fraction of a number given as a string or a Decimal.
    return float(written) if "." in written else int(written)
