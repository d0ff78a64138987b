"""GPU ids as users write them: a number, text such as "1,2", or a list.

What is none of these is left alone: the check of the setting's type names it.
"""

from __future__ import annotations

from typing import Any

from myxtts.errors import ConfigError


def read_gpu_id(value: Any) -> Any:
    """0, "0" and [0] are 0."""
    if isinstance(value, list | tuple) and len(value) == 1:
        value = value[0]
    return int(value) if isinstance(value, str) and value.strip().isdecimal() else value


def read_gpu_ids(value: Any) -> Any:
    """1 is "1", and [1, 2] is "1,2"."""
    ids = value if isinstance(value, list | tuple) else [value]
    numbers = [read_gpu_id(part) for part in ids]
    if not numbers or any(type(number) is not int for number in numbers):
        return value
    return ",".join(str(number) for number in numbers)


def parse_gpu_ids(name: str, text: str) -> list[int]:
    """The ids in "1,2"; `name` is the setting that has this text."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(
            f'{name}: found {text!r}, expected GPU ids separated by commas; write it like "0,1"'
        )
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        once = ",".join(map(str, sorted(set(ids))))
        raise ConfigError(f'{name}: found {text!r}, expected each id once; write "{once}"')
    return ids


def parse_optional_gpu_ids(name: str, text: str) -> list[int]:
    """The same, where empty text names none."""
    return parse_gpu_ids(name, text) if text.strip() else []
