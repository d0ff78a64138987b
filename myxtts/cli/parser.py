"""The argument parser of every command: a mistake is one line that suggests what was meant."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from myxtts.config.config import XTTSConfig, section_by_setting, section_of
from myxtts.config.loading import builtin_names
from myxtts.config.schema import Layer, did_you_mean, nearest
from myxtts.errors import CheckpointError, ConfigError, printable
from myxtts.runs.run_dir import run_or_base
from myxtts.training.interruption import exit_code_of_signal

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


# Arguments and what is used most come first, in the groups that argparse makes itself.
GROUPS = (
    "data",
    "settings",
    "run",
    "voices",
    "transcripts",
    "clips",
    "speech",
    "shapes",
    "model and optimisation",
    "length and saving",
    "access",
    "limits",
    "devices",
    "output",
    "messages",
)


class HelpWithDefaults(argparse.HelpFormatter):
    """Adds the default where the text of a flag does not explain it: a switch is off."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.option_strings and not action.required
        if not has_default or action.dest in ("help", "version") or "(default" in str(action.help):
            return action.help
        return f"{action.help} (default: {'off' if action.nargs == 0 else 'none'})"


def flag_group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """The group of that title, one of GROUPS; the help shows them in that order."""
    if title not in GROUPS:
        raise ValueError(f"{title!r} is not one of the groups of flags: {', '.join(GROUPS)}")
    made = next((one for one in parser._action_groups if one.title == title), None)
    return made or parser.add_argument_group(title)


def sort_flags(parser: argparse.ArgumentParser) -> None:
    """By their groups, in the usage too; argparse takes them in the order of the code."""
    groups = parser._action_groups
    groups.sort(key=lambda group: GROUPS.index(group.title) if group.title in GROUPS else -1)
    places = {
        id(action): place for place, group in enumerate(groups) for action in group._group_actions
    }
    parser._actions.sort(key=lambda action: places[id(action)])


# The command worked and its check failed: `validate` found errors, `doctor` a broken part.
CHECK_FAILED = 1
USER_ERROR = 2
# A bug in the program: EX_SOFTWARE of sysexits.h.
UNEXPECTED_ERROR = 70
# Ctrl-C.
INTERRUPTED = exit_code_of_signal(signal.SIGINT)
# The reader is gone, as in `myxtts stats ... | head`.
BROKEN_PIPE = exit_code_of_signal(signal.SIGPIPE)


def add_corpus(parser: argparse.ArgumentParser, what: str) -> None:
    """The corpus as an argument, and as --train-data."""
    parser.add_argument(CORPUS_ARGUMENT, nargs="?", metavar="CORPUS", help=what)
    flag_group(parser, "data").add_argument(
        "--train-data", metavar="CORPUS", help="the same as the argument (default: none)"
    )


def required_corpus(options: argparse.Namespace) -> Path:
    if options.train_data is None:
        raise ConfigError(f"which corpus? Use myxtts {options.command} CORPUS")
    return Path(options.train_data)


def add_run(parser: argparse.ArgumentParser, what: str = "folder of a trained run") -> None:
    """The run as an argument, and as --checkpoint."""
    parser.add_argument(RUN_ARGUMENT, nargs="?", type=Path, metavar="RUN", help=what)
    parser.add_argument(
        "--checkpoint", type=Path, metavar="RUN", help="the same as the argument (default: none)"
    )


def required_run(options: argparse.Namespace) -> Path:
    if options.checkpoint is None:
        raise CheckpointError(f"which run? Use myxtts {options.command} RUN")
    return run_or_base(options.checkpoint)


def add_val_data(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "data").add_argument(
        "--val-data",
        metavar="DIR",
        help="validation corpus (default: held out from the training corpus)",
    )


def add_language(
    parser: argparse.ArgumentParser, what: str = "language of rows that name none"
) -> None:
    flag_group(parser, "data").add_argument(
        "--language",
        dest="default_language",
        metavar="TAG",
        help=f"{what}, such as en or fa (default: text.default_language)",
    )


def add_config_options(parser: argparse.ArgumentParser) -> None:
    group = flag_group(parser, "settings")
    group.add_argument(
        "--config",
        default=None,
        metavar="NAME_OR_FILE",
        help="YAML file with settings, or a built-in configuration: "
        f"{', '.join(builtin_names())} (default: the defaults of the settings)",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a setting, such as training.learning_rate=1e-3 or learning_rate=1e-3; may "
        "be repeated",
    )


def configuration(
    options: argparse.Namespace,
    settings: Mapping[str, Any],
    base: Layer | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> XTTSConfig:
    """Lowest first: --config or else the `base` of a run, `settings` by name, --set.

    `flag_names` has the flags of the settings that are called otherwise.
    """
    from myxtts.config.loading import load_config

    if settings.get("default_language") is not None:
        from myxtts.text.languages import parse_tag

        language = parse_tag(settings["default_language"], "--language")
        settings = {**settings, "default_language": language}
    overrides: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        overrides.setdefault(section_of(name), {})[name] = value
    return load_config(options.config, overrides, options.set, base=base, flag_names=flag_names)


def add_message_flags(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Every command ends with these."""
    group = flag_group(parser, "messages")
    group.add_argument(
        "--verbose", action="store_true", default=default, help="show details of what is done"
    )
    group.add_argument(
        "--traceback", action="store_true", default=default, help="print the traceback of an error"
    )


def add_workers(
    parser: argparse.ArgumentParser, what: str = "processes to use (default: one per core)"
) -> None:
    flag_group(parser, "devices").add_argument("--workers", type=int, metavar="N", help=what)


def add_json(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    # With a default: some parsers leave out what is not given.
    flag_group(parser, "output").add_argument(
        "--json", action="store_true", default=False, help=what
    )


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings whose flags were given."""
    return {name: value for name, value in settings.items() if value is not None}
