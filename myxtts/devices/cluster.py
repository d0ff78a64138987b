"""Multi-worker training: rank and addresses of the workers, from TF_CONFIG or Slurm."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from myxtts.errors import DeviceError

# Tasks on one machine use this port and the following ones.
_SLURM_FIRST_PORT = 12_345


@dataclass(frozen=True)
class Cluster:
    source: Literal["TF_CONFIG", "Slurm"]
    workers: int
    index: int
    """Rank of this process; 0 is the chief, which alone writes to the run folder."""

    def resolver(self, gpus: int) -> Any:
        """For tf.distribute, with `gpus` GPUs of this process, or its CPU if 0."""
        import tensorflow as tf

        resolvers = tf.distribute.cluster_resolver
        if self.source == "TF_CONFIG":
            found = resolvers.TFConfigClusterResolver()
        else:
            # Slurm itself binds GPUs to tasks (--gpus-per-task); these numbers are only
            # counters.
            found = resolvers.SlurmClusterResolver(
                port_base=_SLURM_FIRST_PORT,
                gpus_per_node=self.workers,
                gpus_per_task=1,
                auto_set_gpu=False,
            )
        members = found.cluster_spec()
        if self.source == "Slurm":
            task_type, task_id = found.get_task_info()
        else:
            task_type, task_id = found.task_type, found.task_id
        return resolvers.SimpleClusterResolver(
            members,
            task_type=task_type,
            task_id=task_id,
            rpc_layer="grpc",
            num_accelerators={"GPU": gpus},
        )


def find_cluster(environment: Mapping[str, str] = os.environ) -> Cluster | None:
    """None if this process trains alone. Does not load TensorFlow."""
    if environment.get("TF_CONFIG", "").strip():
        cluster = _from_tf_config(environment["TF_CONFIG"])
    elif "SLURM_PROCID" in environment and "SLURM_STEP_NUM_TASKS" in environment:
        cluster = Cluster(
            "Slurm", int(environment["SLURM_STEP_NUM_TASKS"]), int(environment["SLURM_PROCID"])
        )
    else:
        return None
    return cluster if cluster.workers > 1 else None


def _from_tf_config(text: str) -> Cluster:
    try:
        content = json.loads(text)
        members = content.get("cluster", {})
        # If there is a chief, it has rank 0 and the workers follow.
        jobs = [job for job in ("chief", "worker") for _ in members.get(job, [])]
        others = set(members) - {"chief", "worker"}
        task = content.get("task", {})
        place = [job == task.get("type") for job in jobs]
        index = place.index(True) + int(task["index"]) if jobs else 0
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeviceError(
            f"TF_CONFIG: found {text!r} ({type(error).__name__}: {error}), expected JSON such as "
            '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, '
            '"task": {"type": "worker", "index": 0}}'
        ) from None
    if others:
        raise DeviceError(
            f"TF_CONFIG: found the jobs {', '.join(sorted(others))}, allowed: worker and chief; "
            "training is mirrored, without parameter servers"
        )
    if jobs and not 0 <= index < len(jobs):
        raise DeviceError(
            f"TF_CONFIG: found task index {task['index']}, allowed: 0 to {place.count(True) - 1}"
        )
    return Cluster("TF_CONFIG", len(jobs), index)
