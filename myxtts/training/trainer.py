"""The training loop: feed, step, log, evaluate, save. Layers, losses and files live elsewhere."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from myxtts.batch import Batch
from myxtts.config.config import XTTSConfig
from myxtts.config.loading import save_config
from myxtts.data.feeding.batches import BatchLoader, batch_signature
from myxtts.data.feeding.pipeline import HOST, MULTI_GPU, Feed
from myxtts.data.opening import Corpus
from myxtts.data.planning.plan_files import save_plan
from myxtts.data.planning.shapes import Shape
from myxtts.devices.compilations import CompilationLog
from myxtts.devices.gpu_samples import GpuSampler
from myxtts.devices.strategy import (
    devices_here,
    name_of,
    place_of,
    sum_over_replicas,
    uses_xla,
    wait_for_all,
)
from myxtts.devices.usage import PeakMemory
from myxtts.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    DeviceError,
    NonFiniteLossError,
)
from myxtts.models.sampler import SpeechSampler
from myxtts.runs.checkpoint_writer import CheckpointWriter
from myxtts.runs.checkpoints import Checkpoint, CheckpointInfo
from myxtts.runs.resuming import add_seconds, changes_since
from myxtts.runs.run_dir import RunDir
from myxtts.training.first_alignment import set_symbol_means
from myxtts.training.interruption import Interruption
from myxtts.training.model_building import build_model
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.replicas import LOST_MACHINE_ERRORS, try_replicas
from myxtts.training.starting_weights import StartReport, starting_weights
from myxtts.training.step import compile_evaluation_step, compile_training_step
from myxtts.training.validation import Validation
from myxtts.training.warmup import out_of_memory, warm_up
from myxtts.training.watching.accounting import TimeAccount, advice
from myxtts.training.watching.bad_numbers import RATE_FACTOR, BadNumbers, TooManyBadStepsError
from myxtts.training.watching.judging import Judge, Measurer
from myxtts.training.watching.metrics import RunMetrics
from myxtts.training.watching.reporting import Observer, RunWriter, SilentObserver, numbers_or_null
from myxtts.training.watching.retracing import RetracingMonitor
from myxtts.training.weight_names import short_name

_log = logging.getLogger(__name__)

_TRIAL_STEPS = 2
_SECONDS_BETWEEN_SURVIVORS = 3.0


class XTTSTrainer:
    """Trains one model on one corpus into one run folder.

    The model and the optimizer are made in the strategy's scope.
    """

    def __init__(
        self,
        config: XTTSConfig,
        corpus: Corpus,
        run_dir: str | Path | RunDir,
        *,
        strategy: tf.distribute.Strategy | None = None,
        observer: Observer | None = None,
        account: TimeAccount | None = None,
        compilation_log: CompilationLog | None = None,
        feed: Feed | None = None,
        interruption: Interruption | None = None,
        measurer: Measurer | None = None,
    ) -> None:
        self.config = config
        self.corpus = corpus
        self.run_dir = RunDir(run_dir)
        self.strategy = strategy or tf.distribute.get_strategy()
        self.observer = observer or SilentObserver()
        self.account = account or TimeAccount()
        self._compilation_log = compilation_log
        self.interruption = interruption or Interruption()
        self._last_metrics: dict[str, float] = {}
        self._saved_step: int | None = None
        self._seconds_before: dict[str, float] = {}
        _require_planned_for(corpus, config, self.strategy.num_replicas_in_sync)
        self.total_steps = corpus.train.schedule.planned_steps(config.training)
        self.place = place_of(self.strategy)
        evidence = self.run_dir.evidence if self.place.is_chief else None
        self._bad_numbers = BadNumbers(corpus.train, evidence)
        self._measurer = measurer
        self._feed = feed
        self._data_device = feed.data_device if feed and feed.mode == MULTI_GPU else None
        self._unknown_symbols: Sequence[int] = range(len(corpus.tokenizer.symbols))
        self._start: StartReport | None = None
        self._is_prepared = False
        keras.utils.set_random_seed(config.training.seed)
        with self.strategy.scope():
            self.model = build_model(config, corpus)
            self.optimizer = FlatAdamW(
                self.model.trainable_variables, config.training, self.total_steps
            )
        self.xla = uses_xla(self.strategy, config.training.xla)
        if self.optimizer.frozen:
            self.observer.on_notice(self._describe_frozen())

    def resume(self, checkpoint: Checkpoint | None = None) -> int:
        """Goes on from a checkpoint, or the newest of the run folder; returns its step."""
        checkpoint = checkpoint or self.run_dir.newest_checkpoint()
        if checkpoint.info.step >= self.total_steps:
            raise CheckpointError(
                f"{self.run_dir}: has trained {checkpoint.info.step} steps, and {self.total_steps} "
                "were asked for; ask for more with --max-steps or --epochs"
            )
        changes_since(checkpoint, self.config)
        if checkpoint.tokenizer() != self.corpus.tokenizer:
            raise CheckpointError(
                f"{self.run_dir}: was trained with another vocabulary than this corpus has; "
                "resume it with the data it was trained on, or start anew with --init-from"
            )
        self.optimizer.restore(checkpoint.training_state(), checkpoint.folder)
        self._take_mel_level(checkpoint)
        self._seconds_before = checkpoint.info.seconds
        self._unknown_symbols = ()
        return checkpoint.info.step

    def start_from(self, checkpoint: Checkpoint, *, partially: bool = False) -> StartReport:
        """Takes the averaged weights of another run; what does not fit is left only `partially`."""
        start = starting_weights(
            checkpoint,
            self.optimizer.weights_by_name(),
            self.corpus,
            self.config,
            partially=partially,
        )
        self.optimizer.start_from(start.tensors)
        self._take_mel_level(checkpoint)
        self._unknown_symbols = start.unknown_symbols
        self._start = start.report
        for line in start.report.lines():
            self.observer.on_notice(line)
        held = [it.path for it in self.optimizer.frozen if it.path in start.incomplete]
        if held:
            _log.warning(
                "training.freeze holds what is not, or not all, from there, so it will not learn "
                "the rest: %s",
                ", ".join(map(short_name, held)),
            )
        return start.report

    def _take_mel_level(self, checkpoint: Checkpoint) -> None:
        """Weights know mels only as they were normalised where they were trained."""
        self.model.mel_mean = checkpoint.info.mel_mean
        self.model.mel_deviation = checkpoint.info.mel_deviation

    def _describe_frozen(self) -> str:
        frozen, total = (
            sum(math.prod(variable.shape) for variable in variables)
            for variables in (self.optimizer.frozen, self.model.trainable_variables)
        )
        return f"Frozen: {frozen:,} of {total:,} weights ({self.config.training.freeze})"

    def prepare(self) -> None:
        """Everything before the first step: a first alignment, compiling, trying the devices."""
        train = self.corpus.train
        self._loader = BatchLoader(train.cache, self.corpus.tokenizer, self.config)
        self._peak_memory = PeakMemory(self._model_devices())
        if self._unknown_symbols:
            self.observer.on_phase("finding a first alignment")
            with tf.device(devices_here(self.strategy)[0]):
                set_symbol_means(
                    self.model, self._loader, train.schedule, self.config, self._unknown_symbols
                )
            self._unknown_symbols = ()
            self.optimizer.forget_average()
        # A function that is called in another scope than it was traced in is traced again.
        with self.strategy.scope(), self.account.spending("compile"):
            if self.place.workers > 1:
                self.optimizer.take_weights_of_first_replica()
            self._compile()
            self._warm_up()
            if self.strategy.num_replicas_in_sync > 1:
                self.observer.on_phase("trying two steps on all replicas")
                batches = (self._load(step) for step in range(_TRIAL_STEPS))
                try_replicas(self._training_step, self.optimizer, batches)
        self._is_prepared = True

    def fit(self) -> dict[str, Any]:
        """Trains to the planned number of steps, or until it is interrupted; returns the report."""
        if not self._is_prepared:
            self.prepare()
        while True:
            try:
                with (
                    contextlib.closing(self._started_feed()) as feed,
                    GpuSampler() as self._gpus,
                    self.strategy.scope(),
                ):
                    return self._train(feed)
            except TooManyBadStepsError:
                with self.strategy.scope():
                    self._go_back()

    def _started_feed(self) -> Feed:
        """The one that came with the trainer; after that, one that begins at the present step."""
        feed, self._feed = self._feed, None
        if feed is None:
            feed = make_feed(
                self.corpus, self.config, self.strategy, self.total_steps, self._data_device
            )
            feed.start(self._step_now())
        return feed

    def _train(self, feed: Feed) -> dict[str, Any]:
        if not self.place.is_chief:
            return self._loop(feed, None)
        self.run_dir.make()
        self.run_dir.remove_unfinished()
        save_config(self.config, self.run_dir.config_file)
        self.corpus.tokenizer.save(self.run_dir.tokenizer_file)
        save_plan(self.corpus.train.plan, self.config, self.run_dir.plan_file)
        if self._start is not None:
            self._start.save(self.run_dir.start_report_file)
        with (
            contextlib.closing(RunWriter(self.run_dir, self._step_now())) as writer,
            self._checkpoint_writer() as self._checkpoints,
        ):
            self._judge = Judge(
                self.run_dir, self.config.training, writer, self.observer, self._measurer
            )
            try:
                return self._loop(feed, writer)
            except DataError:
                # Between two steps the state is whole, whatever became of the data.
                self.save(self._step_now())
                raise

    def _go_back(self) -> None:
        """To the newest checkpoint, where there is one, and on with a lower learning rate."""
        wait_for_all(self.strategy)
        factor = RATE_FACTOR * float(self.optimizer.rate_factor.numpy())
        if self.run_dir.checkpoint_folders():
            checkpoint = self.run_dir.newest_checkpoint()
            self.optimizer.restore(checkpoint.training_state(), checkpoint.folder)
        elif self._step_now() >= self.total_steps:
            raise NonFiniteLossError(
                f"the last steps up to {self._step_now()} gave no finite loss or gradient, and "
                "there is no checkpoint to go back to; lower training.learning_rate"
            )
        self._saved_step = None
        self.optimizer.rate_factor.assign(factor)
        _log.warning(
            "too many bad steps in a row: going on from step %d with %g of the learning rate",
            self._step_now(),
            factor,
        )

    def _step_now(self) -> int:
        return int(self.optimizer.step.numpy())

    def _checkpoint_writer(self) -> CheckpointWriter:
        return CheckpointWriter(self.run_dir, self.config.training.keep_checkpoints)

    def _load(self, step: int) -> Batch:
        planned = self.corpus.train.schedule.batch_at(step).part(*self.place)
        return Batch(*map(tf.convert_to_tensor, self._loader.load(planned)))

    def _compile(self) -> None:
        self.observer.on_phase("tracing the training step")
        plan, training = self.corpus.train.plan.part(self.place.workers), self.config.training
        self._training_step = compile_training_step(
            self.model,
            self.optimizer,
            batch_signature(self.config, plan),
            training,
            xla=self.xla,
        )
        self._training_step.get_concrete_function()
        self._monitor = RetracingMonitor(
            self._training_step,
            plan,
            xla=self.xla,
            devices=self.strategy.num_replicas_in_sync // self.place.workers,
            log=self._compilation_log,
        )
        validation = self.corpus.validation
        self._validation = Validation(
            validation,
            BatchLoader(validation.cache, self.corpus.tokenizer, self.config),
            compile_evaluation_step(
                self.model, batch_signature(self.config, validation.plan), training.seed
            ),
            SpeechSampler(self.model, self.config.training.usual_guidance),
            self.config,
        )

    def _warm_up(self) -> None:
        plan = self.corpus.train.plan.part(self.place.workers)
        if plan.dynamic:
            _log.warning(
                "batching: dynamic gives every batch its own shape%s; it is for comparison, and "
                "batching: bucketed trains the same clips in a few shapes",
                ", and XLA compiles each new one" if self.xla else "",
            )
        warm_up(
            self._training_step,
            self._monitor,
            plan,
            self.config,
            xla=self.xla,
            on_progress=lambda done, total: self.observer.on_warm_up(done, total),
        )

    def _loop(self, feed: Feed, writer: RunWriter | None) -> dict[str, Any]:
        """Of several machines only the chief has a writer: it evaluates and saves."""
        account, every = self.account, self.config.training
        first = step = self._step_now()
        metrics = RunMetrics(self.config, account)
        self.interruption.begin_training()
        self.observer.on_phase("first step")
        account.settle("host")
        for step in range(first + 1, self.total_steps + 1):
            last = step == self.total_steps
            with account.spending("data_wait"), _reading(self.corpus.train.cache.folder, step):
                batch = next(feed)
            self._step(step, batch, metrics)
            stops = self.interruption.requested
            # In a row of bad steps the checkpoint before it is the one to go back to.
            is_due = step % every.save_every == 0 and not self._bad_numbers.in_a_row
            if writer and (is_due or last or stops):
                with account.spending("checkpoint"):
                    self.save(step)
            is_sound = not stops and not self._bad_numbers.in_a_row
            evaluates = is_sound and (step % every.evaluate_every == 0 or last)
            if step % every.log_every == 0 or evaluates or stops:
                means = metrics.flush() | self._monitor.counts() | self._gpus.flush()
                self.observer.on_step(step, self.total_steps, means)
                if writer:
                    means["measuring"] = float(self._judge.is_measuring)
                    if evaluates:
                        means |= self._evaluate(step, writer)
                    writer.write_metrics(step, means)
                    self._judge.logged(step, means)
                    self._judge.collect()
                    if evaluates or stops:
                        writer.write_report(self._report(step, metrics, feed))
                self._last_metrics = means
            if stops or (evaluates and self._has_stopped_improving()):
                break
        if writer:
            with account.spending("evaluation"):
                self._judge.finish(lambda: self.interruption.requested)
        report = self._report(step, metrics, feed)
        if writer:
            writer.write_report(report)
        return report

    def _has_stopped_improving(self) -> bool:
        """As the chief judges; the other machines stop with it."""
        if self.config.training.early_stopping_evaluations is None:
            return False
        stops = float(self.place.is_chief and self._judge.should_stop)
        if self.place.workers > 1:
            with self._noticing_lost_machines(self._step_now()):
                stops = float(sum_over_replicas(self.strategy, lambda: tf.constant(stops)))
        if stops and self.place.is_chief:
            self._save_and_wait(self._step_now())
            _log.info(
                "stopped: %s has not got better for %d evaluations",
                self.config.training.best_metric,
                self.config.training.early_stopping_evaluations,
            )
        return bool(stops)

    def _save_and_wait(self, step: int) -> Path | None:
        """The checkpoint of a step, or None where it could not be written, as was warned of."""
        with self.account.spending("checkpoint"):
            if self._saved_step != step:
                self.save(step)
            try:
                return self._checkpoints.wait()
            except CheckpointError:
                self._saved_step = None
                return None

    def _step(self, step: int, batch: Batch, metrics: RunMetrics) -> None:
        shape = _shape_of(batch)
        self._monitor.require_declared(shape)
        compiles = self._monitor.compiles(shape)
        with self.account.spending("compile" if compiles else "compute"):
            try:
                with self._noticing_lost_machines(step - 1):
                    result = self._training_step(batch, tf.constant(True))
                    result.loss.numpy()  # waits for the device
            except tf.errors.ResourceExhaustedError as error:
                raise DeviceError(out_of_memory(shape, self.config)) from error
        self._monitor.check(step, shape)
        metrics.add(batch, result)
        loss_scale = self.optimizer.loss_scale
        self._bad_numbers.check(
            step,
            batch,
            result,
            scale_may_be_too_large=loss_scale is not None and float(loss_scale.value.numpy()) > 1.0,
        )

    @contextlib.contextmanager
    def _noticing_lost_machines(self, whole_step: int) -> Iterator[None]:
        """Around what all machines do together; `whole_step` is the last that every one has."""
        try:
            yield
        except LOST_MACHINE_ERRORS as error:
            if self.place.workers == 1:
                raise
            raise DeviceError(self._save_without_the_others(whole_step)) from error

    def _evaluate(self, step: int, writer: RunWriter) -> dict[str, float]:
        with self.account.spending("evaluation"), self.optimizer.averaged_weights():
            losses = self._validation.run(step, writer)
        self.observer.on_evaluation(step, losses)
        self._judge.evaluated(step, losses, lambda: self._save_and_wait(step))
        return losses

    def _save_without_the_others(self, step: int) -> str:
        """Saves the last whole step, which every machine has; one of those that are left does."""
        # The first of those that are left to come writes; the others find its checkpoint.
        time.sleep(_SECONDS_BETWEEN_SURVIVORS * self.place.worker)
        if not self.run_dir.has_checkpoint(step):
            if not self.place.is_chief:
                self._checkpoints = self._checkpoint_writer()
            self.save(step)
            self._checkpoints.wait()
        return (
            f"another machine was lost after step {step}; that step is saved in {self.run_dir}: go "
            f"on with --resume {self.run_dir}, on as many machines as you like"
        )

    def _model_devices(self) -> list[str]:
        weights = [variable.value for variable in self.model.trainable_variables]
        return device_names(self.strategy, weights)

    def save(self, step: int) -> None:
        """Begins to save; what was copied here is written while training goes on."""
        epoch, batch = divmod(step, self.corpus.train.schedule.batches_per_epoch)
        info = CheckpointInfo(
            step=step,
            mel_mean=self.model.mel_mean,
            mel_deviation=self.model.mel_deviation,
            seed=self.config.training.seed,
            epoch=epoch,
            batch=batch,
            metrics=numbers_or_null(self._last_metrics),
            seconds=self._seconds(),
        )
        self._checkpoints.save(info, self.optimizer.state())
        self._saved_step = step

    def _seconds(self) -> dict[str, float]:
        """Of the whole run, with what it took before it was resumed."""
        return add_seconds(self.account.seconds(), self._seconds_before)

    def _shapes(self) -> list[list[int]]:
        """Batch, tokens and frames of the declared shapes, or of those met where none is."""
        plan = self.corpus.train.plan
        shapes = self._monitor.met if plan.dynamic else plan.shapes
        return [list(padded) for padded in sorted({shape.padded for shape in shapes})]

    def _report(self, step: int, metrics: RunMetrics, feed: Feed) -> dict[str, Any]:
        seconds = self._seconds()
        return {
            "steps": step,
            **self._monitor.counts(),
            "valid_frame_ratio": metrics.valid_frame_ratio,
            "valid_work_ratio": metrics.valid_work_ratio,
            "useful_utilisation": seconds["compute"] / seconds["wall"] * metrics.valid_work_ratio,
            "steady_utilisation": metrics.steady_utilisation,
            "seconds": {name: round(value, 3) for name, value in seconds.items()},
            "shapes": self._shapes(),
            "rejected": self.corpus.train.rejected,
            "mode": feed.mode,
            "strategy": name_of(self.strategy),
            "data_device": feed.data_device,
            "model_devices": self._model_devices(),
            "buffer_size": feed.buffer_size,
            "buffer_size_at_end": feed.present_buffer_size,
            "peak_memory_mb": self._peak_memory.peaks_mb(),
            "gpus": self._gpus.whole_run(),
            "best": self._judge.best() if self.place.is_chief else None,
            "advice": [
                *advice(seconds, metrics.valid_work_ratio, feed.remedy_for_waiting()),
                *(self._judge.advice() if self.place.is_chief else ()),
            ],
        }


@contextlib.contextmanager
def _reading(features: Path, step: int) -> Iterator[None]:
    """What becomes of a run whose batches cannot be made."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{features}: features cannot be read ({error}); the run is saved up to step "
            f"{step - 1}: check the disk, remove that folder, which is made again, and go on with "
            "--resume"
        ) from error
    except MemoryError as error:
        raise DataError(
            f"too little memory to load a batch; the run is saved up to step {step - 1}: lower "
            "data.buffer_size or data.batch_size and go on with --resume"
        ) from error
    except DeviceError as error:
        raise DataError(
            f"{error}; the run is saved up to step {step - 1}: go on with --resume"
        ) from error


def make_feed(
    corpus: Corpus,
    config: XTTSConfig,
    strategy: tf.distribute.Strategy,
    last_step: int,
    data_device: str | None = None,
) -> Feed:
    """What brings the batches to the devices of a strategy."""
    devices, place = devices_here(strategy), place_of(strategy)
    # Replicas take their shares of a batch from the host, or from the first of them.
    model_device = devices[0] if len(devices) == 1 or data_device is not None else HOST
    return Feed(
        corpus.train,
        corpus.tokenizer,
        config,
        last_step,
        data_device=data_device,
        model_device=model_device,
        worker=place.worker,
        workers=place.workers,
    )


def device_names(strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]) -> list[str]:
    """The devices that hold copies of the variables, asked of the variables themselves."""
    names = {
        copy.device.rpartition("device:")[2]
        for variable in variables
        for copy in strategy.experimental_local_results(variable)
    }
    return sorted(names)


def _require_planned_for(corpus: Corpus, config: XTTSConfig, replicas: int) -> None:
    shares = replicas * config.training.gradient_accumulation_steps
    if corpus.train.plan.shares != shares:
        raise ConfigError(
            f"the corpus was planned for {corpus.train.plan.shares} shares of a batch, and "
            f"{replicas} replicas times training.gradient_accumulation_steps make {shares}; open "
            "it with the number of replicas"
        )


def _shape_of(batch: Batch) -> Shape:
    size, tokens = batch.token_ids.shape
    return Shape(int(size), int(tokens), int(batch.mel.shape[1]), int(batch.slots.shape[1]))
