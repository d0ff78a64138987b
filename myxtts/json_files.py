"""Reads JSON that others have written, and checks it against a schema.

A schema is built like what it describes:

    str, int, float, bool    a value of that type; a float may be written as an integer
    (float, None)            one of several
    [str]                    a list of any length
    {str: float}             an object with any names
    {"step": int, "best?": str, str: float}    names that must and may be there, and all others

Without `str:` other names are left alone. Numbers are finite and fit into 64 bits. Problems are
ValueErrors that name the place. Knows no particular file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from myxtts.plain_files import read_plain

_MOST_BYTES = 1 << 24
_INTEGERS = range(-(1 << 63), 1 << 63)
_SHOWN_CHARACTERS = 40


def read_json(file: Path, schema: Any, *, most_bytes: int = _MOST_BYTES) -> Any:
    """The content of a file that is not behind a link; OSError or ValueError."""
    return parse_json(read_plain(file, most_bytes), schema)


def parse_json(text: str | bytes, schema: Any) -> Any:
    try:
        content = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(content, schema, "")
    return content


def _refuse_constant(name: str) -> None:
    raise ValueError(f"found {name}, which is not JSON")


def _check(value: Any, schema: Any, place: str) -> None:
    if isinstance(schema, tuple):
        if not any(_has_kind(value, one) for one in schema):
            raise _unexpected(value, schema, place)
        schema = next(one for one in schema if _has_kind(value, one))
    elif not _has_kind(value, schema):
        raise _unexpected(value, (schema,), place)
    if isinstance(schema, list):
        for index, item in enumerate(value):
            _check(item, schema[0], f"{place}[{index}]")
    elif isinstance(schema, dict):
        _check_object(value, schema, place)


def _check_object(value: dict[str, Any], schema: dict[Any, Any], place: str) -> None:
    known = {
        name.removesuffix("?"): (name, kind) for name, kind in schema.items() if name is not str
    }
    for name, (spelt, kind) in known.items():
        if name in value:
            _check(value[name], kind, f"{place}.{name}".lstrip("."))
        elif spelt == name:
            raise ValueError(f"{_shown(place)}'{name}' is missing")
    for name in value if str in schema else ():
        if name not in known:
            _check(value[name], schema[str], f"{place}.{name[:_SHOWN_CHARACTERS]}".lstrip("."))


def _has_kind(value: Any, schema: Any) -> bool:
    if schema is None:
        return value is None
    if isinstance(schema, list | dict):
        return type(value) is type(schema)
    if schema is float:
        return type(value) in (int, float) and _is_finite(value)
    if schema is int:
        return type(value) is int and value in _INTEGERS
    return type(value) is schema


def _is_finite(value: float) -> bool:
    return value in _INTEGERS if isinstance(value, int) else math.isfinite(value)


def _unexpected(value: Any, kinds: tuple[Any, ...], place: str) -> ValueError:
    expected = " or ".join(map(_name_of, kinds))
    if type(value) in (int, float):
        return ValueError(f"{_shown(place)}found a number out of range, expected {expected}")
    return ValueError(f"{_shown(place)}found {_name_of(type(value))}, expected {expected}")


def _shown(place: str) -> str:
    return f"{place}: " if place else ""


def _name_of(kind: Any) -> str:
    if isinstance(kind, list) or kind is list:
        return "a list"
    if isinstance(kind, dict) or kind is dict:
        return "an object"
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(kind, "null")
