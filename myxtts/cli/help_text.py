"""`--help` of every command: the same groups in the same order, each flag with its default."""

from __future__ import annotations

import argparse

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
