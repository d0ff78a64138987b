"""Saves one checkpoint after the other until it is killed, and says which ones are whole.

python saving_program.py RUN [BYTES]   with BYTES, no file may grow larger than that
"""

import logging
import resource
import sys
from pathlib import Path

import numpy as np

from myxtts.errors import CheckpointError
from myxtts.runs.checkpoint import FILES_OF_RUN, CheckpointInfo, CheckpointWriter
from myxtts.runs.run_dir import RunDir

run_dir = Path(sys.argv[1])
logging.basicConfig(format="%(levelname)s %(message)s")
run_dir.mkdir(parents=True, exist_ok=True)
for name in FILES_OF_RUN:
    (run_dir / name).write_text("{}")
step = 0
if (run_dir / "checkpoints").exists():
    step = RunDir(run_dir).newest_checkpoint().info.step
with CheckpointWriter(
    RunDir(run_dir).checkpoints, RunDir(run_dir).files_for_checkpoints(), keep=2
) as writer:
    while True:
        step += 1
        if len(sys.argv) > 2 and step == 3:
            # From here on the disk takes no large file: a real failure in the middle of a write.
            resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
        state = {"step": np.array(step)}
        state |= {f"weights/{index}": np.full(50_000, step, np.float32) for index in range(4)}
        state |= {f"average/{index}": np.full(50_000, step, np.float32) for index in range(4)}
        info = CheckpointInfo(step=step, mel_mean=0.0, mel_deviation=1.0)
        writer.save(info, state)
        try:
            writer.wait()
            print("saved", step, flush=True)
        except CheckpointError:
            print("failed", step, flush=True)
            if step >= 6:
                break
