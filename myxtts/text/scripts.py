"""Which characters of a normalised text can be said in its language."""

from __future__ import annotations

import functools
import unicodedata

from myxtts.text.phonemes import phoneme_symbols

_LATIN = frozenset({"LATIN"})
# Scripts as the first word of a character's Unicode name; other languages are written in Latin.
_SCRIPTS_OF_LANGUAGES = {
    "ar ckb fa ps sd ug ur": "ARABIC",
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


def unsayable(words: str, language: str, kind: str) -> list[str]:
    """Characters of a normalised text that stay silent or are read as the name of a letter.

    `kind` is text.tokens of the configuration. Graphemes have a sound only as letters of the
    language's script; espeak-ng also reads Latin words, and numbers and signs that it knows.
    """
    return [
        character for character in sorted(set(words)) if not _sayable(character, language, kind)
    ]


def foreign_scripts(text: str, language: str, kind: str) -> list[str]:
    """The scripts of letters that cannot be said, such as Arabic in an English text."""
    letters = unsayable("".join(filter(str.isalpha, text)), language, kind)
    scripts = sorted({_script(letter) for letter in letters})
    return [script if script == "CJK" else script.title() for script in scripts]


def _script(letter: str) -> str:
    return unicodedata.name(letter, "unnamed").split()[0]


@functools.lru_cache(maxsize=16_384)
def _sayable(character: str, language: str, kind: str) -> bool:
    group = unicodedata.category(character)[0]
    if group == "L":
        base = language.replace("_", "-").partition("-")[0].lower()
        known = _SCRIPTS.get(base, _LATIN) | (_LATIN if kind == "phonemes" else frozenset())
        return _script(character) in known or unicodedata.category(character) == "Lm"
    if group in "NS":
        return kind == "phonemes" and bool(phoneme_symbols(character, language))
    return True
