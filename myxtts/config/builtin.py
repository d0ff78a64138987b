"""The configurations that come with the package: `--config persian`.

Knows where they are and what they are called, not what is in them.
"""

from __future__ import annotations

from pathlib import Path

from myxtts.config.names import did_you_mean
from myxtts.errors import ConfigError

_FOLDER = Path(__file__).parents[1] / "configs"


def builtin_names() -> list[str]:
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def find_config(name_or_file: str) -> Path:
    """The file of this path, or else the built-in configuration of this name."""
    file = Path(name_or_file)
    # A folder is no configuration: `make demo` leaves one that is called demo.
    if file.exists() and not file.is_dir():
        return file
    names = builtin_names()
    if name_or_file in names:
        return _FOLDER / f"{name_or_file}.yaml"
    raise ConfigError(
        f"{name_or_file}: found neither a file nor a built-in configuration of this name; "
        f"built in are {', '.join(names)}{did_you_mean(file.stem, names)}"
    )
