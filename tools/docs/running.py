"""Runs the blocks of a page that are marked as runnable, as if a reader typed them.

A mark is an HTML comment before a block, invisible to readers:

    <!-- run -->                            every command of the block exits with code 0
    <!-- run: exit=1 -->                    the block exits with this code
    <!-- run: append="--max-steps 2" -->    this is appended to the command
    <!-- run: train="--max-steps 2" -->     this is appended to each `myxtts train` of the block
    <!-- run: slow -->                      only if slow blocks are requested
    <!-- run: python -->                    an indented block of Python; a fenced one states its
    language
    <!-- run: python continues -->          Python that continues the Python block before it
    <!-- file: my.yaml -->                  the block is the content of this file
    <!-- output -->                         the block is what the block before it printed
    <!-- setup
    COMMANDS
    -->                                     prepares what the page assumes (or setup: slow)

Blocks run in order, in one folder with the files of a clone. Each is a separate process: files
persist, variables do not. In a transcript, lines after `$ ` are run and the others are their
output. A line `...` matches any lines, and `...` within a line matches anything.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from commands import PROMPT, is_transcript
from pages import ROOT, Block, Page, Piece

# Files of the clone that commands on a page may use.
_FROM_THE_CLONE = ("configs", "examples", "utilities", "train_main.py")
_LONGEST_SECONDS = 1_800
_TRAINING = re.compile(r"\bmyxtts train\b[^\n\\#]*[^\s\\#]")


class MarkError(Exception):
    """An invalid mark."""


class BlockFailedError(Exception):
    """A block did not behave as its page says."""


@dataclass(frozen=True)
class Step:
    """One action for a page: run a block or a setup, or write a file."""

    place: str
    kind: str
    text: str
    exit_code: int = 0
    slow: bool = False
    append: str = ""
    file: str = ""
    printed: list[str] = field(default_factory=list)


def steps_of(page: Page) -> list[Step]:
    """Return the actions requested by the marks of a page, in order."""
    steps: list[Step] = []
    mark: Piece | None = None
    for part in page.parts:
        if isinstance(part, Block):
            if mark is not None:
                _add_step(steps, mark, part)
            mark = None
            continue
        if mark is not None:
            raise MarkError(f"{mark.place}: no block of code follows '{mark.text}'")
        head, _, script = part.text.partition("\n")
        if head in ("setup", "setup: slow"):
            steps.append(Step(part.place, "shell", script, slow=head != "setup"))
        else:
            mark = part
    if mark is not None:
        raise MarkError(f"{mark.place}: no block of code follows '{mark.text}'")
    return steps


def _add_step(steps: list[Step], mark: Piece, block: Block) -> None:
    name, _, rest = mark.text.partition(":")
    if name == "run":
        python = [step.text for step in steps if step.kind == "python"]
        steps.append(_run_step(mark, rest, block, python[-1:]))
    elif name == "file" and rest.strip():
        steps.append(Step(block.place, "file", block.text, file=rest.strip()))
    elif name == "output" and not rest and steps:
        steps[-1].printed.append(block.text)
    else:
        raise MarkError(
            f"{mark.place}: '{mark.text}' is not a valid mark; see tools/docs/running.py"
        )


def _run_step(mark: Piece, rest: str, block: Block, python_before: list[str]) -> Step:
    kind = "python" if block.language == "python" else "shell"
    text, exit_code, slow, append = block.text, 0, False, ""
    for option in shlex.split(rest):
        key, _, value = option.partition("=")
        if option == "slow":
            slow = True
        elif option == "python":
            kind = "python"
        elif option == "continues" and python_before:
            text = python_before[0] + text
        elif key == "train" and value:
            text = _TRAINING.sub(rf"\g<0> {value}", text)
        elif key == "exit" and value.isdigit():
            exit_code = int(value)
        elif key == "append" and value:
            append = value
        else:
            raise MarkError(f"{mark.place}: '{option}' is not an option of run")
    if is_transcript(block):
        kind = "transcript"
    if append and (kind == "python" or " #" in block.text.rstrip().rpartition("\n")[2]):
        raise MarkError(f"{mark.place}: cannot append to Python or to a comment")
    return Step(block.place, kind, text, exit_code, slow, append)


def make_clone(folder: Path) -> None:
    """Create what a reader has after `make env`: a few files and the command."""
    for name in _FROM_THE_CLONE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, arguments in (("python", ""), ("myxtts", "-m myxtts.cli.main")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o755)


def run_step(step: Step, folder: Path, environment: Mapping[str, str]) -> None:
    if step.kind == "file":
        (folder / step.file).write_text(step.text, encoding="utf-8")
        return
    if step.kind == "transcript":
        *before, (last, expected) = _transcript(step.text)
        for command, printed in before:
            _expect(step, _run(step, command, folder, environment, 0), printed)
        output = _run(step, f"{last} {step.append}", folder, environment, step.exit_code)
        _expect(step, output, expected)
    else:
        text = f"{step.text.rstrip()} {step.append}"
        output = _run(step, text, folder, environment, step.exit_code)
    for printed in step.printed:
        _expect(step, output, printed)


def _transcript(text: str) -> list[tuple[str, str]]:
    """Split a transcript into commands, each with its output."""
    pairs: list[tuple[str, str]] = []
    for part in re.split(rf"^{re.escape(PROMPT)}", text, flags=re.MULTILINE)[1:]:
        # A line that ends with a backslash continues on the next one.
        command, _, output = part.replace("\\\n", " ").partition("\n")
        pairs.append((command, output))
    return pairs


def _run(
    step: Step, text: str, folder: Path, environment: Mapping[str, str], exit_code: int
) -> str:
    program = ["python", "-c", text] if step.kind == "python" else ["bash", "-euc", text]
    done = subprocess.run(
        program,
        cwd=folder,
        env={**environment, "PATH": f"{folder / '.venv' / 'bin'}:{environment['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )
    if done.returncode != exit_code:
        raise BlockFailedError(
            f"{step.place}: exit code {done.returncode}, expected {exit_code}\n\n"
            f"{text.strip()}\n\nprinted:\n\n{done.stdout}"
        )
    return done.stdout


def _expect(step: Step, output: str, expected: str) -> None:
    if not matches(output, expected):
        raise BlockFailedError(
            f"{step.place}: unexpected output\n\nexpected:\n\n{expected}\n\nprinted:\n\n{output}"
        )


def matches(output: str, expected: str) -> bool:
    """Return whether the output is as expected; trailing spaces are ignored."""
    pattern = ""
    for line in expected.strip().splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(map(re.escape, line.rstrip().split("..."))) + "\n"
    printed = "".join(f"{line.rstrip()}\n" for line in output.strip().splitlines())
    return re.fullmatch(pattern, printed) is not None
