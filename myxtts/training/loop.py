"""The training loop: fetch a batch, step, log, evaluate, save; independent of mels and files."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from myxtts.data.corpus import Corpus
from myxtts.data.pipeline import Feed
from myxtts.devices.monitor import GpuSampler
from myxtts.devices.strategy import any_replica, name_of
from myxtts.errors import DataError, DeviceError
from myxtts.runs.checkpoint import CheckpointInfo
from myxtts.training.output import NullOutput, RunOutput
from myxtts.training.report import (
    COMPLETE,
    INTERRUPTED,
    RUNNING,
    STOPPED_EARLY,
    RunReport,
)
from myxtts.training.step import LOST_MACHINE_ERRORS, Stepper
from myxtts.training.time_account import advice

if TYPE_CHECKING:
    from myxtts.training.trainer import XTTSTrainer


class UnreadableBatchError(DataError):
    """A batch cannot be loaded; the training state is still consistent."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
        self.problem = problem
        self.remedy = remedy


class LostMachineError(DeviceError):
    """Another machine stopped responding; `whole_step` is the last step that all have completed."""

    def __init__(self, whole_step: int) -> None:
        super().__init__(f"another machine was lost after step {whole_step}")
        self.whole_step = whole_step


@dataclass(frozen=True)
class TrainingLoop:
    """Runs the steps of a trainer, from the optimizer's current one to the last."""

    trainer: XTTSTrainer
    stepper: Stepper
    feed: Feed
    gpus: GpuSampler
    output: RunOutput | NullOutput

    def run(self) -> RunReport:
        step = int(self.trainer.optimizer.step.numpy())
        self.trainer.interruption.begin_training()
        self.trainer.account.settle("host")
        state = self._make_up(self.trainer.resumed.info) if self.trainer.resumed else None
        self.trainer.observer.on_training(self.trainer.task.relative_time)
        if state is None:
            self.trainer.observer.on_phase("first step")
        while state is None:
            step += 1
            self._train_on(step, self._next_batch())
            if (change := self.feed.take_buffer_change()) is not None:
                self.trainer.observer.on_notice(change)
            self.trainer.observer.on_progress(step, self.trainer.total_steps)
            state = self._end_step(step)
        if not self.output.finish(lambda: self.trainer.interruption.requested):
            state = INTERRUPTED
        report = self._report(state, step)
        self.output.write_report(report)
        return report

    def _make_up(self, saved: CheckpointInfo) -> str | None:
        """Log and evaluate a step if a kill prevented it; return the state if the run ends."""
        step, is_logged = saved.step, self.output.has_logged(saved.step)
        if saved.so_far is not None:
            self.trainer.metrics.resume_from(saved.so_far, is_logged=is_logged)
            is_due = self._is_evaluated(step) or self._is_logged(step)
            if is_due and not is_logged and saved.so_far.steps:
                self._log(step)
        if self._has_stopped_improving(step):
            return STOPPED_EARLY
        return COMPLETE if step == self.trainer.total_steps else None

    def _end_step(self, step: int) -> str | None:
        """Save, log and evaluate if due; return the state of the run if it ends here.

        A run that is interrupted leaves the evaluation of its last step to the resumed one.
        """
        is_last, stops = step == self.trainer.total_steps, self._stop_is_requested(step)
        is_sound = not self.trainer.divergence.in_a_row
        # During a series of bad steps, keep the checkpoint from before it to roll back to.
        if (step % self.trainer.config.saving.save_every == 0 and is_sound) or is_last or stops:
            self.output.save(step)
        evaluates = is_sound and self._is_evaluated(step)
        if evaluates and stops:
            return INTERRUPTED
        if evaluates or self._is_logged(step):
            self._log(step, evaluates=evaluates)
        if stops:
            return INTERRUPTED
        if evaluates and self._has_stopped_improving(step):
            return STOPPED_EARLY
        return COMPLETE if is_last else None

    def _is_evaluated(self, step: int) -> bool:
        return (
            step % self.trainer.config.evaluation.evaluate_every == 0
            or step == self.trainer.total_steps
        )

    def _is_logged(self, step: int) -> bool:
        return step % self.trainer.config.saving.log_every == 0

    def _log(self, step: int, *, evaluates: bool | None = None) -> None:
        evaluates = self._is_evaluated(step) if evaluates is None else evaluates
        means = self.trainer.metrics.means() | self.stepper.monitor.counts() | self.gpus.flush()
        means |= {
            "buffer_batches": self.feed.ready_batches,
            "buffer_size": self.feed.present_buffer_size,
        }
        self.trainer.observer.on_step(step, self.trainer.total_steps, means)
        self.output.log(step, means, evaluates=evaluates)
        # Not earlier: checkpoints until here have the interval whose line may be missing.
        self.trainer.metrics.begin_interval()
        if evaluates:
            self.output.write_report(self._report(RUNNING, step))

    def _stop_is_requested(self, step: int) -> bool:
        """Return whether any machine was interrupted: all stop after the same step."""
        requested = self.trainer.interruption.requested
        if self.trainer.place.workers == 1:
            return requested
        with self._noticing_lost_machines(step):
            return self._any_replica(requested)

    @functools.cached_property
    def _any_replica(self) -> Callable[[bool], bool]:
        return any_replica(self.trainer.strategy)

    def _next_batch(self) -> Any:
        with self.trainer.account.spending("data_wait"), _naming_the_problem(self.trainer.corpus):
            return next(self.feed)

    def _train_on(self, step: int, batch: Any) -> None:
        with self._noticing_lost_machines(step - 1):
            result = self.stepper.run(step, batch)
        self.trainer.metrics.add(batch, result)
        scale = self.trainer.optimizer.loss_scale
        self.trainer.divergence.check(
            step,
            batch,
            result,
            scale_may_be_too_large=scale is not None and float(scale.value.numpy()) > 1.0,
        )

    @contextlib.contextmanager
    def _noticing_lost_machines(self, whole_step: int) -> Iterator[None]:
        """Name the last whole step if another machine is lost in a collective operation."""
        try:
            yield
        except LOST_MACHINE_ERRORS as error:
            if self.trainer.place.workers == 1:
                raise
            raise LostMachineError(whole_step) from error

    def _has_stopped_improving(self, step: int) -> bool:
        """Return whether to stop early. The chief decides; the other machines stop with it."""
        patience = self.trainer.config.evaluation.early_stopping_evaluations
        if patience is None:
            return False
        place, stops = self.trainer.place, self.output.should_stop
        if place.workers > 1:
            with self._noticing_lost_machines(step):
                stops = self._any_replica(stops)
        if stops and place.is_chief:
            self.output.save_and_wait(step)
            metric = self.trainer.config.evaluation.best_metric
            self.trainer.observer.on_notice(
                f"Early stopping: {metric} has not improved for {patience} evaluations"
            )
        return stops

    def _report(self, state: str, step: int) -> RunReport:
        trainer, feed = self.trainer, self.feed
        metrics, signal = trainer.metrics, trainer.interruption.signal
        counts = self.stepper.monitor.counts()
        seconds, plan = trainer.seconds(), trainer.corpus.train.plan
        trained = self.stepper.monitor.trained if plan.dynamic else plan.shapes
        micro_batches = trainer.config.training.gradient_accumulation_steps
        shapes = sorted({shape.part(micro_batches).padded for shape in trained})
        return RunReport(
            run_dir=trainer.run_dir.path,
            state=state,
            interrupted_by=signal.name if signal and state == INTERRUPTED else None,
            planned_steps=trainer.total_steps,
            steps=step,
            **counts,
            valid_frame_ratio=metrics.valid_frame_ratio,
            valid_work_ratio=metrics.valid_work_ratio,
            useful_utilisation=seconds["compute"] / seconds["wall"] * metrics.valid_work_ratio,
            steady_utilisation=metrics.steady_utilisation,
            seconds={name: round(value, 3) for name, value in seconds.items()},
            shapes=[list(shape) for shape in shapes],
            rejected=trainer.corpus.train.rejected,
            mode=feed.mode,
            strategy=name_of(trainer.strategy),
            data_device=feed.data_device,
            model_devices=trainer.model_devices(),
            buffer_size=feed.buffer_size,
            buffer_size_at_end=feed.present_buffer_size,
            peak_memory_mb=trainer.peak_memory.peaks_mb(),
            gpus=self.gpus.whole_run(),
            best=self.output.best(),
            advice=[
                *advice(
                    seconds,
                    metrics.valid_work_ratio,
                    feed.remedy_for_waiting(),
                    counts["compilations_after_warmup"],
                ),
                *self.output.advice(),
            ],
        )


@contextlib.contextmanager
def _naming_the_problem(corpus: Corpus) -> Iterator[None]:
    """Turn an error from loading a batch into one that names the fix."""
    try:
        yield
    except OSError as error:
        raise UnreadableBatchError(
            f"{corpus.train.cache.folder}: features cannot be read ({error})",
            "check the disk, delete that folder (it is recomputed) and continue with --resume",
        ) from error
    except MemoryError as error:
        raise UnreadableBatchError(
            "out of memory while loading a batch",
            "lower data.buffer_size or data.batch_size and continue with --resume",
        ) from error
    except DeviceError as error:
        raise UnreadableBatchError(str(error), "continue with --resume") from error
