"""Writes docs/en/settings.md and docs/fa/settings.md from the settings themselves.

    python tools/docs/settings_page.py            # writes both pages
    python tools/docs/settings_page.py --check    # fails if they are out of date

Defaults, bounds and English explanations come from myxtts/config, so they are written once. The
Persian explanations are in docs/fa/settings.yaml, each with the digest of the English one it
translates. Without a translation of that digest, the Persian page shows the English explanation.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import inspect
import re
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from myxtts.config.config import OPTIMIZATION_LEVELS, SECTIONS, SIZES, XTTSConfig
from myxtts.config.schema import Section

DOCS = Path(__file__).parents[2] / "docs"
TRANSLATIONS = DOCS / "fa" / "settings.yaml"
TEMPLATES = Path(__file__).parent

_NOT_TRANSLATED = "(هنوز به فارسی برگردانده نشده است)"
_PERSIAN_NUMERALS = str.maketrans("0123456789.,", "۰۱۲۳۴۵۶۷۸۹٫٬")


@dataclasses.dataclass(frozen=True)
class Language:
    """Wording of a page around the explanations."""

    code: str
    columns: tuple[str, str, str, str]
    kinds: Mapping[type, str]
    between: str
    at_least: str
    at_most: str
    comma: str
    or_null: str
    right_to_left: bool = False

    def in_code(self, text: str) -> str:
        """Isolate code in right-to-left text, where punctuation at its edges would change sides."""
        code = f"`{text}`"
        edges_are_letters = text[0].isalnum() and text[-1].isalnum()
        return code if edges_are_letters or not self.right_to_left else _left_to_right(code)

    def one_of(self, choices: Iterable[str]) -> str:
        """Separate choices: adjacent code words would run left to right, last choice first."""
        codes = (f"`{choice}`" for choice in choices)
        return self.comma.join(map(_left_to_right, codes) if self.right_to_left else codes)

    def number(self, value: float) -> str:
        text = f"{int(value) if value == int(value) else value:,}"
        if not self.right_to_left:
            return text
        persian = text.translate(_PERSIAN_NUMERALS)
        return _left_to_right(persian) if value < 0 else persian


ENGLISH = Language(
    code="en",
    columns=("setting", "default", "allowed", "effect"),
    kinds={int: "integer", float: "number", str: "text"},
    between="{kind}, {least} to {most}",
    at_least="{kind} ≥ {least}",
    at_most="{kind} ≤ {most}",
    comma=", ",
    or_null="{allowed}, `null`",
)
PERSIAN = Language(
    code="fa",
    columns=("تنظیم", "پیش‌فرض", "مقدارهای مجاز", "کاری که می‌کند"),
    kinds={int: "عدد صحیح", float: "عدد", str: "متن"},
    between="{kind} از {least} تا {most}",
    at_least="{kind}، {least} یا بیشتر",
    at_most="{kind}، {most} یا کمتر",
    comma="، ",
    or_null="{allowed}، یا `null`",
    right_to_left=True,
)


def english_explanations() -> dict[str, str]:
    """Return explanations by section.key, and those of sections by section name."""
    explanations = {}
    for name, section in SECTIONS.items():
        explanations[name] = inspect.getdoc(section) or ""
        for field in _fields(section):
            explanations[f"{name}.{field.name}"] = field.metadata["explanation"]
    return explanations


def persian_explanations(english: Mapping[str, str], file: Path = TRANSLATIONS) -> dict[str, str]:
    """Return explanations in Persian; those without a current translation are in English."""
    entries: dict[str, dict[str, str]] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {
        key: entries[key]["fa"]
        if key in entries and str(entries[key]["of"]) == digest_of(text)
        else f"{_left_to_right(text)} {_NOT_TRANSLATED}"
        for key, text in english.items()
    }


def digest_of(explanation: str) -> str:
    # The letter keeps YAML from parsing digits as a number.
    return "e" + hashlib.sha256(explanation.encode()).hexdigest()[:7]


def page(language: Language, explanations: Mapping[str, str]) -> str:
    template = (TEMPLATES / f"settings.{language.code}.md").read_text(encoding="utf-8")
    sections = [
        f"## `{name}`\n\n{explanations[name]}\n\n{_settings_table(language, name, explanations)}"
        for name in SECTIONS
    ]
    return (
        template.replace("{sections}", "\n\n".join(sections))
        .replace("{sizes}", _presets_table(language, "size", list(SIZES)))
        .replace(
            "{levels}", _presets_table(language, "optimization_level", list(OPTIMIZATION_LEVELS))
        )
    )


def _settings_table(language: Language, section: str, explanations: Mapping[str, str]) -> str:
    hints = typing.get_type_hints(SECTIONS[section])
    rows = []
    for field in _fields(SECTIONS[section]):
        key = f"{section}.{field.name}"
        allowed = _allowed(language, hints[field.name], field.metadata)
        default = language.in_code(_as_yaml(field.default))
        rows.append((f"`{key}`", default, allowed, _escaped(explanations[key])))
    return _table(language.columns, rows)


def _allowed(language: Language, hint: Any, bounds: Mapping[str, Any]) -> str:
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    kind = next(kind for kind in kinds if kind is not types.NoneType)
    choices = ("true", "false") if kind is bool else bounds["choices"]
    if choices:
        allowed = language.one_of(choices)
    else:
        allowed = _bounded(language, language.kinds[kind], *bounds["bounds"])
    return language.or_null.format(allowed=allowed) if types.NoneType in kinds else allowed


def _bounded(language: Language, kind: str, least: float | None, most: float | None) -> str:
    if least is None and most is None:
        return kind
    if most is None:
        form = language.at_least
    else:
        form = language.at_most if least is None else language.between
    ends = {
        name: language.number(end)
        for name, end in (("least", least), ("most", most))
        if end is not None
    }
    return form.format(kind=kind, **ends)


def _presets_table(language: Language, chooser: str, presets: list[str]) -> str:
    """Tabulate the settings in which the presets differ."""
    resolved = [XTTSConfig(**{chooser: preset}).as_dict() for preset in presets]
    rows = []
    for section, section_class in SECTIONS.items():
        for name in (field.name for field in _fields(section_class) if field.name != chooser):
            values = [config[section][name] for config in resolved]
            if any(value != values[0] for value in values):
                shown = (language.in_code(_as_yaml(value)) for value in values)
                rows.append((f"`{section}.{name}`", *shown))
    return _table((language.columns[0], *(f"`{name}`" for name in presets)), rows)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head, *lines = (f"| {' | '.join(cells)} |" for cells in (columns, *rows))
    return "\n".join([head, "|---" * len(columns) + "|", *lines])


def _fields(section: type[Section]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(section)  # type: ignore[arg-type]


def _as_yaml(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def _left_to_right(text: str) -> str:
    return f'<span dir="ltr">{text}</span>'


def _with_names_in_code(explanations: Mapping[str, str]) -> dict[str, str]:
    """Format setting names in an explanation as code."""
    names = {key.partition(".")[2] for key in explanations if "_" in key} | {"null"}
    names |= {key for key in explanations if "." in key}

    def mark(match: re.Match[str]) -> str:
        return f"`{match[0]}`" if match[0] in names else match[0]

    # Existing code is matched as a whole and left unchanged.
    words = re.compile(r"`[^`]*`|[a-z0-9_]+(?:\.[a-z0-9_]+)?")
    return {key: words.sub(mark, text) for key, text in explanations.items()}


def pages() -> dict[Path, str]:
    english = english_explanations()
    return {
        DOCS / "en" / "settings.md": page(ENGLISH, _with_names_in_code(english)),
        DOCS / "fa" / "settings.md": page(PERSIAN, persian_explanations(english)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, fail if stale")
    options = parser.parse_args()
    made = pages()
    stale = [
        file
        for file, text in made.items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    if options.check and stale:
        raise SystemExit(f"{', '.join(map(str, stale))}: not up to date; run make docs")
    for file in stale:
        file.write_text(made[file], encoding="utf-8")


if __name__ == "__main__":
    main()
