import pytest

from myxtts.wording import plural


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [(0, "clip", "clips"), (1, "clip", "clip"), (2, "clip", "clips"), (2, "batch", "batches")],
)
def test_a_noun_agrees_with_its_number(count, noun, shown):
    assert plural(count, noun) == shown
