"""`--help` of every command: each flag shows its default."""

from __future__ import annotations

import argparse


class HelpWithDefaults(argparse.HelpFormatter):
    """Adds the default where the text of a flag does not explain it: a switch is off."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.option_strings and not action.required
        if not has_default or action.dest in ("help", "version") or "(default" in str(action.help):
            return action.help
        return f"{action.help} (default: {'off' if action.nargs == 0 else 'none'})"
