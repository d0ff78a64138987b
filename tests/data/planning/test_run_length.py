import pytest

from myxtts.config.config import TrainingConfig
from myxtts.data.planning.run_length import DEFAULT_PASSES, LEAST_STEPS, MOST_STEPS, run_length


@pytest.mark.parametrize(
    ("settings", "batches", "steps", "passes"),
    [
        ({"max_steps": 7}, 4, 7, 1.75),
        ({"epochs": 3}, 4, 12, 3),
        ({"max_steps": 7, "epochs": 3}, 4, 7, 1.75),
        # What is asked for is done, however short or long.
        ({"max_steps": 10 * MOST_STEPS}, 4, 10 * MOST_STEPS, 2.5 * MOST_STEPS),
        ({"epochs": 1}, 10 * MOST_STEPS, 10 * MOST_STEPS, 1),
    ],
)
def test_a_length_that_is_asked_for(settings, batches, steps, passes):
    length = run_length(TrainingConfig(**settings), batches)
    assert (length.steps, length.passes) == (steps, passes)


@pytest.mark.parametrize(
    ("batches", "steps", "said"),
    [
        (4, LEAST_STEPS, "4,000 steps, 1,000 passes over the corpus: the least by default, "
         "100 passes are 400 steps"),
        (82, 8_200, "8,200 steps, 100 passes over the corpus: the default, worked out from the "
         "corpus"),
        (40_000, MOST_STEPS, "200,000 steps, 5 passes over the corpus: the most by default, "
         "100 passes are 4,000,000 steps"),
    ],
)  # fmt: skip
def test_the_default_grows_with_the_corpus_within_bounds(batches, steps, said):
    length = run_length(TrainingConfig(), batches)
    assert length.steps == steps
    assert str(length) == said


def test_at_the_bounds_the_default_does_not_jump():
    for bound in (LEAST_STEPS, MOST_STEPS):
        batches = bound // DEFAULT_PASSES
        around = [run_length(TrainingConfig(), batches + more).steps for more in (-1, 0, 1)]
        assert around == sorted(around)
        assert bound in around
        assert around[-1] - around[0] <= 2 * DEFAULT_PASSES
