"""kill -9 at random moments of a run: nothing saved is lost, and the end is the same.

    .venv/bin/python tests/faults/kills.py [--kills 100] [--last 5] [--steps 3000] [--seed 0]
                                           [--mode single|multi] [--measure] [--json FILE]

A miniature run is killed, resumed and killed again, so many times; most kills come after its first
step, some while it still starts, the last ones in the evaluation of its last step. After each the
newest checkpoint must be whole and not older than the one before. At the end it is compared with a
run that nobody touched: weights and optimizer bit for bit, the losses of all lines, the best
checkpoint, the state in the report. With `--mode multi` features are computed on a data device;
with `--measure` checkpoints are measured in the background, where kills cost some measures.

Every process of a run is a fork of this one, which has imported TensorFlow and used nothing of it:
importing takes longer than all the rest of a start. How long a process lives is drawn from how long
the untouched run took to start and to train, so that a busy machine is killed in the same phases.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from myxtts.data.demo import make_demo_corpus
from myxtts.runs.run_dir import RunDir, find_checkpoint

FIRST_STEP = "... first step"
_SHARE_WHILE_STARTING = 0.15
EVALUATE_EVERY = 20
_MAX_STEPS_BEFORE_A_KILL = 25
# What a run can train between two kills at most, so that it does not end before the last of them.
STEPS_PER_KILL = 30
SETTINGS = (
    *("--set=saving.log_every=7", f"--evaluate-every={EVALUATE_EVERY}", "--save-every=5"),
    # Whatever is installed: word errors come from the background, where a kill may cost one.
    "--set=evaluation.best_metric=validation_mel_distance",
)
MODES = {
    "single": (),
    "multi": ("--virtual-devices=2", "--data-gpu=0", "--model-gpu=1", "--model-start-delay=0"),
}
MEASURE = "--set=evaluation.measure_every=1"
PHASES = ("starting", "training", "saving", "evaluating", "measuring", "last evaluation")


class RunProcess:
    """`myxtts train`, as a scheduler repeats it."""

    def __init__(self, run_dir: Path, corpus: Path, steps: int, flags: Sequence[str] = ()) -> None:
        arguments = [
            *("train", "--config=miniature", f"--train-data={corpus}", f"--run-dir={run_dir}"),
            *(f"--max-steps={steps}", *SETTINGS, *flags, "--resume=auto"),
        ]
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _become_the_command(arguments, writing)
        os.close(writing)
        self.output = open(reading, encoding="utf-8", errors="replace")  # noqa: SIM115
        self._status: int | None = None

    def has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def kill(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        """Its exit code, below zero for a signal, and what it wrote that was not read yet."""
        with self.output:
            rest = self.output.read()
        if self._status is None:
            _, self._status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(self._status), rest


def _become_the_command(arguments: list[str], output: int) -> None:
    """Run the command in a fork; never returns."""
    code = 1
    try:
        for standard in (1, 2):
            os.dup2(output, standard)
        sys.stdout.reconfigure(line_buffering=True)
        from myxtts.cli.main import main as run_command

        code = run_command(arguments)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - it is printed, and the fork must not continue as its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@dataclass(frozen=True)
class Pace:
    """What the untouched run took, on this machine as it is."""

    start_seconds: float
    step_seconds: float


def import_tensorflow() -> None:
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    importlib.import_module("myxtts.training.train")


def untouched_run(run_dir: Path, corpus: Path, steps: int, flags: Sequence[str]) -> Pace:
    started = time.monotonic()
    process = RunProcess(run_dir, corpus, steps, flags)
    seen = []
    first_step = started
    for line in process.output:
        seen.append(line)
        if line.startswith(FIRST_STEP):
            first_step = time.monotonic()
    code, _ = process.end()
    assert code == 0, "".join(seen)
    return Pace(first_step - started, (time.monotonic() - first_step) / steps)


def kill_somewhere(process: RunProcess, pace: Pace, generator: random.Random) -> str:
    """Kill the run and return its phase, `finished` if it ended before."""
    phase = "starting"
    if generator.random() < _SHARE_WHILE_STARTING:
        time.sleep(generator.uniform(0.0, pace.start_seconds))
    else:
        seen = []
        for line in process.output:
            seen.append(line)
            if line.startswith(FIRST_STEP):
                break
        else:
            raise AssertionError("".join(seen))
        time.sleep(generator.uniform(0.0, _MAX_STEPS_BEFORE_A_KILL * pace.step_seconds))
        phase = "training"
    process.kill()
    code, output = process.end()
    if FIRST_STEP in output:
        phase = "training"
    return phase if code == -signal.SIGKILL else "finished"


def phase_by_folder(run_dir: Path, phase: str) -> str:
    """Return the phase in which the run was killed, as far as its folder shows it."""
    if phase == "starting":
        return phase  # what is in the folder is older
    if any((run_dir / "checkpoints").glob(".step_*.part")):
        return "saving"
    folders = RunDir(run_dir).checkpoint_folders()
    logged = {line["step"] for line in RunDir(run_dir).metric_lines()}
    newest = int(folders[-1].name.removeprefix("step_")) if folders else 0
    if newest % EVALUATE_EVERY == 0 and newest not in logged:
        return "evaluating"
    if any((run_dir / ".measuring").glob("0*")):
        return "measuring"
    return phase


def require_progress(run_dir: Path, before: int) -> int:
    """Return the step of the newest checkpoint, which is whole."""
    folders = RunDir(run_dir).checkpoint_folders()
    if not folders:
        return before
    # A damaged one would be passed over, and the step before it found.
    found = find_checkpoint(run_dir)
    assert found.folder == folders[-1], f"{folders[-1]} is damaged"
    assert found.info.step >= before, f"{found.info.step} is older than {before}"
    return found.info.step


def kill_in_last_evaluation(process: RunProcess, run_dir: Path, wait: float) -> bool:
    """Kill a run after its last step."""
    report = RunDir(run_dir).report_file
    seen = report.stat().st_mtime_ns if report.exists() else 0
    for line in process.output:
        if line.startswith("... tracing"):
            time.sleep(wait)
            break
    process.kill()
    code, _ = process.end()
    changed = report.exists() and report.stat().st_mtime_ns != seen
    return code == -signal.SIGKILL and not changed


def killed_run(
    run_dir: Path, corpus: Path, options: argparse.Namespace, flags: Sequence[str], pace: Pace
) -> dict[str, int]:
    generator = random.Random(options.seed)
    counts = dict.fromkeys(PHASES, 0)
    newest = 0
    while sum(counts.values()) < options.kills:
        process = RunProcess(run_dir, corpus, options.steps, flags)
        phase = kill_somewhere(process, pace, generator)
        assert phase != "finished", f"all {options.steps} steps are done, ask for more with --steps"
        phase = phase_by_folder(run_dir, phase)
        counts[phase] += 1
        newest = require_progress(run_dir, newest)
        print(f"killed: {phase}, saved up to step {newest}", flush=True)
    while newest < options.steps:
        process = RunProcess(run_dir, corpus, options.steps, flags)
        last = RunDir(run_dir).checkpoint_of(options.steps)
        while not last.is_dir() and not process.has_ended():
            time.sleep(0.01)
        process.kill()
        process.end()
        newest = require_progress(run_dir, newest)
    for _ in range(options.last):
        process = RunProcess(run_dir, corpus, options.steps, flags)
        killed = kill_in_last_evaluation(
            process, run_dir, generator.uniform(0.0, pace.start_seconds)
        )
        counts["last evaluation"] += killed
        newest = require_progress(run_dir, newest)
        print("killed: last evaluation" if killed else "ended before it was killed", flush=True)
    code, output = RunProcess(run_dir, corpus, options.steps, flags).end()
    assert code == 0, output
    return counts


def differences(one: Path, other: Path, *, measured: bool) -> list[str]:
    """Return the differences between a killed run and one that was not killed."""
    found = differing_tensors(one, other)
    if logged(one) != logged(other):
        found.append("lines of metrics.jsonl")
    reports = [json.loads(RunDir(run).report_file.read_text()) for run in (one, other)]
    if not measured and reports[0]["best"] != reports[1]["best"]:
        found.append("best")
    if any(report["state"] != "complete" for report in reports):
        found.append("state")
    return found


def logged(run_dir: Path) -> list[dict[str, float | None]]:
    """Return the lines without what is measured in seconds."""
    return [
        {name: value for name, value in line.items() if name == "step" or name.endswith("loss")}
        for line in RunDir(run_dir).metric_lines()
    ]


def differing_tensors(one: Path, other: Path) -> list[str]:
    states = [find_checkpoint(run).training_state() for run in (one, other)]
    return [
        name
        for name in sorted(states[0].keys() | states[1].keys())
        if not all(name in state for state in states)
        or states[0][name].tobytes() != states[1][name].tobytes()
        or not np.isfinite(states[0][name]).all()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--steps", type=int, help=f"default: {STEPS_PER_KILL} for each kill")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=int, default=5)
    parser.add_argument("--mode", choices=MODES, default="single")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.steps = options.steps or STEPS_PER_KILL * options.kills
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        corpus = options.corpus or work / "corpus"
        if options.corpus is None:
            make_demo_corpus(corpus, utterances=18, speakers=2)
        flags = [*MODES[options.mode], *([MEASURE] if options.measure else [])]
        import_tensorflow()
        pace = untouched_run(work / "whole", corpus, options.steps, flags)
        counts = killed_run(work / "killed", corpus, options, flags, pace)
        differing = differences(work / "whole", work / "killed", measured=options.measure)
        steps = find_checkpoint(work / "killed").info.step
    result = {
        "mode": options.mode,
        "kills": sum(counts.values()),
        **counts,
        "steps": steps,
        "differences": differing,
        "seconds": round(time.monotonic() - started),
    }
    for name, value in result.items():
        print(f"{name:20}{value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 1 if differing or steps != options.steps else 0


if __name__ == "__main__":
    sys.exit(main())
