"""Counters in the text format of Prometheus. Knows nothing of HTTP or speech."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Labels = tuple[tuple[str, str], ...]


class Counter:
    """Grows only; one number for each set of labels."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        self._lock = threading.Lock()
        self._values: dict[_Labels, float] = {}

    def add(self, value: float = 1, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        with self._lock:
            self._values[key] = self._values.get(key, 0) + value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.what, "counter")
        with self._lock:
            values = dict(self._values)
        for labels, value in sorted((values or {(): 0.0}).items()):
            yield _line(self.name, dict(labels), value)


class Gauge:
    """A number that is asked for when it is shown."""

    def __init__(self, name: str, what: str, value: Callable[[], float]) -> None:
        self.name, self.what, self._value = name, what, value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.what, "gauge")
        yield _line(self.name, {}, self._value())


class Histogram:
    def __init__(self, name: str, what: str, bounds: tuple[float, ...]) -> None:
        self.name, self.what, self._bounds = name, what, bounds
        self._lock = threading.Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.what, "histogram")
        with self._lock:
            counts, total = list(self._counts), self._sum
        below = 0
        for bound, count in zip((*self._bounds, float("inf")), counts, strict=True):
            below += count
            edge = "+Inf" if bound == float("inf") else f"{bound:g}"
            yield _line(f"{self.name}_bucket", {"le": edge}, below)
        yield _line(f"{self.name}_sum", {}, total)
        yield _line(f"{self.name}_count", {}, below)


class Metrics:
    """All that a server counts."""

    def __init__(self, in_progress: Callable[[], float]) -> None:
        self.requests = Counter("myxtts_requests_total", "Answers by route and status.")
        self.audio_seconds = Counter("myxtts_audio_seconds_total", "Seconds of speech sent.")
        self.characters = Counter("myxtts_characters_total", "Characters of text accepted.")
        self.hang_ups = Counter("myxtts_hang_ups_total", "Clients that left before the end.")
        self.request_seconds = Histogram(
            "myxtts_speech_seconds",
            "From a request for speech to its last byte.",
            (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
        )
        self.first_byte_seconds = Histogram(
            "myxtts_first_audio_seconds",
            "From a request for speech to its first audio.",
            (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
        )
        self.in_progress = Gauge(
            "myxtts_requests_in_progress", "Requests for speech answered or waiting.", in_progress
        )

    def text(self) -> str:
        return "".join(f"{line}\n" for metric in vars(self).values() for line in metric.lines())


def _head(name: str, what: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {what}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.10g}" if inside else f"{name} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
