"""GPU strategies: the table row by row, and training by the configuration, on virtual devices."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config

SNIPPET = """
import json
import logging
import keras
import tensorflow as tf
from myxtts.devices.strategy import Accelerators, find_accelerators
from myxtts.devices.strategy import choose_strategy
from myxtts.utils.commons import setup_gpu_strategy

lines = []
class Collect(logging.Handler):
    def emit(self, record):
        lines.append(record.getMessage())

logging.getLogger("myxtts").addHandler(Collect())
logging.getLogger("myxtts").setLevel(logging.INFO)

def devices_of(variable):
    copies = getattr(variable, "values", [variable])
    return [copy.device.rpartition("device:")[2] for copy in copies]

def describe(strategy):
    with strategy.scope():
        plain, layer = tf.Variable(1.0), keras.layers.Dense(2)
        layer.build([None, 3])
    return {
        "strategy": type(strategy).__name__,
        "is_default": strategy is tf.distribute.get_strategy(),
        "plain": devices_of(plain),
        "keras": devices_of(layer.kernel.value),
    }

def sum_over_replicas(strategy):
    def step():
        index = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.cast(index, tf.float32) + 1.0
    total = tf.function(lambda: strategy.reduce("SUM", strategy.run(step), axis=None))
    return float(total())

no_gpu = [setup_gpu_strategy(wish) for wish in (False, True)]
found = find_accelerators(virtual_devices=3)
both = [setup_gpu_strategy(), setup_gpu_strategy(enable_multi_gpu=True)]
answers = {
    "no_gpu": [describe(strategy) for strategy in no_gpu],
    "three": [describe(strategy) for strategy in both],
    "chosen": [describe(choose_strategy(found, wish)) for wish in (False, True)],
    "sum": sum_over_replicas(both[1]),
}
last = find_accelerators(virtual_devices=3, visible_gpus="2")
answers["one"] = [describe(choose_strategy(last, wish)) for wish in (False, True)]
find_accelerators(virtual_devices=3, visible_gpus="1,2")
pair = setup_gpu_strategy(True)
answers["pair"], answers["pair_sum"] = describe(pair), sum_over_replicas(pair)
answers["lines"] = lines
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(run_snippet: Callable[..., tuple[Any, str]]) -> dict[str, Any]:
    result, _ = run_snippet(SNIPPET)
    return result


def sits_on(description: dict[str, Any], *devices: str) -> bool:
    return (description["plain"], description["keras"]) == (list(devices), list(devices))


def test_no_gpu_gives_the_default_strategy(answers: dict[str, Any]) -> None:
    assert all(answer["is_default"] for answer in answers["no_gpu"])
    assert all(sits_on(answer, "CPU:0") for answer in answers["no_gpu"])


def test_one_gpu_gives_one_device(answers: dict[str, Any]) -> None:
    assert {answer["strategy"] for answer in answers["one"]} == {"OneDeviceStrategy"}
    assert all(sits_on(answer, "CPU:2") for answer in answers["one"])


@pytest.mark.parametrize("how", ["three", "chosen"])
def test_several_gpus_give_the_first_or_all(answers: dict[str, Any], how: str) -> None:
    single, mirrored = answers[how]
    assert single["strategy"] == "OneDeviceStrategy"
    assert sits_on(single, "CPU:0")
    assert mirrored["strategy"] == "MirroredStrategy"
    assert sits_on(mirrored, "CPU:0", "CPU:1", "CPU:2")
    assert answers["sum"] == 1 + 2 + 3


def test_setup_keeps_to_the_devices_chosen_before(answers: dict[str, Any]) -> None:
    assert answers["pair"]["strategy"] == "MirroredStrategy"
    assert sits_on(answers["pair"], "CPU:1", "CPU:2")
    assert answers["pair_sum"] == 1 + 2


def test_each_choice_is_one_line_with_its_devices(answers: dict[str, Any]) -> None:
    assert len(answers["lines"]) == 9
    assert "CPU:1, CPU:2" in answers["lines"][-1]
    assert "MirroredStrategy" in answers["lines"][-1]


def test_names_and_defaults() -> None:
    from myxtts.utils.commons import setup_gpu_strategy

    assert inspect.signature(setup_gpu_strategy).parameters["enable_multi_gpu"].default is False
    training = XTTSConfig(multi_gpu=False, visible_gpus="0,1").training
    assert (training.multi_gpu, training.visible_gpus) == (False, "0,1")


def test_the_strategy_in_yaml(tmp_path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text('training:\n  multi_gpu: true\n  visible_gpus: "0,1"\n')
    training = load_config(file).training
    assert (training.multi_gpu, training.visible_gpus) == (True, "0,1")


def test_too_few_gpus_are_told_and_stop_strict_runs(terminal):
    done = terminal("myxtts train --dry-run --multi-gpu", "--config", "small.yaml")
    assert done.code == 0, done.errors
    assert "--multi-gpu does nothing: it requires at least 2 GPUs (found 0)" in done.errors
    done = terminal("myxtts train --dry-run --multi-gpu --strict-devices", "--config", "small.yaml")
    assert done.code == 2
    line = "myxtts train: --multi-gpu: requires at least 2 GPUs (found 0); leave out "
    assert done.errors.splitlines()[-1].startswith(line)


TRAINER = """
    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml
    from myxtts.data.corpus import open_corpus
    from myxtts.training.trainer import XTTSTrainer

    config = XTTSConfig(
        **read_yaml("miniature"), train_data="my-corpus", virtual_devices=4, max_steps=1,
        multi_gpu=True, visible_gpus="0,1",
    )
    report = XTTSTrainer(config, open_corpus(config), "runs/trainer").fit()
    print(report.strategy, report.model_devices)
"""
ONE_CALL = """
    import myxtts
    from myxtts.config.loading import read_yaml

    config = myxtts.XTTSConfig(
        **read_yaml("miniature"), train_data="my-corpus", virtual_devices=4, max_steps=1,
        data_gpu=0, model_gpu=2,
    )
    report = myxtts.train(config, "runs/one-call")
    print(report.strategy, report.model_devices, report.data_device)
"""


@pytest.mark.parametrize(
    ("snippet", "devices"),
    [
        (TRAINER, "MirroredStrategy ['CPU:0', 'CPU:1']\n"),
        (ONE_CALL, "OneDeviceStrategy ['CPU:2'] CPU:0\n"),
    ],
)
def test_from_python_the_devices_are_those_of_the_configuration(terminal, snippet, devices):
    done = terminal.python(snippet)
    assert done.code == 0, done.errors
    assert done.output == devices


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
