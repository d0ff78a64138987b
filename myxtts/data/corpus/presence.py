"""Mistakes in the names of corpora and languages, found before anything slow begins."""

from __future__ import annotations

from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus.dataset import metadata_files
from myxtts.text.languages import parse_tag


def require_corpora(config: XTTSConfig) -> None:
    """The folders of a configuration exist and have metadata, and its language is one."""
    parse_tag(config.text.default_language, "text.default_language")
    if config.data.train_data is not None:
        metadata_files(Path(config.data.train_data))
    if config.data.val_data is not None:
        metadata_files(Path(config.data.val_data), "eval")
