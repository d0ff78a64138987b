"""Trains a few steps on N virtual devices and prints the weights' checksum as JSON.

Logical devices can be set only once per process, so the test runs this in processes of its own.
"""

import json
import sys
from pathlib import Path


def main(corpus_dir: str, run_dir: str, devices: int, accumulation: int) -> None:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.corpus import open_corpus
    from myxtts.devices.discovery import find_accelerators
    from myxtts.devices.strategy import choose_strategy
    from myxtts.training.checkpoints import find_checkpoint
    from myxtts.training.trainer import XTTSTrainer

    settings = json.loads(sys.stdin.read())
    config = XTTSConfig(**settings, train_data=corpus_dir, gradient_accumulation_steps=accumulation)
    accelerators = find_accelerators(devices)
    strategy = choose_strategy(accelerators, multi_gpu=True)
    corpus = open_corpus(config, replicas=strategy.num_replicas_in_sync)
    trainer = XTTSTrainer(config, corpus, Path(run_dir), strategy=strategy)
    report = trainer.fit()
    copies = {
        part.device.rpartition("device:")[2]
        for variable in trainer.model.trainable_variables
        for part in strategy.experimental_local_results(variable.value)
    }
    print(
        json.dumps(
            {
                "strategy": report["strategy"],
                "traces": report["traces"],
                "model_devices": report["model_devices"],
                "devices_of_weights": sorted(copies),
                "step": find_checkpoint(Path(run_dir)).info.step,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
