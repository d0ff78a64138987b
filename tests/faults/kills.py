"""kill -9 at random moments of training and saving: nothing saved is lost, and the end is the same.

    .venv/bin/python tests/faults/kills.py [--kills 100] [--steps 4000] [--seed 0] [--json FILE]

A miniature run is killed, resumed and killed again, so many times; most kills come after its first
step, some while it still starts. After each the newest checkpoint must be whole and not older
than the one before. At the end its weights and its optimizer are compared, bit for bit, with those
of a run that nobody touched.
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
from pathlib import Path

import numpy as np

from myxtts.data.corpus.demo import make_demo_corpus
from myxtts.runs.run_dir import RunDir, find_checkpoint

ROOT = Path(__file__).parents[2]
FIRST_STEP = "... first step"
_SHARE_WHILE_STARTING = 0.15
_LONGEST_START_SECONDS = 8.0
_LONGEST_TRAINING_SECONDS = 2.0
SETTINGS = ("--set=saving.log_every=50", "--evaluate-every=1000000", "--save-every=5")


def start(run_dir: Path, corpus: Path, steps: int) -> subprocess.Popen[str]:
    """The command as a scheduler repeats it."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "myxtts.cli.main", "train", "--config=miniature"),
            *(f"--train-data={corpus}", f"--run-dir={run_dir}", f"--max-steps={steps}"),
            *SETTINGS,
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
    process.communicate()
    return phase if process.returncode == -9 else "finished"


def killed_run(run_dir: Path, corpus: Path, steps: int, kills: int, seed: int) -> dict[str, int]:
    generator = random.Random(seed)
    counts = {"starting": 0, "training": 0, "saving": 0, "finished": 0}
    newest = 0
    while counts["starting"] + counts["training"] + counts["saving"] < kills:
        phase = kill_somewhere(start(run_dir, corpus, steps), generator)
        assert phase != "finished", f"all {steps} steps are done, ask for more with --steps"
        if any((run_dir / "checkpoints").glob(".step_*.part")):
            phase = "saving"
        counts[phase] += 1
        if RunDir(run_dir).checkpoint_folders():
            # A damaged one would be passed over, and the step before it found.
            found = find_checkpoint(run_dir)
            newest = RunDir(run_dir).checkpoint_folders()[-1]
            assert found.folder == newest, f"{found.folder} is not newest"
            assert found.info.step >= newest
            newest = found.info.step
    finish(start(run_dir, corpus, steps))
    return counts


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
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        corpus = options.corpus or work / "corpus"
        if options.corpus is None:
            make_demo_corpus(corpus, utterances=18, speakers=2)
        finish(start(work / "whole", corpus, options.steps))
        counts = killed_run(work / "killed", corpus, options.steps, options.kills, options.seed)
        differing = differing_tensors(work / "whole", work / "killed")
        steps = find_checkpoint(work / "killed").info.step
    result = {
        "kills": options.kills,
        **counts,
        "steps": steps,
        "differing_tensors": differing,
        "seconds": round(time.monotonic() - started),
    }
    for name, value in result.items():
        print(f"{name:20}{value}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 1 if differing or steps != options.steps else 0


if __name__ == "__main__":
    sys.exit(main())
