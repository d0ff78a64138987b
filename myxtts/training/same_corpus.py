"""Whether a resumed run has the clips and batches that it had before.

With others it would train on, to other weights than without the interruption, and not say so.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import BATCH_PLAN
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import changes_since

_log = logging.getLogger(__name__)

# Settings that decide which clips there are. The folder does not: a corpus may be moved.
_DECIDE_CLIPS = {
    *("data.val_data", "data.validation_fraction", "data.layout", "data.delimiter"),
    *("data.max_text_length", "data.max_mel_frames"),
}
PREDICTED_MELS = "predicted mels"
# And those that decide what is made of the same clips.
_DECIDE = {
    BATCH_PLAN: _DECIDE_CLIPS
    | {
        *("data.batch_size", "data.batching", "data.pad_to_fixed_length", "data.shape_count"),
        *("data.frame_budget", "data.speaker_balance", "data.language_balance"),
        *("training.gradient_accumulation_steps", "vocoder.frames_per_segment"),
    },
    PREDICTED_MELS: {"vocoder.mels_from"},
}


def require_same_corpus(
    checkpoint: Checkpoint, now: Mapping[str, str], config: XTTSConfig, *, allowed: bool
) -> None:
    """Names each difference, as an error unless it is allowed or follows from changed settings.

    `now` are the fingerprints of the data by name.
    """
    changed = [change.name for change in changes_since(checkpoint, config)]
    has_other_clips = False
    for name, before in checkpoint.info.corpus.items():
        if now.get(name, before) == before:
            continue
        is_plan = name == BATCH_PLAN
        if is_plan and has_other_clips:
            continue  # it follows from them
        count, count_now = (text.rpartition(" ")[0] for text in (before, now[name]))
        which = "is not that" if is_plan else "are not those"
        difference = f"the {name} {which} of the run so far ({_change(count, count_now)})"
        deciding = _DECIDE.get(name, _DECIDE_CLIPS)
        asked_for = [setting for setting in changed if setting in deciding]
        # Another number of shares is one of devices.
        if not (allowed or asked_for or (is_plan and count != count_now)):
            raise CheckpointError(
                f"{checkpoint.folder}: {difference}; restore the corpus as it was, or go on with "
                "what is there now with --allow-changed-corpus"
            )
        because = f", since {asked_for[0]} has changed" if asked_for else ""
        _log.warning("%s: %s%s", checkpoint.folder, difference, because)
        has_other_clips |= not is_plan


def _change(before: str, now: str) -> str:
    if before == now:
        return f"{now}, in another order or with other content"
    return f"{before} before, {now} now"
