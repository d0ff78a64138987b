"""GPU ids as users write them: a number, text such as "1,2", or a list.

What is none of these is left alone: the check of the setting's type names it.
"""

from __future__ import annotations

from typing import Any


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
