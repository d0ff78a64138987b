"""Whether a resumed run has the clips and batches that it had before.

With others it would train on, to other weights than without the interruption, and not say so.
"""

from __future__ import annotations

import logging

from myxtts.config.changes import Change
from myxtts.config.config import XTTSConfig
from myxtts.data.opening import BATCH_PLAN, Corpus
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoints import Checkpoint
from myxtts.runs.resuming import changes_since

_log = logging.getLogger(__name__)

# Sections whose settings decide which clips there are and how they are batched.
_DECIDING_SECTIONS = ("data", "text", "audio")
_DECIDING_SETTINGS = ("training.gradient_accumulation_steps",)
# Of these sections, what says where things are or how fast they come.
_NOT_DECIDING = (
    *("data.train_data", "data.cache_dir", "data.workers", "data.buffer_size"),
    *("data.memory_share", "data.min_speaker_seconds", "data.max_rejected_fraction"),
)


def require_same_corpus(
    checkpoint: Checkpoint, corpus: Corpus, config: XTTSConfig, *, allowed: bool
) -> None:
    """Names a difference, as an error unless it is allowed or follows from changed settings."""
    asked_for = [change.name for change in changes_since(checkpoint, config) if _decides(change)]
    now = corpus.fingerprints()
    for name, before in checkpoint.info.corpus.items():
        if now.get(name, before) == before:
            continue
        count, _, _ = before.rpartition(" ")
        count_now, _, _ = now[name].rpartition(" ")
        difference = f"the {name} are not those of the run so far ({_change(count, count_now)})"
        if name == BATCH_PLAN:
            difference = f"the {name} is not that of the run so far ({_change(count, count_now)})"
        if allowed or asked_for or (name == BATCH_PLAN and count != count_now):
            because = f", since {asked_for[0]} has changed" if asked_for else ""
            _log.warning("%s: %s%s", checkpoint.folder, difference, because)
            return
        raise CheckpointError(
            f"{checkpoint.folder}: {difference}; restore the corpus as it was, or go on with "
            "what is there now with --allow-changed-corpus"
        )


def _change(before: str, now: str) -> str:
    if before == now:
        return f"{now}, in another order or with other content"
    return f"{before} before, {now} now"


def _decides(change: Change) -> bool:
    section = change.name.partition(".")[0]
    decides = section in _DECIDING_SECTIONS or change.name in _DECIDING_SETTINGS
    return decides and change.name not in _NOT_DECIDING
