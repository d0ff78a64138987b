"""Saves a run while it trains: checkpoints, metrics, evaluations, the best checkpoint, the report.

On several machines only the chief writes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import save_config
from myxtts.data.corpus import Corpus
from myxtts.data.shapes import save_plan
from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import CheckpointInfo
from myxtts.runs.checkpoint_writer import CheckpointWriter
from myxtts.runs.run_dir import RunDir
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.starting_weights import StartReport
from myxtts.training.task import Task, Validation
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.judging import Judge, Measurer
from myxtts.training.watching.metrics import RunMetrics
from myxtts.training.watching.observer import Observer
from myxtts.training.watching.report import RunReport
from myxtts.training.watching.reporting import RunWriter, numbers_or_null


class Keeper(Protocol):
    """What the loop needs to save a run."""

    @property
    def should_stop(self) -> bool: ...

    def save(self, step: int) -> None: ...

    def save_and_wait(self, step: int) -> Path | None: ...

    def has_logged(self, step: int) -> bool: ...

    def log(self, step: int, means: dict[str, float], *, evaluates: bool) -> None: ...

    def finish(self, is_interrupted: Callable[[], bool]) -> bool: ...

    def write_report(self, report: RunReport) -> None: ...

    def add_detail(self, line: str) -> None: ...

    def best(self) -> dict[str, Any] | None: ...

    def advice(self) -> list[str]: ...


class CheckpointKeeper:
    """Saves the state of a task as checkpoints of a run; a context manager."""

    def __init__(
        self,
        run_dir: RunDir,
        config: XTTSConfig,
        corpus: Corpus,
        task: Task,
        optimizer: FlatAdamW,
        account: TimeAccount,
        seconds: Callable[[], Mapping[str, float]],
        metrics: RunMetrics,
    ) -> None:
        """`seconds` returns the time account of the whole run."""
        self._run_dir = run_dir
        self._config = config
        self._batches_per_epoch = corpus.train.schedule.batches_per_epoch
        self._task = task
        self._optimizer = optimizer
        self._account = account
        self._seconds = seconds
        self._metrics = metrics
        self._fingerprints = task.data_fingerprints()
        self._saved_step: int | None = None
        self.last_metrics: Mapping[str, float] = {}

    def __enter__(self) -> CheckpointKeeper:
        self._writer = CheckpointWriter(self._run_dir, self._config.saving.keep_checkpoints)
        self._writer.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._writer.__exit__(*error)

    def save(self, step: int) -> None:
        """Starts saving: copies the state, which is then written while training continues."""
        with self._account.spending("checkpoint"):
            epoch, batch = divmod(step, self._batches_per_epoch)
            info = CheckpointInfo(
                step=step,
                seed=self._config.training.seed,
                epoch=epoch,
                batch=batch,
                metrics=numbers_or_null(self.last_metrics),
                seconds=dict(self._seconds()),
                so_far=self._metrics.so_far(),
                corpus=self._fingerprints,
                **self._task.checkpoint_facts(),
            )
            self._writer.save(info, self._optimizer.state())
            self._saved_step = step

    def save_and_wait(self, step: int) -> Path | None:
        """The checkpoint of a step, or None if it could not be written (a warning was logged)."""
        if self._saved_step != step:
            self.save(step)
        with self._account.spending("checkpoint"):
            try:
                return self._writer.wait()
            except CheckpointError:
                self._saved_step = None
                return None


class RunKeeper:
    """Writes a run into its folder; a context manager."""

    def __init__(
        self,
        run_dir: RunDir,
        config: XTTSConfig,
        corpus: Corpus,
        optimizer: FlatAdamW,
        validation: Validation,
        account: TimeAccount,
        observer: Observer,
        checkpoints: CheckpointKeeper,
        *,
        start: StartReport | None,
        measurer: Measurer | None,
    ) -> None:
        self._run_dir = run_dir
        self._config = config
        self._corpus = corpus
        self._optimizer = optimizer
        self._validation = validation
        self._account = account
        self._observer = observer
        self._checkpoints = checkpoints
        self._start = start
        self._measurer = measurer

    def __enter__(self) -> RunKeeper:
        run_dir = self._run_dir
        run_dir.make()
        run_dir.remove_unfinished()
        save_config(self._config, run_dir.config_file)
        self._corpus.tokenizer.save(run_dir.tokenizer_file)
        save_plan(self._corpus.train.plan, self._config, run_dir.plan_file)
        if self._start is not None:
            self._start.save(run_dir.start_report_file)
        with contextlib.ExitStack() as stack:
            step = int(self._optimizer.step.numpy())
            writer = RunWriter(run_dir, step)
            writer.write_configuration(step, self._config)
            self._writer = stack.enter_context(contextlib.closing(writer))
            stack.enter_context(self._checkpoints)
            self._judge = Judge(
                run_dir, self._config.evaluation, writer, self._observer, self._measurer
            )
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def save(self, step: int) -> None:
        self._checkpoints.save(step)

    def save_and_wait(self, step: int) -> Path | None:
        return self._checkpoints.save_and_wait(step)

    def has_logged(self, step: int) -> bool:
        return any(line["step"] == step for line in self._run_dir.metric_lines())

    def log(self, step: int, means: dict[str, float], *, evaluates: bool) -> None:
        """Writes the metrics of a step, with an evaluation if one is due."""
        means["measuring"] = float(self._judge.is_measuring)
        if evaluates:
            means |= self._evaluate(step)
        self._writer.write_metrics(step, means)
        self._judge.logged(step, means)
        self._judge.collect()
        self._checkpoints.last_metrics = means

    def _evaluate(self, step: int) -> dict[str, float]:
        self._observer.on_evaluating(step)
        with self._account.spending("evaluation"), self._optimizer.ema_weights():
            losses = self._validation.run(step, self._writer)
        self._observer.on_evaluation(step, losses)
        self._judge.evaluated(step, losses, lambda: self.save_and_wait(step))
        return losses

    def finish(self, is_interrupted: Callable[[], bool]) -> bool:
        """Waits for background evaluation at the end of a run; whether nothing was cut short."""
        with self._account.spending("evaluation"):
            self._judge.finish(is_interrupted)
        return not (is_interrupted() and self._judge.is_measuring)

    def write_report(self, report: RunReport) -> None:
        self._writer.write_report(report)

    def add_detail(self, line: str) -> None:
        """Append a line to the details of the run."""
        self._writer.add_detail(line)

    @property
    def should_stop(self) -> bool:
        return self._judge.should_stop

    def best(self) -> dict[str, Any] | None:
        return self._judge.best()

    def advice(self) -> list[str]:
        return self._judge.advice()


class NullKeeper:
    """Writes nothing; for all machines but the chief."""

    should_stop = False

    def __enter__(self) -> NullKeeper:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def save(self, step: int) -> None: ...

    def save_and_wait(self, step: int) -> None: ...

    def has_logged(self, step: int) -> bool:
        """What is owed is for the chief to make up."""
        return True

    def log(self, step: int, means: dict[str, float], *, evaluates: bool) -> None: ...

    def finish(self, is_interrupted: Callable[[], bool]) -> bool:
        return True

    def write_report(self, report: RunReport) -> None: ...

    def add_detail(self, line: str) -> None: ...

    def best(self) -> None: ...

    def advice(self) -> list[str]:
        return []


def describe_saved(run_dir: RunDir, step: int) -> str:
    """What is on disk after an attempt to save a step."""
    if run_dir.has_checkpoint(step):
        return f"the run is saved up to step {step}"
    try:
        newest = run_dir.newest_checkpoint().info.step
    except CheckpointError:
        return f"step {step} could not be saved, and there is no earlier checkpoint"
    return f"step {step} could not be saved; the newest checkpoint is step {newest}"
