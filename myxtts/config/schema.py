"""Settings with a default, an explanation and bounds, checked when a section is created."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from myxtts.errors import ConfigError
from myxtts.files import is_text

# Largest integer; counts of steps, bytes and clips are far smaller.
_MAX_BITS = 62
# Larger numbers are infinite in float32.
_MAX_FLOAT = 3.4e38
_Settings = typing.TypeVar("_Settings")

# Explicit settings by section and name.
Layer = dict[str, dict[str, Any]]


def setting(
    default: Any,
    explanation: str,
    *,
    choices: tuple[str, ...] | None = None,
    bounds: tuple[float, float | None] | None = None,
    read: Callable[[Any], Any] | None = None,
    check: Callable[[str, Any], Any] | None = None,
) -> Any:
    """Declare a setting with its explanation and bounds; the settings pages show these.

    `read` converts other notations of a value to the declared type and returns the rest unchanged.
    `check` gets the name and value of the setting, if it is set, and raises a ConfigError.
    """
    facts = {"explanation": explanation, "choices": choices, "bounds": bounds or (None, None)}
    return dataclasses.field(default=default, metadata=facts | {"read": read, "check": check})


@typing.dataclass_transform(frozen_default=True, kw_only_default=True)
def frozen_settings(cls: type[_Settings]) -> type[_Settings]:
    """Make a frozen, keyword-only dataclass whose fields suggest `with_` when assigned to."""
    has_own_init = "__init__" in vars(cls)
    cls = dataclasses.dataclass(frozen=True, kw_only=True, init=not has_own_init)(cls)
    section = f"{cls.section_name}." if issubclass(cls, Section) else ""

    def refuse(self: Any, name: str, value: Any) -> None:
        shown = "..." if isinstance(value, Section) else repr(value)
        raise ConfigError(
            f"{section}{name}: settings cannot be assigned; write config = "
            f"config.with_({name}={shown})"
        )

    cls.__setattr__ = refuse  # type: ignore[method-assign]
    if not has_own_init:
        _refuse_unknown_names(cls, section)
    return cls


def _refuse_unknown_names(cls: type, section: str) -> None:
    """Make a wrong keyword a ConfigError that names the nearest setting, not a TypeError."""
    make = cls.__init__  # type: ignore[misc]
    known = [field.name for field in dataclasses.fields(cls)]

    @functools.wraps(make)
    def init(self: Any, **settings: Any) -> None:
        for name in settings.keys() - set(known):
            hint = did_you_mean(name, known)
            raise ConfigError(f"unknown setting '{section}{name}'{hint}")
        make(self, **settings)

    cls.__init__ = init  # type: ignore[misc]


class Section:
    """Checks the type and bounds of each value; errors name the setting."""

    section_name: typing.ClassVar[str]

    def __post_init__(self) -> None:
        hints = _type_hints(type(self))
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            key = f"{self.section_name}.{field.name}"
            read = field.metadata["read"] or _as_it_is
            value = _coerce(key, read(getattr(self, field.name)), hints[field.name])
            _check_allowed(key, value, field.metadata)
            if field.metadata["check"] and value is not None:
                field.metadata["check"](key, value)
            object.__setattr__(self, field.name, value)


def _as_it_is(value: Any) -> Any:
    return value


def _type_hints(section: type) -> dict[str, Any]:
    return typing.get_type_hints(section)


def _coerce(key: str, value: Any, hint: Any) -> Any:
    """Convert to the declared type; a float may be an integer, or text such as 1e-4 in YAML."""
    allowed = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if value is None and types.NoneType in allowed:
        return None
    kind = next(item for item in allowed if item is not types.NoneType)
    if type(value) is int and value.bit_length() > _MAX_BITS:
        raise ConfigError(
            f"{key}: found a number of {value.bit_length()} bits, expected a smaller one"
        )
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind is float and isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if type(value) is float and not abs(value) <= _MAX_FLOAT:
        problem = "a smaller" if math.isfinite(value) else "a finite"
        raise ConfigError(f"{key}: found {value}, expected {problem} number")
    if type(value) is str and ("\0" in value or not is_text(value)):
        raise ConfigError(f"{key}: found {value!r}, which is not UTF-8 text")
    if type(value) is not kind:
        expected = " or ".join(
            "null" if item is types.NoneType else item.__name__ for item in allowed
        )
        raise ConfigError(f"{key}: found {value!r} ({type(value).__name__}), expected {expected}")
    return value


def _check_allowed(key: str, value: Any, facts: Mapping[str, Any]) -> None:
    choices, (low, high) = facts["choices"], facts["bounds"]
    if value is None:
        return
    if choices and value not in choices:
        hint = did_you_mean(str(value), choices)
        raise ConfigError(f"{key}: found {value!r}, allowed: {', '.join(choices)}{hint}")
    if low is not None and not value >= low:
        raise ConfigError(f"{key}: found {value}, allowed: {low:g} or more")
    if high is not None and not value <= high:
        raise ConfigError(f"{key}: found {value}, allowed: {high:g} or less")


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or nothing when no valid name is close."""
    near = nearest(name, valid)
    return f"; did you mean '{near}'?" if near else ""


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the closest name: by spelling first, then as an abbreviation, then by similarity."""
    names = list(valid)
    found = (
        difflib.get_close_matches(name, names, n=1, cutoff=0.8)
        or [full for full in names if _abbreviates(name, full)]
        or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    )
    return found[0] if found else None


def _abbreviates(name: str, full: str) -> bool:
    """Match abbreviations: lr is learning_rate, grad_accum gradient_accumulation_steps."""
    parts, words = re.split("[_-]", name), re.split("[_-]", full)
    if len(words) > 1 and name == "".join(word[:1] for word in words):
        return True
    starts = all(word.startswith(part) for part, word in zip(parts, words, strict=False))
    return len(name) > 2 and len(parts) <= len(words) and starts
