"""The best checkpoint of a run, background evaluation, early stopping and the course of the loss.

RUN/best is the best checkpoint by `evaluation.best_metric`, without its training state. A resumed
run replays metrics.jsonl and measures.jsonl, so it has the same best and repeats no warning.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from myxtts.config.config import (
    ASR_LANGUAGES,
    ASR_PACKAGE,
    JUDGING_METRICS,
    LOWER_IS_BETTER,
    MEASURES,
    EvaluationConfig,
    XTTSConfig,
)
from myxtts.config.loading import save_config
from myxtts.config.schema import did_you_mean
from myxtts.errors import CheckpointError, ConfigError
from myxtts.files import read_json
from myxtts.runs.run_dir import RunDir, take_snapshot
from myxtts.text.languages import find_language
from myxtts.training.report import Observer

if TYPE_CHECKING:
    from myxtts.training.output import RunWriter

_log = logging.getLogger(__name__)

# Correlates with the WER of human voices better than the validation loss.
_METRIC_WITHOUT_ASR = "validation_mel_distance"
# A discriminator makes mels sharper and better, but slightly farther from the recording. Among
# checkpoints that differ by less than this, the newest is the best.
_AS_GOOD = {"validation_mel_distance": 0.02}
# How long a finished run waits for the evaluation of its last checkpoints.
_SECONDS_FOR_THE_LAST = 900

_PROGRAM = (sys.executable, "-m", "myxtts.evaluation.evaluate")
_RESULT, _ERRORS = "measured.json", "errors.txt"
_ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "-1",
    "TF_CPP_MIN_LOG_LEVEL": "2",
}

# Losses fall roughly as a power of the step. So the last quarter of a run is compared with the
# quarter before it, for any interval between evaluations. A slow loss, proportional to step^-0.1,
# is 3 % lower there.
_LITTLE = 0.01
_QUARTERS = 4
# Fewer are not conclusive, and a short run such as the demo needs no warning.
_MIN_EVALUATIONS = 4
# Above this fraction of its peak, most of the learning rate decay is still to come.
_HIGH_RATE = 0.5
_HOW_IT_SOUNDS = "The loss does not reflect the quality of the speech: check with myxtts evaluate"


def with_best_metric(config: XTTSConfig, languages: Sequence[str]) -> XTTSConfig:
    """Choose the metric of the best checkpoint: WER if the ASR model supports a language."""
    if config.evaluation.best_metric is not None:
        return config
    spoken = {find_language(language).base for language in languages}
    if (
        config.training.task != "acoustic"
        or spoken.isdisjoint(ASR_LANGUAGES)
        or importlib.util.find_spec(ASR_PACKAGE) is None
    ):
        return config.with_(best_metric=_METRIC_WITHOUT_ASR)
    return config.with_(best_metric="wer", measure_every=config.evaluation.measure_every or 1)


def with_best_metric_of(saved: XTTSConfig, config: XTTSConfig) -> XTTSConfig:
    """Keep the metric of a resumed run, unless another one is configured."""
    before, now = saved.evaluation, config.evaluation
    if now.best_metric is not None:
        return config
    measure_every = now.measure_every or before.measure_every
    return config.with_(best_metric=before.best_metric, measure_every=measure_every)


class BestCheckpoint:
    """The best step by one metric, and early stopping."""

    def __init__(self, metric: str, patience_evaluations: int | None = None) -> None:
        """Stop after `patience_evaluations` evaluations without improvement; None: never."""
        if metric not in JUDGING_METRICS:
            raise ConfigError(
                f"evaluation.best_metric: found '{metric}', allowed: {', '.join(JUDGING_METRICS)}"
                f"{did_you_mean(metric, JUDGING_METRICS)}"
            )
        self.metric = metric
        self.step: int | None = None
        self.value: float | None = None
        self._extreme: float | None = None
        self._patience = patience_evaluations
        self._without_improvement = 0

    def update(self, step: int, metrics: Mapping[str, float | None]) -> bool:
        """Return whether this step is the best so far. Metrics without this one are ignored."""
        value = metrics.get(self.metric)
        if value is None:
            return False
        sign = 1.0 if LOWER_IS_BETTER[self.metric] else -1.0
        is_better = math.isfinite(value) and (
            self._extreme is None or sign * value < sign * self._extreme
        )
        if is_better:
            self._extreme = value
            self._without_improvement = 0
        else:
            self._without_improvement += 1
        margin = _AS_GOOD.get(self.metric, -math.inf)
        if is_better or (self._extreme is not None and abs(value - self._extreme) <= margin):
            self.step, self.value = step, value
            return True
        return False

    @property
    def should_stop(self) -> bool:
        return self._patience is not None and self._without_improvement >= self._patience


@dataclass(frozen=True)
class Measured:
    step: int
    values: dict[str, float]
    """The model's means, by metric."""
    snapshot: Path
    """The evaluated checkpoint as a run folder; it exists until the next `poll` or `close`."""


class Measurer(Protocol):
    """Evaluates the speech of checkpoints, some time later."""

    @property
    def is_busy(self) -> bool: ...

    def start(self, step: int, checkpoint: Path) -> None: ...

    def poll(self) -> Sequence[Measured]: ...

    def wait(self, timeout_seconds: float | None = None) -> Sequence[Measured]: ...


class BestTracker:
    """Keeps the best checkpoint by a loss or by a metric of background evaluation."""

    def __init__(
        self,
        run_dir: RunDir,
        evaluation: EvaluationConfig,
        writer: RunWriter,
        observer: Observer,
        measurer: Measurer | None,
    ) -> None:
        self._run_dir = run_dir
        self._settings = evaluation
        self._writer = writer
        self._observer = observer
        self._measurer = measurer
        self._best = self._remembered()
        self._course = LossCourse()
        for line in run_dir.metric_lines():
            self._course.update(line["step"], line)
        self._measure_again()

    @property
    def should_stop(self) -> bool:
        return self._best.should_stop

    @property
    def is_measuring(self) -> bool:
        return self._measurer is not None and self._measurer.is_busy

    def best(self) -> dict[str, Any] | None:
        """Return the best checkpoint for the report."""
        best = self._best
        if best.step is None:
            return None
        return {"metric": best.metric, "step": best.step, "value": best.value}

    def advice(self) -> list[str]:
        """Return for the report whether more training would help."""
        return [f"{self._course.verdict.message}."] if self._course.verdict else []

    def logged(self, step: int, metrics: dict[str, float]) -> None:
        """Handle a new line of metrics.jsonl."""
        verdict = self._course.update(step, metrics)
        if verdict is not None:
            _log.warning("step %d: %s", step, verdict.message)

    def evaluated(
        self, step: int, losses: dict[str, float], saved: Callable[[], Path | None]
    ) -> None:
        """Keep and measure the checkpoint of an evaluation, which `saved` returns if it can."""
        is_best = self._best.update(step, losses)
        is_measured = self._is_measured(step)
        checkpoint = saved() if is_best or is_measured else None
        if checkpoint is None:
            return
        if is_best:
            self._keep(checkpoint)
        if is_measured and self._measurer:
            with _warning_of_failure("the checkpoint cannot be evaluated"):
                self._measurer.start(step, checkpoint)

    def _is_measured(self, step: int) -> bool:
        every = self._settings.measure_every
        evaluation = -(-step // self._settings.evaluate_every)
        return bool(self._measurer and every and evaluation % every == 0)

    def _measure_again(self) -> None:
        """Measure the newest evaluated checkpoint again if a kill lost its measures."""
        measured = {line["step"] for line in self._run_dir.measure_lines()}
        evaluated = {
            line["step"]: line
            for line in self._run_dir.metric_lines()
            if "validation_loss" in line and self._is_measured(line["step"])
        }
        if self._measurer is None or not evaluated or max(evaluated) in measured:
            return
        step = max(evaluated)
        if self._run_dir.has_checkpoint(step):
            with _warning_of_failure("the checkpoint cannot be evaluated"):
                self._measurer.start(step, self._run_dir.checkpoint_of(step))

    def collect(self) -> None:
        """Process the results that have arrived."""
        if self._measurer is not None:
            with _warning_of_failure("evaluation continues with the next checkpoint"):
                self._take(self._measurer.poll())

    def finish(self, is_interrupted: Callable[[], bool]) -> None:
        """Wait for the last results at the end of a run."""
        if self._measurer is None or not self._measurer.is_busy or is_interrupted():
            return
        self._observer.on_phase("waiting for the last evaluation")
        for _ in range(_SECONDS_FOR_THE_LAST):
            if is_interrupted() or not self._measurer.is_busy:
                return
            with _warning_of_failure("the last evaluation is lost"):
                self._take(self._measurer.wait(1.0))

    def _take(self, measured: Iterable[Measured]) -> None:
        for result in measured:
            self._writer.write_measures(result.step, result.values)
            self._observer.on_measurement(result.step, result.values)
            if self._best.metric in MEASURES and self._best.metric not in result.values:
                _log.warning("step %d: no value for %s", result.step, self._best.metric)
            if self._best.update(result.step, result.values):
                self._keep(result.snapshot)

    def _keep(self, checkpoint: Path) -> None:
        with _warning_of_failure("the best checkpoint is not saved separately"):
            self._run_dir.keep_as_best(checkpoint)

    def _remembered(self) -> BestCheckpoint:
        """Return the best of a resumed run by its logs, if RUN/best is that checkpoint."""
        best = self._none_yet()
        lines = [*self._run_dir.metric_lines(), *self._run_dir.measure_lines()]
        for line in lines:
            best.update(line["step"], line)
        try:
            kept = self._run_dir.best_checkpoint().info.step
        except CheckpointError:
            kept = None
        # A newer one was kept, but a kill lost its line; that step is evaluated again.
        is_newer = kept is not None and kept > max((line["step"] for line in lines), default=0)
        if best.step is None or best.step == kept or is_newer:
            return best
        _log.warning(
            "%s is not the best checkpoint so far by %s: starting over from here",
            self._run_dir.best.name,
            best.metric,
        )
        return self._none_yet()

    def _none_yet(self) -> BestCheckpoint:
        metric = self._settings.best_metric
        assert metric is not None, "the trainer chooses one"
        return BestCheckpoint(metric, self._settings.early_stopping_evaluations)


@contextlib.contextmanager
def _warning_of_failure(consequence: str) -> Iterator[None]:
    """Turn an error into a warning: a full disk must not end the run."""
    try:
        yield
    except (CheckpointError, OSError) as error:
        _log.warning("%s: %s", error, consequence)


class BackgroundEvaluation:
    """Evaluates checkpoints of a run in one low-priority process without a GPU.

    There is never more than one. A checkpoint that arrives meanwhile waits, and is replaced by a
    newer one. `myxtts.evaluation` does the work; here it is a program with arguments and files.
    """

    def __init__(
        self,
        run_dir: RunDir,
        config: XTTSConfig,
        languages: Sequence[str],
        *,
        only: Sequence[str] = (),
        gives_way: bool = True,
    ) -> None:
        """Choose the sentences; `only` names the metrics, by default all that are installed.

        With `gives_way` the process has the lowest priority and may get no CPU time on a busy
        machine. Turn it off to wait for the results.
        """
        self._folder = run_dir.measuring
        self._only = tuple(only)
        self._priority = "lowest" if gives_way else "ordinary"
        self._process: subprocess.Popen[bytes] | None = None
        self._measuring: Path | None = None
        self._waiting: Path | None = None
        self._reported: list[Path] = []
        shutil.rmtree(self._folder, ignore_errors=True)  # left by a run that was killed
        self._folder.mkdir(parents=True)
        self._sentences = self._folder / "sentences.json"
        self._choose_sentences(config, languages)

    def _choose_sentences(self, config: XTTSConfig, languages: Sequence[str]) -> None:
        """Fail before the run starts if nothing can be evaluated."""
        config_file = self._folder / "config.yaml"
        save_config(config, config_file)
        result = subprocess.run(
            [*_PROGRAM, "choose", str(config_file), str(self._sentences), *languages],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=os.environ | _ONE_THREAD,
            check=False,
        )
        if result.returncode != 0:
            self.close()
            raise ConfigError(_last_line(result.stderr))

    def start(self, step: int, checkpoint: Path) -> None:
        """Evaluate the checkpoint now, or when the current one is done."""
        snapshot = take_snapshot(checkpoint, self._folder / f"{step:08d}")
        if self._waiting is not None:
            shutil.rmtree(self._waiting, ignore_errors=True)
        self._waiting = snapshot
        self._start_waiting()

    def poll(self) -> list[Measured]:
        """Return the results since the last call, without waiting."""
        for folder in self._reported:
            shutil.rmtree(folder, ignore_errors=True)
        self._reported = []
        if self._process is None or self._process.poll() is None:
            return []
        measured = self._collect()
        self._start_waiting()
        return [measured] if measured else []

    @property
    def is_busy(self) -> bool:
        return self._process is not None or self._waiting is not None

    def wait(self, timeout_seconds: float | None = None) -> list[Measured]:
        """Wait for the current and the queued checkpoint, at the end of a run."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        found: list[Measured] = []
        while self._process is not None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                self._process.wait(left)
            except subprocess.TimeoutExpired:
                break
            measured = self._collect()
            found += [measured] if measured else []
            self._start_waiting()
        return found

    def close(self) -> None:
        """Kill the process and delete its files."""
        self._waiting = None
        if self._process is not None:
            self._process.kill()
            self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_waiting(self) -> None:
        if self._process is not None or self._waiting is None:
            return
        self._measuring, self._waiting = self._waiting, None
        paths = self._measuring, self._sentences, self._measuring / _RESULT
        with open(self._measuring / _ERRORS, "wb") as errors:
            # The child reads from the pipe until its parent is gone.
            self._process = subprocess.Popen(
                [*_PROGRAM, "measure", *map(str, paths), self._priority, *self._only],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=os.environ | _ONE_THREAD,
                # The parent handles Ctrl-C. A separate session would do that too, but Linux gives
                # every session an equal share of the cores, regardless of its priority.
                process_group=0,
            )

    def _collect(self) -> Measured | None:
        assert self._measuring is not None
        folder, step = self._measuring, int(self._measuring.name)
        code = self._end()
        self._reported.append(folder)
        if code != 0:
            reason = _last_line((folder / _ERRORS).read_bytes())
            _log.warning("step %d could not be evaluated: exit code %d, %s", step, code, reason)
            return None
        try:
            values = read_json(folder / _RESULT)
        except ValueError as error:
            _log.warning("step %d could not be evaluated: %s", step, error)
            return None
        return Measured(step, values, folder)

    def _end(self) -> int:
        """Clean up after a process that has ended; return its exit code."""
        assert self._process is not None
        process, self._process, self._measuring = self._process, None, None
        assert process.stdin is not None
        process.stdin.close()
        return process.wait()


def _last_line(errors: bytes) -> str:
    lines = errors.decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "no reason given")


class ValidationPoint(NamedTuple):
    step: int
    learning_rate: float
    loss: float
    """Mean training loss since the previous evaluation."""
    validation_loss: float


@dataclass(frozen=True)
class Verdict:
    kind: str
    """flat, overfitting or worse."""
    since_step: int
    message: str


def judge(history: Sequence[ValidationPoint]) -> Verdict | None:
    """Return None if the loss falls, or after too few evaluations."""
    size = max(_MIN_EVALUATIONS, len(history) // _QUARTERS)
    if len(history) < 2 * size:
        return None
    recent = history[-2 * size :]
    since, rate = recent[0].step, recent[-1].learning_rate
    rise, noise = _rise([point.validation_loss for point in recent])
    if rise > _LITTLE + noise:
        what = f"The validation loss has been rising since step {since:,} (by {rise:.1%})"
        if _rise([point.loss for point in recent])[0] < -_LITTLE:
            message = (
                f"{what}, while the training loss falls: the model is overfitting. Stop and use "
                "the best checkpoint, train on more recordings, or augment them with "
                f"augmentation.speed. {_HOW_IT_SOUNDS}"
            )
            return Verdict("overfitting", since, message)
        message = f"{what}, and the training loss is not falling: lower training.learning_rate"
        return Verdict("worse", since, message)
    # Flat means that even a fall hidden by the noise would be small.
    if noise - rise >= _LITTLE:
        return None
    outlook = "Training longer gains little: stop, or train on more recordings"
    peak = max(point.learning_rate for point in history)
    if rate > _HIGH_RATE * peak:
        outlook = (
            f"The learning rate is still at {rate / peak:.0%} of its peak: the loss may fall as it "
            "decays, and sooner with a smaller --max-steps or training.learning_rate"
        )
    message = f"The validation loss has been flat since step {since:,}. {outlook}. {_HOW_IT_SOUNDS}"
    return Verdict("flat", since, message)


def _rise(values: Sequence[float]) -> tuple[float, float]:
    """Return the relative rise from the first to the second half, and its uncertainty."""
    size = len(values) // 2
    before, recent = float(np.mean(values[:size])), float(np.mean(values[size:]))
    # Estimated from successive differences, which a slow trend hardly affects.
    deviation = math.sqrt(float(np.mean(np.diff(values) ** 2)) / 2)
    scale = max(before, 1e-12)
    return recent / scale - 1, deviation * math.sqrt(2 / size) / scale


class LossCourse:
    """Collects the losses of a run and reports once when they plateau or rise."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        """After the last evaluation."""
        self._history: list[ValidationPoint] = []
        self._training: list[float] = []
        self._found: set[str] = set()

    def update(self, step: int, line: Mapping[str, float | None]) -> Verdict | None:
        """Return the first finding of its kind; skip lines without numbers."""
        loss, validation_loss, rate = (
            value if value is not None and math.isfinite(value) else None
            for value in map(line.get, ("loss", "validation_loss", "learning_rate"))
        )
        if loss is not None:
            self._training.append(loss)
        if validation_loss is None or rate is None or not self._training:
            return None
        mean, self._training = float(np.mean(self._training)), []
        self._history.append(ValidationPoint(step, rate, mean, validation_loss))
        self.verdict = judge(self._history)
        if self.verdict is None or self.verdict.kind in self._found:
            return None
        self._found.add(self.verdict.kind)
        return self.verdict
