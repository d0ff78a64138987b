"""Every rule of GPU memory isolation, on a stand-in for tf.config and on TensorFlow itself."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from myxtts.devices.memory import GpuRuntime
from myxtts.utils.gpu_memory import setup_gpu_memory_isolation

STABLE = "logical"
EXPERIMENTAL_VIRTUAL = "experimental.virtual"
EXPERIMENTAL_LOGICAL = "experimental.logical"


class StandInConfig:
    """A tf.config with GPUs that obeys the rules measured in TensorFlow 2.12 to 2.21."""

    def __init__(self, gpus: int = 2, calls: tuple[str, ...] = (STABLE,)) -> None:
        self.gpus = [f"GPU {index}" for index in range(gpus)]
        self.limits: dict[str, list[Any]] = {}
        self.growth: dict[str, bool] = {}
        self.used: list[str] = []
        self.started = False
        self.refuses: set[str] = set()
        self.reported: dict[str, int] = {}
        self.threads = 0
        self.threading = SimpleNamespace(
            get_inter_op_parallelism_threads=lambda: self.threads,
            set_inter_op_parallelism_threads=self._set_threads,
        )
        self.experimental = SimpleNamespace(
            get_memory_growth=self.growth.get,
            set_memory_growth=self._set_growth,
            get_device_details=lambda gpu: {"device_name": f"card of {gpu}"},
        )
        for call in calls:
            self._offer(call)

    def get_visible_devices(self, device_type: str) -> list[str]:
        return self.gpus if device_type == "GPU" else []

    def limits_mb(self) -> dict[str, list[int]]:
        return {gpu: [part.memory_limit for part in parts] for gpu, parts in self.limits.items()}

    def _offer(self, call: str) -> None:
        place: Any = self.experimental if call.startswith("experimental.") else self
        noun = call.rpartition(".")[2]

        def set_configuration(gpu: str, parts: list[Any]) -> None:
            self.used.append(call)
            self._set_limit(gpu, parts)

        setattr(place, f"set_{noun}_device_configuration", set_configuration)
        setattr(place, f"get_{noun}_device_configuration", self._get_limits)
        setattr(place, f"{noun.capitalize()}DeviceConfiguration", SimpleNamespace)

    def _get_limits(self, gpu: str) -> list[Any] | None:
        if gpu in self.reported:
            return [SimpleNamespace(memory_limit=self.reported[gpu])]
        return self.limits.get(gpu)

    def _set_limit(self, gpu: str, parts: list[Any]) -> None:
        self._require_not_started()
        if gpu in self.refuses:
            raise ValueError(f"{gpu} refused")
        assert not self.growth.get(gpu), "growth and a limit on one device"
        self.limits[gpu] = list(parts)

    def _set_growth(self, gpu: str, enable: bool) -> None:
        if gpu in self.limits or gpu in self.refuses:
            raise ValueError("Cannot set memory growth on device when virtual devices configured")
        self._require_not_started()
        self.growth[gpu] = enable

    def _set_threads(self, threads: int) -> None:
        self._require_not_started()
        self.threads = threads

    def _require_not_started(self) -> None:
        if self.started:
            raise RuntimeError("cannot be modified after being initialized")


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="myxtts")
    return caplog


@pytest.fixture(autouse=True)
def no_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cards of the machine that runs the tests must not decide."""
    monkeypatch.setitem(sys.modules, "pynvml", None)


def isolate(config: StandInConfig, *arguments: int, **named: int) -> bool:
    return setup_gpu_memory_isolation(*arguments, **named, runtime=GpuRuntime(config))


def warnings_of(logged: pytest.LogCaptureFixture) -> str:
    return "\n".join(
        record.getMessage() for record in logged.records if record.levelno >= logging.WARNING
    )


def is_untouched(config: StandInConfig) -> bool:
    return not config.limits and not config.growth and config.threads == 0


@pytest.mark.parametrize(
    ("offered", "taken", "name"),
    [
        (
            (STABLE, EXPERIMENTAL_VIRTUAL, EXPERIMENTAL_LOGICAL),
            STABLE,
            "tf.config.set_logical_device_configuration",
        ),
        (
            (EXPERIMENTAL_VIRTUAL, EXPERIMENTAL_LOGICAL),
            EXPERIMENTAL_VIRTUAL,
            "tf.config.experimental.set_virtual_device_configuration",
        ),
        (
            (EXPERIMENTAL_LOGICAL,),
            EXPERIMENTAL_LOGICAL,
            "tf.config.experimental.set_logical_device_configuration",
        ),
    ],
)
def test_takes_the_first_call_there_is(
    offered: tuple[str, ...], taken: str, name: str, logged: pytest.LogCaptureFixture
) -> None:
    config = StandInConfig(calls=offered)
    assert isolate(config) is True
    assert config.limits_mb() == {"GPU 0": [8192], "GPU 1": [16384]}
    assert config.used == [taken, taken]
    assert not config.growth
    assert config.threads == 0
    assert name in logged.text


def test_limits_go_to_the_gpus_that_were_named() -> None:
    config = StandInConfig(gpus=4)
    assert isolate(config, 3, 1, 100, 200)
    assert config.limits_mb() == {"GPU 3": [100], "GPU 1": [200]}


def test_no_call_at_all_means_growth(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig(gpus=3, calls=())
    assert isolate(config) is False
    assert config.growth == {"GPU 0": True, "GPU 1": True, "GPU 2": True}
    assert not config.limits
    assert "off" in warnings_of(logged)


def test_growth_that_one_gpu_refuses_is_set_on_none(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig(gpus=3, calls=())
    config.refuses = {"GPU 2"}
    assert isolate(config) is False
    assert not any(config.growth.values())
    assert "refused" in warnings_of(logged)


def test_too_late(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.started = True
    assert isolate(config) is False
    assert is_untouched(config)
    assert not config.used
    assert "late" in warnings_of(logged)


def test_too_late_for_growth(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig(calls=())
    config.started = True
    assert isolate(config) is False
    assert is_untouched(config)
    assert "late" in warnings_of(logged)


@pytest.mark.parametrize(
    ("gpus", "arguments", "says"),
    [
        (0, {}, "0"),
        (1, {}, "1"),
        (2, {"model_gpu_id": 2}, "2"),
        (2, {"data_gpu_id": -1}, "-1"),
        (3, {"data_gpu_id": 1, "model_gpu_id": 1}, "both"),
        (2, {"data_gpu_memory_limit": 0}, "data_gpu_memory_limit"),
        (2, {"model_gpu_memory_limit": -5}, "-5"),
    ],
)
def test_wrong_arguments_change_nothing(
    gpus: int, arguments: dict[str, int], says: str, logged: pytest.LogCaptureFixture
) -> None:
    config = StandInConfig(gpus=gpus)
    assert isolate(config, **arguments) is False
    assert is_untouched(config)
    assert not config.used
    assert says in warnings_of(logged)


def pretend_cards(monkeypatch: pytest.MonkeyPatch, cards: list[tuple[str, int]]) -> None:
    """An NVML that lists these cards, by name and size in MB."""
    nvml = ModuleType("pynvml")
    nvml.__dict__.update(
        NVMLError=OSError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetCount=lambda: len(cards),
        nvmlDeviceGetHandleByIndex=lambda index: cards[index],
        nvmlDeviceGetName=lambda card: card[0],
        nvmlDeviceGetMemoryInfo=lambda card: SimpleNamespace(total=card[1] * 1024 * 1024),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)


def test_more_than_the_card_has(
    monkeypatch: pytest.MonkeyPatch, logged: pytest.LogCaptureFixture
) -> None:
    # NVML's order is not TensorFlow's.
    pretend_cards(monkeypatch, [("card of GPU 1", 12_000), ("card of GPU 0", 24_000)])
    config = StandInConfig()
    assert isolate(config) is False
    assert is_untouched(config)
    assert not config.used
    assert "12000" in warnings_of(logged)
    assert isolate(config, model_gpu_memory_limit=12_000) is True


def test_card_of_unknown_size_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_cards(monkeypatch, [("another card", 10)])
    assert isolate(StandInConfig()) is True
    pretend_cards(monkeypatch, [("card of GPU 0", 10), ("card of GPU 0", 99_000)])
    assert isolate(StandInConfig()) is True


def test_nvml_without_driver_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("driver not loaded")

    pretend_cards(monkeypatch, [("card of GPU 0", 10)])
    monkeypatch.setattr(sys.modules["pynvml"], "nvmlInit", fail)
    assert isolate(StandInConfig()) is True


def test_second_limit_refused_takes_the_first_back(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.refuses = {"GPU 1"}
    assert isolate(config) is False
    assert config.limits_mb() == {"GPU 0": []}
    assert not config.growth
    assert "GPU 1 refused" in warnings_of(logged)
    assert "GPU 0 was taken back" in warnings_of(logged)


def test_read_back_that_differs_is_not_success(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.reported = {"GPU 1": 4096}
    assert isolate(config) is False
    assert config.limits_mb()["GPU 0"] == []
    assert "4096" in warnings_of(logged)


def test_a_gpu_that_already_grows_gets_no_limit(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.growth["GPU 1"] = True
    assert isolate(config) is False
    assert not config.limits
    assert "growth" in warnings_of(logged)


def run_snippet(code: str) -> dict[str, Any]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return {"log": done.stderr, **json.loads(done.stdout.splitlines()[-1])}


def test_tensorflow_without_gpu() -> None:
    answers = run_snippet("""
import json, logging
import tensorflow as tf
from myxtts.devices.memory import GpuRuntime, setup_gpu_memory_isolation
logging.basicConfig(format="MESSAGE %(message)s", level=logging.WARNING)
cpu = tf.config.list_physical_devices("CPU")[0]
answers = {
    "result": setup_gpu_memory_isolation(),
    "started": GpuRuntime().has_started(),
    "threads": tf.config.threading.get_inter_op_parallelism_threads(),
    "configuration": tf.config.get_logical_device_configuration(cpu),
}
tf.constant(1.0)
answers["late_result"] = setup_gpu_memory_isolation()
answers["late_started"] = GpuRuntime().has_started()
answers["late_threads"] = tf.config.threading.get_inter_op_parallelism_threads()
print(json.dumps(answers))
""")
    first, second = [line for line in answers["log"].splitlines() if line.startswith("MESSAGE")]
    assert "0 visible GPU" in first
    assert "late" in second
    assert answers["result"] is answers["late_result"] is False
    assert (answers["started"], answers["late_started"]) == (False, True)
    assert answers["threads"] == answers["late_threads"] == 0
    assert answers["configuration"] is None


def test_tensorflow_itself_accepts_the_limits() -> None:
    # Only the listing of devices is replaced, because there is no public way to pretend GPUs:
    # TensorFlow's own rules for limits and growth decide.
    answers = run_snippet("""
import json
import tensorflow as tf
from tensorflow.python.eager import context
from myxtts.devices.memory import setup_gpu_memory_isolation
names = ["CPU:0", "GPU:0", "GPU:1", "GPU:2"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
gpus = tf.config.list_physical_devices("GPU")

def limits():
    found = [tf.config.get_logical_device_configuration(gpu) for gpu in gpus]
    return [[part.memory_limit for part in parts or []] for parts in found]

answers = {"unknown": setup_gpu_memory_isolation(0, 3), "before": limits()}
accept = tf.config.set_logical_device_configuration
def refuse_third(gpu, parts):
    if gpu == gpus[2]:
        raise ValueError("refused")
    accept(gpu, parts)
tf.config.set_logical_device_configuration = refuse_third
answers["refused"], answers["undone"] = setup_gpu_memory_isolation(0, 2), limits()
tf.config.set_logical_device_configuration = accept
answers["result"] = setup_gpu_memory_isolation(0, 2, 1000, 2000)
answers["after"] = limits()
answers["growth"] = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
tf.config.set_visible_devices(gpus[:2], "GPU")
answers["hidden"] = setup_gpu_memory_isolation(0, 2)
answers["again"] = setup_gpu_memory_isolation(0, 1, 3000, 4000)
answers["finally"] = limits()
print(json.dumps(answers))
""")
    assert answers["unknown"] is answers["refused"] is answers["hidden"] is False
    assert answers["before"] == answers["undone"] == [[], [], []]
    assert answers["result"] is answers["again"] is True
    assert answers["after"] == [[1000], [], [2000]]
    assert answers["growth"] == [None, None, None]
    assert answers["finally"] == [[3000], [4000], [2000]]
