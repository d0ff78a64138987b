"""`myxtts --print-completion SHELL`: a completion script by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

SHELLS = ("bash", "zsh", "tcsh", "fish")


class PrintCompletion(argparse.Action):
    """Prints the script and exits, as --version does."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        import shtab

        from myxtts.runs.base import run_or_base

        voices = sorted(file.stem for file in (run_or_base(None) / "voices").glob("*.json"))
        for _, command in all_commands(parser):
            for action in command._actions:
                if "--voice" in action.option_strings:
                    action.complete = shtab.cmd(f"echo {' '.join(voices)}")  # type: ignore[attr-defined]
                elif action.nargs != 0 and not action.choices and action.type not in (int, float):
                    action.complete = shtab.FILE  # type: ignore[attr-defined]
        print(shtab.complete(parser, shell))
        parser.exit()


def all_commands(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command by its words, such as `voice add`."""
    # argparse has no public way to ask for subcommands.
    groups = [it for it in parser._actions if isinstance(it, argparse._SubParsersAction)]
    if not groups:
        yield name, parser
    for group in groups:
        for word, command in group.choices.items():
            yield from all_commands(command, f"{name} {word}".strip())
