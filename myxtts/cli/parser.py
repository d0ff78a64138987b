"""The argument parser of every command: a mistake is one line that suggests what was meant."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from myxtts.cli.exit_codes import USER_ERROR
from myxtts.cli.help_text import HelpWithDefaults, sort_flags
from myxtts.config.config import section_by_setting
from myxtts.config.names import did_you_mean, nearest
from myxtts.wording import printable

CORPUS_ARGUMENT, RUN_ARGUMENT = "corpus_argument", "run_argument"
# argparse names a flag with all its spellings: --text-file/--text_file.
_OTHER_SPELLINGS = re.compile(r"(?<=[\w])(/--?[\w-]+)+(?=:|$)")
_NO_NUMBER = re.compile(r"invalid (int|float) value: (.*)")
_SAME_AS_FLAG = {CORPUS_ARGUMENT: "train_data", RUN_ARGUMENT: "checkpoint"}


class CommandParser(argparse.ArgumentParser):
    """argparse with suggestions, and without the usage before each error.

    The methods with an underscore are argparse's own, the same in every Python since 3.11.
    """

    why_no_language: str | None = None
    """Of a command for which a language would mean nothing: told where --language is given."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"formatter_class": HelpWithDefaults} | options))

    def format_help(self) -> str:
        sort_flags(self)
        if self.why_no_language is not None:
            self.epilog = f"There is no --language: {self.why_no_language}."
        return super().format_help()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        # Before parsing, which complains of a required flag first, though it was only misspelt.
        args = sys.argv[1:] if args is None else args
        for flag in self._flags_in(args):
            if not any(known.startswith(flag) for known in self._option_string_actions):
                self.error(f"unknown flag {flag}{self._hint(flag)}")
        found, rest = super().parse_known_args(args, namespace)
        for argument, flag in _SAME_AS_FLAG.items():
            self._merge(found, argument, flag)
        return found, rest

    def _merge(self, found: argparse.Namespace, argument: str, flag: str) -> None:
        """An argument that is also a flag is the flag's value."""
        value, before = vars(found).pop(argument, None), getattr(found, flag, None)
        if value is None:
            return
        if before not in (None, value):
            name = f"--{flag.replace('_', '-')}"
            self.error(f"found {value} and {name} {before}; give one of them")
        setattr(found, flag, value)

    def error(self, message: str) -> NoReturn:
        line = _OTHER_SPELLINGS.sub("", message.removeprefix("argument "))
        line = line.replace("not allowed with argument", "cannot be given together with")
        line = _NO_NUMBER.sub(_expected_number, line)
        self.exit(USER_ERROR, printable(f"{self.prog}: {line} (`{self.prog} --help` shows all)\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            raise argparse.ArgumentError(
                action,
                f"found {value!r}, allowed: {', '.join(choices)}{did_you_mean(value, choices)}",
            )

    def _flags_in(self, arguments: Sequence[str]) -> list[str]:
        """Long flags, up to the name of a subcommand: what follows it is not this parser's."""
        flags = []
        for argument in arguments:
            name = argument.partition("=")[0]
            if argument == "--" or (self._subparsers is not None and not name.startswith("-")):
                break
            # argparse takes what has a blank in it for a value.
            if name.startswith("--") and " " not in name:
                flags.append(name)
        return flags

    def _hint(self, flag: str) -> str:
        """The nearest flag, or where any setting can be given the nearest of those."""
        if flag == "--language" and self.why_no_language is not None:
            return f": {self.why_no_language}"
        known = {name.lstrip("-"): name for name in self._option_string_actions}
        if "set" in known:
            for name, section in section_by_setting().items():
                known.setdefault(name.replace("_", "-"), f"--set {section}.{name}=VALUE")
        near = nearest(flag.lstrip("-"), known)
        return f"; did you mean '{known[near]}'?" if near else ""


def _expected_number(found: re.Match[str]) -> str:
    expected = "a whole number" if found[1] == "int" else "a number"
    return f"found {found[2]}, expected {expected}"
