"""Chooses the GPUs for features and for training, and finds the cluster of this process.

Neither sets up devices nor imports TensorFlow.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from myxtts.config.config import XTTSConfig, parse_gpu_ids, parse_optional_gpu_ids
from myxtts.errors import DeviceError, plural

# Tasks on one machine use this port and the following ones.
_SLURM_FIRST_PORT = 12_345


@dataclass(frozen=True)
class Placement:
    """GPUs are ids that count the visible ones from 0."""

    model_gpus: tuple[int, ...]
    """GPUs of this machine that train; empty means the CPU."""
    data_gpu: int | None
    """The GPU that computes features in multi-GPU mode; None uses cached features."""
    machines: int = 1
    reason: str | None = None
    """Why these GPUs train, if the choice was restricted."""
    missing: str | None = None
    """Configured model GPUs that do not exist."""
    problem: str | None = None
    """Why the requested multi-GPU mode is not possible."""
    not_mirrored: str | None = None
    """Why multi_gpu cannot mirror the model."""
    without_effect: tuple[str, ...] = ()
    """Settings without effect in this configuration, each with the reason."""

    @property
    def replicas(self) -> int:
        """Replicas on all workers, if each has as many GPUs as this one."""
        return self.machines * max(1, len(self.model_gpus))


def place(config: XTTSConfig, gpu_count: int, machines: int = 1) -> Placement:
    """Place data and model on a machine with `gpu_count` GPUs."""
    named = named_model_gpus(config)
    there = tuple(number for number in named if number < gpu_count)
    # Memory isolation chooses a GPU by itself and reports missing ones.
    chosen = named if config.data.model_gpu is not None else []
    missing = [number for number in chosen if number >= gpu_count]
    problem = _problem_of_multi_gpu_mode(config, gpu_count, machines)
    by_name = bool(there) and machines == 1
    usual = gpus_that_train(gpu_count, config.training.multi_gpu)
    wanted = config.data.data_gpu
    return Placement(
        model_gpus=there if by_name else usual,
        data_gpu=wanted if problem is None else None,
        machines=machines,
        reason=_reason(config) if by_name else None,
        missing=_not_there(missing, gpu_count) if missing and wanted is None else None,
        problem=problem,
        not_mirrored=(
            f"requires at least 2 GPUs (found {gpu_count})"
            if config.training.multi_gpu and len(usual) < 2 and not by_name and machines == 1
            else None
        ),
        without_effect=tuple(_without_effect(config, by_name)),
    )


def gpus_that_train(gpu_count: int, multi_gpu: bool) -> tuple[int, ...]:
    """Return the GPUs that train; if none are configured, all with multi_gpu, else the first."""
    return tuple(range(gpu_count if multi_gpu else min(1, gpu_count)))


def named_model_gpus(config: XTTSConfig) -> list[int]:
    """Return the configured ids of the GPUs that train; empty if not configured."""
    given = config.data.model_gpu
    if given is None:
        # Memory isolation reserves the first GPU for data.
        return [1] if config.data.enable_memory_isolation else []
    return parse_gpu_ids("data.model_gpu", given)


def parse_visible_gpus(text: str | None) -> list[int]:
    """Return ascending ids; an empty list means no restriction."""
    return sorted(parse_optional_gpu_ids("visible_gpus", text or ""))


def expects_xla(config: XTTSConfig, gpus_here: int) -> bool:
    """Predict without TensorFlow whether a run would use XLA: by default on GPUs only.

    A configuration that names GPUs is meant for a machine that has them.
    """
    if config.training.xla is not None:
        return config.training.xla
    if config.training.virtual_devices:
        return False
    names_gpus = (
        config.training.multi_gpu
        or bool(parse_visible_gpus(config.training.visible_gpus))
        or config.data.data_gpu is not None
        or config.data.model_gpu is not None
    )
    return gpus_here > 0 or names_gpus


def expected_gpu_count(config: XTTSConfig, gpus_here: int) -> int:
    """Predict without TensorFlow how many GPUs a run would find.

    Assumes a machine with the configured GPUs if this one has none.
    """
    visible = parse_visible_gpus(config.training.visible_gpus)
    if visible:
        return len(visible)
    if config.training.virtual_devices or gpus_here:
        return config.training.virtual_devices or gpus_here
    data_gpu = config.data.data_gpu
    named = [*named_model_gpus(config), *([] if data_gpu is None else [data_gpu])]
    return 1 + max(named, default=0)


def _problem_of_multi_gpu_mode(config: XTTSConfig, gpu_count: int, machines: int) -> str | None:
    data_gpu, model_gpus = config.data.data_gpu, named_model_gpus(config)
    if data_gpu is None:
        return None
    missing = [number for number in (data_gpu, *model_gpus) if number >= gpu_count]
    if config.data.model_gpu is None:
        return "--data-gpu requires --model-gpu"
    if missing:
        return _not_there(missing, gpu_count)
    if data_gpu in model_gpus:
        return f"GPU {data_gpu} cannot be both data GPU and model GPU"
    if machines > 1:
        return f"in multi-worker training ({machines} workers) each worker uses cached features"
    return None


def _without_effect(config: XTTSConfig, by_name: bool) -> Iterator[str]:
    data = config.data
    if config.training.multi_gpu and by_name:
        yield f"--multi-gpu does nothing, because {_reason(config)}"
    limits_mb = {"data": data.data_gpu_memory_mb, "model": data.model_gpu_memory_mb}
    for role, limit_mb in limits_mb.items():
        if limit_mb is not None and not data.enable_memory_isolation:
            yield f"--{role}-gpu-memory does nothing without --enable-memory-isolation"


def _not_there(ids: list[int], count: int) -> str:
    return f"GPU {', '.join(map(str, ids))} does not exist (found {count} {plural(count, 'GPU')})"


def _reason(config: XTTSConfig) -> str:
    given = config.data.model_gpu
    if given is None:
        return "memory isolation reserves the first GPU for data"
    return f"model_gpu is {given}"


@dataclass(frozen=True)
class Cluster:
    source: Literal["TF_CONFIG", "Slurm"]
    workers: int
    index: int
    """Rank of this process; 0 is the chief, which alone writes to the run folder."""

    def resolver(self, gpus: int) -> Any:
        """Return the resolver for tf.distribute, with `gpus` GPUs here, or the CPU if 0."""
        import tensorflow as tf

        resolvers = tf.distribute.cluster_resolver
        if self.source == "TF_CONFIG":
            found = resolvers.TFConfigClusterResolver()
        else:
            # Slurm binds GPUs to tasks (--gpus-per-task); these numbers are only counts.
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
    """Return the cluster of this process, or None if it trains alone."""
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
