"""Zero compilations after warm-up, and what the monitor reports otherwise."""

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from myxtts.data.corpus import open_corpus
from myxtts.data.shapes import Shape
from myxtts.errors import DataError, DeviceError
from myxtts.training.step import RetracingMonitor, Stepper
from myxtts.training.time_account import TimeAccount
from myxtts.training.trainer import XTTSTrainer

FIXED = ["--enable-static-shapes", "--max-text-length", "72", "--max-mel-frames", "400"]


@pytest.fixture
def run_command(demo_corpus, miniature, user_environment, tmp_path):
    """Run `myxtts` in a process of its own; the miniature's settings come from a file."""
    config_file = tmp_path / "config.yaml"
    settings = miniature(epochs=2, max_steps=None).as_dict()
    config_file.write_text(json.dumps(settings))

    def run(command, *arguments, expect=0):
        result = subprocess.run(
            [
                *(sys.executable, "-m", "myxtts.cli.main", command),
                *(f"--config={config_file}", f"--train-data={demo_corpus}", *arguments),
            ],
            capture_output=True,
            text=True,
            env=user_environment | {"XDG_CACHE_HOME": str(tmp_path / "cache")},
        )
        assert result.returncode == expect, result.stderr
        return result

    return run


def trained_report(run_command, run_dir, *arguments):
    result = run_command("train", f"--run-dir={run_dir}", *arguments)
    return json.loads((run_dir / "report.json").read_text()), result


@pytest.mark.parametrize(
    ("batching", "xla"),
    [
        ([], True),
        ([], False),
        pytest.param(FIXED, True, marks=pytest.mark.slow),
        (FIXED, False),
    ],
)
def test_two_epochs_with_evaluations_and_samples(run_command, tmp_path, batching, xla):
    flags = [*batching, "--xla" if xla else "--no-xla"]
    report, result = trained_report(run_command, tmp_path / "run", *flags)
    assert report["traces"] == 1
    assert report["compilations"] == (len(report["shapes"]) if xla else 0)
    assert report["compilations_after_warmup"] == 0
    assert "recompiled" not in result.stderr
    assert len(list((tmp_path / "run" / "samples").glob("*.wav"))) >= 2
    if batching:
        assert report["shapes"] == [[4, 72, 400]]
    else:
        assert len(report["shapes"]) == 2
    # Compiled programs are kept for the next launch.
    assert any((tmp_path / "cache").glob("myxtts/xla/*/*.pb")) if xla else True
    settings = [
        "--set=data.pad_to_fixed_length=true" if batching else "--set=data.shape_count=2",
        "--xla" if xla else "--no-xla",
    ]
    predicted = json.loads(run_command("diagnose", *settings, "--json").stdout)
    for count in ("traces", "compilations", "compilations_after_warmup"):
        assert predicted[count] == report[count]


@pytest.mark.slow
def test_a_launch_of_another_length_finds_the_programs_of_the_first(run_command, tmp_path):
    kept = []
    # Other numbers of batches are ready when the step is traced.
    for steps in ("1", "7"):
        run_dir = f"--run-dir={tmp_path / steps}"
        run_command("train", *FIXED, "--xla", f"--max-steps={steps}", run_dir)
        kept.append({file.name for file in (tmp_path / "cache").glob("myxtts/xla/*/*.pb")})
    assert len(kept[0]) == 1
    assert kept[1] == kept[0]


@pytest.mark.slow
def test_variable_shapes_compile_again_and_are_told(run_command, tmp_path):
    flags = ["--xla", "--set=data.batching=dynamic", "--max-steps=1", "--evaluate-every=9"]
    report, result = trained_report(run_command, tmp_path / "run", *flags)
    assert "batching: dynamic gives every batch its own shape" in result.stderr
    assert "step 1 recompiled for shape" in result.stderr
    assert report["compilations_after_warmup"] >= 1
    assert report["compilations"] == 1 + report["compilations_after_warmup"]
    run_command("diagnose", "--xla", "--set=data.batching=dynamic", expect=1)


def test_warm_up_changes_nothing_and_too_little_memory_is_one_line(miniature, corpus, tmp_path):
    trainer = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    stepper = Stepper(
        trainer.task, trainer.optimizer, corpus.train.plan, trainer.config, TimeAccount()
    )
    before = trainer.optimizer.state()
    done, steps, compiled_step = [], [], stepper.compiled_step

    def watched_step(batch, update):
        steps.append(int(trainer.optimizer.step))
        return compiled_step(batch, update)

    stepper.compiled_step = watched_step
    stepper.warm_up(lambda *progress: done.append(progress))
    assert done == [(0, 1), (1, 1)]
    # The last step computes the most; the remaining time is estimated from the first.
    assert steps == [trainer.total_steps - 1, 0, 0]
    for name, value in trainer.optimizer.state().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)

    def step_without_memory(batch, update):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    stepper.compiled_step = step_without_memory
    with pytest.raises(DeviceError) as caught:
        stepper.warm_up(lambda *progress: None)
    message = str(caught.value)
    largest = max(corpus.train.plan.shapes, key=lambda shape: shape.frames)
    assert f"{largest.batch} clips of {largest.tokens} tokens" in message
    assert "halve data.batch_size (now 4)" in message
    assert "\n" not in message


@pytest.mark.parametrize("where", ["initialize", "compile_validation"])
def test_too_little_memory_before_the_first_step_is_one_line(
    miniature, corpus, tmp_path, monkeypatch, where
):
    trainer = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    monkeypatch.setattr(trainer.task, where, run_out_of_memory)
    with pytest.raises(DeviceError, match=r"halve data\.batch_size"):
        trainer.prepare()


def test_too_little_memory_in_validation_is_one_line_and_loses_nothing(
    miniature, corpus, tmp_path, monkeypatch
):
    trainer = XTTSTrainer(miniature(), corpus, tmp_path / "run")
    trainer.prepare()
    monkeypatch.setattr(trainer._validation, "run", run_out_of_memory)
    with pytest.raises(DeviceError, match=r"halve data\.batch_size") as caught:
        trainer.fit()
    assert "\n" not in str(caught.value)
    assert trainer.run_dir.newest_checkpoint().info.step == 3


def run_out_of_memory(*arguments):
    raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")


def counting_step(trace_count=1):
    """Stand for a compiled function whose traces can be set."""
    step = tf.function(lambda: None)
    step.experimental_get_tracing_count = lambda: counts["traces"]
    counts = {"traces": trace_count}
    return step, counts


def test_a_shape_that_was_not_declared_never_reaches_the_step(corpus):
    monitor = RetracingMonitor(counting_step()[0], corpus.train.plan, xla=False)
    monitor.require_declared(corpus.train.plan.shapes[0])
    with pytest.raises(DataError, match=r"has shape \[4, 99, 640, 99\] \(clips, tokens, frames"):
        monitor.require_declared(Shape(4, 99, 640, 99))


def test_a_new_trace_is_a_warning_with_step_shape_and_cause(corpus, caplog):
    step, counts = counting_step()
    monitor = RetracingMonitor(step, corpus.train.plan, xla=False)
    shape = corpus.train.plan.shapes[0]
    monitor.finish_warm_up()
    with caplog.at_level(logging.WARNING):
        monitor.check(6, shape)
        assert not caplog.messages
        counts["traces"] = 2
        monitor.check(7, shape)
        monitor.check(8, shape)
    (message,) = caplog.messages
    assert message.startswith(f"step 7 recompiled for shape {list(shape)}: the step was retraced")
    assert message.endswith("; 2 traces and 0 compilations in total")
    assert monitor.compilations_after_warmup == 1


def test_dynamic_batching_trains_every_clip_in_its_own_shape(miniature, tmp_path):
    config = miniature(batching="dynamic", max_steps=4)
    corpus = open_corpus(config)
    report = XTTSTrainer(config, corpus, tmp_path / "run").fit()
    assert report.traces == 1
    assert report.compilations == report.compilations_after_warmup == 0
    trained = {corpus.train.schedule.batch_at(step).shape.padded for step in range(4)}
    assert len(trained) > 1
    assert report.shapes == [list(shape) for shape in sorted(trained)]


def test_retracing_is_diagnosed_without_training(terminal):
    done = terminal("python3 utilities/diagnose_retracing.py --config configs/config.yaml")
    assert done.code == 0, done.errors
    assert "Traces: " in done.output
    assert "XLA compilations: " in done.output
    again = terminal(
        "myxtts diagnose --config configs/config.yaml --set data.batching=dynamic --xla"
    )
    assert again.code == 1
    assert "bucketed" in again.output


if __name__ == "__main__":
    raise SystemExit(pytest.main([__file__]))
