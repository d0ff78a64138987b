"""The `myxtts` command: finds the subcommand, catches errors, sets the exit code."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from myxtts import __version__
from myxtts.cli.console import LogLines, say_aside, standard_streams
from myxtts.cli.parser import (
    BROKEN_PIPE,
    INTERRUPTED,
    UNEXPECTED_ERROR,
    USER_ERROR,
    CommandParser,
    add_message_flags,
)
from myxtts.errors import MyXTTSError
from myxtts.runs.run_dir import run_or_base
from myxtts.synthesis.voices import VoiceStore
from myxtts.training.interruption import signals_interrupt

# Each is a module of this folder.
_COMMANDS = [
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
]
_SHELLS = ("bash", "zsh", "tcsh", "fish")
# Full disks, quotas and process limits: writing to an open file raises these without a file name.
_MACHINE_LIMITS = {
    *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
}


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    with standard_streams():
        # Import only the command that is used.
        only = arguments[0] if arguments and arguments[0] in _COMMANDS else None
        options = command_parser(only).parse_args(arguments)
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
            return getattr(error, "exit_code", INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - any error must set the exit code
            return report_failure(error, options.command, show_traceback=options.traceback)


def command_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of one."""
    parser = CommandParser(
        prog="myxtts",
        description="Train a voice-cloning text-to-speech model on your recordings, and speak "
        "with it.",
    )
    parser.add_argument("--version", action="version", version=f"myxtts {__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=_SHELLS,
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


def report_failure(error: Exception, command: str, *, show_traceback: bool) -> int:
    if isinstance(error, BrokenPipeError) and _stdout_is_closed():
        return BROKEN_PIPE
    line = _user_message(error)
    if show_traceback or line is None:
        traceback.print_exception(error)
    if line is not None:
        say_aside(f"myxtts {command}: {line}")
        return USER_ERROR
    say_aside(
        f"myxtts {command}: unexpected error, probably a bug in MyXTTS; please report it with "
        "the traceback above"
    )
    return UNEXPECTED_ERROR


def _user_message(error: Exception) -> str | None:
    """Return one line, or None if the user could not fix it."""
    if isinstance(error, MyXTTSError):
        return str(error)
    if isinstance(error, MemoryError):
        return "out of memory; end other programs, or lower data.batch_size or the model's size"
    if not isinstance(error, OSError):
        return None
    reason = error.strerror or str(error)
    if isinstance(error.filename, str | bytes | os.PathLike):
        return " ".join(f"{os.fsdecode(error.filename)}: {reason}".splitlines())
    return reason if error.errno in _MACHINE_LIMITS else None


def _stdout_is_closed() -> bool:
    """Find out whether standard output is the broken pipe by writing one more line."""
    try:
        print(flush=True)
    except BrokenPipeError:
        # Python flushes standard output again at exit and would print an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


class PrintCompletion(argparse.Action):
    """Prints the script and exits, as --version does."""

    def __call__(self, parser: argparse.ArgumentParser, _: Any, shell: Any, *__: Any) -> None:
        import shlex

        import shtab

        store = VoiceStore(run_or_base(None))
        folders = shlex.join(map(str, (store.included, store.folder)))
        voices = f"ls {folders} 2>/dev/null | sed -n s/[.]json$//p"
        for _, command in all_commands(parser):
            for action in command._actions:
                if "--voice" in action.option_strings:
                    action.complete = shtab.cmd(voices)  # type: ignore[attr-defined]
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


if __name__ == "__main__":
    sys.exit(main())
