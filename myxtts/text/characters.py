"""What the normalizers of all languages share: characters, marks, addresses and scripts.

Knows nothing of any language, but which script it is written in.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import cache

HALF_SPACE = "\u200c"
JOINERS = "\u200c\u200d"
LONGEST_CARDINAL = 15

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


def any_of(words: Iterable[str]) -> str:
    """A pattern for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


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
    """The scripts of a language without a registry entry."""
    return _SCRIPTS.get(code.partition("-")[0], LATIN)


def languages_of(script: str) -> list[str]:
    """Languages of the table that are written in a script; Latin has none of its own."""
    return [code for code, scripts in _SCRIPTS.items() if script in scripts]


def script_of(letter: str) -> str:
    return unicodedata.name(letter, "unnamed").split()[0]
