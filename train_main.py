"""Alias of `myxtts train`."""

import sys
from importlib.util import find_spec
from pathlib import Path

_PYTHON = (3, 11)


def run(command: str) -> int:
    """Run a `myxtts` command with this script's arguments.

    A user may start the script with any Python, so only the standard library is imported before
    the environment is checked.
    """
    problem = _missing()
    if problem is None:
        from myxtts.cli.main import main

        return main([command, *sys.argv[1:]])
    sys.stderr.write(
        f"{Path(sys.argv[0]).name}: {problem} ({sys.executable}); make the environment with "
        f"`make env`, then use `.venv/bin/myxtts {command}`\n"
    )
    return 2


def _missing() -> "str | None":
    if sys.version_info < _PYTHON:
        return f"Python {_PYTHON[0]}.{_PYTHON[1]} or later is needed"
    for module in ("tensorflow", "rich", "soundfile"):
        if find_spec(module) is None:
            return f"{module} is not installed"
    return None


if __name__ == "__main__":
    sys.exit(run("train"))
