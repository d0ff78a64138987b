"""What the program knows of a language: an entry, made in the language's own file.

It knows no tags and no other languages; `text.languages` finds the entry that a tag means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

from myxtts.text.sentences import SentenceRules


def _as_it_is(text: str) -> str:
    return text


@dataclass(frozen=True, kw_only=True)
class Language:
    code: str
    """Its tag in canonical form, such as en or pt-br: what corpora, vocabularies and runs hold."""
    names: tuple[str, ...] = ()
    """In English, for whoever writes one of them instead of the tag."""
    normalise: Callable[[str], str]
    """Written text to the words that a reader would say, in one standard spelling."""
    normalise_for_phonemes: Callable[[str], str] | None = None
    """The same, with what tells espeak-ng more than the standard spelling does."""
    respell_for_espeak: Callable[[str], str] = _as_it_is
    """Normalised text to a spelling that espeak-ng reads right."""
    espeak_voice: str
    scripts: frozenset[str]
    """As in `text.scripts`."""
    sentences: SentenceRules = dataclasses.field(default_factory=SentenceRules)
    greeting: str = ""
    """A word to try the voice with."""
    demo_file: str | None = None
    """Sentences for the demo corpus, one on each line, in the folder demo_sentences."""

    @property
    def base(self) -> str:
        """The language without its variety: en of en-gb."""
        return self.code.partition("-")[0]

    def variety(self, code: str, espeak_voice: str) -> Language:
        """The same language as it is spoken elsewhere."""
        return dataclasses.replace(self, code=code, espeak_voice=espeak_voice)

    def demo_sentences(self) -> list[str]:
        if self.demo_file is None:
            return []
        file = resources.files("myxtts.text") / "demo_sentences" / self.demo_file
        return [line for line in file.read_text(encoding="utf-8").split("\n") if line]
