"""Cost of feeding the model, and the time report when loading is slowed down on purpose.

    .venv/bin/python benchmarks/pipeline.py --train-data demo/corpus [--parts steady,slow,...]
        [--steps 200] [--json FILE] [--picture FILE]

Parts:
    steady   the tiny model's step with the real pipeline relative to a step on a cached batch,
             the time spent waiting for data, and useful utilization
    slow     runs with uneven and with slow loading: time report, buffer and advice
    devices  on two virtual devices: unbuffered, buffered, and features on the data device, with a
             timeline of both devices

Alternatives that are compared alternate within one run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402

from myxtts.charts import as_png, new_figure  # noqa: E402
from myxtts.config.config import XTTSConfig  # noqa: E402
from myxtts.config.loading import read_yaml  # noqa: E402
from myxtts.data.batch import Batch  # noqa: E402
from myxtts.data.corpus import Corpus, open_corpus  # noqa: E402
from myxtts.data.pipeline import HOST, AcousticSource, Feed  # noqa: E402
from myxtts.devices.strategy import find_accelerators  # noqa: E402
from myxtts.training.acoustic import AcousticTask  # noqa: E402
from myxtts.training.optimizer import FlatAdamW  # noqa: E402
from myxtts.training.step import compile_training_step  # noqa: E402
from myxtts.training.time_account import RunMetrics, TimeAccount  # noqa: E402
from myxtts.training.trainer import XTTSTrainer  # noqa: E402

_BLOCK_STEPS = 20
_FAR = 10**9


def build_step(corpus: Corpus, config: XTTSConfig) -> Callable[[Batch], Any]:
    task = AcousticTask(config, corpus)
    task.build()
    optimizer = FlatAdamW(task.model.trainable_variables, config.training, 1_000)
    step = compile_training_step(
        task.objective,
        optimizer,
        task.signature(),
        config.training,
        xla=False,
    )

    def take(batch: Batch) -> Any:
        result = step(batch, tf.constant(True))
        result.loss.numpy()
        return result

    return take


def wait_until_full(feed: Feed) -> None:
    while len(feed._buffer) < feed._buffer.size:
        time.sleep(0.05)


def measure_steady(options: argparse.Namespace) -> dict[str, Any]:
    config = XTTSConfig(train_data=options.train_data)
    corpus = open_corpus(config)
    take_step = build_step(corpus, config)
    feed = Feed(AcousticSource(corpus.train, corpus.tokenizer, config), config, last_step=_FAR)
    feed.start(0)
    cached: dict[Any, Batch] = {}
    # Run every shape once, so that tracing is not measured.
    while len(cached) < len(corpus.train.plan.shapes):
        batch = next(feed)
        if cached.setdefault(batch.mel.shape, batch) is batch:
            take_step(batch)
    account = TimeAccount()
    metrics = RunMetrics(AcousticTask(config, corpus), account)
    account.settle("start_up")
    seconds = {"pipeline": 0.0, "replay": 0.0}
    for _ in range(options.steps // _BLOCK_STEPS):
        wait_until_full(feed)
        shapes = []
        started = time.perf_counter()
        account.settle("host")
        for _ in range(_BLOCK_STEPS):
            with account.spending("data_wait"):
                batch = next(feed)
            with account.spending("compute"):
                result = take_step(batch)
            metrics.add(batch, result)
            shapes.append(batch.mel.shape)
        account.settle("start_up")
        seconds["pipeline"] += time.perf_counter() - started
        wait_until_full(feed)
        started = time.perf_counter()
        for shape in shapes:
            take_step(cached[shape])
        seconds["replay"] += time.perf_counter() - started
    spent = account.seconds()
    stepping = sum(spent[bucket] for bucket in ("data_wait", "compute", "host"))
    feed.close()
    return {
        "step with the pipeline over replay": seconds["pipeline"] / seconds["replay"],
        "blocked for data": spent["data_wait"] / stepping,
        "useful utilization": metrics.steady_utilisation,
        "valid work": metrics.valid_work_ratio,
    }


class DelayedSource(AcousticSource):
    """The real source with an added delay."""

    delay: Callable[[], float]

    def load(self, step: int) -> Any:
        time.sleep(self.delay())
        return super().load(step)


def measure_slow(options: argparse.Namespace) -> dict[str, Any]:
    """Measure waiting with a miniature model."""
    config = XTTSConfig(
        **read_yaml("miniature"),
        train_data=options.train_data,
        buffer_size=8,
        max_steps=600,
        evaluate_every=_FAR,
        save_every=_FAR,
    )
    corpus = open_corpus(config)
    calls = iter(range(_FAR))
    delays = {
        "as it is": lambda: 0.0,
        "uneven": lambda: 3.0 if next(calls) % 60 == 59 else 0.0,
        "slow": lambda: 0.15,
    }
    found = {}
    for name, delay in delays.items():
        source = DelayedSource(corpus.train, corpus.tokenizer, config)
        source.delay = delay
        feed = Feed(source, config, last_step=config.training.max_steps)
        feed.start(0)
        with tempfile.TemporaryDirectory() as run:
            report = XTTSTrainer(config, corpus, Path(run), feed=feed).fit()
        seconds = report.seconds
        found[name] = {
            "share of data wait": seconds["data_wait"] / seconds["wall"],
            "buffer at start": report.buffer_size,
            "buffer at end": report.buffer_size_at_end,
            "advice": report.advice[0],
        }
    return found


class Timeline:
    """Busy times of each device."""

    def __init__(self) -> None:
        self.spans: dict[str, list[tuple[float, float]]] = {}

    def watched(self, device: str, function: Callable[..., Any]) -> Callable[..., Any]:
        spans = self.spans.setdefault(device, [])

        def watch(*arguments: Any) -> Any:
            started = time.perf_counter()
            result = function(*arguments)
            tf.nest.map_structure(lambda value: value.numpy(), result)
            spans.append((started, time.perf_counter()))
            return result

        return watch

    def forget(self) -> None:
        for spans in self.spans.values():
            spans.clear()

    def overlap(self) -> float:
        """Return the share of the data device's busy time that the model device was busy too.

        Counted from the first step.
        """
        model = self.spans["model device"]
        data = [span for span in self.spans["data device"] if span[0] >= model[0][0]]
        both = sum(
            max(0.0, min(end, other_end) - max(start, other_start))
            for start, end in data
            for other_start, other_end in model
        )
        return both / sum(end - start for start, end in data)

    def draw(self, file: Path, seconds: float) -> None:
        figure = new_figure(1_200, 170)
        panel = figure.subplots()
        # The middle of the run, away from startup and shutdown.
        every = [span for spans in self.spans.values() for span in spans]
        first = (min(every)[0] + max(every)[1] - seconds) / 2
        colors = ("#d97706", "#2563eb")
        for row, (spans, color) in enumerate(zip(self.spans.values(), colors, strict=True)):
            bars = [(start - first, end - start) for start, end in spans]
            panel.broken_barh(bars, (row - 0.4, 0.8), facecolor=color, edgecolor="white")
        panel.set(xlim=(0, seconds), xlabel="seconds", yticks=(0, 1), yticklabels=self.spans)
        panel.invert_yaxis()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(as_png(figure))


def measure_devices(options: argparse.Namespace) -> dict[str, Any]:
    """Measure in a separate process, because devices are configured before TensorFlow starts."""
    script = [sys.executable, __file__, "--train-data", options.train_data]
    script += ["--steps", str(options.steps), "--inside-devices"]
    if options.picture:
        script += ["--picture", str(options.picture)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def measure_inside_devices(options: argparse.Namespace) -> dict[str, Any]:
    find_accelerators(2)
    # With augmentation, so that both modes compute features.
    config = XTTSConfig(train_data=options.train_data, workers=1, augmentation={"speed": 0.05})
    corpus = open_corpus(config)
    timeline = Timeline()
    with tf.device("CPU:1"):
        take_step = timeline.watched("model device", build_step(corpus, config))
    arrangements = {
        "no buffer": {},
        "buffered": {"model_device": "CPU:1"},
        "data device": {"data_device": "CPU:0", "model_device": "CPU:1"},
    }
    steps = options.steps // 4
    found: dict[str, Any] = {}
    for disk_seconds in (0.0, 0.3):
        rates = found[f"steps per second, reading a batch takes {disk_seconds} s more"] = {}
        for name, places in arrangements.items():
            data_device = places.get("data_device")
            source = DelayedSource(corpus.train, corpus.tokenizer, config, data_device=data_device)
            source.delay = lambda: disk_seconds  # noqa: B023
            if data_device is not None:
                source.features = timeline.watched("data device", source.features)
            model_device = places.get("model_device", HOST)
            feed = Feed(source, config, last_step=_FAR, model_device=model_device)
            batches: Any = feed
            if places:
                feed.start(0)
            else:
                batches = _loaded_in_turn(source)
            timeline.forget()
            with tf.device("CPU:1"):
                take_step(next(batches))
                started = time.perf_counter()
                for _ in range(steps):
                    take_step(next(batches))
                rates[name] = steps / (time.perf_counter() - started)
            feed.close()
        # With a slow disk, the disk determines when the data device works.
        if disk_seconds == 0.0:
            found["share of the data device's work during a step"] = timeline.overlap()
            if options.picture:
                timeline.draw(options.picture, seconds=6.0)
    return found


def _loaded_in_turn(source: AcousticSource) -> Iterator[Batch]:
    """Load each batch on demand, without a pipeline."""
    features = source.features if source.computes_features else lambda loaded: loaded
    for step in itertools.count():
        yield features(tf.nest.map_structure(tf.convert_to_tensor, source.load(step)))


PARTS = {
    "steady": measure_steady,
    "slow": measure_slow,
    "devices": measure_devices,
}


def show(found: dict[str, Any], indent: str = "  ") -> None:
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{indent}{name}")
            show(value, indent + "  ")
        else:
            text = f"{value:.4g}" if isinstance(value, float) else value
            print(f"{indent}{name:48} {text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--train-data", required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--inside-devices", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside_devices:
        print(json.dumps(measure_inside_devices(options)))
        return
    results = {}
    for part in options.parts.split(","):
        results[part] = PARTS[part](options)
        print(part)
        show(results[part])
        if options.json:
            options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
