"""Trains one task on one corpus into one run folder.

The trainer sets up what a run needs, starts it from scratch, a checkpoint or other weights, and
rolls back to a checkpoint when training diverges. The steps themselves are in `loop`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from pathlib import Path

import keras
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import Corpus
from myxtts.data.pipeline import MULTI_GPU, Feed
from myxtts.devices.memory import PeakMemory
from myxtts.devices.monitor import GpuSampler
from myxtts.devices.strategy import (
    devices_holding,
    model_scope,
    place_of,
    uses_xla,
    wait_for_all,
)
from myxtts.errors import DataError, DeviceError, NonFiniteLossError
from myxtts.runs.checkpoint import Checkpoint
from myxtts.runs.run_dir import RunDir, add_seconds, require_length
from myxtts.training.describing import describe_start
from myxtts.training.device_setup import set_up_devices
from myxtts.training.inputs import make_feed, planned_for, require_planned_for
from myxtts.training.interruption import Interruption
from myxtts.training.keeping import CheckpointKeeper, NullKeeper, RunKeeper, describe_saved
from myxtts.training.loop import LostMachineError, TrainingLoop, UnreadableBatchError
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.same_corpus import require_same_corpus
from myxtts.training.starting_weights import StartReport
from myxtts.training.stepping import Stepper, out_of_memory, reporting_out_of_memory
from myxtts.training.task import Task
from myxtts.training.tasks import task_of
from myxtts.training.watching.accounting import TimeAccount
from myxtts.training.watching.best_metric import with_best_metric
from myxtts.training.watching.divergence import RATE_FACTOR, DivergenceMonitor, TooManyBadStepsError
from myxtts.training.watching.judging import Measurer
from myxtts.training.watching.metrics import RunMetrics
from myxtts.training.watching.observer import Observer
from myxtts.training.watching.report import RunReport
from myxtts.training.weight_names import short_name

_log = logging.getLogger(__name__)

_TRIAL_STEPS = 2
_SECONDS_BETWEEN_SURVIVORS = 3.0


class XTTSTrainer:
    """Creates the model and the optimizer in the strategy's scope.

    Without a strategy, devices come from the configuration, as for `myxtts train`; a corpus that
    was planned for another number of replicas is then planned again.
    """

    def __init__(
        self,
        config: XTTSConfig,
        corpus: Corpus,
        run_dir: str | Path | RunDir,
        *,
        strategy: tf.distribute.Strategy | None = None,
        task: Task | None = None,
        observer: Observer | None = None,
        account: TimeAccount | None = None,
        feed: Feed | None = None,
        interruption: Interruption | None = None,
        measurer: Measurer | None = None,
    ) -> None:
        # Nothing is measured in the background unless a measurer is passed in for it.
        self.config = config = with_best_metric(config, languages=())
        self.corpus = corpus
        self.run_dir = RunDir(run_dir)
        self._data_device = feed.data_device if feed and feed.mode == MULTI_GPU else None
        if strategy is None:
            strategy, self._data_device, _ = set_up_devices(config)
            self.corpus = corpus = planned_for(strategy, corpus, config)
        self.strategy = strategy
        self.task = task or task_of(config, corpus)
        self.observer = observer or Observer()
        self.account = account or TimeAccount()
        self.interruption = interruption or Interruption()
        self._measurer = measurer
        self._feed = feed
        self._seconds_before: dict[str, float] = {}
        self._start: StartReport | None = None
        self._resumed: Checkpoint | None = None
        self.stepper: Stepper | None = None
        require_planned_for(corpus, config, self.strategy.num_replicas_in_sync)
        self.total_steps = corpus.train.schedule.planned_steps(config.training)
        self.place = place_of(self.strategy)
        evidence = self.run_dir.evidence if self.place.is_chief else None
        self._divergence = DivergenceMonitor(corpus.train, evidence)
        keras.utils.set_random_seed(config.training.seed)
        with model_scope(self.strategy):
            self.task.build()
            self.optimizer = FlatAdamW(
                self.model.trainable_variables,
                config.training,
                self.total_steps,
                self.task.rest,
            )
        if self.optimizer.frozen:
            self.observer.on_notice(self._describe_frozen())

    @property
    def model(self) -> keras.Model:
        return self.task.model

    @property
    def parameters(self) -> int:
        return sum(math.prod(variable.shape) for variable in self.model.trainable_variables)

    @property
    def steps_left(self) -> int:
        return self.total_steps - self._step_now()

    @property
    def expected_seconds(self) -> float | None:
        """For the steps that are left, once `prepare` has tried one."""
        seconds = None if self.stepper is None else self.stepper.expected_seconds
        if seconds is None:
            return None
        now = self._step_now()
        tried, to_end = (
            self.task.time_of_steps(step) - self.task.time_of_steps(now)
            for step in (now + 1, self.total_steps)
        )
        return seconds * to_end / tried

    def resume(
        self, checkpoint: Checkpoint | None = None, *, allow_changed_corpus: bool = False
    ) -> int:
        """Resumes from a checkpoint, by default the newest of the run folder; returns its step.

        One at the end of its run only gets what is missing of its evaluation and its report.
        """
        checkpoint = checkpoint or self.run_dir.newest_checkpoint()
        require_length(self.run_dir, checkpoint, self.total_steps)
        require_same_corpus(
            checkpoint, self.task.data_fingerprints(), self.config, allowed=allow_changed_corpus
        )
        self.task.require_fit(checkpoint)
        self.optimizer.require_shapes(checkpoint.training_shapes(), checkpoint.folder)
        self.optimizer.restore(checkpoint.training_state(), checkpoint.folder)
        self.task.take_facts(checkpoint.info)
        self._seconds_before = checkpoint.info.seconds
        self._resumed = checkpoint
        return checkpoint.info.step

    def start_from(self, checkpoint: Checkpoint, *, partially: bool = False) -> StartReport:
        """Loads the EMA weights of another run; weights may be left out only with `partially`."""
        start = self.task.starting_weights(
            checkpoint, self.optimizer.weights_by_name(), partially=partially
        )
        self.optimizer.start_from(start.tensors)
        self.task.take_facts(checkpoint.info)
        self._start = start.report
        for line in start.report.lines():
            self.observer.on_notice(line)
        held = [it.path for it in self.optimizer.frozen if it.path in start.incomplete]
        if held:
            _log.warning(
                "training.freeze includes weights that were not fully loaded from the checkpoint; "
                "they stay untrained: %s",
                ", ".join(map(short_name, held)),
            )
        return start.report

    def prepare(self) -> None:
        """Everything before the first step: initial weights, compiling, testing the devices."""
        self._peak_memory = PeakMemory(self._model_devices())
        with model_scope(self.strategy), reporting_out_of_memory(self.config):
            if self.task.find_first_weights(self.observer.on_phase):
                self.optimizer.reset_ema()
        with (
            model_scope(self.strategy),
            reporting_out_of_memory(self.config),
            self.account.spending("compile"),
        ):
            if self.place.workers > 1:
                self.optimizer.take_weights_of_first_replica()
            self.observer.on_phase("tracing the training step")
            with self._no_new_batches():
                self.stepper = Stepper(
                    self.task,
                    self.optimizer,
                    self.corpus.train.plan,
                    self.config,
                    self.account,
                )
            self._validation = self.task.compile_validation()
            self.stepper.warm_up(self.observer.on_warm_up)
            if self.strategy.num_replicas_in_sync > 1:
                self.observer.on_phase("testing two steps on all replicas")
                planned = map(self.corpus.train.schedule.batch_at, range(_TRIAL_STEPS))
                self.stepper.try_replicas(self.task.load(it.part(*self.place)) for it in planned)

    def _no_new_batches(self) -> contextlib.AbstractContextManager[None]:
        """Their tensors would change the names that XLA's programs are cached under."""
        if self._feed is None or not uses_xla(self.strategy, self.config.training.xla):
            return contextlib.nullcontext()
        return self._feed.paused()

    def fit(self) -> RunReport:
        """Trains for the planned number of steps, or until interrupted."""
        if self.stepper is None:
            self.prepare()
        for line in describe_start(self):
            self.observer.on_notice(line)
        while True:
            try:
                self._metrics = RunMetrics(self.task, self.account)
                with (
                    contextlib.closing(self._started_feed()) as feed,
                    GpuSampler() as gpus,
                    model_scope(self.strategy),
                    self._keeper() as keeper,
                ):
                    return self._run_loop(feed, gpus, keeper)
            except TooManyBadStepsError:
                with model_scope(self.strategy):
                    self._roll_back()

    def _run_loop(self, feed: Feed, gpus: GpuSampler, keeper: RunKeeper | NullKeeper) -> RunReport:
        assert self.stepper is not None
        loop = TrainingLoop(
            run_dir=self.run_dir,
            config=self.config,
            corpus=self.corpus,
            task=self.task,
            optimizer=self.optimizer,
            strategy=self.strategy,
            total_steps=self.total_steps,
            feed=feed,
            stepper=self.stepper,
            keeper=keeper,
            divergence=self._divergence,
            account=self.account,
            seconds=self._seconds,
            gpus=gpus,
            peak_memory=self._peak_memory,
            model_devices=self._model_devices(),
            observer=self.observer,
            interruption=self.interruption,
            metrics=self._metrics,
            resumed=self._resumed,
        )
        try:
            return loop.run()
        except UnreadableBatchError as error:
            # Between two steps the state is consistent, whatever happened to the data.
            step = self._step_now()
            keeper.save_and_wait(step)
            saved = describe_saved(self.run_dir, step)
            raise DataError(f"{error.problem}; {saved}: {error.remedy}") from error.__cause__
        except DataError:
            keeper.save_and_wait(self._step_now())
            raise
        except tf.errors.ResourceExhaustedError as error:
            # Outside a step, in validation: nothing of the training state is lost.
            step = self._step_now()
            keeper.save_and_wait(step)
            saved = describe_saved(self.run_dir, step)
            raise DeviceError(
                f"{out_of_memory(self.config)}; {saved}: continue with --resume {self.run_dir}"
            ) from error
        except LostMachineError as error:
            message = self._save_without_the_others(error.whole_step, keeper)
            raise DeviceError(message) from error.__cause__

    def _started_feed(self) -> Feed:
        """The feed passed to the trainer, once; after that, one that starts at the current step."""
        feed, self._feed = self._feed, None
        if feed is None:
            feed = make_feed(
                self.task, self.config, self.strategy, self.total_steps, self._data_device
            )
            feed.start(self._step_now())
        return feed

    def _keeper(self) -> RunKeeper | NullKeeper:
        if not self.place.is_chief:
            return NullKeeper()
        return RunKeeper(
            self.run_dir,
            self.config,
            self.corpus,
            self.optimizer,
            self._validation,
            self.account,
            self.observer,
            self._checkpoint_keeper(),
            start=self._start,
            measurer=self._measurer,
        )

    def _checkpoint_keeper(self) -> CheckpointKeeper:
        return CheckpointKeeper(
            self.run_dir,
            self.config,
            self.corpus,
            self.task,
            self.optimizer,
            self.account,
            self._seconds,
            self._metrics,
        )

    def _roll_back(self) -> None:
        """Restores the newest checkpoint, if there is one, and lowers the learning rate."""
        wait_for_all(self.strategy)
        factor = RATE_FACTOR * float(self.optimizer.rate_factor.numpy())
        self._resumed = None
        if self.run_dir.checkpoint_folders():
            self._resumed = checkpoint = self.run_dir.newest_checkpoint()
            self.optimizer.restore(checkpoint.training_state(), checkpoint.folder)
        elif self._step_now() >= self.total_steps:
            raise NonFiniteLossError(
                f"the last steps up to {self._step_now()} had a non-finite loss or gradient, and "
                "there is no checkpoint to roll back to; lower training.learning_rate"
            )
        self.optimizer.rate_factor.assign(factor)
        _log.warning(
            "too many bad steps in a row: continuing from step %d with %g times the learning rate",
            self._step_now(),
            factor,
        )

    def _save_without_the_others(self, step: int, keeper: RunKeeper | NullKeeper) -> str:
        """Saves the last completed step, which all machines have; returns the error message."""
        # The first survivor writes; the others find its checkpoint.
        time.sleep(_SECONDS_BETWEEN_SURVIVORS * self.place.worker)
        if not self.run_dir.has_checkpoint(step):
            if isinstance(keeper, NullKeeper):
                with self._checkpoint_keeper() as checkpoints:
                    checkpoints.save_and_wait(step)
            else:
                keeper.save_and_wait(step)
        return (
            f"another machine was lost after step {step}; {describe_saved(self.run_dir, step)}: "
            f"continue with --resume {self.run_dir}, on any number of machines"
        )

    def _step_now(self) -> int:
        return int(self.optimizer.step.numpy())

    def _seconds(self) -> dict[str, float]:
        """Of the whole run, including the time before it was resumed."""
        return add_seconds(self.account.seconds(), self._seconds_before)

    def _model_devices(self) -> list[str]:
        weights = [variable.value for variable in self.model.trainable_variables]
        return devices_holding(self.strategy, weights)

    def _describe_frozen(self) -> str:
        frozen, total = (
            sum(math.prod(variable.shape) for variable in variables)
            for variables in (self.optimizer.frozen, self.model.trainable_variables)
        )
        return f"Frozen: {frozen:,} of {total:,} weights ({self.config.training.freeze})"
