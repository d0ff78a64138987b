"""Finds clips with the same sound, also if one went through another format or level.

A fingerprint tells where in a clip the level of each band rises. It does not change with gain or
compression; two readings of one sentence differ in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from myxtts.collecting.activity import Floats

_SLOTS = 33
# Of unlike clips about half the bits differ.
_MOST_DIFFERENT = 0.2
# The same sound may be cut a few frames earlier or later.
_SAME_LENGTH = 0.03

_BITS_IN_BYTE = np.array([bin(value).count("1") for value in range(256)], np.uint8)


def fingerprint(bands_db: Floats) -> str:
    """Hexadecimal digits; the same number for every clip."""
    edges = np.linspace(0, len(bands_db), _SLOTS + 1).astype(int)
    means = [bands_db[a : max(b, a + 1)].mean(axis=0) for a, b in itertools.pairwise(edges)]
    rises = np.diff(np.stack(means), axis=0) > 0
    return np.packbits(rises).tobytes().hex()


def duplicates(fingerprints: Sequence[str], seconds: Sequence[float]) -> dict[int, int]:
    """Index of each clip that repeats an earlier one, and of that one."""
    if not fingerprints:
        return {}
    bits = np.frombuffer(bytes.fromhex("".join(fingerprints)), np.uint8).reshape(len(seconds), -1)
    lengths = np.asarray(seconds)
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    first_alike = np.searchsorted(ordered, ordered * (1 - _SAME_LENGTH))
    groups = _Groups(len(seconds))
    for place, index in enumerate(order):
        others = order[first_alike[place] : place]
        different = _BITS_IN_BYTE[bits[others] ^ bits[index]].sum(axis=1, dtype=np.int64)
        for other in others[different <= _MOST_DIFFERENT * 8 * bits.shape[1]]:
            groups.join(int(index), int(other))
    return {
        index: first for index in range(len(seconds)) if (first := groups.first(index)) != index
    }


class _Groups:
    """Clips that are alike, each group by its first clip."""

    def __init__(self, count: int) -> None:
        self._first: npt.NDArray[np.int64] = np.arange(count, dtype=np.int64)

    def first(self, index: int) -> int:
        while self._first[index] != index:
            index = int(self._first[index])
        return index

    def join(self, one: int, other: int) -> None:
        one, other = self.first(one), self.first(other)
        self._first[max(one, other)] = min(one, other)
