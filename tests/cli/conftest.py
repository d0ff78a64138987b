"""A program in a pseudo-terminal, and what a user sees there: also after a change of width."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
from collections.abc import Callable

import pytest

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_CONTROL = re.compile(r"\x1b\[(\??)(\d*)([A-Za-z])")


class Screen:
    """The rows of a terminal that wraps its lines again when it is resized.

    Lines are kept whole and cut into rows where they are shown. It knows the few control
    sequences that a live line uses; any other is an error.
    """

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.cursor_is_shown = True
        self._lines = [""]
        self._line, self._offset = 0, 0

    def feed(self, output: str) -> None:
        output = _COLOUR.sub("", output)
        while output:
            control = _CONTROL.match(output)
            if control is not None:
                self._control(control)
                output = output[control.end() :]
            else:
                self._put(output[0])
                output = output[1:]

    def rows(self) -> list[str]:
        rows = [row.rstrip() for line in self._lines for row in self._rows_of(line)]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def _rows_of(self, line: str) -> list[str]:
        return [line[at : at + self.columns] for at in range(0, max(1, len(line)), self.columns)]

    def _put(self, character: str) -> None:
        if character == "\n":
            self._down()
        elif character == "\r":
            self._offset -= self._offset % self.columns
        else:
            assert character.isprintable(), repr(character)
            line = self._lines[self._line].ljust(self._offset)
            self._lines[self._line] = line[: self._offset] + character + line[self._offset + 1 :]
            self._offset += 1

    def _control(self, control: re.Match[str]) -> None:
        private, number, letter = control.groups()
        if private:
            assert number == "25", control[0]
            self.cursor_is_shown = letter == "h"
        elif letter == "A":
            for _ in range(int(number or 1)):
                self._up()
        elif letter == "K":
            assert number == "2", control[0]
            self._erase_row()
        else:
            raise AssertionError(control[0])

    def _down(self) -> None:
        if self._offset // self.columns < len(self._rows_of(self._lines[self._line])) - 1:
            self._offset += self.columns
            return
        self._line, self._offset = self._line + 1, self._offset % self.columns
        if self._line == len(self._lines):
            self._lines.append("")

    def _up(self) -> None:
        if self._offset >= self.columns:
            self._offset -= self.columns
        elif self._line:
            self._line -= 1
            rows = len(self._rows_of(self._lines[self._line]))
            self._offset = self._offset % self.columns + (rows - 1) * self.columns

    def _erase_row(self) -> None:
        first = self._offset - self._offset % self.columns
        line = self._lines[self._line]
        blank = " " * len(line[first : first + self.columns])
        erased = line[:first] + blank + line[first + self.columns :]
        self._lines[self._line] = erased.rstrip()


class Terminal:
    """A program that says "ready" on its standard input's other end when a scene is drawn."""

    def __init__(self, command: list[str], columns: int, environment: dict[str, str]) -> None:
        self.screen = Screen(columns)
        self._master, slave = os.openpty()
        self._resize(columns)
        ready, tell_ready = os.pipe()
        environment = environment | {"TERM": "xterm-256color", "READY_FD": str(tell_ready)}
        for name in ("COLUMNS", "XTERM_VERSION", "STY", "NO_COLOR", "FORCE_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=slave,
            stderr=slave,
            pass_fds=[tell_ready],
            env=environment,
        )
        os.close(slave)
        os.close(tell_ready)
        self._ready = ready

    def next_scene(self) -> list[str]:
        """The rows once the program is ready for the next scene, or has ended."""
        os.read(self._ready, 1)
        self._read()
        rows = self.screen.rows()
        self._go_on()
        return rows

    def resize(self, columns: int) -> None:
        self._read()
        self._resize(columns)
        self.screen.columns = columns

    def close(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(timeout=900)
        os.close(self._master)
        os.close(self._ready)
        return code

    def _go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def _resize(self, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def _read(self) -> None:
        output = b""
        while select.select([self._master], [], [], 0.2)[0]:
            try:
                output += os.read(self._master, 65_536)
            except OSError:  # the program has ended
                break
        self.screen.feed(output.decode())


@pytest.fixture
def open_terminal(user_environment: dict[str, str]) -> Callable[[list[str], int], Terminal]:
    """Starts a program in a terminal of so many columns."""
    return lambda command, columns: Terminal(command, columns, user_environment)
