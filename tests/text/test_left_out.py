from myxtts.text.left_out import describe_left_out, left_out_symbols


def test_emoji_and_stars_are_counted_and_spoken_signs_are_not():
    found = left_out_symbols("Hello 😀😀 world ★ for 5 € + 3 %", "en")
    assert found == {"😀": 2, "★": 1}
    assert describe_left_out(found) == "3 symbols left out of speech: 😀 ★"


def test_in_persian_too():
    assert left_out_symbols("سلام 😀 دنیا", "fa") == {"😀": 1}
    assert not left_out_symbols("می‌خواهم بروم؟", "fa")
