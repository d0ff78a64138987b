"""Settings of the text front end."""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.schema import Section, setting


@dataclass(frozen=True, kw_only=True)
class TextConfig(Section):
    """How a sentence becomes tokens."""

    section_name = "text"
    tokens: str = setting(
        "phonemes",
        "phonemes (espeak-ng) need less data; graphemes need no pronunciation dictionary.",
        choices=("phonemes", "graphemes"),
    )
    default_language: str = setting(
        "en", "Language of corpora that have no language column, as a code such as en or fa."
    )
