"""Train on a Ray cluster: Ray starts the workers and gives each its TF_CONFIG.

pip install 'ray[train]'
python examples/cluster/ray_train.py /shared/corpus /shared/runs/mine --workers 2
"""

from __future__ import annotations

import argparse
from typing import Any


def train_worker(settings: dict[str, Any]) -> None:
    """Run in every worker, in a process of its own."""
    import myxtts
    from myxtts.runs.run_dir import RunDir

    config = myxtts.XTTSConfig(train_data=settings["corpus"])
    resume = bool(RunDir(settings["run"]).checkpoint_folders())
    myxtts.train(config, settings["run"], resume=resume)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", help="folder that all workers see")
    parser.add_argument("run", help="run folder that all workers see")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="train without GPUs")
    options = parser.parse_args()

    from ray.train import ScalingConfig
    from ray.train.tensorflow import TensorflowTrainer

    trainer = TensorflowTrainer(
        train_worker,
        train_loop_config={"corpus": options.corpus, "run": options.run},
        scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=not options.cpu),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
