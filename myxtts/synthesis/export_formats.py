"""What a run can be exported to; loads no TensorFlow, so mistakes are found at once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from myxtts.devices.doctor import install_command
from myxtts.errors import ConfigError, DataError

HALF = "-float16"
"""Ending of a format whose weights are kept in float16."""
FORMATS = ("saved-model", "onnx", "litert", f"litert{HALF}")


def require_format(kind: str) -> None:
    """A known format, and the package that converts to it."""
    if kind not in FORMATS:
        raise ConfigError(f"format '{kind}', expected {', '.join(FORMATS)}")
    if kind == "onnx" and importlib.util.find_spec("tf2onnx") is None:
        raise ConfigError(
            f"format onnx: needs the package tf2onnx; install it with {install_command('export')}"
        )


def require_new_folder(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: exists, expected a new or empty folder")
