"""Writes checkpoints while training continues: one thread, one checkpoint at a time."""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import os
import sys
import threading
from pathlib import Path
from types import TracebackType

from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import CheckpointInfo, Tensors, save_checkpoint
from myxtts.runs.run_dir import RunDir

_log = logging.getLogger(__name__)

_LOWEST_PRIORITY = 19


def _lower_priority() -> None:
    """Gives the calling thread the lowest priority, so that it does not slow the training step."""
    if sys.platform == "linux":  # elsewhere priorities apply to whole processes
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)


class CheckpointWriter:
    """Saves a run's checkpoints; a full disk costs a checkpoint, not the run.

    A failed checkpoint is a warning, and the next one tries again. Only at the end of the run is
    it an error.
    """

    def __init__(self, run_dir: RunDir, keep: int) -> None:
        self._run_dir = run_dir
        self._keep = keep
        self._files_of_run = run_dir.files_for_checkpoints()
        self._thread = concurrent.futures.ThreadPoolExecutor(
            1, "checkpoints", initializer=_lower_priority
        )
        self._pending: concurrent.futures.Future[Path] | None = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        try:
            # An error already being raised says more than one about the checkpoint.
            with contextlib.suppress(*([CheckpointError] if kind is not None else [])):
                self.wait()
        finally:
            self._thread.shutdown()

    def save(self, info: CheckpointInfo, training_state: Tensors) -> None:
        """Starts writing, after the previous checkpoint is done. The arrays must not change."""
        with contextlib.suppress(CheckpointError):  # already logged as a warning
            self.wait()
        self._pending = self._thread.submit(self._write, info, training_state)

    def wait(self) -> Path | None:
        """The last checkpoint, once it is complete; raises the error if it failed."""
        return self._pending.result() if self._pending is not None else None

    def _write(self, info: CheckpointInfo, training_state: Tensors) -> Path:
        self._run_dir.sync_lines()
        store = self._run_dir.checkpoints
        try:
            return save_checkpoint(store, info, training_state, self._files_of_run, self._keep)
        except CheckpointError as error:
            _log.warning("step %d was not saved: %s", info.step, error)
            raise
