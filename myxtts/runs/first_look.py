"""What a run speaks, read in a moment: without TensorFlow, and without verifying its weights."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config
from myxtts.errors import MyXTTSError
from myxtts.runs.checkpoints import CONFIG, TOKENIZER
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.runs.sealed_folder import is_sealed_folder
from myxtts.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class FirstLook:
    folder: Path
    config: XTTSConfig
    tokenizer: Tokenizer


def first_look(run: str | os.PathLike[str]) -> FirstLook:
    """For finding mistakes before anything slow begins.

    The best or else the newest checkpoint whose small files can be read, which is the one that
    will be loaded unless its weights are damaged. Without any, the error is the one that loading
    would give.
    """
    folder = Path(run)
    run_dir = RunDir(folder)
    run_dir.require_folder()
    is_checkpoint = is_sealed_folder(folder)
    candidates = [folder] if is_checkpoint else [*run_dir.checkpoint_folders(), run_dir.best]
    for candidate in reversed(candidates):
        try:
            config = load_config(candidate / CONFIG)
            return FirstLook(candidate, config, Tokenizer.load(candidate / TOKENIZER))
        except MyXTTSError:
            continue
    checkpoint = find_checkpoint(folder, for_synthesis=True)
    return FirstLook(checkpoint.folder, checkpoint.config(), checkpoint.tokenizer())
