"""The argument parser of every command, and the flags that commands share."""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from myxtts.config.config import XTTSConfig, section_by_setting
from myxtts.config.loading import builtin_names, load_config
from myxtts.config.schema import Layer, did_you_mean, nearest
from myxtts.errors import CheckpointError, ConfigError, DataError, printable
from myxtts.models.speech_options import SpeechOptionError, SpeechOptions
from myxtts.runs.run_dir import run_or_base
from myxtts.text.languages import parse_tag
from myxtts.training.interruption import exit_code_of_signal

# The command worked and its check failed: `validate` found errors, `doctor` a broken part.
CHECK_FAILED = 1
USER_ERROR = 2
# A bug in the program: EX_SOFTWARE of sysexits.h.
UNEXPECTED_ERROR = 70
# Ctrl-C.
INTERRUPTED = exit_code_of_signal(signal.SIGINT)
# The reader is gone, as in `myxtts stats ... | head`.
BROKEN_PIPE = exit_code_of_signal(signal.SIGPIPE)

# Flags whose name differs from their setting's.
FLAG_OF_SETTING = {
    "default_language": "--language",
    "size": "--model-size",
    "data_gpu_memory_mb": "--data-gpu-memory",
    "model_gpu_memory_mb": "--model-gpu-memory",
}
# argparse names a flag with all its spellings: --text-file/--text_file.
_OTHER_SPELLINGS = re.compile(r"(?<=[\w])(/--?[\w-]+)+(?=:|$)")


class HelpWithDefaults(argparse.HelpFormatter):
    """Appends the default to help texts that do not mention it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.option_strings and not action.required
        if not has_default or action.dest in ("help", "version") or "(default" in str(action.help):
            return action.help
        default = "off" if action.nargs == 0 else "none"
        if not isinstance(action.default, bool | None) and action.default not in (
            [],
            "==SUPPRESS==",
        ):
            default = "%(default)s"
        return f"{action.help} (default: {default})"


class CommandParser(argparse.ArgumentParser):
    """An argparse parser that suggests flags and prints errors without the usage.

    The methods with an underscore are argparse's own, the same in every Python since 3.11.
    """

    why_no_language: str | None = None
    """Why a command has no --language."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**({"formatter_class": HelpWithDefaults} | options))

    def format_help(self) -> str:
        if self.why_no_language is not None:
            self.epilog = f"There is no --language: {self.why_no_language}."
        return super().format_help()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        # Otherwise argparse reports a required flag as missing if it is misspelled.
        for argument in sys.argv[1:] if args is None else args:
            flag = argument.partition("=")[0]
            if argument == "--" or (self._subparsers is not None and flag[:1] != "-"):
                break
            is_flag = flag.startswith("--") and " " not in flag
            if is_flag and not any(it.startswith(flag) for it in self._option_string_actions):
                self.error(f"unknown flag {flag}{self._hint(flag)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        line = _OTHER_SPELLINGS.sub("", message.removeprefix("argument "))
        line = line.replace("not allowed with argument", "cannot be given together with")
        line = re.sub(r"invalid int value: (.*)", r"found \1, expected a whole number", line)
        line = re.sub(r"invalid float value: (.*)", r"found \1, expected a number", line)
        self.exit(USER_ERROR, printable(f"{self.prog}: {line} (`{self.prog} --help` shows all)\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            raise argparse.ArgumentError(
                action,
                f"found {value!r}, allowed: {', '.join(choices)}{did_you_mean(value, choices)}",
            )

    def _hint(self, flag: str) -> str:
        """Suggest the nearest flag or, where --set is one, the nearest setting."""
        if flag == "--language" and self.why_no_language is not None:
            return f": {self.why_no_language}"
        known = {name.lstrip("-"): name for name in self._option_string_actions}
        if "set" in known:
            for name, section in section_by_setting().items():
                known.setdefault(name.replace("_", "-"), f"--set {section}.{name}=VALUE")
        near = nearest(flag.lstrip("-"), known)
        return f"; did you mean '{known[near]}'?" if near else ""


def flag_group(parser: argparse.ArgumentParser, title: str) -> argparse._ArgumentGroup:
    """Return the group with that title, created on first use."""
    made = next((one for one in parser._action_groups if one.title == title), None)
    return made or parser.add_argument_group(title)


def add_corpus(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the corpus as an argument, and as --train-data."""
    parser.add_argument(
        "train_data", nargs="?", default=argparse.SUPPRESS, metavar="CORPUS", help=what
    )
    flag_group(parser, "data").add_argument(
        "--train-data", default=None, metavar="CORPUS", help="the same as the argument"
    )


def required_corpus(options: argparse.Namespace) -> Path:
    if options.train_data is None:
        raise ConfigError(f"no corpus given; use myxtts {options.command} CORPUS")
    return Path(options.train_data)


def add_run(parser: argparse.ArgumentParser, what: str = "folder of a trained run") -> None:
    """Add the run as an argument, and as --checkpoint."""
    parser.add_argument(
        "checkpoint", nargs="?", default=argparse.SUPPRESS, metavar="RUN", help=what
    )
    parser.add_argument("--checkpoint", metavar="RUN", help="the same as the argument")


def required_run(options: argparse.Namespace) -> Path:
    if options.checkpoint is None:
        raise CheckpointError(f"no run given; use myxtts {options.command} RUN")
    return run_or_base(options.checkpoint)


def add_val_data(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "data").add_argument(
        "--val-data",
        default=None,
        metavar="DIR",
        help="validation corpus (default: held out from the training corpus)",
    )


def add_language(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "data").add_argument(
        "--language",
        dest="default_language",
        default=None,
        metavar="TAG",
        help="language of rows without one, such as en or fa (default: text.default_language)",
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
    changes: Mapping[str, Any] | None = None,
    base: Layer | None = None,
) -> XTTSConfig:
    """Load the configuration: --config or else `base`, then flags and `changes`, then --set.

    A flag with the name of a setting sets it.
    """
    sections = section_by_setting()
    given = {
        name: value
        for name, value in vars(options).items()
        if name in sections and value is not None
    }
    if "default_language" in given:
        given["default_language"] = parse_tag(given["default_language"], "--language")
    overrides: Layer = {}
    for name, value in {**given, **(changes or {})}.items():
        overrides.setdefault(sections[name], {})[name] = value
    return load_config(
        options.config, overrides, options.set, base=base, flag_names=FLAG_OF_SETTING
    )


def add_message_flags(parser: argparse.ArgumentParser, default: bool | str = False) -> None:
    """Add the flags that every command has."""
    group = flag_group(parser, "messages")
    group.add_argument("--verbose", action="store_true", default=default, help="show details")
    group.add_argument(
        "--traceback", action="store_true", default=default, help="print the traceback of an error"
    )


def add_workers(
    parser: argparse.ArgumentParser, what: str = "processes to use (default: one per core)"
) -> None:
    flag_group(parser, "devices").add_argument("--workers", type=int, metavar="N", help=what)


def add_json(parser: argparse.ArgumentParser, what: str = "print one JSON object") -> None:
    flag_group(parser, "output").add_argument("--json", action="store_true", help=what)


def require_in_range(flag: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{flag}: found {value:g}, allowed: {low:g} to {high:g}")


def add_vocoder_flag(parser: argparse.ArgumentParser) -> None:
    flag_group(parser, "speech").add_argument(
        "--vocoder",
        metavar="RUN",
        help="run that was trained with --task vocoder, or griffin-lim (default: the included one)",
    )


def add_speech_flags(parser: argparse.ArgumentParser) -> None:
    group, defaults = flag_group(parser, "speech"), SpeechOptions()
    for name, kind, metavar, what in (
        ("steps", int, "N", "sampling steps: more is slower and slightly clearer"),
        ("temperature", float, "T", "0 is flat and stable, 1 is lively"),
        ("speed", float, "FACTOR", "speaking rate: 1.2 is 20%% faster"),
        ("loudness", float, "DBFS", "RMS level of the speech; peaks stay below -1 dBFS"),
        ("seed", int, "N", "random seed: the same seed gives the same audio"),
    ):
        group.add_argument(
            f"--{name}", type=kind, default=getattr(defaults, name), metavar=metavar, help=what
        )
    for condition in ("text", "voice"):
        group.add_argument(
            f"--{condition}-guidance",
            type=float,
            metavar="SCALE",
            help=f"classifier-free guidance toward the {condition}: 0 is off, higher follows it "
            "more closely (default: the run's setting)",
        )


def speech_options(options: argparse.Namespace) -> SpeechOptions:
    """Return the speech options from the flags."""
    names = SpeechOptions.__dataclass_fields__
    try:
        return SpeechOptions(**{name: vars(options)[name] for name in names if name in options})
    except SpeechOptionError as error:
        flag = f"--{error.option.replace('_', '-')}"
        raise DataError(f"{flag}: {error.problem}") from None
