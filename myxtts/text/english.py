"""English: registry entry, and normalisation of abbreviations and symbols.

Numbers and dates are in separate modules.
"""

from __future__ import annotations

import re

from myxtts.text.characters import (
    PLAIN_QUOTES_AND_DASHES,
    any_of,
    ascii_numerals,
    fold_compatibility,
    fold_spaces,
    keep_speakable,
    remove_invisible,
    settle,
    speak_addresses,
    tidy_marks,
)
from myxtts.text.english_dates import speak_dates, speak_times, speak_years
from myxtts.text.english_numbers import (
    speak_money,
    speak_phone_numbers,
    speak_quantities,
    speak_roman_numerals,
    spell_digits,
)
from myxtts.text.english_stops import SENTENCE_STARTS, stop_after
from myxtts.text.language import Language
from myxtts.text.scripts import LATIN
from myxtts.text.sentences import SentenceRules

__all__ = ["ENGLISH", "normalise_english"]

MARKS = "?!.;:,"

ADDRESS_NAMES = {".": "dot", "@": "at", "/": "slash", "-": "dash", "_": "underscore"}

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor",
    "St": "Saint",
}  # fmt: skip
DOTTED_TITLES = {
    "Gen": "General", "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant",
    "Rev": "Reverend", "Sen": "Senator", "Gov": "Governor", "Mt": "Mount",
}  # fmt: skip
AFTER_NAME = {
    "St": "Street", "Dr": "Drive", "Ave": "Avenue", "Rd": "Road", "Blvd": "Boulevard",
    "Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Ltd": "Limited",
    "Corp": "Corporation",
}  # fmt: skip
ABBREVIATIONS = {
    "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is", "vs.": "versus",
    "vs": "versus", "approx.": "approximately", "dept.": "department", "a.k.a.": "also known as",
    "w/o": "without", "w/": "with", "et al.": "and others",
}  # fmt: skip
ABBREVIATIONS |= {short.capitalize(): full.capitalize() for short, full in ABBREVIATIONS.items()}
ABBREVIATIONS["Ph.D."] = "PhD"
BEFORE_NUMBER = {
    "No": "number", "Nos": "numbers", "p": "page", "pp": "pages", "vol": "volume", "Vol": "Volume",
    "ch": "chapter", "Ch": "Chapter", "fig": "figure", "Fig": "Figure", "Sec": "Section",
}  # fmt: skip

SYMBOLS = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "#": "hash", "%": "percent",
    "°": "degrees", "×": "times", "÷": "divided by", "±": "plus or minus", "$": "dollar",
    "£": "pound", "€": "euro", "¥": "yen", "§": "section",
}  # fmt: skip

# NFKC would turn these into bare letters or digits and lose what they mean.
BEFORE_COMPATIBILITY = str.maketrans(
    {"²": "^2", "³": "^3", "™": "", "№": "No. ", "º": "°", "µ": "micro", "´": "'"}
)

_TITLE = re.compile(rf"\b(?:({any_of(TITLES)})\b\.?|({any_of(DOTTED_TITLES)})\.)(?=\s+[A-Z])")
_STREET_END = re.compile(r"(\b[A-Z]\w+ )(St|Dr)\.")
_LOWER_TITLE = re.compile(r"\b(mr|mrs|ms|dr|prof)\.(?=\s+\w)")
_AFTER_NAME = re.compile(rf"(?<=\w)(,?\s+)({any_of(AFTER_NAME)})\b\.")
_ABBREVIATION = re.compile(rf"(?<![\w.])({any_of(ABBREVIATIONS)})(?!\w)")
_BEFORE_NUMBER = re.compile(rf"\b({any_of(BEFORE_NUMBER)})\.\s?(?=\d)")
_DOTTED_LETTERS = re.compile(r"(?<![\w.])(?:[A-Za-z]\.){2,}(?!\w)|(?<![\w.])(?:[A-Z]\.)+[A-Z]\b")
# The pronoun I is left out: it often ends a sentence.
_INITIAL = re.compile(r"(?<![\w.'])([A-HJ-Z])\.(?=\s+[A-Z])")

# Long digit runs are spelt out first: number patterns take quadratic time on them.
_ENDLESS_DIGITS = re.compile(r"\d{100,}")

_RULE = re.compile(r"[=#]{2,}")
_HASHTAG = re.compile(r"#(?=[^\W\d_])")
_ELLIPSIS_INSIDE = re.compile(r"\.{2,}(?=\s*[a-z])")
_DASH = re.compile(r"\s-+\s|-{2,}")
_OPENING = re.compile(r"[(\[{]")
_CLOSING = re.compile(r"[)\]}](?=\s*[\"']?\w)")
_STRAY_APOSTROPHE = re.compile(
    r"(?<![^\W\d_])'(?!(?:tis|twas|em|cause|til|bout|round)\b)|'(?![^\W\d_])", re.IGNORECASE
)
_SYMBOL = re.compile(f"[{re.escape(''.join(SYMBOLS))}]")


def normalise_english(text: str) -> str:
    """Return English text as words and light punctuation, keeping its case."""
    return settle(_normalise_once, text)


def _normalise_once(text: str) -> str:
    text = speak_addresses(_clean(text), ADDRESS_NAMES)
    text = _expand_abbreviations(text)
    text = speak_dates(text)
    text = speak_phone_numbers(text)
    text = speak_times(text)
    text = _join_dotted_letters(text)
    text = speak_money(text)
    text = speak_roman_numerals(text)
    text = speak_years(text)
    text = speak_quantities(text)
    text = _speak_symbols(text)
    return tidy_marks(keep_speakable(text, MARKS + "'"), MARKS)


def _clean(text: str) -> str:
    text = remove_invisible(text, keep="").translate(BEFORE_COMPATIBILITY)
    text = fold_compatibility(text).replace("\u2044", "/").translate(PLAIN_QUOTES_AND_DASHES)
    text = _ENDLESS_DIGITS.sub(lambda m: f" {spell_digits(m.group())} ", ascii_numerals(text))
    return fold_spaces(text)


def _expand_abbreviations(text: str) -> str:
    text = _BEFORE_NUMBER.sub(lambda match: BEFORE_NUMBER[match[1]] + " ", text)
    text = _STREET_END.sub(_street_end, text)
    text = _TITLE.sub(lambda m: TITLES[m[1]] if m[1] else DOTTED_TITLES[m[2]], text)
    text = _LOWER_TITLE.sub(lambda match: TITLES[match[1].capitalize()].lower(), text)
    text = _AFTER_NAME.sub(lambda m: m[1] + AFTER_NAME[m[2]] + stop_after(m), text)
    return _ABBREVIATION.sub(lambda m: f"{ABBREVIATIONS[m[1]]}{stop_after(m)} ", text)


def _street_end(match: re.Match[str]) -> str:
    return match[1] + AFTER_NAME[match[2]] + "." if stop_after(match) else match.group()


def _join_dotted_letters(text: str) -> str:
    text = _DOTTED_LETTERS.sub(_dotted_letters, text)
    return _INITIAL.sub(lambda match: match[1] + stop_after(match), text)


def _dotted_letters(match: re.Match[str]) -> str:
    letters = match.group().replace(".", "")
    spoken = letters if letters.isupper() else " ".join(letters)
    return spoken + stop_after(match)


def _speak_symbols(text: str) -> str:
    text = _HASHTAG.sub(" hashtag ", _RULE.sub(" ", text))
    text = _ELLIPSIS_INSIDE.sub(", ", text)
    text = _CLOSING.sub(", ", _OPENING.sub(", ", _DASH.sub(", ", text)))
    text = _SYMBOL.sub(lambda m: f" {SYMBOLS[m.group()]} ", text)
    return _STRAY_APOSTROPHE.sub(" ", text)


ENGLISH = Language(
    code="en",
    names=("English",),
    normalise=normalise_english,
    espeak_voice="en-us",
    scripts=LATIN,
    sentences=SentenceRules(starts=SENTENCE_STARTS),
    greeting="hello",
    example="Hello there.",
    demo_file="en.txt",
)
