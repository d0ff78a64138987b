"""One line about work in progress: as much of it as fits into the terminal, the rest left out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.text import Text

_GAP = "  "
_NARROWEST_BAR, _WIDEST_BAR = 6, 24
# Rates are means over the last seconds, remaining times over the last minutes: an evaluation
# in between should not make them jump.
_SECONDS_OF_RATE, _SECONDS_OF_ETA = 10.0, 600.0
_SECONDS_BETWEEN_TICKS = 0.5
# What was counted in one piece says nothing about the pace.
_SHORTEST_SECONDS_OF_RATE = 0.1
# A terminal shows ^C where the line ends; in a line that it wraps, a part would stay on the screen.
_FREE_COLUMNS = 1 + len("^C")


class Pace:
    """How fast something counts up, and how long the rest will take."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ticks: deque[tuple[float, float]] = deque()
        self._last: tuple[float, float] | None = None
        self._resumed = float("-inf")
        self._rate_before_pause: float | None = None

    def tick(self, done: float) -> None:
        now = self._clock()
        self._last = now, done
        if not self._ticks or now - self._ticks[-1][0] >= _SECONDS_BETWEEN_TICKS:
            self._ticks.append((now, done))
        while now - self._ticks[0][0] > _SECONDS_OF_ETA and len(self._ticks) > 1:
            self._ticks.popleft()

    def pause(self) -> None:
        """What comes until `resume` counts for the remaining time but not for the rate."""
        self._rate_before_pause = self.per_second

    def resume(self) -> None:
        self._resumed = self._clock()

    @property
    def per_second(self) -> float | None:
        """Over the last seconds; None before there is anything to go by."""
        return self._rate(_SECONDS_OF_RATE, self._resumed) or self._rate_before_pause

    def seconds_left(self, total: float) -> float | None:
        rate = self._rate(_SECONDS_OF_ETA)
        if rate is None or self._last is None:
            return None
        then, done = self._last
        return max(0.0, (total - done) / rate - (self._clock() - then))

    def _rate(self, window_seconds: float, since: float = float("-inf")) -> float | None:
        if self._last is None:
            return None
        now, done = self._last
        earlier = [tick for tick in self._ticks if tick[1] < done and tick[0] >= since]
        if not earlier:
            return None
        # Steps that take longer than the window: since the one before.
        then, done_then = next(
            (tick for tick in earlier if now - tick[0] <= window_seconds), earlier[-1]
        )
        seconds = now - then
        return (done - done_then) / seconds if seconds >= _SHORTEST_SECONDS_OF_RATE else None


@dataclass
class Stage:
    """One stage of the work. `total` None: nothing to count, only time passes."""

    what: str
    unit: str = ""
    """Singular, as in 1.25 steps/s."""
    done: int = 0
    total: int | None = None
    note: str = ""
    """Takes the place of the rate, such as `evaluating`."""
    details: Sequence[str] = ()
    """In the order of their worth."""
    clock: Callable[[], float] = time.monotonic
    pace: Pace = field(init=False)

    def __post_init__(self) -> None:
        self.pace = Pace(self.clock)
        self._pace_of_time = Pace(self.clock)
        self._total_time = 0.0
        self._started = self.clock()

    def count(self, done: int, total: int, time_of: Callable[[int], float] = float) -> None:
        """`time_of` says how long the first so many take, if not all take as long."""
        self.done, self.total = done, total
        self.pace.tick(done)
        self._pace_of_time.tick(time_of(done))
        self._total_time = time_of(total)

    def pause(self, note: str) -> None:
        """Something else is done in between."""
        self.note = note
        self.pace.pause()

    def resume(self) -> None:
        if self.note:
            self.note = ""
            self.pace.resume()

    def rate(self) -> str:
        rate = self.pace.per_second
        if rate is None:
            return ""
        if rate < 1:
            return f"{1 / rate:.1f} s/{self.unit}"
        return f"{rate:.2f} {self.unit}s/s" if rate < 10 else f"{rate:,.0f} {self.unit}s/s"

    def eta(self) -> str:
        seconds = self._pace_of_time.seconds_left(self._total_time)
        return "" if seconds is None else f"ETA {clock_time(seconds)}"

    def elapsed(self) -> str:
        return clock_time(self.clock() - self._started)

    def as_line(self) -> str:
        """For a log file: everything, without a bar."""
        return _GAP.join(filter(None, [self._head(), self.rate(), self.eta(), *self.details]))

    def as_text(self, width: int, *, ascii_only: bool = False) -> Text:
        """For a terminal of `width` columns; the last ones stay free."""
        width -= _FREE_COLUMNS
        if self.total is None:
            line = _GAP.join([self.what, self.elapsed(), *self.details])
            return _cut(Text(line), width)
        head, after = self._head(), [it for it in (self.note or self.rate(), self.eta()) if it]
        room = width - len(_GAP.join([head, *after]))
        with_bar = room >= _NARROWEST_BAR + len(_GAP)
        room -= (_NARROWEST_BAR + len(_GAP)) * with_bar
        for detail in self.details:
            if len(_GAP + detail) > room:
                break
            after.append(detail)
            room -= len(_GAP + detail)
        text = Text(head)
        if with_bar:
            text.append(_GAP)
            text.append_text(self._bar(min(_WIDEST_BAR, _NARROWEST_BAR + room), ascii_only))
        text.append(_GAP + _GAP.join(after))
        return _cut(text, width)

    def _head(self) -> str:
        return self.what if self.total is None else f"{self.what} {self.done:,}/{self.total:,}"

    def _bar(self, width: int, ascii_only: bool) -> Text:
        filled = round(width * min(1.0, self.done / max(1, self.total or 0)))
        full, empty = ("#", ".") if ascii_only else ("━", "─")
        return Text(full * filled, "green").append(empty * (width - filled), "dim")


def clock_time(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def _cut(text: Text, width: int) -> Text:
    text.truncate(max(1, width), overflow="ellipsis")
    text.no_wrap = True
    return text
