"""`myxtts completion SHELL`: prints a script that completes commands, flags and their values."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any

from myxtts.cli.help_text import HelpWithDefaults

_DESCRIPTION = """Print a script for your shell. Use it with one of

  bash  echo 'eval "$(myxtts completion bash)"' >> ~/.bashrc
  zsh   echo 'eval "$(myxtts completion zsh)"' >> ~/.zshrc
  fish  myxtts completion fish > ~/.config/fish/completions/myxtts.fish"""

# Where nothing is offered, the shell completes names of files.
_BASH = """_myxtts() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  local command=${COMP_WORDS[1]} offers=""
  [[ $command == voice && $COMP_CWORD -gt 2 ]] && command="voice ${COMP_WORDS[2]}"
  if [[ $COMP_CWORD == 1 ]]; then
    offers=%(commands)s
  elif [[ $COMP_CWORD == 2 && ${COMP_WORDS[1]} == voice ]]; then
    offers="add list remove"
  else
    case "$command $before" in
%(values)s
    esac
    if [[ -z $offers && $word == -* ]]; then
      case "$command" in
%(flags)s
      esac
    fi
  fi
  COMPREPLY=($(compgen -W "$offers" -- "$word"))
}
complete -o default -F _myxtts myxtts
"""


class _LinesAsTheyAre(argparse.RawDescriptionHelpFormatter, HelpWithDefaults):
    """Keeps the lines of the description."""


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes commands and flags in your shell",
        description=_DESCRIPTION,
        formatter_class=_LinesAsTheyAre,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="its name")
    return parser


def run(options: argparse.Namespace) -> int:
    from myxtts.cli.main import command_parser

    found = dict(_commands(command_parser()))
    if options.shell == "fish":
        print("\n".join(_fish(found)))
        return 0
    if options.shell == "zsh":
        # A bare .zshrc has not started zsh's own completion, which that of bash rests on.
        print("whence compdef > /dev/null || { autoload -U compinit && compinit -i; }")
        print("autoload -U bashcompinit && bashcompinit")
    print(_bash(found), end="")
    return 0


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command, those of `voice` with both words."""
    for name, command in _subcommands(parser).items():
        inner = _subcommands(command)
        if not inner:
            yield name, command
        for action, parser_of_action in inner.items():
            yield f"{name} {action}", parser_of_action


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    # argparse has no public way to ask for them.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def _bash(commands: dict[str, argparse.ArgumentParser]) -> str:
    flags, values = [], []
    for name, parser in commands.items():
        flags.append(f"        {name!r}) offers={shlex.quote(' '.join(_flags(parser)))} ;;")
        for flag, choices in _choices(parser).items():
            values.append(f"      '{name} {flag}') offers={shlex.quote(choices)} ;;")
    words = sorted({name.split()[0] for name in commands})
    return _BASH % {
        "commands": shlex.quote(" ".join(words)),
        "flags": "\n".join(flags),
        "values": "\n".join(values),
    }


def _fish(commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    first = sorted({name.split()[0] for name in commands})
    yield f"complete -c myxtts -n __fish_use_subcommand -f -a {shlex.quote(' '.join(first))}"
    yield (
        "complete -c myxtts -n '__fish_seen_subcommand_from voice; and not "
        "__fish_seen_subcommand_from add list remove' -f -a 'add list remove'"
    )
    for name, parser in commands.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in name.split())
        choices = _choices(parser)
        for flag in _flags(parser):
            values = f" -x -a {shlex.quote(choices[flag])}" if flag in choices else ""
            yield f"complete -c myxtts -n {shlex.quote(seen)} -l {flag.lstrip('-')}{values}"


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return [flag for flag in parser._option_string_actions if flag.startswith("--")]


def _choices(parser: argparse.ArgumentParser) -> dict[str, str]:
    return {
        flag: " ".join(map(str, action.choices))
        for flag, action in parser._option_string_actions.items()
        if action.choices is not None
    }
