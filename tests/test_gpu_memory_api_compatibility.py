"""GPU memory isolation: as users call it, on a stand-in for tf.config and on TensorFlow itself."""

from __future__ import annotations

import inspect
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from myxtts.devices.memory import GpuRuntime
from myxtts.devices.monitor import Card, NvmlReading
from myxtts.utils.gpu_memory import setup_gpu_memory_isolation

RunSnippet = Callable[..., tuple[Any, str]]

STABLE = "logical"
EXPERIMENTAL_VIRTUAL = "experimental.virtual"
EXPERIMENTAL_LOGICAL = "experimental.logical"


class StandInConfig:
    """A tf.config with GPUs that obeys the rules measured in TensorFlow 2.12 to 2.21."""

    def __init__(self, gpus: int = 2, calls: tuple[str, ...] = (STABLE,)) -> None:
        self.gpus = [f"GPU {index}" for index in range(gpus)]
        self.limits: dict[str, list[Any]] = {}
        self.growth: dict[str, bool | None] = {}
        self.used: list[str] = []
        self.started = False
        self.refuses: set[str] = set()
        self.reported: dict[str, int] = {}
        self.threads = 0
        self.threading = SimpleNamespace(
            get_inter_op_parallelism_threads=self._get_threads,
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

    def forget_limits(self, gpu: str) -> None:
        self.limits.pop(gpu, None)

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

    def _set_growth(self, gpu: str, enable: bool | None) -> None:
        if gpu in self.limits or gpu in self.refuses:
            raise ValueError("Cannot set memory growth on device when virtual devices configured")
        self._require_not_started()
        self.growth[gpu] = enable

    def _get_threads(self) -> int:
        growth = {self.growth.get(gpu) for gpu in self.gpus}
        if len(growth) > 1 and not self.limits:
            raise ValueError("Memory growth cannot differ between GPU devices")
        return self.threads

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


def isolate(
    config: StandInConfig, *arguments: int, cards: tuple[Card, ...] = (), **named: Any
) -> bool:
    runtime = GpuRuntime(config, lambda: NvmlReading(cards), config.forget_limits)
    return setup_gpu_memory_isolation(*arguments, **named, runtime=runtime)


def warnings_of(logged: pytest.LogCaptureFixture) -> str:
    return "\n".join(
        record.getMessage() for record in logged.records if record.levelno >= logging.WARNING
    )


def is_untouched(config: StandInConfig) -> bool:
    growth = {config.growth.get(gpu) for gpu in config.gpus}
    return not config.limits and growth <= {None} and config.threads == 0


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
    assert is_untouched(config)
    assert "refused" in warnings_of(logged)


def test_too_late(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.started = True
    assert isolate(config) is False
    assert is_untouched(config)
    assert not config.used
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
        (2, {"data_gpu_memory_limit": None}, "data_gpu_memory_limit: found None, expected a whole"),
        (2, {"model_gpu_memory_limit": "8192"}, "model_gpu_memory_limit: found '8192', expected"),
        (2, {"data_gpu_id": True}, "data_gpu_id: found True, expected a whole number"),
        (2, {"model_gpu_id": None}, "model_gpu_id: found None, expected a whole number"),
        (0, {"model_gpu_id": "1"}, "model_gpu_id: found '1', expected a whole number"),
    ],
)
def test_wrong_arguments_change_nothing(
    gpus: int, arguments: dict[str, Any], says: str, logged: pytest.LogCaptureFixture
) -> None:
    config = StandInConfig(gpus=gpus)
    assert isolate(config, **arguments) is False
    assert is_untouched(config)
    assert not config.used
    (line,) = warnings_of(logged).splitlines()
    assert says in line


CARDS = (Card("card of GPU 1", 12_000), Card("card of GPU 0", 24_000))  # in NVML's own order


def test_more_than_the_card_has(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    assert isolate(config, cards=CARDS) is False
    assert is_untouched(config)
    assert not config.used
    assert "model_gpu_memory_limit: found 16384, but GPU 1 has 12000 MB" in warnings_of(logged)


def test_all_that_the_card_has() -> None:
    config = StandInConfig()
    assert isolate(config, model_gpu_memory_limit=12_000, cards=CARDS) is True
    assert config.limits_mb() == {"GPU 0": [8192], "GPU 1": [12_000]}


def test_without_nvml_the_reason_is_said(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    runtime = GpuRuntime(config, lambda: NvmlReading(problem="Driver Not Loaded"))
    assert setup_gpu_memory_isolation(runtime=runtime) is True
    assert "the memory size of GPU 1 is unknown (Driver Not Loaded)" in warnings_of(logged)


def test_second_limit_refused_takes_the_first_back(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.refuses = {"GPU 1"}
    assert isolate(config) is False
    assert is_untouched(config)
    assert "GPU 1 refused" in warnings_of(logged)
    assert "removed the limit of GPU 0" in warnings_of(logged)


def test_limits_of_before_come_back() -> None:
    config = StandInConfig()
    assert isolate(config, 0, 1, 100, 200) is True
    config.refuses = {"GPU 1"}
    assert isolate(config, 0, 1, 300, 400) is False
    assert config.limits_mb() == {"GPU 0": [100], "GPU 1": [200]}


def test_read_back_that_differs_is_not_success(logged: pytest.LogCaptureFixture) -> None:
    config = StandInConfig()
    config.reported = {"GPU 1": 4096}
    assert isolate(config) is False
    assert "GPU 0" not in config.limits
    assert "4096" in warnings_of(logged)


def test_signature() -> None:
    parameters = inspect.signature(setup_gpu_memory_isolation).parameters
    assert {name: parameters[name].default for name in list(parameters)[:4]} == {
        "data_gpu_id": 0,
        "model_gpu_id": 1,
        "data_gpu_memory_limit": 8192,
        "model_gpu_memory_limit": 16384,
    }


@pytest.mark.parametrize("growing", [("GPU 0",), ("GPU 2",), ("GPU 0", "GPU 1", "GPU 2")])
def test_growth_on_any_gpu_rules_out_limits(
    growing: tuple[str, ...], logged: pytest.LogCaptureFixture
) -> None:
    config = StandInConfig(gpus=3)
    config.growth.update(dict.fromkeys(growing, True))
    assert isolate(config) is False
    assert not config.limits
    assert growing[0] in warnings_of(logged)


def test_tensorflow_without_gpu(run_snippet: RunSnippet) -> None:
    answers, log = run_snippet("""
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
    first, second = [line for line in log.splitlines() if line.startswith("MESSAGE")]
    assert "0 visible GPU" in first
    assert "late" in second
    assert answers["result"] is answers["late_result"] is False
    assert (answers["started"], answers["late_started"]) == (False, True)
    assert answers["threads"] == answers["late_threads"] == 0
    assert answers["configuration"] is None


# TensorFlow's own rules for limits and growth, on a machine without GPUs: only the listing of
# devices is replaced, because there is no public way to pretend.
PRETEND_THREE_GPUS = """
import json
import sys
import tensorflow as tf
sys.modules["pynvml"] = None  # the cards of the machine that runs the tests must not decide
from tensorflow.python.eager import context
from myxtts.devices.memory import GpuRuntime, setup_gpu_memory_isolation
names = ["CPU:0", "GPU:0", "GPU:1", "GPU:2"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
gpus = tf.config.list_physical_devices("GPU")

def limits():
    found = [tf.config.get_logical_device_configuration(gpu) for gpu in gpus]
    return [parts and [part.memory_limit for part in parts] for parts in found]

def growth():
    return [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]

def gpus_at_start():
    settings = context.context().config
    return settings.device_count["GPU"], len(settings.gpu_options.experimental.virtual_devices)
"""


def test_tensorflow_itself_accepts_the_limits(run_snippet: RunSnippet) -> None:
    answers, _ = run_snippet(
        PRETEND_THREE_GPUS
        + """
answers = {"unknown": setup_gpu_memory_isolation(0, 3), "before": limits()}
answers["start_before"] = gpus_at_start()
accept = tf.config.set_logical_device_configuration
def refuse_third(gpu, parts):
    if gpu == gpus[2]:
        raise ValueError("refused")
    accept(gpu, parts)
tf.config.set_logical_device_configuration = refuse_third
answers["refused"], answers["undone"] = setup_gpu_memory_isolation(0, 2), limits()
answers["start_undone"] = gpus_at_start()
tf.config.set_logical_device_configuration = accept
answers["result"] = setup_gpu_memory_isolation(0, 2, 1000, 2000)
answers["after"] = limits()
answers["growth"] = growth()
tf.config.set_visible_devices(gpus[:2], "GPU")
answers["hidden"] = setup_gpu_memory_isolation(0, 2)
answers["again"] = setup_gpu_memory_isolation(0, 1, 3000, 4000)
answers["finally"] = limits()
print(json.dumps(answers))
"""
    )
    assert answers["unknown"] is answers["refused"] is answers["hidden"] is False
    assert answers["before"] == answers["undone"] == [None, None, None]
    assert answers["start_before"] == answers["start_undone"] == [3, 0]
    assert answers["result"] is answers["again"] is True
    assert answers["after"] == [[1000], None, [2000]]
    assert answers["growth"] == [None, None, None]
    assert answers["finally"] == [[3000], [4000], [2000]]


HIDE_CALLS = """
class Without:
    \"""tf.config, or a part of it, as if it had no calls of these names.\"""
    def __init__(self, part, hidden):
        self.part, self.hidden = part, hidden
    def __getattr__(self, name):
        if name in self.hidden:
            raise AttributeError(name)
        found = getattr(self.part, name)
        return Without(found, self.hidden) if name == "experimental" else found

STABLE, VIRTUAL = "set_logical_device_configuration", "set_virtual_device_configuration"
"""


def test_search_finds_the_calls_of_this_tensorflow(run_snippet: RunSnippet) -> None:
    answers, _ = run_snippet(
        PRETEND_THREE_GPUS
        + HIDE_CALLS
        + """
def found(*hidden):
    call = GpuRuntime(Without(tf.config, hidden)).find_limit_call()
    return call and call.name

only_experimental = GpuRuntime(Without(tf.config, [STABLE]))
print(json.dumps({
    "all": found(),
    "experimental": found(STABLE),
    "none": found(STABLE, VIRTUAL),
    "result": setup_gpu_memory_isolation(0, 1, 500, 600, runtime=only_experimental),
    "limits": limits(),
}))
"""
    )
    assert answers["all"] == "set_logical_device_configuration"
    assert answers["experimental"] == "experimental.set_virtual_device_configuration"
    assert answers["none"] is None
    assert answers["result"] is True
    assert answers["limits"] == [[500], [600], None]


# There is no public way to simulate GPUs; everything but their listing is TensorFlow's own.
TWO_GPUS = """
import sys
sys.modules["pynvml"] = None  # whatever cards this machine has
from tensorflow.python.eager import context
names = ["CPU:0", "GPU:0", "GPU:1"]
context.pywrap_tfe.TF_ListPhysicalDevices = lambda: [
    f"/physical_device:{name}".encode() for name in names
]
"""
TYPED = """
from myxtts.utils.gpu_memory import setup_gpu_memory_isolation

isolated = setup_gpu_memory_isolation(
    data_gpu_id=0, model_gpu_id=1, data_gpu_memory_limit=8192, model_gpu_memory_limit=16384
)
"""
WRONG = """
wrong = [
    setup_gpu_memory_isolation(data_gpu_id=0, model_gpu_id=2),
    setup_gpu_memory_isolation(data_gpu_id=1, model_gpu_id=1),
    setup_gpu_memory_isolation(data_gpu_memory_limit=0),
    setup_gpu_memory_isolation(data_gpu_memory_limit=None),
    setup_gpu_memory_isolation(model_gpu_id="1"),
]
"""
ASK = """
import json
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
limits = [tf.config.get_logical_device_configuration(gpu) for gpu in gpus]
growth = [tf.config.experimental.get_memory_growth(gpu) for gpu in gpus]
print(json.dumps([isolated, wrong, [limit[0].memory_limit for limit in limits], growth]))
"""


def test_as_typed(user_environment: dict[str, str]) -> None:
    logs = "import logging\nlogging.basicConfig(level=logging.INFO)\n"
    result = subprocess.run(
        [sys.executable, "-c", logs + TWO_GPUS + TYPED + WRONG + ASK],
        capture_output=True,
        text=True,
        env=user_environment | {"CUDA_VISIBLE_DEVICES": "-1"},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    isolated, wrong, limits, growth = json.loads(result.stdout)
    assert isolated is True
    assert wrong == [False] * 5
    assert limits == [8192, 16384]
    assert growth == [None, None]
    assert "limits are set by tf.config.set_logical_device_configuration" in result.stderr
    assert "its limit of 8192 MB is in force but could not be checked" in result.stderr
    for problem in (
        "model_gpu_id: found 2, allowed: 0, 1",
        "found 1 for both",
        "data_gpu_memory_limit: found 0, allowed: 1 MB or more",
        "data_gpu_memory_limit: found None, expected a whole number",
        "model_gpu_id: found '1', expected a whole number",
    ):
        assert problem in result.stderr


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
