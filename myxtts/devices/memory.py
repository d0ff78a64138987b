"""GPU memory isolation: fixed memory limits for the data GPU and the model GPU."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import logging
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import tensorflow as tf

from myxtts.devices.monitor import NvmlReading, read_nvml

logger = logging.getLogger(__name__)

DEFAULT_DATA_LIMIT_MB = 8192
DEFAULT_MODEL_LIMIT_MB = 16384

# Their names below tf.config in different TensorFlow versions, in order of preference.
SETTERS = (
    "set_logical_device_configuration",
    "experimental.set_virtual_device_configuration",
    "experimental.set_logical_device_configuration",
)
GETTERS = (
    "get_logical_device_configuration",
    "experimental.get_virtual_device_configuration",
    "experimental.get_logical_device_configuration",
)
CONFIGURATIONS = (
    "LogicalDeviceConfiguration",
    "experimental.VirtualDeviceConfiguration",
    "experimental.LogicalDeviceConfiguration",
)


def setup_gpu_memory_isolation(
    data_gpu_id: int = 0,
    model_gpu_id: int = 1,
    data_gpu_memory_limit: int = DEFAULT_DATA_LIMIT_MB,
    model_gpu_memory_limit: int = DEFAULT_MODEL_LIMIT_MB,
    *,
    runtime: GpuRuntime | None = None,
) -> bool:
    """Limit the memory of two GPUs, in MB; True only when TensorFlow confirms both limits.

    Call it before any other TensorFlow work. Ids count the visible GPUs, from 0. If it returns
    False, the reason is logged and the GPUs are unchanged. Only a TensorFlow without a call for
    limits gets memory growth on every GPU instead.
    """
    runtime = runtime or GpuRuntime()
    shares = (
        Share("data_gpu", data_gpu_id, data_gpu_memory_limit),
        Share("model_gpu", model_gpu_id, model_gpu_memory_limit),
    )
    problem = _find_problem(runtime, shares)
    if problem:
        logger.warning("GPU memory isolation is off: %s", problem)
        return False
    call = runtime.find_limit_call()
    if call is None:
        _grow_instead(runtime)
        return False
    logger.info("GPU memory limits are set by tf.config.%s", call.name)
    return _apply(runtime, call, shares)


@dataclass(frozen=True)
class Share:
    """Memory limit of a GPU; `role` is its name in the arguments."""

    role: str
    gpu_id: int
    limit_mb: int


@dataclass(frozen=True)
class LimitCall:
    """TensorFlow's calls to set and read the memory limit of a GPU."""

    name: str
    setter: Callable[[Any, list[Any]], None]
    getter: Callable[[Any], list[Any] | None]
    configuration: Callable[..., Any]

    def set_limit(self, gpu: Any, limit_mb: int) -> None:
        self.setter(gpu, [self.configuration(memory_limit=limit_mb)])

    def get_limits(self, gpu: Any) -> list[int]:
        return [configuration.memory_limit for configuration in self.getter(gpu) or []]


def _forget_limits(gpu: Any) -> None:
    """Reset a GPU as if it never had a limit.

    TensorFlow has no public call for that. With an empty list of limits it counts one GPU too few
    and does not start ("Not enough GPUs to create virtual devices").
    """
    from tensorflow.python.eager import context

    context.context()._virtual_device_map.pop(gpu, None)


class GpuRuntime:
    """Calls that need a real GPU. Tests pass fakes of TensorFlow and NVML."""

    def __init__(
        self,
        config: Any = tf.config,
        read_cards: Callable[[], NvmlReading] = read_nvml,
        forget_limits: Callable[[Any], None] = _forget_limits,
    ) -> None:
        self._config = config
        self._read_cards = read_cards
        self.forget_limits = forget_limits

    def list_gpus(self) -> list[Any]:
        # A limit on a hidden GPU would be accepted but have no effect.
        return list(self._config.get_visible_devices("GPU"))

    def has_started(self) -> bool:
        """Return whether it is too late to configure devices.

        TensorFlow only reveals this by refusing a change: one thread is added and, if that worked,
        removed again.
        """
        threading = self._config.threading
        try:
            threads = threading.get_inter_op_parallelism_threads()
        except ValueError:
            # Reading one setting checks all of them. With memory growth on for some GPUs only,
            # that fails, and TensorFlow could not have started.
            return False
        try:
            threading.set_inter_op_parallelism_threads(threads + 1)
        except RuntimeError:
            return True
        threading.set_inter_op_parallelism_threads(threads)
        return False

    def find_limit_call(self) -> LimitCall | None:
        setter, getter, configuration = (
            self._first_of(names) for names in (SETTERS, GETTERS, CONFIGURATIONS)
        )
        if setter is None or getter is None or configuration is None:
            return None
        return LimitCall(setter[0], setter[1], getter[1], configuration[1])

    def limit_mb(self, gpu: Any) -> int | None:
        """Return the limit of this GPU in TensorFlow, or None."""
        call = self.find_limit_call()
        limits = call.get_limits(gpu) if call is not None else []
        return limits[0] if limits else None

    def memory_mb(self, gpu: Any) -> int | None:
        """Return the memory of the card, if NVML reports it."""
        if not self._nvml.cards:
            return None
        details = self._config.experimental.get_device_details(gpu)
        return self._nvml.memory_mb_of(details.get("device_name"))

    @property
    def why_unknown(self) -> str:
        """Reason why the memory of the card is unknown."""
        return self._nvml.problem or "NVML does not identify the card"

    def get_growth(self, gpu: Any) -> bool | None:
        """Return None if it was never set, which TensorFlow distinguishes from False."""
        growth: bool | None = self._config.experimental.get_memory_growth(gpu)
        return growth

    def set_growth(self, gpu: Any, enable: bool | None) -> None:
        self._config.experimental.set_memory_growth(gpu, enable)

    @functools.cached_property
    def _nvml(self) -> NvmlReading:
        return self._read_cards()

    def _first_of(self, names: Sequence[str]) -> tuple[str, Any] | None:
        for name in names:
            with contextlib.suppress(AttributeError):
                return name, operator.attrgetter(name)(self._config)
        return None


def _find_problem(runtime: GpuRuntime, shares: Sequence[Share]) -> str | None:
    """Return why these limits cannot be set, before anything is changed."""
    for share in shares:
        whole = {f"{share.role}_id": share.gpu_id, f"{share.role}_memory_limit": share.limit_mb}
        for name, value in whole.items():
            # Python counts True as the number 1.
            if not isinstance(value, int) or isinstance(value, bool):
                return f"{name}: found {value!r}, expected a whole number"
    if runtime.has_started():
        return "called too late: TensorFlow is already running; call it before any TensorFlow work"
    gpus = runtime.list_gpus()
    if len(gpus) < 2:
        return f"found {len(gpus)} visible GPU(s), expected at least 2; train without it"
    known = ", ".join(str(gpu_id) for gpu_id in range(len(gpus)))
    for share in shares:
        if not 0 <= share.gpu_id < len(gpus):
            return f"{share.role}_id: found {share.gpu_id}, allowed: {known}"
    if len({share.gpu_id for share in shares}) < len(shares):
        return f"data_gpu_id and model_gpu_id: found {shares[0].gpu_id} for both; choose two GPUs"
    growing = [index for index, gpu in enumerate(gpus) if runtime.get_growth(gpu)]
    if growing:
        return (
            f"memory growth is on for GPU {', '.join(map(str, growing))}, which rules out a limit; "
            "do not call set_memory_growth"
        )
    for share in shares:
        problem = _find_limit_problem(runtime, gpus[share.gpu_id], share)
        if problem:
            return problem
    return None


def _find_limit_problem(runtime: GpuRuntime, gpu: Any, share: Share) -> str | None:
    name = f"{share.role}_memory_limit"
    if share.limit_mb <= 0:
        return f"{name}: found {share.limit_mb}, allowed: 1 MB or more"
    memory_mb = runtime.memory_mb(gpu)
    if memory_mb is not None and share.limit_mb > memory_mb:
        return f"{name}: found {share.limit_mb}, but GPU {share.gpu_id} has {memory_mb} MB"
    return None


def _apply(runtime: GpuRuntime, call: LimitCall, shares: Sequence[Share]) -> bool:
    """Set all limits, or none if one is refused or not confirmed."""
    gpus = runtime.list_gpus()
    try:
        with contextlib.ExitStack() as undo:
            for share in shares:
                gpu = gpus[share.gpu_id]
                undo.callback(_take_back, runtime, call, gpu, share.gpu_id, call.getter(gpu))
                call.set_limit(gpu, share.limit_mb)
            for share in shares:
                found = call.get_limits(gpus[share.gpu_id])
                if found != [share.limit_mb]:
                    logger.warning(
                        "GPU memory isolation is off: GPU %d was given a limit of %d MB, but "
                        "TensorFlow reports %s",
                        share.gpu_id,
                        share.limit_mb,
                        found,
                    )
                    return False
            undo.pop_all()
    except (RuntimeError, ValueError) as refusal:
        logger.warning("GPU memory isolation is off: TensorFlow refused it: %s", refusal)
        return False
    for share in shares:
        logger.info("GPU %d (%s) is limited to %d MB", share.gpu_id, share.role, share.limit_mb)
        if runtime.memory_mb(gpus[share.gpu_id]) is None:
            logger.warning(
                "the memory size of GPU %d is unknown (%s), so its limit of %d MB is in force but "
                "could not be checked against the card",
                share.gpu_id,
                runtime.why_unknown,
                share.limit_mb,
            )
    return True


def _take_back(
    runtime: GpuRuntime, call: LimitCall, gpu: Any, gpu_id: int, before: list[Any] | None
) -> None:
    if call.getter(gpu) == before:
        return
    with contextlib.suppress(AttributeError, ImportError, RuntimeError, ValueError):
        if before:
            call.setter(gpu, before)
        else:
            runtime.forget_limits(gpu)
    if call.getter(gpu) == before:
        logger.warning("removed the limit of GPU %d", gpu_id)
    else:
        logger.error("could not remove the limit of GPU %d: restart the program", gpu_id)


def _grow_instead(runtime: GpuRuntime) -> None:
    """Enable memory growth on every GPU or on none: TensorFlow does not accept a mixture."""
    try:
        with contextlib.ExitStack() as undo:
            for gpu in runtime.list_gpus():
                before = runtime.get_growth(gpu)
                runtime.set_growth(gpu, True)
                undo.callback(runtime.set_growth, gpu, before)
            undo.pop_all()
    except (RuntimeError, ValueError) as refusal:
        growth = f"memory growth was refused too: {refusal}"
    else:
        growth = "using memory growth on every GPU instead"
    logger.warning(
        "GPU memory isolation is off: this TensorFlow has no call for limits; %s", growth
    )


# The CUDA context, handles of cuDNN and cuBLAS, and loaded kernels are not part of the limit.
# Without limits TensorFlow reserves 0.5 to 1.8 GB for them, depending on the GPU generation.
_HEADROOM_MB = 2048
# Features of 64 clips of 30 s need 1.9 GB: 0.2 for the samples, 0.7 each for the windows and their
# spectra, 0.3 for the power. Twice that lets the next batch overlap.
_DATA_MB = 4096


class Limits(NamedTuple):
    data_mb: int
    model_mb: int


def recommend_limits(
    data_gpu_id: int, model_gpu_id: int, runtime: GpuRuntime | None = None
) -> Limits:
    """Recommend limits for the two cards; a card of unknown size gets the default.

    Call it before any other TensorFlow work. Ids count the visible GPUs, from 0.
    """
    runtime = runtime or GpuRuntime()
    return Limits(
        min(_DATA_MB, _recommended_mb(runtime, data_gpu_id) or DEFAULT_DATA_LIMIT_MB),
        _recommended_mb(runtime, model_gpu_id) or DEFAULT_MODEL_LIMIT_MB,
    )


def memory_for_tensors_mb(gpu_id: int, runtime: GpuRuntime | None = None) -> int | None:
    """Return the memory of a visible GPU for tensors: its limit, or the card's minus headroom.

    None if there is no limit and the size of the card is unknown.
    """
    runtime = runtime or GpuRuntime()
    gpu = _visible_gpu(runtime, gpu_id)
    if gpu is None:
        return None
    limit_mb, memory_mb = runtime.limit_mb(gpu), runtime.memory_mb(gpu)
    if limit_mb is not None:
        return limit_mb
    return None if memory_mb is None else _without_headroom(memory_mb)


def _recommended_mb(runtime: GpuRuntime, gpu_id: int) -> int | None:
    gpu = _visible_gpu(runtime, gpu_id)
    memory_mb = None if gpu is None else runtime.memory_mb(gpu)
    if memory_mb is None:
        return None
    usable_mb = _without_headroom(memory_mb)
    logger.info("GPU %d has %d MB, of which %d MB are for tensors", gpu_id, memory_mb, usable_mb)
    return usable_mb


def _visible_gpu(runtime: GpuRuntime, gpu_id: int) -> Any | None:
    gpus = runtime.list_gpus()
    return gpus[gpu_id] if 0 <= gpu_id < len(gpus) else None


def _without_headroom(memory_mb: int) -> int:
    # A small card gets three quarters of its memory, because the full headroom would leave almost
    # none.
    return memory_mb - min(_HEADROOM_MB, memory_mb // 4)


@dataclass(frozen=True)
class MemoryInUse:
    """Memory of one device; the peak is since the start of the process or the last reset."""

    current_mb: int
    peak_mb: int


def memory_in_use(
    devices: Iterable[str], counters: Any = tf.config.experimental
) -> dict[str, MemoryInUse]:
    """Return the memory in use by device, such as "GPU:0".

    Devices without counters are left out, and so are CPUs, whose counters may be incomplete.

    Starts TensorFlow's runtime, so call it after devices and limits are set. Tests pass fake
    `counters`.
    """
    found = {}
    for device in _gpus(devices):
        # This error is the only sign that there are no counters.
        with contextlib.suppress(ValueError):
            info = counters.get_memory_info(device)
            found[device] = MemoryInUse(info["current"] >> 20, info["peak"] >> 20)
    return found


class PeakMemory:
    """Peak memory of a run on each of its devices, for its report.

    Create it when the run starts: it resets the peaks of earlier runs in the process.
    Devices are named as in the report: "GPU:0", "CPU:0".
    """

    def __init__(self, devices: Iterable[str], counters: Any = tf.config.experimental) -> None:
        self._devices = _gpus(devices)
        self._counters = counters
        for device in self._devices:
            with contextlib.suppress(ValueError):
                counters.reset_memory_stats(device)

    def peaks_mb(self) -> dict[str, int]:
        """Return the peak in MB by device; empty without counters, as on CPUs."""
        found = memory_in_use(self._devices, self._counters)
        return {device: usage.peak_mb for device, usage in found.items()}


def _gpus(devices: Iterable[str]) -> tuple[str, ...]:
    return tuple(device for device in devices if device.startswith("GPU:"))


# Attributes of the operations that TensorFlow makes for loops and branches.
_NESTED_GRAPHS = ("_cond_graph", "_body_graph", "_true_graph", "_false_graph")


def free_graphs() -> None:
    """Free the graphs of functions that nothing refers to any more, and their memory.

    TensorFlow keeps a graph with a loop or a branch forever: its operation refers to the graph of
    the body, which refers to tensors of the outer graph, and the garbage collector cannot follow
    that through C++. TensorFlow rebuilds a nested graph from its definition if it needs it again.
    """
    for graph in [it for it in gc.get_objects() if isinstance(it, tf.__internal__.FuncGraph)]:
        for operation in graph.get_operations():
            if operation.type.removeprefix("Stateless") in ("While", "If"):
                for name in _NESTED_GRAPHS:
                    with contextlib.suppress(AttributeError):
                        delattr(operation, name)
    gc.collect()
    # The C library would keep what Python has freed.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
