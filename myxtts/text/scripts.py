"""Which scripts languages are written in, and the script of a letter.

A script is the first word of a character's Unicode name. Languages with a registry entry declare
their scripts there; the table is for the others.
"""

from __future__ import annotations

import unicodedata

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
