"""Mistakes in corpora, their metadata and their languages, found before anything slow begins."""

from __future__ import annotations

from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.data.metadata import LJSpeechDataset, metadata_files
from myxtts.text.languages import parse_tag

# Some ten thousand rows. Larger files are read once, where they are needed.
_QUICKLY_READ_BYTES = 1_000_000


def require_corpora(config: XTTSConfig) -> None:
    """The folders of a configuration exist, their metadata can be read, its language is one."""
    parse_tag(config.text.default_language, "text.default_language")
    if config.data.train_data is not None:
        _require_metadata(config, config.data.train_data, "train")
    if config.data.val_data is not None:
        _require_metadata(config, config.data.val_data, "eval")


def _require_metadata(config: XTTSConfig, folder: str, subset: str) -> None:
    files = [file for file in metadata_files(Path(folder), subset) if file is not None]
    if max(file.stat().st_size for file in files) > _QUICKLY_READ_BYTES:
        return
    LJSpeechDataset(
        folder,
        subset,
        default_language=config.text.default_language,
        validation_fraction=None,
        layout=config.data.layout,
        delimiter=config.data.delimiter,
    )
