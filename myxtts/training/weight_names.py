"""User-facing names of weights, such as decoder/block_0/expand/kernel.

A name includes all weights below it: `decoder` is the whole decoder. `decoder.block_0` is the same
as `decoder/block_0`, and `*` and `?` are wildcards.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Iterable

from myxtts.config.schema import did_you_mean
from myxtts.errors import ConfigError

_MODEL = "xtts/"


def short_name(path: str) -> str:
    """A variable's path without the model's own name."""
    return path.removeprefix(_MODEL)


def frozen_paths(freeze: str | None, paths: Iterable[str]) -> frozenset[str]:
    """The paths that match training.freeze; a name without a match is an error."""
    names = {short_name(path): path for path in paths}
    patterns = [
        short_name(pattern.strip().replace(".", "/")) for pattern in (freeze or "").split(",")
    ]
    frozen: set[str] = set()
    for pattern in filter(None, patterns):
        found = [path for name, path in names.items() if _is_below(name, pattern)]
        if not found:
            parts = dict.fromkeys(name.partition("/")[0] for name in names)
            hint = did_you_mean(pattern, dict.fromkeys(itertools.chain(*map(_levels, names))))
            raise ConfigError(
                f"training.freeze: no part of the model is called '{pattern}'{hint or ';'} "
                f"its parts are {', '.join(parts)}"
            )
        frozen.update(found)
    if len(frozen) == len(names):
        raise ConfigError(f"training.freeze: found {freeze!r}, which leaves nothing to train")
    return frozenset(frozen)


def _is_below(name: str, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(level, pattern) for level in _levels(name))


def _levels(name: str) -> list[str]:
    """a/b/c: a, a/b, a/b/c."""
    return list(itertools.accumulate(name.split("/"), lambda above, own: f"{above}/{own}"))
