"""Settings of the text front end."""

from __future__ import annotations

from myxtts.config.schema import Section, frozen_settings, setting


@frozen_settings
class TextConfig(Section):
    """How text is turned into tokens."""

    section_name = "text"
    tokens: str = setting(
        "phonemes",
        "phonemes (from espeak-ng) need less training data; graphemes need no pronunciation "
        "dictionary.",
        choices=("phonemes", "graphemes"),
    )
    ezafe: bool = setting(
        True, "Say the Persian ezafe where it is not written. Applies to phonemes only."
    )
    default_language: str = setting(
        "en", "Language of corpora without a language column, as a code such as en or fa."
    )
