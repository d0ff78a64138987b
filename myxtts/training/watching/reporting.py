"""Writes a run's metrics.jsonl, TensorBoard events, samples and report.json."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import yaml
from tensorboard.plugins.custom_scalar import layout_pb2
from tensorboard.plugins.custom_scalar import summary as custom_scalar
from tensorboard.plugins.hparams import api as hparams

from myxtts.audio.files import write_audio
from myxtts.charts import as_png, new_figure
from myxtts.config.config import XTTSConfig
from myxtts.errors import DataError
from myxtts.files import write_file
from myxtts.runs.run_dir import RunDir, append_line
from myxtts.training.watching.accounting import BUCKETS
from myxtts.training.watching.report import RunReport

_log = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float32]
# Settings in which runs of one corpus usually differ.
_COMPARED_SECTIONS = ("model", "training", "augmentation")

# Groups of TensorBoard, which sorts them by name: first what a person looks at first.
SAMPLES, SPEECH, LOSS, VALIDATION, TIME, DEVICE, OPTIMIZER = (
    f"{place} {name}"
    for place, name in enumerate(
        ("samples", "speech", "loss", "validation", "time", "device", "optimizer"), 1
    )
)
_OPTIMIZER_METRICS = ("gradient_norm", "learning_rate", "loss_scale")
_DEVICE_METRICS = ("buffer", "traces", "compilations", "gpu", "measuring")


class RunWriter:
    """Owns the files of a run folder other than its checkpoints.

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
        """These arrive long after the metrics of their step, so they have a separate file."""
        with _warning_of_failure("measures", step):
            timed = {"time": time.time(), **numbers_or_null(values)}
            append_line(self._run_dir.measures_file, step, timed)
        self._write_scalars(step, values, SPEECH)

    def write_configuration(self, step: int, config: XTTSConfig) -> None:
        """The settings as text, and those that runs differ in as hyperparameters."""
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
        """The recording of the sentence that samples speak, once, to compare them with."""
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
            # One group, so that both stand side by side.
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

    def add_detail(self, line: str) -> None:
        with _warning_of_failure("details", None), open(self._run_dir.details_file, "a") as file:
            file.write(f"{line}\n")

    def close(self) -> None:
        with _warning_of_failure("the last events", None):
            self._events.close()


def event_name(metric: str) -> str:
    """Return the tag of a metric: its group, and in each group the loss first."""
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
    return custom_scalar.pb(
        layout_pb2.Layout(
            category=[
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


def numbers_or_null(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN: non-finite values become null."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


@contextlib.contextmanager
def _warning_of_failure(what: str, step: int | None) -> Iterator[None]:
    try:
        yield
    except (OSError, DataError, tf.errors.OpError) as error:
        place = "" if step is None else f" of step {step}"
        _log.warning("%s%s cannot be written: %s", what, place, str(error).splitlines()[0])
