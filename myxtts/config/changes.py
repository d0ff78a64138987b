"""What differs between two configurations, and what of it a trained model does not survive."""

from __future__ import annotations

from typing import Any, NamedTuple

from myxtts.config.config import XTTSConfig

# Weights and prepared features mean something only with these.
_SECTIONS_OF_THE_MODEL = ("model", "audio", "text")
_SETTINGS_OF_THE_MODEL = ("data.n_mels",)


class Change(NamedTuple):
    name: str
    saved: Any
    given: Any

    @property
    def breaks_the_model(self) -> bool:
        section = self.name.partition(".")[0]
        return section in _SECTIONS_OF_THE_MODEL or self.name in _SETTINGS_OF_THE_MODEL

    def __str__(self) -> str:
        return f"{self.name}: {self.saved} -> {self.given}"


def changes_between(saved: XTTSConfig, given: XTTSConfig) -> list[Change]:
    before, after = saved.as_dict(), given.as_dict()
    return [
        Change(f"{section}.{name}", value, after[section][name])
        for section, values in before.items()
        for name, value in values.items()
        if value != after[section][name]
    ]
