"""A whole run in one call: `myxtts.train(config, run_dir)` does what `myxtts train` does."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoints import find_checkpoint
from myxtts.runs.lock import lock_of
from myxtts.training.interruption import Interruption
from myxtts.training.opening import Start, is_chief, open_run
from myxtts.training.watching.observer import Observer

if TYPE_CHECKING:
    from myxtts.training.watching.report import RunReport

RUNS = Path("runs")


def train(
    config: XTTSConfig,
    run_dir: str | Path | None = None,
    *,
    resume: bool | None = None,
    init_from: str | Path | None = None,
    init_partially: bool = False,
    observer: Observer | None = None,
) -> RunReport:
    """Trains a model into a run folder, on the devices that the configuration names.

    `run_dir` None is the next free number in runs/. `resume` goes on from the newest checkpoint in
    `run_dir`. `init_from` is another run, whose EMA weights must fit the model, or as far as they
    fit with `init_partially`. Ctrl-C and SIGTERM finish the step, save and return.
    """
    folder = None if run_dir is None else Path(run_dir)
    start = Start()
    if resume:
        if init_from is not None:
            raise CheckpointError("resume: goes on with a run, so init_from has no place beside it")
        if folder is None:
            raise CheckpointError("resume: give the folder of the run to go on with")
        start = Start(resumed=find_checkpoint(folder))
    elif init_from is not None:
        start = Start.from_run(init_from, partially=init_partially)
    return train_from(start, config, folder, observer or Observer())


def train_from(
    start: Start, config: XTTSConfig, folder: Path | None, observer: Observer
) -> RunReport:
    with Interruption() as interruption:
        writes = is_chief(folder)
        if writes and folder is not None and not start.resumed:
            _refuse_to_mix_runs(folder)
        with open_run(config, start, observer) as opened, contextlib.ExitStack() as stack:
            from myxtts.training.starting import start_trainer

            folder = folder or _next_free_folder()
            folder.mkdir(parents=True, exist_ok=True)
            observer.on_notice(f"Run folder: {folder}")
            if writes:
                stack.enter_context(lock_of(folder))
            report = start_trainer(opened, folder, observer, interruption).fit()
            if writes:
                observer.on_end(report, opened.corpus)
            return report


def _refuse_to_mix_runs(folder: Path) -> None:
    if (folder / "config.yaml").exists():
        raise CheckpointError(
            f"{folder}: holds a run already; go on with it by --resume, or give another --run-dir"
        )
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder}: is a file, expected a folder for the run")


def _next_free_folder() -> Path:
    number = 1
    while True:
        folder = RUNS / f"{number:04d}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
