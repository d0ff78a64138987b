"""Training with products in a short type: what changes, and what must not."""

import numpy as np
import pytest
import tensorflow as tf

from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.synthesis.tts import TTS
from myxtts.training.trainer import XTTSTrainer

STEPS = 24
SHORT_TYPES = ("bfloat16", "float16")
# Where a step has its arithmetic.
PRODUCTS = ("MatMul", "BatchMatMulV2", "DepthwiseConv2dNative")


@pytest.fixture(scope="module")
def trained(miniature, corpus, tmp_path_factory):
    """Trainer and run folder by precision and number of steps; each is trained once."""
    finished = {}

    def train(precision, steps=STEPS):
        if (precision, steps) not in finished:
            config = miniature(
                precision=precision,
                max_steps=steps,
                evaluate_every=steps,
                save_every=steps,
                log_every=1,
            )
            run_dir = tmp_path_factory.mktemp(precision) / "run"
            trainer = XTTSTrainer(config, corpus, run_dir)
            trainer.fit()
            finished[precision, steps] = trainer, run_dir
        return finished[precision, steps]

    return train


def losses(run_dir) -> np.ndarray:
    lines = RunDir(run_dir).metric_lines()
    return np.array([line["loss"] for line in lines])


def require_within_one_percent(found, expected, stretch):
    """Means over stretches: a single loss of a few clips follows every rounding."""
    found, expected = (values.reshape(-1, stretch).mean(1) for values in (found, expected))
    np.testing.assert_allclose(found, expected, rtol=0.01)
    assert expected[-1] < expected[0]


@pytest.mark.parametrize("precision", SHORT_TYPES)
def test_losses_stay_close_to_those_of_float32(trained, precision):
    _, run_dir = trained(precision)
    _, reference = trained("float32")
    assert not np.array_equal(losses(run_dir), losses(reference))
    require_within_one_percent(losses(run_dir), losses(reference), STEPS // 2)


@pytest.mark.slow
@pytest.mark.parametrize("precision", SHORT_TYPES)
def test_losses_stay_close_over_200_steps(trained, precision):
    (_, run_dir), (_, reference) = trained(precision, 200), trained("float32", 200)
    require_within_one_percent(losses(run_dir), losses(reference), 20)


@pytest.mark.parametrize("precision", ["float32", *SHORT_TYPES])
def test_most_products_have_the_type_and_everything_that_stays_is_float32(trained, precision):
    trainer, run_dir = trained(precision)
    step = trainer.stepper.compiled_step.get_concrete_function()
    assert {output.dtype for output in step.structured_outputs.parts} == {tf.float32}
    types = [
        node.attr["T"].type
        for function in step.graph.as_graph_def().library.function
        for node in function.node_def
        if node.op in PRODUCTS
    ]
    wanted = tf.as_dtype(precision).as_datatype_enum
    assert types.count(wanted) > 0.5 * len(types)
    assert {variable.dtype for variable in trainer.model.variables} == {"float32"}
    state = find_checkpoint(run_dir).training_state()
    counts = {"step", "loss_scale/good_steps"}
    assert {value.dtype for name, value in state.items() if name not in counts} == {
        np.dtype(np.float32)
    }
    assert ("loss_scale/value" in state) == (precision == "float16")


@pytest.mark.parametrize(("precision", "other"), [("float16", "float32"), ("bfloat16", "float16")])
def test_a_run_speaks_and_continues_in_another_precision(
    trained, miniature, corpus, demo_corpus, precision, other
):
    _, run_dir = trained(precision)
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    assert np.isfinite(TTS(run_dir).tts("Good morning.", reference, "en")).all()
    going_on = XTTSTrainer(miniature(precision=other, max_steps=STEPS + 1), corpus, run_dir)
    assert going_on.resume() == STEPS
