"""The output of a run: metrics, events, samples, checkpoints, the best one and the report.

On several machines only the chief writes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import yaml
from safetensors.numpy import save
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import summary as custom_scalar
from tensorboard.plugins.hparams import api as hparams

from myxtts.audio.files import write_audio
from myxtts.charts import as_png, new_figure
from myxtts.config.config import XTTSConfig
from myxtts.config.loading import save_config
from myxtts.data.cache import FeatureCache
from myxtts.data.corpus import Corpus
from myxtts.data.shapes import save_plan
from myxtts.errors import CheckpointError, DataError
from myxtts.files import write_file
from myxtts.runs.checkpoint import CheckpointInfo, CheckpointWriter
from myxtts.runs.run_dir import RunDir, append_line
from myxtts.training.best import BestTracker, Measurer
from myxtts.training.optimizer import Optimizer
from myxtts.training.report import Observer, RunReport
from myxtts.training.task import Validation
from myxtts.training.time_account import BUCKETS, TimeAccount, numbers_or_null
from myxtts.training.warm_start import StartReport

_log = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float32]
# Settings in which runs of one corpus usually differ.
_COMPARED_SECTIONS = ("model", "training", "augmentation")

# TensorBoard sorts groups by name; the most important ones come first.
SAMPLES, SPEECH, LOSS, VALIDATION, TIME, DEVICE, OPTIMIZER = (
    f"{place} {name}"
    for place, name in enumerate(
        ("samples", "speech", "loss", "validation", "time", "device", "optimizer"), 1
    )
)
_OPTIMIZER_METRICS = ("gradient_norm", "learning_rate", "loss_scale")
# About ten seconds with the default mel, and 14 MB.
_SPEAKER_FRAMES, _MAX_SPEAKERS = 860, 100
_DEVICE_METRICS = ("buffer", "traces", "compilations", "gpu", "measuring")


class RunWriter:
    """Writes the files of a run folder other than its checkpoints.

    A full disk costs lines and samples, with a warning, but does not stop the run.
    """

    def __init__(self, run_dir: RunDir, first_step: int) -> None:
        self._run_dir = run_dir
        run_dir.samples.mkdir(parents=True, exist_ok=True)
        run_dir.drop_lines_after(first_step)
        self._has_recording = False
        self._events = tf.summary.create_file_writer(str(run_dir.events))

    def write_metrics(self, step: int, metrics: dict[str, float]) -> None:
        with _warning_of_failure("metrics", step):
            append_line(self._run_dir.metrics_file, step, numbers_or_null(metrics))
        self._write_scalars(step, metrics)

    def write_measures(self, step: int, values: dict[str, float]) -> None:
        """Write measures, which arrive long after the metrics of their step, to a separate file."""
        with _warning_of_failure("measures", step):
            timed = {"time": time.time(), **numbers_or_null(values)}
            append_line(self._run_dir.measures_file, step, timed)
        self._write_scalars(step, values, SPEECH)

    def write_configuration(self, step: int, config: XTTSConfig) -> None:
        """Write the settings as text, and those in which runs usually differ as hyperparameters."""
        settings = config.as_dict()
        lines = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).splitlines()
        # Indented lines are a block of code in TensorBoard's Markdown.
        text = "\n".join(f"    {line}" for line in lines)
        compared = {
            f"{section}.{name}": value
            for section in _COMPARED_SECTIONS
            for name, value in settings[section].items()
            if isinstance(value, int | float | str)
        }
        with _warning_of_failure("events", step), self._events.as_default(step=step):
            tf.summary.text("configuration", text)
            hparams.hparams(compared)
            tf.summary.experimental.write_raw_pb(_combined_charts().SerializeToString())

    def _write_scalars(self, step: int, values: dict[str, float], group: str | None = None) -> None:
        with _warning_of_failure("events", step), self._events.as_default(step=step):
            for name, value in values.items():
                if name != "time":
                    tf.summary.scalar(f"{group}/{name}" if group else event_name(name), value)

    def write_recording(
        self, step: int, waveform: FloatArray, sample_rate_hz: int, text: str
    ) -> None:
        """Write the recording of the sentence that samples speak, once."""
        if self._has_recording:
            return
        self._has_recording = True
        with _warning_of_failure("the recording", step):
            file = self._run_dir.recording_file
            write_audio(file, waveform, sample_rate_hz)
        self._write_audio(step, "recording", waveform, sample_rate_hz, text)

    def write_sample(self, step: int, waveform: FloatArray, sample_rate_hz: int, text: str) -> None:
        with _warning_of_failure("the sample", step):
            file = self._run_dir.sample_file(step)
            write_audio(file, waveform, sample_rate_hz)
        self._write_audio(step, "sample", waveform, sample_rate_hz, text)

    def _write_audio(
        self, step: int, name: str, waveform: FloatArray, sample_rate_hz: int, text: str
    ) -> None:
        with _warning_of_failure("events", step), self._events.as_default(step=step):
            # One group, to show both side by side.
            tf.summary.audio(
                f"{SAMPLES}/{name}", waveform[None, :, None], sample_rate_hz, description=text
            )

    def write_alignment(self, step: int, path: FloatArray) -> None:
        """Plot `path` [positions, tokens] with time to the right and tokens upward."""
        figure = new_figure(160 + 3 * path.shape[0], 120 + 6 * path.shape[1])
        panel = figure.subplots()
        panel.imshow(path.T, cmap="Greys", vmin=0, vmax=1, origin="lower", aspect="auto")
        panel.set(title=f"Alignment at step {step:,}", xlabel="positions", ylabel="tokens")
        picture = as_png(figure)
        with _warning_of_failure("the alignment", step):
            write_file(self._run_dir.alignment_file(step), picture)
        with _warning_of_failure("events", step), self._events.as_default(step=step):
            tf.summary.image(f"{SAMPLES}/alignment", tf.io.decode_png(picture, channels=3)[None])

    def write_report(self, report: RunReport) -> None:
        text = json.dumps(report.as_json(), indent=1, ensure_ascii=False)
        with _warning_of_failure("the report", report.steps):
            write_file(self._run_dir.report_file, text)
        progress = f"Step {report.steps:,} of {report.planned_steps:,}, {report.state}"
        step = report.steps
        with _warning_of_failure("events", step), self._events.as_default(step=step):
            tf.summary.text("advice", "\n\n".join([progress, *report.advice]))

    def close(self) -> None:
        with _warning_of_failure("the last events", None):
            self._events.close()


def event_name(metric: str) -> str:
    """Return the tag of a metric in its group; the loss sorts first."""
    name = metric.removeprefix("validation_")
    if name == "mel_distance":
        return f"{SPEECH}/{name}"
    if name == "loss" or name.endswith("_loss"):
        part = name.removesuffix("_loss")
        tag = name if part == name else f"loss_{part}"
        return f"{LOSS if name == metric else VALIDATION}/{tag}"
    if metric in _OPTIMIZER_METRICS:
        return f"{OPTIMIZER}/{metric}"
    return f"{DEVICE if metric.startswith(_DEVICE_METRICS) else TIME}/{metric}"


def _combined_charts() -> Any:
    """Build the page of charts that show several tags together."""
    speech = layout_pb2.Category(title="Speech")
    speech.chart.add(title="WER with its 95 % interval").margin.series.add(
        value=f"{SPEECH}/wer", lower=f"{SPEECH}/wer_low", upper=f"{SPEECH}/wer_high"
    )
    return custom_scalar.pb(
        layout_pb2.Layout(
            category=[
                speech,
                _category(
                    "Loss",
                    {
                        "training and validation": [f"({LOSS}|{VALIDATION})/loss$"],
                        "parts, training": [f"{LOSS}/loss_"],
                        "parts, validation": [f"{VALIDATION}/loss_"],
                    },
                ),
                _category(
                    "Where the time goes",
                    {
                        "fraction of the interval": [f"{TIME}/{it}_share" for it in BUCKETS],
                        "utilization": [f"{TIME}/.*_utilisation", f"{TIME}/valid_frame_ratio"],
                    },
                ),
                _category(
                    "Device",
                    {
                        "buffer in batches": [f"{DEVICE}/buffer_"],
                        "traces and compilations": [f"{DEVICE}/(traces|compilations)"],
                    },
                ),
            ]
        )
    )


def _category(title: str, charts: Mapping[str, Sequence[str]]) -> Any:
    """Build a group of charts from the patterns of the tags that each one shows."""
    category = layout_pb2.Category(title=title)
    for name, patterns in charts.items():
        category.chart.add(title=name).multiline.tag.extend(patterns)
    return category


@contextlib.contextmanager
def _warning_of_failure(what: str, step: int | None) -> Iterator[None]:
    try:
        yield
    except (OSError, DataError, tf.errors.OpError) as error:
        place = "" if step is None else f" of step {step}"
        _log.warning("%s%s cannot be written: %s", what, place, str(error).splitlines()[0])


class RunOutput:
    """Writes a run into its folder; a context manager."""

    def __init__(
        self,
        run_dir: RunDir,
        config: XTTSConfig,
        corpus: Corpus,
        optimizer: Optimizer,
        validation: Validation,
        account: TimeAccount,
        observer: Observer,
        *,
        checkpoint_info: Callable[[int, Mapping[str, float]], CheckpointInfo],
        start: StartReport | None,
        measurer: Measurer | None,
    ) -> None:
        """Log to files; `checkpoint_info` maps the last metrics to what is saved with a step."""
        self._run_dir = run_dir
        self._config = config
        self._corpus = corpus
        self._optimizer = optimizer
        self._validation = validation
        self._account = account
        self._observer = observer
        self._checkpoint_info = checkpoint_info
        self._start = start
        self._measurer = measurer
        self._saved_step: int | None = None
        self._last_metrics: Mapping[str, float] = {}

    def __enter__(self) -> RunOutput:
        run_dir, config = self._run_dir, self._config
        run_dir.make()
        run_dir.remove_unfinished()
        self._corpus.tokenizer.save(run_dir.tokenizer_file)
        save_plan(self._corpus.train.plan, config, run_dir.plan_file)
        save_speakers(run_dir.speakers_file, self._corpus.train.cache)
        if self._start is not None:
            self._start.save(run_dir.start_report_file)
        save_config(config, run_dir.config_file)
        with contextlib.ExitStack() as stack:
            step = int(self._optimizer.step.numpy())
            self._writer = stack.enter_context(contextlib.closing(RunWriter(run_dir, step)))
            self._writer.write_configuration(step, config)
            self._checkpoints = stack.enter_context(
                CheckpointWriter(
                    run_dir.checkpoints,
                    run_dir.files_for_checkpoints(),
                    config.saving.keep_checkpoints,
                    before=run_dir.sync_lines,
                )
            )
            self._best = BestTracker(
                run_dir, config.evaluation, self._writer, self._observer, self._measurer
            )
            self._closing = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._closing.__exit__(*error)

    def save(self, step: int) -> None:
        """Start saving: copy the state, which is then written while training continues."""
        with self._account.spending("checkpoint"):
            info = self._checkpoint_info(step, self._last_metrics)
            self._checkpoints.save(info, self._optimizer.state())
            self._saved_step = step

    def save_and_wait(self, step: int) -> Path | None:
        """Return the checkpoint of a step, or None if it could not be written."""
        if self._saved_step != step:
            self.save(step)
        with self._account.spending("checkpoint"):
            try:
                return self._checkpoints.wait()
            except CheckpointError:  # already logged
                self._saved_step = None
                return None

    def has_logged(self, step: int) -> bool:
        return any(line["step"] == step for line in self._run_dir.metric_lines())

    def log(self, step: int, means: dict[str, float], *, evaluates: bool) -> None:
        """Write the metrics of a step, with an evaluation if one is due."""
        means["measuring"] = float(self._best.is_measuring)
        if evaluates:
            self._observer.on_evaluating(step)
            with self._account.spending("evaluation"), self._optimizer.ema_weights():
                losses = self._validation.run(step, self._writer)
            self._observer.on_evaluation(step, losses)
            self._best.evaluated(step, losses, lambda: self.save_and_wait(step))
            means |= losses
        self._writer.write_metrics(step, means)
        self._best.logged(step, means)
        self._best.collect()
        self._last_metrics = means

    def finish(self, is_interrupted: Callable[[], bool]) -> bool:
        """Wait for background evaluation; return whether nothing was cut short."""
        with self._account.spending("evaluation"):
            self._best.finish(is_interrupted)
        return not (is_interrupted() and self._best.is_measuring)

    def write_report(self, report: RunReport) -> None:
        self._writer.write_report(report)

    @property
    def should_stop(self) -> bool:
        return self._best.should_stop

    def best(self) -> dict[str, Any] | None:
        return self._best.best()

    def advice(self) -> list[str]:
        return self._best.advice()


class NullOutput:
    """Writes nothing; used by all machines except the chief."""

    should_stop = False

    def __enter__(self) -> NullOutput:
        return self

    def __exit__(self, *error: Any) -> None: ...

    def save(self, step: int) -> None: ...

    def save_and_wait(self, step: int) -> None: ...

    def has_logged(self, step: int) -> bool:
        return True

    def log(self, step: int, means: dict[str, float], *, evaluates: bool) -> None: ...

    def finish(self, is_interrupted: Callable[[], bool]) -> bool:
        return True

    def write_report(self, report: RunReport) -> None: ...

    def best(self) -> None: ...

    def advice(self) -> list[str]:
        return []


def save_speakers(file: Path, cache: FeatureCache) -> None:
    """Save ten seconds of mels of each speaker, the most frequent first, to speak in their voices.

    A voice is encoded again with the weights of whichever checkpoint speaks.
    """
    speakers = cache.index["speaker"]
    counts = np.bincount(speakers, minlength=len(cache.speakers))
    chosen = [int(it) for it in np.argsort(-counts, kind="stable") if counts[it]][:_MAX_SPEAKERS]
    mels = {}
    for place, speaker in enumerate(chosen):
        clips = np.flatnonzero(speakers == speaker)
        needed = 1 + int(np.searchsorted(cache.frame_counts[clips].cumsum(), _SPEAKER_FRAMES))
        mel = np.concatenate([cache.clip_mel(int(clip)) for clip in clips[:needed]])
        mels[str(place)] = np.ascontiguousarray(mel[:_SPEAKER_FRAMES])
    names = json.dumps([cache.speakers[speaker] for speaker in chosen])
    write_file(file, save(mels, {"speakers": names}))


def describe_saved(run_dir: RunDir, step: int) -> str:
    """Return what is on disk after an attempt to save a step."""
    if run_dir.has_checkpoint(step):
        return f"the run is saved up to step {step}"
    try:
        newest = run_dir.newest_checkpoint().info.step
    except CheckpointError:
        return f"step {step} could not be saved, and there is no earlier checkpoint"
    return f"step {step} could not be saved; the newest checkpoint is step {newest}"
