"""Checks commands on pages against the real argument parsers.

Commands of other programs (pip, docker, export) are ignored. Words in capitals (N, DIR, RUN) and
`...` are placeholders.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import io
import itertools
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from pages import ROOT, Block

from myxtts.cli.main import command_parser
from myxtts.config.loading import builtin_names, load_config
from myxtts.errors import ConfigError

PROMPT = "$ "
_SHELL_OPERATORS = ("|", "||", "&", "&&", ";", "<", ">", ">>")
_PLACEHOLDER = re.compile(r"[A-Z]+")
_PROJECT_FILE = re.compile(r"(benchmarks|configs|docs|examples|myxtts|tests|tools|utilities)/\S*\w")
_FORWARDED = {"train_main.py": "train", "utilities/diagnose_retracing.py": "diagnose"}


def commands_of(block: Block) -> list[list[str]]:
    """Return the commands in a shell block; in a transcript, those after a prompt."""
    if block.language not in ("", "bash", "sh", "console"):
        return []
    lines = block.text.replace("\\\n", " ").splitlines()
    if is_transcript(block):
        lines = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    return [words for words in map(words_of, lines) if _is_ours(words)]


def is_transcript(block: Block) -> bool:
    return block.text.startswith(PROMPT)


def problems_of(words: list[str], *, complete: bool) -> Iterator[str]:
    """Return problems of a command; if not `complete`, required arguments may be missing."""
    if not _is_ours(words):
        return
    program, *arguments = words
    if program == "myxtts":
        yield from _myxtts_problems(arguments, complete=complete and "..." not in arguments)
    elif program == "make":
        yield from _make_problems(arguments)
    elif program == "python" and arguments[0] in _FORWARDED:
        forwarded = [_FORWARDED[arguments[0]], *arguments[1:]]
        yield from _myxtts_problems(forwarded, complete=complete)
    elif program == "python" and arguments[0].endswith(".py"):
        known = flags_of_script(ROOT / arguments[0])
        for flag in flags_in(arguments):
            if flag not in known:
                yield f"{arguments[0]} has no {flag}"


def missing_files(text: str) -> Iterator[str]:
    for match in _PROJECT_FILE.finditer(text):
        if match.start() == 0 or text[match.start() - 1] in " \"'(":
            path = match[0].partition("::")[0]
            if not any(ROOT.glob(path)):
                yield f"{path} does not exist"


def known_flags() -> set[str]:
    """Return the flags of all commands, benchmarks, examples and test scripts."""
    folders = ("benchmarks", "examples", "tests/faults")
    scripts = [script for folder in folders for script in ROOT.glob(f"{folder}/*.py")]
    flags = {flag for script in scripts for flag in flags_of_script(script)}
    return flags | {flag for parser in _all_parsers(command_parser()) for flag in _flags(parser)}


def flags_in(arguments: list[str]) -> list[str]:
    # In messages a flag name ends at a colon.
    return [re.split("[=:]", word)[0] for word in arguments if word.startswith("--")]


@functools.cache
def flags_of_script(script: Path) -> set[str]:
    """Parse flags from the source: importing the script would import TensorFlow."""
    if not script.exists():
        return set()
    source = script.read_text(encoding="utf-8")
    # All benchmarks share some flags.
    shared = script.with_name("harness.py")
    inherited = flags_of_script(shared) if "from harness import" in source else set()
    return inherited | {
        argument.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
        for argument in node.args
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("--")
    }


def words_of(line: str) -> list[str]:
    """Split a command into words, without environment variables and redirections."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # An apostrophe in prose, or a quote that continues on another line.
        return []
    while words and (words[0] == "srun" or re.match(r"\w+=", words[0])):
        words.pop(0)
    words = list(itertools.takewhile(lambda word: word not in _SHELL_OPERATORS, words))
    return [words[0].removeprefix(".venv/bin/"), *words[1:]] if words else []


def _is_ours(words: list[str]) -> bool:
    if len(words) < 2:
        return False
    # `myxtts train: ...` is a message, not a call.
    return words[0] in ("myxtts", "make", "python", "pytest") and not words[1].endswith(":")


def _myxtts_problems(arguments: list[str], *, complete: bool) -> Iterator[str]:
    parser = command_parser()
    path = "myxtts"
    for word in list(arguments):
        if (inner := _subparsers(parser).get(word)) is None:
            break
        parser, path = inner, f"{path} {word}"
        arguments = arguments[1:]
    if _subparsers(parser) and arguments and not arguments[0].startswith("-"):
        yield f"{path} has no command {arguments[0]}"
        return
    for flag in flags_in(arguments):
        if flag not in _flags(parser):
            yield f"{path} has no {flag}"
    if complete:
        yield from _parsing_problems(parser, path, arguments)
    for flag, word in itertools.pairwise(arguments):
        if flag == "--config" and _is_a_name(word) and word not in builtin_names():
            yield f"no built-in configuration {word}"
    assignments = [
        word
        for flag, word in itertools.pairwise(arguments)
        if flag == "--set" and not word.startswith("section.")
    ]
    try:
        load_config(assignments=assignments)
    except ConfigError as error:
        yield str(error)


def _is_a_name(word: str) -> bool:
    """Return whether a word is neither the reader's own file nor a placeholder."""
    return not Path(word).suffix and not _PLACEHOLDER.fullmatch(word)


def _parsing_problems(
    parser: argparse.ArgumentParser, path: str, arguments: list[str]
) -> Iterator[str]:
    filled = ["1" if _PLACEHOLDER.fullmatch(word) else word for word in arguments]
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(filled)
    except SystemExit as end:
        if end.code:
            yield f"{path}: {errors.getvalue().splitlines()[-1]}"


def _make_problems(arguments: list[str]) -> Iterator[str]:
    for target in arguments:
        if not target.startswith("-") and "=" not in target:
            tried = subprocess.run(
                ["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False
            )
            if tried.returncode:
                yield f"make {target}: {tried.stderr.strip()}"


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _all_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for inner in _subparsers(parser).values():
        yield from _all_parsers(inner)


def _flags(parser: argparse.ArgumentParser) -> set[str]:
    return set(parser._option_string_actions)
