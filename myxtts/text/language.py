"""The registry entry of a language, created in the language's own module.

Knows nothing of tags and other languages; `text.languages` finds the entry for a tag.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

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
