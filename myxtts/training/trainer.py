"""Trains one task on one corpus into one run folder: model, optimizer, restore, warm-up and loop.

The steps themselves are in `loop`. Here a run starts from scratch, a checkpoint or other weights.
It rolls back to a checkpoint when training diverges, and saves its state when something fails.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import keras
import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import BATCH_PLAN, Corpus, plan_corpus
from myxtts.data.pipeline import HOST, MULTI_GPU, Feed
from myxtts.devices.memory import PeakMemory
from myxtts.devices.monitor import GpuSampler
from myxtts.devices.strategy import (
    devices_here,
    devices_holding,
    model_scope,
    place_of,
    set_up_devices,
    uses_xla,
    wait_for_all,
)
from myxtts.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DeviceError,
    NonFiniteLossError,
)
from myxtts.runs.checkpoint import Checkpoint, CheckpointInfo, save_checkpoint
from myxtts.runs.run_dir import RunDir, add_seconds, changes_since, require_length
from myxtts.training.acoustic import AcousticTask
from myxtts.training.best import Measurer, with_best_metric
from myxtts.training.divergence import RATE_FACTOR, DivergenceMonitor, TooManyBadStepsError
from myxtts.training.interruption import Interruption
from myxtts.training.loop import LostMachineError, TrainingLoop, UnreadableBatchError
from myxtts.training.optimizer import FlatAdamW, Optimizer, short_name
from myxtts.training.output import NullOutput, RunOutput, describe_saved
from myxtts.training.report import Observer, RunReport, describe_start
from myxtts.training.step import Stepper, out_of_memory, reporting_out_of_memory, try_replicas
from myxtts.training.task import Task
from myxtts.training.time_account import RunMetrics, TimeAccount, numbers_or_null
from myxtts.training.vocoder import VocoderTask
from myxtts.training.warm_start import StartReport

_log = logging.getLogger(__name__)

TASKS: dict[str, Callable[[XTTSConfig, Corpus], Task]] = {
    "acoustic": AcousticTask,
    "vocoder": VocoderTask,
}
_TRIAL_STEPS = 2
_SECONDS_BETWEEN_SURVIVORS = 3.0
# Settings that affect which clips are used. The folder does not: a corpus may be moved.
_DECIDE_CLIPS = {
    *("data.val_data", "data.validation_fraction", "data.layout"),
    *("data.max_text_length", "data.max_mel_frames", "vocoder.mels_from"),
}
# Settings that affect the batches of the same clips.
_DECIDE_BATCHES = _DECIDE_CLIPS | {
    *("data.batch_size", "data.batching", "data.pad_to_fixed_length", "data.shape_count"),
    *("data.speaker_balance", "data.language_balance"),
    *("training.gradient_accumulation_steps", "vocoder.frames_per_segment"),
}


def make_feed(
    task: Task,
    config: XTTSConfig,
    strategy: tf.distribute.Strategy,
    last_step: int,
    data_device: str | None = None,
) -> Feed:
    """Return a feed, not started yet, of the batches of a task for the devices of a strategy."""
    devices, place = devices_here(strategy), place_of(strategy)
    # Replicas take their shares of a batch from the host or from the first model device.
    model_device = devices[0] if len(devices) == 1 or data_device is not None else HOST
    source = task.source(data_device=data_device, worker=place.worker, workers=place.workers)
    return Feed(source, config, last_step, model_device=model_device)


class XTTSTrainer:
    """Creates the model and the optimizer in the strategy's scope.

    Without a strategy, devices come from the configuration, as for `myxtts train`. A corpus that
    was planned for another number of replicas is then planned again.

    >>> report = XTTSTrainer(config, open_corpus(config), "runs/mine").fit()  # doctest: +SKIP
    """

    def __init__(
        self,
        config: XTTSConfig,
        corpus: Corpus,
        run_dir: str | Path | RunDir,
        *,
        strategy: tf.distribute.Strategy | None = None,
        task: Task | None = None,
        optimizer: Callable[..., Optimizer] = FlatAdamW,
        observer: Observer | None = None,
        account: TimeAccount | None = None,
        feed: Feed | None = None,
        interruption: Interruption | None = None,
        measurer: Measurer | None = None,
    ) -> None:
        # Nothing is measured in the background unless a measurer is passed in for it.
        self.config = config = with_best_metric(config, languages=())
        self.run_dir = RunDir(run_dir)
        self._data_device = feed.data_device if feed and feed.mode == MULTI_GPU else None
        has_strategy = strategy is not None
        if strategy is None:
            strategy, self._data_device, _ = set_up_devices(config)
        replicas = strategy.num_replicas_in_sync
        shares = replicas * config.training.gradient_accumulation_steps
        if corpus.train.plan.shares != shares:
            if has_strategy:
                raise ConfigError(
                    f"the corpus was planned for {corpus.train.plan.shares} micro-batches per "
                    f"step, but {replicas} replicas times training.gradient_accumulation_steps "
                    f"make {shares}; open it with replicas={replicas}"
                )
            corpus = plan_corpus(
                corpus.train.cache,
                corpus.validation.cache,
                config,
                replicas=replicas,
                xla=uses_xla(strategy, config.training.xla),
                vocabulary=corpus.tokenizer,
            )
        self.corpus = corpus
        self.strategy = strategy
        self.place = place_of(strategy)
        self.task = task or TASKS[config.training.task](config, corpus)
        self._fingerprints = self.task.fingerprints()
        self.observer = observer or Observer()
        self.account = account or TimeAccount()
        self.interruption = interruption or Interruption()
        self._measurer = measurer
        self._feed = feed
        self._seconds_before: dict[str, float] = {}
        self._start: StartReport | None = None
        self.resumed: Checkpoint | None = None
        self.stepper: Stepper | None = None
        self.total_steps = corpus.train.schedule.planned_steps(config.training)
        evidence = self.run_dir.evidence if self.place.is_chief else None
        self.divergence = DivergenceMonitor(corpus.train, evidence)
        keras.utils.set_random_seed(config.training.seed)
        with model_scope(strategy):
            self.task.build()
            self.optimizer = optimizer(
                self.model.trainable_variables,
                config.training,
                self.total_steps,
                self.task.freeze_after,
            )
        if self.optimizer.frozen:
            frozen = sum(math.prod(variable.shape) for variable in self.optimizer.frozen)
            self.observer.on_notice(
                f"Frozen: {frozen:,} of {self.parameters:,} weights ({config.training.freeze})"
            )

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
        """Time of the steps that are left, known after `prepare` with static shapes."""
        if self.stepper is None or self.stepper.expected_seconds is None:
            return None
        now, time_of = self._step_now(), self.task.relative_time
        tried, left = (time_of(step) - time_of(now) for step in (now + 1, self.total_steps))
        return self.stepper.expected_seconds * left / tried

    def resume(
        self, checkpoint: Checkpoint | None = None, *, allow_changed_corpus: bool = False
    ) -> int:
        """Resume from a checkpoint, by default the newest of the run folder; return its step.

        A checkpoint at the end of its run only completes its evaluation and report.
        """
        checkpoint = checkpoint or self.run_dir.newest_checkpoint()
        require_length(checkpoint, self.total_steps)
        require_same_corpus(
            checkpoint, self._fingerprints, self.config, allowed=allow_changed_corpus
        )
        self.task.restore(checkpoint)
        self.optimizer.restore(checkpoint.training_state(), checkpoint.folder)
        self._seconds_before = checkpoint.info.seconds
        self.resumed = checkpoint
        return checkpoint.info.step

    def start_from(self, checkpoint: Checkpoint, *, partially: bool = False) -> StartReport:
        """Load the EMA weights of another run; weights may be left out only with `partially`."""
        start = self.task.warm_start(
            checkpoint, self.optimizer.weights_by_name(), partially=partially
        )
        self.optimizer.start_from(start.tensors)
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
        """Do everything before the first step: initial weights, compiling, testing the devices."""
        self.peak_memory = PeakMemory(self.model_devices())
        with model_scope(self.strategy), reporting_out_of_memory(self.config):
            if self.task.initialize(self.observer.on_phase):
                self.optimizer.reset_ema()
            with self.account.spending("compile"):
                if self.place.workers > 1:
                    self.optimizer.broadcast_first_replica()
                self.observer.on_phase("tracing the training step")
                xla = uses_xla(self.strategy, self.config.training.xla)
                # New batches would change the names that XLA's programs are cached under.
                with self._feed.paused() if self._feed and xla else contextlib.nullcontext():
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
                    batches = (self.task.load(it.part(*self.place)) for it in planned)
                    try_replicas(self.stepper.compiled_step, self.optimizer, batches)

    def fit(self) -> RunReport:
        """Train for the planned number of steps, or until interrupted."""
        if self.stepper is None:
            self.prepare()
        for line in describe_start(self):
            self.observer.on_notice(line)
        while True:
            try:
                self.metrics = RunMetrics(self.task, self.account)
                with (
                    contextlib.closing(self._started_feed()) as feed,
                    GpuSampler() as gpus,
                    model_scope(self.strategy),
                    self._output() as output,
                ):
                    return self._run_loop(feed, gpus, output)
            except TooManyBadStepsError:
                with model_scope(self.strategy):
                    self._roll_back()

    def _run_loop(self, feed: Feed, gpus: GpuSampler, output: RunOutput | NullOutput) -> RunReport:
        assert self.stepper is not None
        loop = TrainingLoop(self, self.stepper, feed, gpus, output)
        try:
            return loop.run()
        except UnreadableBatchError as error:
            # Between two steps the state is consistent even if loading failed.
            saved = self._saved(output)
            raise DataError(f"{error.problem}; {saved}: {error.remedy}") from error.__cause__
        except DataError:
            self._saved(output)
            raise
        except tf.errors.ResourceExhaustedError as error:
            # Outside a step, in validation: nothing of the training state is lost.
            saved = self._saved(output)
            raise DeviceError(
                f"{out_of_memory(self.config)}; {saved}: continue with --resume {self.run_dir}"
            ) from error
        except LostMachineError as error:
            # The first surviving machine saves the last step that all completed; the others find
            # it.
            step = error.whole_step
            time.sleep(_SECONDS_BETWEEN_SURVIVORS * self.place.worker)
            if not self.run_dir.has_checkpoint(step):
                with contextlib.suppress(CheckpointError):
                    save_checkpoint(
                        self.run_dir.checkpoints,
                        self._checkpoint_info(step, {}),
                        self.optimizer.state(),
                        self.run_dir.files_for_checkpoints(),
                        self.config.saving.keep_checkpoints,
                    )
            raise DeviceError(
                f"another machine was lost after step {step}; {describe_saved(self.run_dir, step)}:"
                f" continue with --resume {self.run_dir}, on any number of machines"
            ) from error.__cause__

    def _saved(self, output: RunOutput | NullOutput) -> str:
        step = self._step_now()
        output.save_and_wait(step)
        return describe_saved(self.run_dir, step)

    def _started_feed(self) -> Feed:
        """Return the feed passed to the trainer, and after a rollback a new one."""
        feed, self._feed = self._feed, None
        if feed is None:
            feed = make_feed(
                self.task, self.config, self.strategy, self.total_steps, self._data_device
            )
            feed.start(self._step_now())
        return feed

    def _output(self) -> RunOutput | NullOutput:
        if not self.place.is_chief:
            return NullOutput()
        return RunOutput(
            self.run_dir,
            self.config,
            self.corpus,
            self.optimizer,
            self._validation,
            self.account,
            self.observer,
            checkpoint_info=self._checkpoint_info,
            start=self._start,
            measurer=self._measurer,
        )

    def _checkpoint_info(self, step: int, metrics: Mapping[str, float]) -> CheckpointInfo:
        epoch, batch = divmod(step, self.corpus.train.schedule.batches_per_epoch)
        return CheckpointInfo(
            step=step,
            seed=self.config.training.seed,
            epoch=epoch,
            batch=batch,
            metrics=numbers_or_null(metrics),
            seconds=self.seconds(),
            so_far=self.metrics.so_far(),
            corpus=self._fingerprints,
            **self.task.state(),
        )

    def _roll_back(self) -> None:
        """Restore the newest checkpoint, if there is one, and lower the learning rate."""
        wait_for_all(self.strategy)
        factor = RATE_FACTOR * float(self.optimizer.rate_factor.numpy())
        self.resumed = None
        if self.run_dir.checkpoint_folders():
            self.resumed = checkpoint = self.run_dir.newest_checkpoint()
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

    def _step_now(self) -> int:
        return int(self.optimizer.step.numpy())

    def seconds(self) -> dict[str, float]:
        """Return the time account of the whole run, with the time before it was resumed."""
        return add_seconds(self.account.seconds(), self._seconds_before)

    def model_devices(self) -> list[str]:
        weights = [variable.value for variable in self.model.trainable_variables]
        return devices_holding(self.strategy, weights)


def require_same_corpus(
    checkpoint: Checkpoint, now: Mapping[str, str], config: XTTSConfig, *, allowed: bool
) -> None:
    """Report each difference from the clips and batches of the run so far.

    Resuming with different clips would silently change the result. A difference is an error
    unless it is allowed or follows from changed settings.
    """
    changed = [change.name for change in changes_since(checkpoint, config)]
    has_other_clips = False
    for name, before in checkpoint.info.corpus.items():
        is_plan = name == BATCH_PLAN
        # Different clips imply different batches.
        if now.get(name, before) == before or (is_plan and has_other_clips):
            continue
        count, count_now = (text.rpartition(" ")[0] for text in (before, now[name]))
        change = f"{count} before, {count_now} now"
        if count == count_now:
            change = f"{count_now}, in another order or with other content"
        which = "is not that" if is_plan else "are not those"
        difference = f"the {name} {which} of the run so far ({change})"
        deciding = _DECIDE_BATCHES if is_plan else _DECIDE_CLIPS
        configured = [setting for setting in changed if setting in deciding]
        # Another number of micro-batches comes from another number of devices.
        if not (allowed or configured or (is_plan and count != count_now)):
            raise CheckpointError(
                f"{checkpoint.folder}: {difference}; restore the corpus as it was, or resume "
                "with what is there now with --allow-changed-corpus"
            )
        because = f", since {configured[0]} has changed" if configured else ""
        _log.warning("%s: %s%s", checkpoint.folder, difference, because)
        has_other_clips |= not is_plan
