"""Shows which strategy is chosen for which devices, and that replicas stay in sync.

    .venv/bin/python examples/gpu_strategy_demo.py

Logical CPU devices simulate GPUs, so the output is the same on every machine.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

# Values of `visible_gpus` for four devices; None means a machine without a GPU.
VISIBLE = {0: None, 1: "0", 2: "0,1", 4: "0,1,2,3"}
REPLICAS = 2


def main() -> int:
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    show_strategies()
    print()
    with tempfile.TemporaryDirectory() as folder:
        train_mirrored(Path(folder))
    return 0


def strategy_for(devices: int, multi_gpu: bool) -> tf.distribute.Strategy:
    from myxtts.devices.strategy import find_accelerators
    from myxtts.utils.commons import setup_gpu_strategy

    find_accelerators(virtual_devices=4 if devices else 0, visible_gpus=VISIBLE[devices])
    return setup_gpu_strategy(enable_multi_gpu=multi_gpu)


def show_strategies() -> None:
    from myxtts.devices.strategy import devices_here, name_of

    row = "{:<9}{:<11}{:<29}{}"
    print(row.format("devices", "multi_gpu", "strategy", "trains on"))
    for devices in VISIBLE:
        for multi_gpu in (False, True):
            strategy = strategy_for(devices, multi_gpu)
            places = ", ".join(devices_here(strategy))
            print(row.format(devices, "on" if multi_gpu else "off", name_of(strategy), places))


def train_mirrored(folder: Path) -> None:
    """Train a small model for two steps and compare its replicas."""
    import numpy as np

    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml
    from myxtts.data.corpus import open_corpus
    from myxtts.data.demo import make_demo_corpus
    from myxtts.training.trainer import XTTSTrainer

    strategy = strategy_for(REPLICAS, multi_gpu=True)
    make_demo_corpus(folder / "corpus", utterances=8, speakers=2)
    config = XTTSConfig(
        **read_yaml("miniature"),
        train_data=str(folder / "corpus"),
        shape_count=1,
        max_steps=2,
        log_every=1,
    )
    corpus = open_corpus(config, replicas=strategy.num_replicas_in_sync)
    trainer = XTTSTrainer(config, corpus, folder / "run", strategy=strategy)
    trainer.fit()
    for line in (folder / "run" / "metrics.jsonl").read_text().splitlines():
        metrics = json.loads(line)
        print(f"Step {metrics['step']} on {REPLICAS} replicas: loss {metrics['loss']:.3f}")
    count, difference = 0, 0.0
    for variable in trainer.model.trainable_variables:
        copies = strategy.experimental_local_results(variable.value)
        first, *others = map(np.asarray, copies)
        count += first.size
        difference = max([difference, *(float(np.abs(copy - first).max()) for copy in others)])
    print(f"The replicas' copies of {count:,} weights differ by at most {difference:g}")


if __name__ == "__main__":
    sys.exit(main())
