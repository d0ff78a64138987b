"""Size of the prefetch buffer: from workers and memory at first, then adapted during training."""

from __future__ import annotations

# Number of steps between adjustments.
WINDOW_STEPS = 100
_LEAST = 4
# If a buffer this much larger still runs empty, the source is too slow; more space does not help.
_MOST_GROWTH = 4


def initial_size(wanted: int, workers: int, room_bytes: int | None, batch_bytes: int) -> int:
    """The configured size, but at least one batch per worker and no more than fits memory."""
    size = max(wanted, workers)
    if room_bytes is not None:
        size = min(size, max(1, room_bytes // batch_bytes))
    return size


class AdaptiveSize:
    """Doubles if the model waited for data, halves if the buffer stayed more than half full.

    Once it has grown, it does not shrink again. If the buffer was not full between two waits, the
    source is slower than the model; otherwise it is only uneven.
    """

    def __init__(self, size: int, workers: int, most: int) -> None:
        self.size = size
        self._least = min(size, max(_LEAST, 2 * workers))
        self._most = max(size, min(most, _MOST_GROWTH * size))
        self._steps = self._waits = 0
        self._lowest_fill = size
        self._has_grown = False
        self.change: str | None = None
        """The last change of the size and its reason, until somebody announces it."""
        self._was_full = False
        self._waits_after_full = self._waits_without = 0

    @property
    def source_is_slow(self) -> bool:
        return self._waits_without > self._waits_after_full

    def after_step(self, fill: int, waited: bool) -> int:
        """The size for the next steps; `fill` is the number of ready batches before taking one."""
        self._steps += 1
        self._waits += waited
        self._lowest_fill = min(self._lowest_fill, fill)
        self._was_full = self._was_full or fill >= self.size
        if waited:
            self._waits_after_full += self._was_full
            self._waits_without += not self._was_full
            self._was_full = False
        if self._steps < WINDOW_STEPS:
            return self.size
        before, waits, lowest = self.size, self._waits, self._lowest_fill
        if waits:
            self.size = min(2 * self.size, self._most)
        elif lowest > self.size // 2 and not self._has_grown:
            self.size = max(self.size // 2, self._least)
        if self.size != before:
            self._has_grown = self.size > before
            reason = (
                f"the model waited for data in {waits} of {WINDOW_STEPS} steps"
                if waits
                else f"at least {lowest} batches were always ready in {WINDOW_STEPS} steps"
            )
            self.change = f"Prefetch buffer: {self.size} batches instead of {before}, {reason}"
        self._steps = self._waits = 0
        self._lowest_fill = self.size
        return self.size
