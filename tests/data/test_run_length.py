import pytest

from myxtts.config.config import TrainingConfig
from myxtts.data.run_length import DEFAULT_EPOCHS, LEAST_STEPS, MOST_STEPS, run_length


@pytest.mark.parametrize(
    ("settings", "batches", "steps", "epochs"),
    [
        ({"max_steps": 7}, 4, 7, 1.75),
        ({"epochs": 3}, 4, 12, 3),
        ({"max_steps": 7, "epochs": 3}, 4, 7, 1.75),
        # What is asked for is done, however short or long.
        ({"max_steps": 10 * MOST_STEPS}, 4, 10 * MOST_STEPS, 2.5 * MOST_STEPS),
        ({"epochs": 1}, 10 * MOST_STEPS, 10 * MOST_STEPS, 1),
    ],
)
def test_a_length_that_is_asked_for(settings, batches, steps, epochs):
    length = run_length(TrainingConfig(**settings), batches)
    assert (length.steps, length.epochs) == (steps, epochs)


@pytest.mark.parametrize(
    ("batches", "steps", "said"),
    [
        (4, LEAST_STEPS, "4,000 steps (1,000 epochs); 100 epochs would be only 400 steps, below "
         "the default minimum. Change it with --max-steps."),
        (82, 8_200, "8,200 steps (100 epochs); the default for this corpus"),
        (40_000, MOST_STEPS, "200,000 steps (5 epochs); 100 epochs would be 4,000,000 steps, "
         "above the default maximum. Change it with --max-steps."),
    ],
)  # fmt: skip
def test_the_default_grows_with_the_corpus_within_bounds(batches, steps, said):
    length = run_length(TrainingConfig(), batches)
    assert length.steps == steps
    assert str(length) == said


def test_at_the_bounds_the_default_does_not_jump():
    for bound in (LEAST_STEPS, MOST_STEPS):
        batches = bound // DEFAULT_EPOCHS
        around = [run_length(TrainingConfig(), batches + more).steps for more in (-1, 0, 1)]
        assert around == sorted(around)
        assert bound in around
        assert around[-1] - around[0] <= 2 * DEFAULT_EPOCHS
