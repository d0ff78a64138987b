"""Trains a few steps on N virtual devices and prints what happened as JSON.

Logical devices can be set only once per process, so the test runs this in processes of its own.
"""

import json
import sys
from pathlib import Path


def main(run_dir: str, devices: int) -> None:
    from myxtts.config.config import XTTSConfig
    from myxtts.data.corpus import open_corpus
    from myxtts.devices.strategy import choose_strategy, find_accelerators
    from myxtts.training.trainer import XTTSTrainer

    config = XTTSConfig(**json.loads(sys.stdin.read()))
    strategy = choose_strategy(find_accelerators(devices), multi_gpu=True)
    corpus = open_corpus(config, replicas=strategy.num_replicas_in_sync)
    trainer = XTTSTrainer(config, corpus, Path(run_dir), strategy=strategy)
    report = trainer.fit()
    copies = [
        copy
        for variable in trainer.model.trainable_variables
        for copy in strategy.experimental_local_results(variable.value)
    ]
    with strategy.scope():
        graph = trainer.stepper.compiled_step.get_concrete_function().graph
    # The gradient of each replica is a function of its own.
    gradients = [it for it in graph.get_operations() if it.type.endswith("PartitionedCall")]
    print(
        json.dumps(
            report.as_json()
            | {
                "devices_of_weights": names(copies),
                "devices_of_gradients": names(gradients),
            }
        )
    )


def names(placed) -> list[str]:
    return sorted({thing.device.rpartition("device:")[2] for thing in placed if thing.device})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
