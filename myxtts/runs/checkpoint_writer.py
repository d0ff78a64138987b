"""Writes checkpoints while training goes on: one thread, one checkpoint at a time."""

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
from myxtts.runs.checkpoints import CheckpointInfo, save_checkpoint
from myxtts.runs.run_dir import RunDir
from myxtts.runs.tensor_files import Tensors

_log = logging.getLogger(__name__)

_LOWEST_PRIORITY = 19


def _give_way() -> None:
    """The thread that calls takes only what the training step leaves of the cores."""
    if sys.platform == "linux":  # elsewhere priorities are for whole processes
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST_PRIORITY)


class CheckpointWriter:
    """Saves a run's checkpoints; a full disk costs a checkpoint and not the run.

    A checkpoint that could not be written is warned of at once, and the next one is another
    attempt. Only at the end of the run is it an error.
    """

    def __init__(self, run_dir: RunDir, keep: int) -> None:
        self._store = run_dir.checkpoints
        self._keep = keep
        self._files_of_run = run_dir.files_for_checkpoints()
        self._thread = concurrent.futures.ThreadPoolExecutor(
            1, "checkpoints", initializer=_give_way
        )
        self._under_way: concurrent.futures.Future[Path] | None = None

    def __enter__(self) -> CheckpointWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        try:
            # An error that is on its way says more than one about the checkpoint.
            with contextlib.suppress(*([CheckpointError] if kind is not None else [])):
                self.wait()
        finally:
            self._thread.shutdown()

    def save(self, info: CheckpointInfo, training_state: Tensors) -> None:
        """Begins to write, after waiting for the checkpoint before. The arrays must not change."""
        with contextlib.suppress(CheckpointError):  # it was warned of
            self.wait()
        self._under_way = self._thread.submit(self._write, info, training_state)

    def wait(self) -> Path | None:
        """The last checkpoint, once it is whole; raises what stood in its way."""
        return self._under_way.result() if self._under_way is not None else None

    def _write(self, info: CheckpointInfo, training_state: Tensors) -> Path:
        try:
            return save_checkpoint(
                self._store, info, training_state, self._files_of_run, self._keep
            )
        except CheckpointError as error:
            _log.warning("step %d is not saved: %s", info.step, error)
            raise
