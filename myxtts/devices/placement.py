"""Which GPUs compute features and which train, decided from the settings and the number of GPUs.

Only decides: it knows no TensorFlow, asks no machine and sets nothing up.
"""

from __future__ import annotations

from dataclasses import dataclass

from myxtts.config.config import XTTSConfig
from myxtts.errors import DeviceError
from myxtts.wording import plural


@dataclass(frozen=True)
class Placement:
    """GPUs are numbers that count the visible ones from 0."""

    model_gpus: tuple[int, ...]
    """Of this machine; none: its CPU trains."""
    data_gpu: int | None
    """The GPU that computes features in multi-GPU mode; None: they come from the cache."""
    machines: int = 1
    reason: str | None = None
    """Why it is these that train, where not all GPUs were to be chosen from."""
    missing: str | None = None
    """Which GPUs were named to train and are not there."""
    problem: str | None = None
    """Why multi-GPU mode, which was asked for, cannot be."""

    @property
    def replicas(self) -> int:
        """Of all machines, if they have as many GPUs as this one."""
        return self.machines * max(1, len(self.model_gpus))


def place(config: XTTSConfig, gpu_count: int, machines: int = 1) -> Placement:
    """Where data and model go on a machine with so many GPUs."""
    named = named_model_gpus(config)
    there = tuple(number for number in named if number < gpu_count)
    missing = [number for number in named if number >= gpu_count]
    problem = _problem_of_multi_gpu_mode(config, gpu_count, machines)
    by_name = bool(there) and machines == 1
    usual = gpus_that_train(gpu_count, config.training.multi_gpu)
    wanted = config.devices.data_gpu
    return Placement(
        model_gpus=there if by_name else usual,
        data_gpu=wanted if problem is None else None,
        machines=machines,
        reason=_reason(config) if by_name else None,
        missing=_not_there(missing, gpu_count) if missing and wanted is None else None,
        problem=problem,
    )


def gpus_that_train(gpu_count: int, multi_gpu: bool) -> tuple[int, ...]:
    """Where none are named: all of them if wanted, else the first."""
    return tuple(range(gpu_count if multi_gpu else min(1, gpu_count)))


def named_model_gpus(config: XTTSConfig) -> list[int]:
    """Ids of the GPUs that shall train, or none where it was not said."""
    given = config.devices.model_gpu
    if given is None:
        # With memory isolation the first GPU is for data.
        return [1] if config.devices.enable_memory_isolation else []
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DeviceError(f'devices.model_gpu: found {given!r}, allowed: ids such as "1" or "1,2"')
    ids = [int(part) for part in parts]
    if len(set(ids)) < len(ids):
        raise DeviceError(f"devices.model_gpu: found {given!r}, allowed is each id once")
    return ids


def parse_visible_gpus(text: str | None) -> list[int]:
    """Ascending ids; an empty list asks for no restriction."""
    if text is None or not text.strip():
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise DeviceError(
            f"visible_gpus: found {text!r}, allowed are GPU ids with commas between them; "
            'write it like "0,1"'
        )
    gpu_ids = sorted(int(part) for part in parts)
    if len(set(gpu_ids)) < len(gpu_ids):
        raise DeviceError(
            f"visible_gpus: found {text!r} with an id twice, allowed is each id once; "
            f'write "{",".join(map(str, sorted(set(gpu_ids))))}"'
        )
    return gpu_ids


def expected_gpu_count(config: XTTSConfig, gpus_here: int) -> int:
    """How many GPUs a run would find, foretold without TensorFlow.

    Where this machine has none, the answer is for one that has those that the settings name.
    """
    visible = parse_visible_gpus(config.training.visible_gpus)
    if visible:
        return len(visible)
    if config.devices.virtual_devices or gpus_here:
        return config.devices.virtual_devices or gpus_here
    data_gpu = config.devices.data_gpu
    named = [*named_model_gpus(config), *([] if data_gpu is None else [data_gpu])]
    return 1 + max(named, default=0)


def _problem_of_multi_gpu_mode(config: XTTSConfig, gpu_count: int, machines: int) -> str | None:
    data_gpu, model_gpus = config.devices.data_gpu, named_model_gpus(config)
    if data_gpu is None:
        return None
    missing = [number for number in (data_gpu, *model_gpus) if number >= gpu_count]
    if config.devices.model_gpu is None:
        return "--data-gpu needs --model-gpu beside it"
    if missing:
        return _not_there(missing, gpu_count)
    if data_gpu in model_gpus:
        return f"GPU {data_gpu} cannot be data GPU and model GPU at once"
    if machines > 1:
        return f"{machines} machines train together, each from its own cache"
    return None


def _not_there(ids: list[int], count: int) -> str:
    return f"GPU {', '.join(map(str, ids))} is not there (found {count} {plural(count, 'GPU')})"


def _reason(config: XTTSConfig) -> str:
    given = config.devices.model_gpu
    if given is None:
        return "memory isolation keeps the first GPU for data"
    return f"model_gpu is {given}"
