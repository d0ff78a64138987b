"""kill -9 at random moments of a run: nothing saved is lost, and the end is the same.

    .venv/bin/python tests/faults/kills.py [--kills 100] [--last 5] [--steps 3000] [--seed 0]
                                           [--mode single|multi] [--measure] [--json FILE]

A miniature run is killed, resumed and killed again, so many times; most kills come after its first
step, some while it still starts, the last ones in the evaluation of its last step. After each the
newest checkpoint must be whole and not older than the one before. At the end it is compared with a
run that nobody touched: weights and optimizer bit for bit, the losses of all lines, the best
checkpoint, the state in the report. With `--mode multi` features are computed on a data device;
with `--measure` checkpoints are measured in the background, where kills cost some measures.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from myxtts.data.corpus.demo import make_demo_corpus
from myxtts.runs.run_dir import RunDir, find_checkpoint

ROOT = Path(__file__).parents[2]
FIRST_STEP = "... first step"
_SHARE_WHILE_STARTING = 0.15
_LONGEST_START_SECONDS = 8.0
_LONGEST_TRAINING_SECONDS = 1.0
EVALUATE_EVERY = 20
# What a run can train between two kills at most, so that it does not end before the last of them.
STEPS_PER_KILL = 30
SETTINGS = (
    *("--set=saving.log_every=7", f"--evaluate-every={EVALUATE_EVERY}", "--save-every=5"),
    "--set=evaluation.measured_sentences=1",
)
MODES = {
    "single": (),
    "multi": ("--virtual-devices=2", "--data-gpu=0", "--model-gpu=1", "--model-start-delay=0"),
}
MEASURE = "--set=evaluation.measure_every=1"
PHASES = ("starting", "training", "saving", "evaluating", "measuring", "last evaluation")


def start(
    run_dir: Path, corpus: Path, steps: int, flags: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """The command as a scheduler repeats it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "myxtts.cli.main", "train", "--config=miniature"),
            *(f"--train-data={corpus}", f"--run-dir={run_dir}", f"--max-steps={steps}"),
            *SETTINGS,
            *flags,
            "--resume=auto",
        ],
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    output, _ = process.communicate()
    assert process.returncode == 0, output


def kill_somewhere(process: subprocess.Popen[str], generator: random.Random) -> str:
    """Kills it and says in what; a run that reached its end first is `finished`."""
    phase = "starting"
    if generator.random() < _SHARE_WHILE_STARTING:
        time.sleep(generator.uniform(0.0, _LONGEST_START_SECONDS))
    else:
        assert process.stdout is not None
        seen = []
        for line in process.stdout:
            seen.append(line)
            if line.startswith(FIRST_STEP):
                break
        else:
            raise AssertionError("".join(seen))
        time.sleep(generator.uniform(0.0, _LONGEST_TRAINING_SECONDS))
        phase = "training"
    process.kill()
    output, _ = process.communicate()
    if FIRST_STEP in output:
        phase = "training"
    return phase if process.returncode == -9 else "finished"


def phase_by_folder(run_dir: Path, phase: str) -> str:
    """In what the run was killed, as far as its folder shows it."""
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
    """The step of the newest checkpoint, which is whole."""
    folders = RunDir(run_dir).checkpoint_folders()
    if not folders:
        return before
    # A damaged one would be passed over, and the step before it found.
    found = find_checkpoint(run_dir)
    assert found.folder == folders[-1], f"{folders[-1]} is damaged"
    assert found.info.step >= before, f"{found.info.step} is older than {before}"
    return found.info.step


def kill_in_last_evaluation(process: subprocess.Popen[str], run_dir: Path, wait: float) -> bool:
    """Kills a run that has nothing left but what comes after its last step, if it has."""
    report = RunDir(run_dir).report_file
    seen = report.stat().st_mtime_ns if report.exists() else 0
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("... tracing"):
            time.sleep(wait)
            break
    process.kill()
    process.communicate()
    changed = report.exists() and report.stat().st_mtime_ns != seen
    return process.returncode == -9 and not changed


def killed_run(
    run_dir: Path, corpus: Path, options: argparse.Namespace, flags: Sequence[str]
) -> dict[str, int]:
    generator = random.Random(options.seed)
    counts = dict.fromkeys(PHASES, 0)
    newest = 0
    while sum(counts.values()) < options.kills:
        phase = kill_somewhere(start(run_dir, corpus, options.steps, flags), generator)
        assert phase != "finished", f"all {options.steps} steps are done, ask for more with --steps"
        counts[phase_by_folder(run_dir, phase)] += 1
        newest = require_progress(run_dir, newest)
    while newest < options.steps:
        process = start(run_dir, corpus, options.steps, flags)
        last = RunDir(run_dir).checkpoint_of(options.steps)
        while not last.is_dir() and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        newest = require_progress(run_dir, newest)
    for _ in range(options.last):
        process = start(run_dir, corpus, options.steps, flags)
        killed = kill_in_last_evaluation(process, run_dir, generator.uniform(0.0, 6.0))
        counts["last evaluation"] += killed
        newest = require_progress(run_dir, newest)
    finish(start(run_dir, corpus, options.steps, flags))
    return counts


def differences(one: Path, other: Path, *, measured: bool) -> list[str]:
    """What a run that was killed has otherwise than one that was not."""
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
    """The lines without what is measured in seconds."""
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
        finish(start(work / "whole", corpus, options.steps, flags))
        counts = killed_run(work / "killed", corpus, options, flags)
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
