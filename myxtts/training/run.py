"""A whole run in one call: `myxtts.train(config, run_dir)` does what `myxtts train` does."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, plural
from myxtts.files import write_file
from myxtts.runs.run_dir import RunDir, changes_since, require_length
from myxtts.training.interruption import Interruption
from myxtts.training.opening import OpenedRun, Start, is_chief, open_run
from myxtts.training.watching.background import open_measurer
from myxtts.training.watching.best_metric import with_best_metric_of
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
    allow_changed_corpus: bool = False,
    observer: Observer | None = None,
) -> RunReport:
    """Trains a model into a run folder, on the devices that the configuration names.

    `run_dir` None is the next free number in runs/. `resume` continues from the newest checkpoint
    in `run_dir`; other clips than before are an error unless `allow_changed_corpus`. `init_from`
    is another run whose EMA weights must fit the model; with `init_partially`, those that fit are
    enough. Ctrl-C, SIGTERM and SIGHUP finish the step, save and return.
    """
    run = None if run_dir is None else RunDir(run_dir)
    start = Start()
    if resume:
        if init_from is not None:
            raise CheckpointError("resume: cannot be combined with init_from")
        if run is None:
            raise CheckpointError("resume: needs run_dir, the folder of the run to resume")
        start = Start(resumed=run.newest_checkpoint(), allow_changed_corpus=allow_changed_corpus)
    elif init_from is not None:
        start = Start.from_run(init_from, partially=init_partially)
    return train_from(start, start.adapt(config), run, observer or Observer())


def train_from(
    start: Start, config: XTTSConfig, run: RunDir | None, observer: Observer
) -> RunReport:
    if start.resumed is not None:
        config = with_best_metric_of(start.resumed.config(), config)
    finished = _report_if_finished(start, config, run)
    if finished is not None:
        steps = f"{finished.steps} {plural(finished.steps, 'step')}"
        observer.on_notice(
            f"{run}: is finished, {finished.state} after {steps}; to train further, raise "
            "--max-steps or --epochs"
        )
        return finished
    if run is not None and start.resumed and config.training.max_steps is not None:
        require_length(run, start.resumed, config.training.max_steps)
    with Interruption() as interruption:
        writes = is_chief(has_folder=run is not None)
        if writes and run is not None and not start.resumed:
            _require_free(run)
        with open_run(config, start, observer) as opened, contextlib.ExitStack() as stack:
            from myxtts.training.starting import start_trainer

            run = run or RunDir.make_next_in(RUNS)
            run.make()
            observer.on_notice(f"Run folder: {run}")
            measurer = None
            if writes:
                stack.enter_context(run.lock())
                _keep_details(opened, run)
                languages = opened.corpus.own_tokenizer.languages
                measurer = stack.enter_context(open_measurer(run, opened.config, languages))
            report = start_trainer(opened, run, interruption, measurer).fit()
            if writes:
                observer.on_end(report, opened.task.next_command(run.path))
            return report


def _keep_details(opened: OpenedRun, run: RunDir) -> None:
    """What the screen leaves out, for those who look for it later."""
    from myxtts.training import describing

    lines = [
        describing.configuration_block(opened),
        describing.describe_mode(opened),
        *describing.describe_data(opened),
        *describing.describe_details(opened),
    ]
    write_file(run.details_file, "\n".join([*lines, ""]))


def _report_if_finished(start: Start, config: XTTSConfig, run: RunDir | None) -> RunReport | None:
    """Known from the folder, without TensorFlow; with other settings it may have to go on."""
    if start.resumed is None or run is None or changes_since(start.resumed, config):
        return None
    from myxtts.training.watching.report import RunReport

    report = RunReport.read(run)
    if report is None or not report.is_complete or report.steps != start.resumed.info.step:
        return None
    return report


def _require_free(run: RunDir) -> None:
    run.require_text_name()
    # One that was killed before its first checkpoint has nothing to lose: it starts over.
    if run.has_saved:
        raise CheckpointError(
            f"{run}: already contains a run; continue it with --resume, or use another --run-dir"
        )
    if run.path.exists() and not run.path.is_dir():
        raise CheckpointError(f"{run}: is a file, expected a folder for the run")
