"""The entry of a language, helpers of all normalizers, and languages without specific rules."""

from __future__ import annotations

import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources

from num2words import CONVERTER_CLASSES, num2words  # type: ignore[import-untyped, unused-ignore]

from myxtts.text.sentences import SentenceRules


@dataclass(frozen=True, kw_only=True)
class Language:
    code: str
    """Canonical tag, such as en or pt-br, as stored in corpora, vocabularies and runs."""
    names: tuple[str, ...] = ()
    """English names, accepted instead of the tag."""
    normalize: Callable[[str], str]
    """Converts text to the words a reader would say, in a standard spelling."""
    normalize_for_phonemes: Callable[[str], str] | None = None
    """Converts text in the same way, keeping marks that help espeak-ng."""
    phonemes: Callable[[str, bool, int], str] | None = None
    """Converts a clause to IPA, given text.ezafe and the version of the text rules; by default
    espeak-ng.
    """
    espeak_voice: str
    scripts: frozenset[str]
    """Scripts, as the first words of the Unicode names of its letters."""
    sentences: SentenceRules = dataclasses.field(default_factory=SentenceRules)
    greeting: str = ""
    """Word for testing the voice."""
    example: str = "TEXT"
    """Sentence for testing a model."""
    demo_file: str | None = None
    """File of demo corpus sentences, one per line, in the folder demo_sentences."""

    @property
    def base(self) -> str:
        """Return the language without its variety, such as en for en-gb."""
        return self.code.partition("-")[0]

    def variety(self, code: str, espeak_voice: str) -> Language:
        """Return another variety of the same language."""
        return dataclasses.replace(self, code=code, espeak_voice=espeak_voice)

    def demo_sentences(self) -> list[str]:
        if self.demo_file is None:
            return []
        file = resources.files("myxtts.text") / "demo_sentences" / self.demo_file
        return [line for line in file.read_text(encoding="utf-8").split("\n") if line]


# ---- characters, marks, addresses ------------------------------------------------------------

HALF_SPACE = "\u200c"
JOINERS = "\u200c\u200d"
MAX_CARDINAL_DIGITS = 15

PLAIN_QUOTES_AND_DASHES = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»″〝〞", '"'),
        **dict.fromkeys("‘’‚‛‹›′`´", "'"),
        **dict.fromkeys("‐‑‒–−﹣－", "-"),
        **dict.fromkeys("—―", " - "),
    }
)

_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}
_ROMAN = re.compile(r"(?=[IVXLC])C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")

_ADDRESS = re.compile(
    r"(?<![\w.+-])[\w.+-]*\w@\w[\w-]*(?:\.[\w-]+)+"
    r"|https?://(?=\w)\S+"
    r"|\bwww\.\w\S*"
    r"|(?<![\w.-])[a-zA-Z0-9][\w-]*(?:\.[\w-]+)*"
    r"\.(?:com|org|net|edu|gov|info|io|dev|ir|co\.uk)\b(?:/\S*)?"
)
_ADDRESS_SCHEME = re.compile(r"^https?://")
_ADDRESS_QUERY = re.compile(r"[?#].*")
_ADDRESS_TAIL = re.compile(r"[^\w/]+$")


def settle(step: Callable[[str], str], text: str) -> str:
    """Repeat step until the text stops changing, since one expansion may expose another."""
    for _ in range(20):
        stepped = step(text)
        if stepped == text:
            break
        text = stepped
    return text


def fold_spaces(text: str) -> str:
    """Turn every run of white space into one space and strip the ends."""
    return " ".join(text.split())


def remove_invisible(text: str, keep: str = JOINERS) -> str:
    """Remove control, format, bidi and surrogate characters, after folding white space."""
    folded = fold_spaces(text)
    return "".join(
        char
        for char in folded
        if char in keep or unicodedata.category(char) not in ("Cc", "Cf", "Cs")
    )


def ascii_numerals(text: str) -> str:
    """Write every numeral that is not a letter with the digits 0 to 9."""
    return "".join(char if char.isascii() else _ascii_numeral(char) for char in text)


def fold_compatibility(text: str) -> str:
    """Apply NFKC, setting a character such as ½ apart so that 2½ does not become 21/2."""
    apart = "".join(
        f" {char} " if unicodedata.decomposition(char).startswith("<fraction>") else char
        for char in text
    )
    return unicodedata.normalize("NFKC", apart)


def keep_speakable(text: str, marks: str) -> str:
    """Replace all but letters, their combining signs and the given marks with a space."""
    kept: list[str] = []
    after_letter = False
    for char in text:
        is_sign = after_letter and unicodedata.category(char).startswith("M")
        after_letter = is_sign or char.isalpha()
        kept.append(char if after_letter or char in marks else " ")
    return "".join(kept)


def tidy_marks(text: str, marks: str) -> str:
    """Keep the strongest mark of each run, where marks lists them strongest first."""

    def strongest(run: re.Match[str]) -> str:
        return min(run.group().replace(" ", ""), key=marks.index) + " "

    return fold_spaces(_mark_run(marks).sub(strongest, fold_spaces(text))).lstrip(marks + " ")


def speak_addresses(text: str, names: Mapping[str, str]) -> str:
    """Read web and e-mail addresses aloud, saying names[char] for their punctuation."""

    def speak(match: re.Match[str]) -> str:
        address = _ADDRESS_QUERY.sub("", _ADDRESS_SCHEME.sub("", match.group()))
        tail = _ADDRESS_TAIL.search(match.group())
        spoken = "".join(
            f" {names[char]} " if char in names else char if char.isalnum() else " "
            for char in _ADDRESS_TAIL.sub("", address).rstrip("/")
        )
        return f" {spoken} " + (tail.group() if tail else "")

    return _ADDRESS.sub(speak, text)


def roman_value(roman: str) -> int | None:
    """Return the value of a Roman numeral, or None."""
    if not _ROMAN.fullmatch(roman):
        return None
    values = [_ROMAN_VALUES[letter] for letter in roman]
    following = [*values[1:], 0]
    return sum(-v if v < after else v for v, after in zip(values, following, strict=True))


def _ascii_numeral(char: str) -> str:
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    value = unicodedata.numeric(char, None)
    if value is None or char.isalpha():
        return char
    return f" {int(value)} " if value >= 0 and value.is_integer() else " "


@cache
def _mark_run(marks: str) -> re.Pattern[str]:
    return re.compile(rf" ?[{re.escape(marks)}][ {re.escape(marks)}]*")


# ---- scripts ---------------------------------------------------------------------------------
# A script is the first word of a character's Unicode name. Languages with a registry entry declare
# theirs there; the table is for the others.

LATIN = frozenset({"LATIN"})
# Languages not listed here are written in Latin.
_SCRIPTS_OF_LANGUAGES = {
    "ar ckb ps sd ug ur": "ARABIC",
    "be bg ky mk mn ru tg uk": "CYRILLIC",
    "am ti": "ETHIOPIC",
    "as bn": "BENGALI",
    "el grc": "GREEK",
    "gu": "GUJARATI",
    "he yi": "HEBREW",
    "hi mr ne sa": "DEVANAGARI",
    "hy": "ARMENIAN",
    "ja": "HIRAGANA KATAKANA CJK KATAKANA-HIRAGANA",
    "ka": "GEORGIAN",
    "kk sr uz": "CYRILLIC LATIN",
    "km": "KHMER",
    "kn": "KANNADA",
    "ko": "HANGUL",
    "lo": "LAO",
    "ml": "MALAYALAM",
    "my": "MYANMAR",
    "or": "ORIYA",
    "pa": "GURMUKHI ARABIC",
    "si": "SINHALA",
    "ta": "TAMIL",
    "te": "TELUGU",
    "th": "THAI",
    "cmn hak yue zh": "CJK BOPOMOFO",
}
_SCRIPTS = {
    language: frozenset(scripts.split())
    for languages, scripts in _SCRIPTS_OF_LANGUAGES.items()
    for language in languages.split()
}


def scripts_of(code: str) -> frozenset[str]:
    """Return the scripts of a language without a registry entry."""
    return _SCRIPTS.get(code.partition("-")[0], LATIN)


def languages_of(script: str) -> list[str]:
    """Return the languages of the table with a script; Latin has none of its own."""
    return [code for code, scripts in _SCRIPTS.items() if script in scripts]


def script_of(letter: str) -> str:
    return unicodedata.name(letter, "unnamed").split()[0]


# ---- languages without rules of their own ---------------------------------------------------

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
        normalize=partial(normalize_general, language=code),
        espeak_voice=espeak_voice,
        scripts=scripts_of(code),
    )


def normalize_general(text: str, language: str) -> str:
    """Return text with numbers as words, where supported, and plain quotes and dashes."""
    return settle(lambda current: _normalize_once(current, language), text)


def _normalize_once(text: str, language: str) -> str:
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
    """Return a number with an ASCII decimal point in words, or None if num2words cannot."""
    base = converter.partition("_")[0]
    if "." in written and base in UNUSABLE_DECIMALS:
        return None
    if written.startswith("-") and base in UNUSABLE_NEGATIVES:
        words = _number_words(written[1:], converter)
        return words and "-" + words
    whole = written.partition(".")[0].lstrip("-")
    by_digit = len(whole) > MAX_CARDINAL_DIGITS or (len(whole) > 2 and whole.startswith("0"))
    pieces = list(written.replace(".", "").lstrip("-")) if by_digit else [written]
    try:
        words = " ".join(str(num2words(_value(piece), lang=converter)) for piece in pieces)
    except CONVERTER_FAILURES:
        return None
    return fold_spaces(words) if words and not any(map(str.isdigit, words)) else None


def _value(written: str) -> int | float:
    # Several converters drop the fraction of a number given as a string or a Decimal.
    return float(written) if "." in written else int(written)
