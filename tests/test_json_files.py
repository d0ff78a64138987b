import pytest

from myxtts.json_files import parse_json, read_json

LINE = {"step": int, "best?": str, str: (float, None)}


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ('{"step": 3, "loss": 1, "rate": 0.5, "nothing": null}', LINE),
        ('{"step": 3, "best": "loss"}', LINE),
        ('[{"text": "a", "more": []}, {"text": "b"}]', [{"text": str}]),
        ('{"a": {"b": [1, 2]}, "c": {}}', {str: {str: [int]}}),
        ("true", (bool, None)),
        ("null", (bool, None)),
    ],
)
def test_what_fits_is_returned(text, schema):
    parse_json(text, schema)


@pytest.mark.parametrize(
    ("text", "schema", "problem"),
    [
        ('{"loss": 1}', LINE, "'step' is missing"),
        ("[]", LINE, "found a list, expected an object"),
        ('{"step": 3.0}', LINE, "step: found a number out of range, expected a whole number"),
        ('{"step": true}', LINE, "step: found true or false, expected a whole number"),
        ('{"step": 1, "loss": "low"}', LINE, "loss: found text, expected a number or null"),
        ('{"step": 1, "best": 3}', LINE, "best: .* expected text"),
        ('{"step": 1, "loss": NaN}', LINE, "found NaN, which is not JSON"),
        ('{"step": 1, "loss": 1e999}', LINE, "loss: found a number out of range"),
        ('{"step": ' + "9" * 400 + "}", LINE, "step: found a number out of range"),
        ('{"a": [{"b": 1}, {"b": []}]}', {"a": [{"b": int}]}, r"a\[1\]\.b: found a list"),
        ("[" * 100_000, [int], "nested too deeply"),
        ("{", LINE, "Expecting"),
    ],
)
def test_what_does_not_fit_is_named_with_its_place(text, schema, problem):
    with pytest.raises(ValueError, match=problem):
        parse_json(text, schema)


def test_a_file_is_read_with_a_bound(tmp_path):
    file = tmp_path / "a.json"
    file.write_text('{"step": 1}')
    assert read_json(file, LINE) == {"step": 1}
    with pytest.raises(OSError, match="expected at most 3"):
        read_json(file, LINE, most_bytes=3)
