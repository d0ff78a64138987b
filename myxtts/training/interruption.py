"""Ctrl-C, SIGTERM and SIGHUP: finish the step and save, or quit if there is nothing to save.

| when | first signal | a Ctrl-C after it |
|---|---|---|
| before the first step | quits | quits immediately |
| while training | `requested`: the loop saves and stops | quits; the last checkpoint stays intact |

Python handles signals only between bytecode instructions, and a compilation is a single one that
takes minutes. A thread woken by the wakeup file descriptor reacts without that delay.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_log = logging.getLogger(__name__)

# A terminal that is closed sends SIGHUP. There is none on Windows.
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_SECONDS_TO_UNWIND = 3.0
_SHOW_CURSOR = b"\x1b[?25h"


class InterruptedBySignal(KeyboardInterrupt):
    """A signal before there is anything to save."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.exit_code = exit_code_of_signal(number)


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: it unwinds and cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    others = [number for number in _SIGNALS if number != signal.SIGINT]
    before = {number: signal.getsignal(number) for number in others}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise InterruptedBySignal(signal.Signals(number))


class Interruption:
    """Handles these signals inside its `with`, if that is in the main thread."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        """The signal that asks training to stop after the current step."""
        self._is_training = False
        self._handlers_before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interruption:
        if threading.current_thread() is not threading.main_thread():
            return self
        self._end, start = os.pipe()
        os.set_blocking(start, False)
        self._start = start
        self._handlers_before = {
            number: signal.signal(number, self._on_signal)
            for number in _SIGNALS
            # nohup makes a program ignore SIGHUP, so that it survives its terminal.
            if number == signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN
        }
        self._wakeup_before = signal.set_wakeup_fd(start, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="signals", daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._handlers_before:
            return
        signal.set_wakeup_fd(self._wakeup_before)
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        os.close(self._start)
        self._watcher.join()
        os.close(self._end)

    @property
    def requested(self) -> bool:
        """Whether training should stop after the current step."""
        return self.signal is not None

    def begin_training(self) -> None:
        """Save on signals from here on."""
        self._is_training = True

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._is_training:
            raise InterruptedBySignal(signal.Signals(number))
        self.signal = self.signal or signal.Signals(number)

    def _watch(self) -> None:
        first = True
        while numbers := os.read(self._end, 1):
            # Other signals with a Python handler arrive here too.
            if numbers[0] not in _SIGNALS:
                continue
            if not first and numbers[0] == signal.SIGINT:
                _quit_now(numbers[0])
            if first and self._is_training:
                again = " again" if numbers[0] == signal.SIGINT else ""
                _log.warning(
                    "Stopping after this step and saving. Press Ctrl-C%s to quit now.", again
                )
            elif first and not self._unwinds():
                _quit_now(numbers[0])
            first = False

    def _unwinds(self) -> bool:
        """Return whether the main thread reacts in time, or another signal arrives."""
        ready, _, _ = select.select([self._end], [], [], _SECONDS_TO_UNWIND)
        return bool(ready) or self.requested


def _quit_now(number: int) -> None:
    # A new line after the ^C that the terminal shows.
    start = _SHOW_CURSOR + b"\n" if os.isatty(2) else b""
    with contextlib.suppress(OSError):  # the terminal may be gone
        os.write(2, start + b"myxtts: interrupted\n")
    os._exit(exit_code_of_signal(number))


def exit_code_of_signal(number: int) -> int:
    """Return the exit code with which a shell reports a process that the signal ended."""
    return 128 + number
