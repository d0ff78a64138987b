"""Chooses the distribution strategy for the available devices."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import tensorflow as tf

from myxtts.config.config import XTTSConfig
from myxtts.devices.memory import recommend_limits, setup_gpu_memory_isolation
from myxtts.devices.placement import (
    Cluster,
    find_cluster,
    gpus_that_train,
    named_model_gpus,
    parse_visible_gpus,
)
from myxtts.devices.placement import place as place_gpus
from myxtts.errors import DeviceError

_chosen: Accelerators | None = None


@dataclass(frozen=True)
class Accelerators:
    """The devices a run may use. GPU ids of the user are indices into `devices`."""

    devices: tuple[str, ...]  # as tf.device takes them: "GPU:0", "CPU:1"
    kind: Literal["GPU", "virtual", "none"]

    @property
    def gpu_count(self) -> int:
        """Number of real or virtual GPUs; 0 if there is only the CPU."""
        return 0 if self.kind == "none" else len(self.devices)


def find_accelerators(virtual_devices: int = 0, visible_gpus: str | None = None) -> Accelerators:
    """Return the GPUs, or `virtual_devices` logical CPU devices, or else the CPU.

    `visible_gpus` keeps only the listed ids, such as "0,2", always in ascending order, as
    TensorFlow numbers visible GPUs. None changes nothing.
    """
    global _chosen
    if virtual_devices < 0:
        raise DeviceError(f"virtual_devices: found {virtual_devices}, allowed: 0 or more")
    gpu_ids = parse_visible_gpus(visible_gpus)
    if virtual_devices:
        _chosen = _virtual_accelerators(virtual_devices, gpu_ids)
    else:
        _chosen = _real_accelerators(gpu_ids)
    return _chosen


def current_accelerators() -> Accelerators:
    """Return the last result of `find_accelerators` in this process; by default all devices."""
    return _chosen or find_accelerators()


def _virtual_accelerators(count: int, gpu_ids: list[int]) -> Accelerators:
    _require_known(gpu_ids, count, "virtual devices")
    _split_cpu(count)
    chosen = gpu_ids or range(count)
    return Accelerators(tuple(f"CPU:{index}" for index in chosen), "virtual")


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    current_count = len(tf.config.get_logical_device_configuration(cpu) or [cpu])
    try:
        # With a visible GPU, operations without a device would run there.
        tf.config.set_visible_devices([], "GPU")
        if current_count != count:
            parts = [tf.config.LogicalDeviceConfiguration() for _ in range(count)]
            tf.config.set_logical_device_configuration(cpu, parts)
    except RuntimeError as error:
        raise DeviceError(
            f"virtual_devices: found {count}, but TensorFlow already runs on other devices "
            f"({current_count} CPU); create virtual devices before any other TensorFlow work"
        ) from error


def _real_accelerators(gpu_ids: list[int]) -> Accelerators:
    if gpu_ids:
        _restrict_gpus(gpu_ids)
    gpu_count = len(tf.config.get_visible_devices("GPU"))
    if gpu_count == 0:
        return Accelerators(("CPU:0",), "none")
    return Accelerators(tuple(f"GPU:{index}" for index in range(gpu_count)), "GPU")


def _restrict_gpus(gpu_ids: list[int]) -> None:
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise DeviceError(
            f"visible_gpus: found {_listed(gpu_ids)}, but TensorFlow sees no GPU on "
            "this machine; omit it, or simulate GPUs with --virtual-devices N"
        )
    _require_known(gpu_ids, len(gpus), "GPUs")
    try:
        tf.config.set_visible_devices([gpus[gpu_id] for gpu_id in gpu_ids], "GPU")
    except RuntimeError as error:
        raise DeviceError(
            f"visible_gpus: found {_listed(gpu_ids)}, but TensorFlow already runs on other GPUs; "
            "choose them before any other TensorFlow work"
        ) from error


def _require_known(gpu_ids: list[int], count: int, what: str) -> None:
    unknown = [gpu_id for gpu_id in gpu_ids if gpu_id >= count]
    if unknown:
        raise DeviceError(
            f"visible_gpus: found {_listed(unknown)}, but the {what} here are "
            f"{_listed(range(count))}; choose among these"
        )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


logger = logging.getLogger(__name__)


def setup_gpu_strategy(enable_multi_gpu: bool = False) -> tf.distribute.Strategy:
    """Return the strategy for this process, respecting virtual devices and visible_gpus."""
    return choose_strategy(current_accelerators(), enable_multi_gpu)


class Place(NamedTuple):
    """Rank (`worker`) and world size (`workers`) of this process."""

    worker: int
    workers: int

    @property
    def is_chief(self) -> bool:
        """Rank 0, which alone writes to the run folder."""
        return self.worker == 0


def place_of(strategy: tf.distribute.Strategy) -> Place:
    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return Place(0, 1)
    resolver = strategy.cluster_resolver
    members = resolver.cluster_spec().as_dict()
    chiefs, workers = len(members.get("chief", ())), len(members.get("worker", ()))
    before = chiefs if resolver.task_type == "worker" else 0
    return Place(before + int(resolver.task_id), chiefs + workers)


def sum_over_replicas(strategy: tf.distribute.Strategy, own: Callable[[], tf.Tensor]) -> tf.Tensor:
    """Sum `own()` over all replicas of all workers."""

    def exchange() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own())

    with strategy.scope():
        summed = tf.function(lambda: strategy.run(exchange), autograph=False)()
    return strategy.experimental_local_results(summed)[0]


def any_replica(strategy: tf.distribute.Strategy) -> Callable[[bool], bool]:
    """Return a function, traced once, that reduces a flag with "or" over all replicas."""

    def exchange(own: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(own))

    yes = tf.TensorSpec([], tf.float32)
    ask = tf.function(
        lambda own: strategy.run(exchange, (own,)), input_signature=[yes], autograph=False
    )

    def answer(own: bool) -> bool:
        answers = strategy.experimental_local_results(ask(tf.constant(float(own))))
        return float(answers[0]) > 0

    return answer


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Wait at a barrier for all workers."""
    if place_of(strategy).workers > 1:
        sum_over_replicas(strategy, lambda: tf.constant(1.0)).numpy()


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Run on the chief before the others, which find it done if they share its disk."""
    is_chief = place_of(strategy).is_chief
    if not is_chief:
        wait_for_all(strategy)
    yield
    if is_chief:
        wait_for_all(strategy)


def machines_strategy(
    cluster: Cluster, accelerators: Accelerators, multi_gpu: bool
) -> tf.distribute.Strategy:
    """Return the strategy of multi-worker training; call before any other TensorFlow work."""
    if accelerators.kind == "virtual":
        raise DeviceError(
            "--virtual-devices: not supported in multi-worker training, and this process is worker "
            f"{cluster.index} of {cluster.workers} by {cluster.source}; omit one of the two"
        )
    gpus = len(gpus_that_train(accelerators.gpu_count, multi_gpu))
    with _keeping_the_handler_of_sigterm():
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=cluster.resolver(gpus)
        )
    logger.info(
        "strategy: MultiWorkerMirroredStrategy, worker %d of %d by %s, %d replicas in total",
        cluster.index,
        cluster.workers,
        cluster.source,
        strategy.num_replicas_in_sync,
    )
    return strategy


@contextlib.contextmanager
def _keeping_the_handler_of_sigterm() -> Iterator[None]:
    """Restore our SIGTERM handler, which TensorFlow's coordination service replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def choose_strategy(
    accelerators: Accelerators, multi_gpu: bool, *, reason: str | None = None
) -> tf.distribute.Strategy:
    """Choose a strategy: mirrored over all GPUs with multi_gpu, else the first GPU or the CPU.

    `reason` is logged if `accelerators` is only a selection of the GPUs.
    """
    gpus = gpus_that_train(accelerators.gpu_count, multi_gpu)
    devices = tuple(accelerators.devices[number] for number in gpus) or accelerators.devices
    if not gpus:
        strategy = tf.distribute.get_strategy()
    elif len(gpus) > 1:
        strategy = _mirrored(accelerators)
    else:
        strategy = tf.distribute.OneDeviceStrategy(devices[0])
    logger.info(
        "strategy: %s on %s, because %s",
        name_of(strategy),
        ", ".join(devices),
        reason or reason_for_strategy(accelerators, multi_gpu),
    )
    return strategy


def name_of(strategy: tf.distribute.Strategy) -> str:
    """Return the public name of a strategy, which may differ from its class name."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return "MultiWorkerMirroredStrategy"
    return type(strategy).__name__.lstrip("_")


def devices_here(strategy: tf.distribute.Strategy) -> list[str]:
    """Return the devices of this machine that train, such as "GPU:0"."""
    try:
        devices = strategy.extended.worker_devices
    except RuntimeError:
        # TensorFlow's default strategy, used here for the CPU, has no list of devices.
        return ["CPU:0"]
    return [device.rpartition("device:")[2] for device in devices]


@contextlib.contextmanager
def model_scope(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Enter the strategy's scope, with everything outside replicas on the first model device.

    Without the device, validation and samples would run on the first CPU or GPU, which may be the
    data device. Both scopes belong to the current thread.
    """
    with strategy.scope(), tf.device(devices_here(strategy)[0]):
        yield


def devices_holding(
    strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]
) -> list[str]:
    """Return the devices that hold copies of the variables, read from the variables."""
    names = {
        copy.device.rpartition("device:")[2]
        for variable in variables
        for copy in strategy.experimental_local_results(variable)
    }
    return sorted(names)


def uses_xla(strategy: tf.distribute.Strategy, wanted: bool | None) -> bool:
    """Return whether the step is compiled with XLA: as configured, or by default on GPUs only.

    On CPUs, XLA starts more slowly and does not run faster.
    """
    if wanted is not None:
        return wanted
    return any(device.startswith("GPU") for device in devices_here(strategy))


def _mirrored(accelerators: Accelerators) -> tf.distribute.Strategy:
    # NCCL is for GPUs only, and TensorFlow's CPU collectives fail for the second MirroredStrategy
    # of a process.
    reduction = tf.distribute.ReductionToOneDevice() if accelerators.kind == "virtual" else None
    return tf.distribute.MirroredStrategy(list(accelerators.devices), cross_device_ops=reduction)


def reason_for_strategy(accelerators: Accelerators, multi_gpu: bool) -> str:
    count, wish = accelerators.gpu_count, "on" if multi_gpu else "off"
    if count == 0:
        return "there is no GPU"
    what = "virtual device" if accelerators.kind == "virtual" else "GPU"
    return f"there is 1 {what}" if count == 1 else f"there are {count} {what}s, multi_gpu {wish}"


class Devices(NamedTuple):
    """The devices of a run."""

    strategy: tf.distribute.Strategy
    data_device: str | None
    """The device that computes features; None: they come from the cache."""
    reason: str
    """Why this strategy was chosen."""


def set_up_devices(config: XTTSConfig) -> Devices:
    """Set up the devices of a configuration, before any other TensorFlow work."""
    training = config.training
    accelerators = find_accelerators(training.virtual_devices, training.visible_gpus)
    if config.data.enable_memory_isolation:
        _isolate_memory(config, accelerators)
    cluster = find_cluster()
    placement = place_gpus(config, accelerators.gpu_count, cluster.workers if cluster else 1)
    for setting in placement.without_effect:
        logger.warning("%s", setting)
    if placement.missing is not None:
        _refuse_if_strict(f"--model-gpu: {placement.missing}", config)
        logger.warning("model %s; continuing with the available devices", placement.missing)
    if placement.not_mirrored is not None:
        _refuse_if_strict(f"--multi-gpu: {placement.not_mirrored}", config)
        logger.warning("--multi-gpu does nothing: it %s", placement.not_mirrored)
    if placement.problem is not None:
        turn_multi_gpu_mode_off(placement.problem, config)
    data_gpu = placement.data_gpu
    data_device = None if data_gpu is None else accelerators.devices[data_gpu]
    reason = placement.reason or reason_for_strategy(accelerators, training.multi_gpu)
    if cluster is not None:
        reason = f"this is worker {cluster.index} of {cluster.workers} by {cluster.source}"
        strategy = machines_strategy(cluster, accelerators, training.multi_gpu)
    elif placement.reason is not None:
        chosen = tuple(accelerators.devices[number] for number in placement.model_gpus)
        accelerators = dataclasses.replace(accelerators, devices=chosen)
        strategy = choose_strategy(accelerators, multi_gpu=len(chosen) > 1, reason=reason)
    else:
        strategy = choose_strategy(accelerators, training.multi_gpu)
    return Devices(strategy, data_device, reason)


def _isolate_memory(config: XTTSConfig, accelerators: Accelerators) -> None:
    if accelerators.kind == "virtual":
        logger.warning("GPU memory isolation is off: virtual devices have no memory of their own")
        return
    data = config.data
    data_gpu_id = 0 if data.data_gpu is None else data.data_gpu
    model_gpu_id = named_model_gpus(config)[0]
    recommended = recommend_limits(data_gpu_id, model_gpu_id)
    data_mb, model_mb = data.data_gpu_memory_mb, data.model_gpu_memory_mb
    setup_gpu_memory_isolation(
        data_gpu_id=data_gpu_id,
        model_gpu_id=model_gpu_id,
        data_gpu_memory_limit=recommended.data_mb if data_mb is None else data_mb,
        model_gpu_memory_limit=recommended.model_mb if model_mb is None else model_mb,
    )


def turn_multi_gpu_mode_off(problem: str, config: XTTSConfig) -> None:
    _refuse_if_strict(f"multi-GPU mode: {problem}", config)
    logger.warning("multi-GPU mode is off: %s; continuing in single-GPU buffered mode", problem)


def _refuse_if_strict(problem: str, config: XTTSConfig) -> None:
    if config.training.strict_devices:
        raise DeviceError(f"{problem}; leave out --strict-devices to continue without it")
