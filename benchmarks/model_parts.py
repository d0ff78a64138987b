"""Profile of the compiled training step, by part of the model and by type of operation.

    .venv/bin/python benchmarks/model_parts.py [--size tiny] [--steps 30] [--json FILE]

TensorFlow's profiler records the operations of real steps; their names give the part of the model.
An operation's time is its median over the steps, to be robust against load on the machine. The
steps are recorded twice, in separate processes: with TensorFlow's threads as in training, where
operations overlap and wait for threads and so seem longer, and with one operation at a time, where
the times add up to that of the step.

Times depend on the machine; the fractions matter.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import statistics
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from myxtts.devices.startup import load_tensorflow

load_tensorflow()

import tensorflow as tf  # noqa: E402
from step import build_alignment, build_step, random_batch, seconds_of  # noqa: E402
from tensorflow.tsl.profiler.protobuf import xplane_pb2  # noqa: E402

from myxtts.config.loading import load_config  # noqa: E402

_STEP = "benchmark step"
_EXECUTOR = "ExecutorState::Process"
# Operations of a few microseconds, which are not recorded (the alignment loop consists of them),
# and the executor itself.
_SMALL = "small, executor"
# TensorFlow's names of the function of loss and gradients, its backward part and its result.
_GRADIENT_FUNCTION = "StatefulPartitionedCall/"
_BACKWARD = "gradient_tape/"
_FLATTENED_GRADIENT = f"{_GRADIENT_FUNCTION}concat:ConcatV2"
_ELEMENT_WISE = "element-wise, norm, softmax, sums"
_WARM_UP_STEPS = 5
_SHOWN_OPERATIONS = 15
# oneDNN operations have different names, such as _MklNativeFusedMatMul.
_PRODUCTS = re.compile("MatMul|Einsum")
_MOVES = re.compile(
    "Assign|Broadcast|Cast|Concat|Fill|Gather|OneHot|Pack|Pad|Read|Reshape|Scatter|SegmentSum|"
    "Slice|Split|Stitch|TensorList|Tile|Transpose|Unpack"
)
_PARTS = ("text encoder", "voice encoder", "decoder", "alignment and losses", "optimizer", "rest")
_KINDS = (
    "matrix products",
    "convolutions",
    _ELEMENT_WISE,
    "data movement",
    _SMALL,
)


class Span(NamedTuple):
    start: int  # picoseconds, as the profiler counts
    end: int
    name: str


def record(size: str, tokens: int, frames: int, steps: int, at_once: int | None) -> dict[str, Any]:
    """Seconds of a step and of each operation, with `at_once` operations in parallel."""
    if at_once is not None:
        tf.config.threading.set_inter_op_parallelism_threads(at_once)
    config = load_config(overrides={"model": {"size": size}})
    batch = random_batch(config, tokens, frames)
    step, _ = build_step(config)
    update = tf.constant(True)

    def take_step() -> None:
        step(batch, update).loss.numpy()

    for _ in range(_WARM_UP_STEPS):
        take_step()
    search = build_alignment(config, tokens, frames)
    search()
    # Alternating, so that load on the machine affects both.
    turns = [(seconds_of(take_step), seconds_of(search)) for _ in range(steps)]
    unrecorded, alignment = (statistics.median(column) for column in zip(*turns, strict=True))
    # Level 2 records operations longer than a few microseconds and hardly slows the step.
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder, options):
            for _ in range(steps):
                with tf.profiler.experimental.Trace(_STEP):
                    take_step()
        (file,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(file.read_bytes())
    by_step, recorded, threads = read_trace(space)
    sources = sources_of_gradients(step.get_concrete_function().graph.as_graph_def())
    names = {name for operations in by_step for name in operations}
    return {
        "step": unrecorded,
        "alignment": alignment,
        "recorded step": statistics.median(recorded),
        "threads": threads,
        "operations": {
            with_source(name, sources): statistics.median(
                operations.get(name, 0.0) for operations in by_step
            )
            for name in names
        },
    }


def read_trace(space: Any) -> tuple[list[dict[str, float]], list[float], int]:
    """Seconds per operation for each step; seconds of the steps; number of threads."""
    spans_of_line = [
        [
            Span(start, start + event.duration_ps, plane.event_metadata[event.metadata_id].name)
            for event in line.events
            for start in [line.timestamp_ns * 1_000 + event.offset_ps]
        ]
        for plane in space.planes
        for line in plane.lines
    ]
    steps = sorted(span for spans in spans_of_line for span in spans if span.name == _STEP)
    by_step: list[dict[str, float]] = [defaultdict(float) for _ in steps]
    threads = 0
    for spans in spans_of_line:
        relevant = [span for span in spans if span.name == _EXECUTOR or is_operation(span.name)]
        threads += bool(relevant)
        for span, own_seconds in own_times(relevant):
            for step, operations in zip(steps, by_step, strict=True):
                if step.start <= span.start < step.end:
                    operations[span.name] += own_seconds
    return by_step, [(step.end - step.start) / 1e12 for step in steps], threads


def is_operation(name: str) -> bool:
    """Operations are called name:Type."""
    return re.fullmatch(r"[^:\s]+:\w+", name) is not None


def own_times(spans: Iterable[Span]) -> Iterator[tuple[Span, float]]:
    """Each span of a thread with its seconds, excluding nested spans."""
    open_spans: list[tuple[Span, list[Span]]] = []

    def close() -> tuple[Span, float]:
        span, inside = open_spans.pop()
        own = span.end - span.start - sum(one.end - one.start for one in inside)
        return span, max(own, 0) / 1e12

    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        while open_spans and open_spans[-1][0].end <= span.start:
            yield close()
        if open_spans:
            open_spans[-1][1].append(span)
        open_spans.append((span, []))
    while open_spans:
        yield close()


def sources_of_gradients(graph: Any) -> dict[str, str]:
    """For operations whose names give no part, the nearest input whose name does.

    These are sums of gradients and the operations of custom gradients.
    """
    inputs = {
        node.name: [name.lstrip("^").partition(":")[0] for name in node.input]
        for function in graph.library.function
        for node in function.node_def
    }
    sources = {}
    for name in inputs:
        seen, nearest = {name}, [name]
        while nearest and not any(map(in_model, nearest)):
            before = {one for other in nearest for one in inputs.get(other, ())}
            nearest = sorted(before - seen)
            seen |= before
        if not in_model(name) and nearest:
            sources[name] = next(filter(in_model, nearest)).removeprefix(_BACKWARD)
    return sources


def with_source(name: str, sources: dict[str, str]) -> str:
    inner = name.removeprefix(_GRADIENT_FUNCTION)
    source = sources.get(inner.rpartition(":")[0])
    if inner == name or source is None or name == _FLATTENED_GRADIENT:
        return name
    return f"{_GRADIENT_FUNCTION}{_BACKWARD}{source}/{inner}"


def in_model(name: str) -> bool:
    return re.search(r"(^|/)xtts(_\d+)?/", name) is not None


def part_of(name: str) -> str:
    if name == _EXECUTOR:
        return "rest"
    for part in ("text_encoder", "voice_encoder", "decoder"):
        if re.search(rf"/{part}(_\d+)?/", name):
            return part.replace("_", " ")
    if in_model(name):
        return "alignment and losses"
    in_optimizer = name == _FLATTENED_GRADIENT or name.startswith("optimizer/")
    return "optimizer" if in_optimizer else "rest"


def kind_of(name: str) -> str:
    if name == _EXECUTOR:
        return _SMALL
    operation = name.rpartition(":")[2]
    if _PRODUCTS.search(operation):
        return "matrix products"
    if "Conv" in operation:
        return "convolutions"
    return "data movement" if _MOVES.search(operation) else _ELEMENT_WISE


def summarise(recorded: dict[str, Any]) -> dict[str, Any]:
    """Fractions of the recorded time by part, by type, by both, and of the longest operations."""
    operations = recorded["operations"]
    total = sum(operations.values())
    table: dict[str, dict[str, float]] = {
        part: dict.fromkeys((*_KINDS, "backward"), 0.0) for part in _PARTS
    }
    shares = Counter({name: seconds / total for name, seconds in operations.items()})
    types: Counter[str] = Counter()
    for name, share in shares.items():
        part = part_of(name)
        table[part][kind_of(name)] += share
        table[part]["backward"] += share * (_BACKWARD in name)
        types[f"{part}: {name.rpartition(':')[2]}"] += share
    return {
        **{name: recorded[name] for name in ("step", "alignment", "recorded step", "threads")},
        "recorded time / (step x threads)": total / recorded["recorded step"] / recorded["threads"],
        "shares": table,
        "parts": {part: sum(row[kind] for kind in _KINDS) for part, row in table.items()},
        "kinds": {kind: sum(row[kind] for row in table.values()) for kind in _KINDS},
        "longest operations": dict(shares.most_common(_SHOWN_OPERATIONS)),
        "longest types of operations": dict(types.most_common(_SHOWN_OPERATIONS)),
    }


def show(title: str, summary: dict[str, Any]) -> None:
    print(title)
    print(
        f"  a step {summary['step']:.3f} s, recorded {summary['recorded step']:.3f} s; "
        f"what was recorded is {summary['recorded time / (step x threads)']:.0%} of the time of "
        f"{summary['threads']} threads"
    )
    columns = (*_KINDS, "backward")
    print(f"  {'':22}{'all':>8}" + "".join(f"{column.split(',')[0]:>17}" for column in columns))
    rows = {part: row | {"all": summary["parts"][part]} for part, row in summary["shares"].items()}
    rows["all"] = {
        column: sum(row[column] for row in rows.values()) for column in ("all", *columns)
    }
    for part, row in rows.items():
        cells = "".join(f"{row[column]:17.1%}" for column in columns)
        print(f"  {part:22}{row['all']:8.1%}{cells}")
    products = summary["kinds"]["matrix products"] + summary["kinds"]["convolutions"]
    alone = summary["alignment"] / summary["step"]
    print(f"  matrix products and convolutions: {products:.1%}")
    print(f"  the alignment's loop, timed by itself: {alone:.1%} of a step")
    for ranking in ("longest operations", "longest types of operations"):
        print(f"  {ranking}:")
        for name, share in summary[ranking].items():
            print(f"  {share:8.1%}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--frames", type=int, default=240)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = {}
    for title, at_once in (("as trained", None), ("one operation at a time", 1)):
        # Threads are set before TensorFlow starts, so each recording is a separate process.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            recorded = pool.submit(
                record, options.size, options.tokens, options.frames, options.steps, at_once
            ).result()
        results[title] = summarise(recorded)
        show(title, results[title])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
