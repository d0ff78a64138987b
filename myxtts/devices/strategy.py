"""Chooses the distribution strategy for the available devices."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from myxtts.devices.cluster import Cluster
from myxtts.devices.discovery import Accelerators, current_accelerators
from myxtts.devices.placement import gpus_that_train
from myxtts.errors import DeviceError

logger = logging.getLogger(__name__)


def setup_gpu_strategy(enable_multi_gpu: bool = False) -> tf.distribute.Strategy:
    """The strategy for the devices of this process, respecting virtual devices and visible_gpus."""
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
    """Sum of `own()` over all replicas of all workers."""

    def exchange() -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, own())

    with strategy.scope():
        summed = tf.function(lambda: strategy.run(exchange), autograph=False)()
    return strategy.experimental_local_results(summed)[0]


def any_replica(strategy: tf.distribute.Strategy) -> Callable[[bool], bool]:
    """A question to all replicas of all workers: whether one of them says yes. Traced once."""

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
    """A barrier for all workers."""
    if place_of(strategy).workers > 1:
        sum_over_replicas(strategy, lambda: tf.constant(1.0)).numpy()


@contextlib.contextmanager
def chief_first(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """The chief does it before the others, which find it done if they share its disk."""
    is_chief = place_of(strategy).is_chief
    if not is_chief:
        wait_for_all(strategy)
    yield
    if is_chief:
        wait_for_all(strategy)


def machines_strategy(
    cluster: Cluster, accelerators: Accelerators, multi_gpu: bool
) -> tf.distribute.Strategy:
    """The strategy of multi-worker training; call before any other TensorFlow work."""
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
    """TensorFlow's coordination service handles SIGTERM itself and does not stop a program."""
    handler = signal.getsignal(signal.SIGTERM)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def choose_strategy(
    accelerators: Accelerators, multi_gpu: bool, *, reason: str | None = None
) -> tf.distribute.Strategy:
    """Mirrored over all GPUs with multi_gpu, else the first GPU, else the CPU.

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
    """The public name of a strategy, which may differ from its class name."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return "MultiWorkerMirroredStrategy"
    return type(strategy).__name__.lstrip("_")


def devices_here(strategy: tf.distribute.Strategy) -> list[str]:
    """Devices of this machine that train, such as "GPU:0"."""
    try:
        devices = strategy.extended.worker_devices
    except RuntimeError:
        # TensorFlow's default strategy, used here for the CPU, has no list of devices.
        return ["CPU:0"]
    return [device.rpartition("device:")[2] for device in devices]


@contextlib.contextmanager
def model_scope(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """The scope of the strategy, with everything outside its replicas on the first model device.

    Without the device, validation and samples would run on the first CPU or GPU, which may be the
    data device. Both scopes belong to the current thread.
    """
    with strategy.scope(), tf.device(devices_here(strategy)[0]):
        yield


def devices_holding(
    strategy: tf.distribute.Strategy, variables: Sequence[tf.Variable]
) -> list[str]:
    """The devices that hold copies of the variables, read from the variables themselves."""
    names = {
        copy.device.rpartition("device:")[2]
        for variable in variables
        for copy in strategy.experimental_local_results(variable)
    }
    return sorted(names)


def uses_xla(strategy: tf.distribute.Strategy, wanted: bool | None) -> bool:
    """Whether the step is compiled with XLA: as configured, or by default on GPUs only.

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
