import pytest

from myxtts.errors import duration, plural, plural_count, quoted


@pytest.mark.parametrize(
    ("count", "noun", "shown"),
    [(0, "clip", "clips"), (1, "clip", "clip"), (2, "clip", "clips"), (2, "batch", "batches")],
)
def test_a_noun_agrees_with_its_count(count, noun, shown):
    assert plural(count, noun) == shown
    assert plural_count(count, noun) == f"{count} {shown}"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "1 second"),
        (89, "89 seconds"),
        (90, "2 minutes"),
        (3_480, "58 minutes"),
        (5_400, "1.5 hours"),
        (200_000, "2.3 days"),
    ],
)
def test_a_duration_has_one_unit(seconds, said):
    assert duration(seconds) == said


def test_half_spaces_are_shown_and_control_characters_are_not():
    assert quoted("می\u200cخواهم\x1b[2J") == "'می\u200cخواهم\\x1b[2J'"
    assert quoted("a" * 100) == f"'{'a' * 80}...'"
