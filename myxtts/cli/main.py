"""The `myxtts` command: finds the subcommand, catches errors, sets the exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib import import_module

from myxtts import __version__
from myxtts.cli.completion import SHELLS, PrintCompletion
from myxtts.cli.console import LogLines, say_aside, standard_streams
from myxtts.cli.exit_codes import INTERRUPTED
from myxtts.cli.failures import report_failure
from myxtts.cli.options import add_message_flags
from myxtts.cli.parser import CommandParser
from myxtts.training.interruption import signals_interrupt

# Each is a module of this folder.
_COMMANDS = (
    "demo-data",
    "collect",
    "review",
    "validate",
    "stats",
    "prepare",
    "diagnose",
    "tune",
    "train",
    "voice",
    "synthesize",
    "serve",
    "evaluate",
    "compare",
    "dashboard",
    "export",
    "doctor",
)


def main(arguments: Sequence[str] | None = None) -> int:
    with standard_streams():
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = command_parser(_named_first(arguments)).parse_args(arguments)
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=logging.INFO, handlers=[LogLines(level)])
    for library in ("tensorflow", "absl"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        with signals_interrupt():
            result: int = options.run(options)
        # Output that cannot be written is an error of the command, not of Python's exit.
        if sys.stdout is not None:
            sys.stdout.flush()
        return result
    except KeyboardInterrupt as error:
        if sys.stderr is not None and sys.stderr.isatty():
            say_aside("")  # after the ^C that the terminal shows
        say_aside(f"myxtts {options.command}: interrupted")
        # Commands that handle signals say which one it was.
        return getattr(error, "exit_code", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - any error must set the exit code
        return report_failure(error, options.command, show_traceback=options.traceback)


def command_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Of all commands, or of one: a command need not wait until the others are imported."""
    parser = CommandParser(
        prog="myxtts",
        description="Train a voice-cloning text-to-speech model on your recordings, and speak "
        "with it.",
    )
    parser.add_argument("--version", action="version", version=f"myxtts {__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        default=argparse.SUPPRESS,
        help="print a script that completes commands, flags and voices in your shell",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in _COMMANDS if only is None else (only,):
        module = import_module(f"myxtts.cli.{name.replace('-', '_')}")
        command = module.add_parser(commands)
        add_message_flags(command)
        command.set_defaults(run=module.run)
    return parser


def _named_first(arguments: Sequence[str]) -> str | None:
    return arguments[0] if arguments and arguments[0] in _COMMANDS else None


if __name__ == "__main__":
    sys.exit(main())
