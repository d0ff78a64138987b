"""What English text becomes before it is phonemized."""

from pathlib import Path

import pytest

from myxtts.text.english import normalize_english

TABLE = (Path(__file__).parent / "english_normalized.tsv").read_text(encoding="utf-8")
INVISIBLE = [("one\n\ttwo\u200e", "one two"), ("\u202eabc 😀", "abc")]
CASES = [*(line.split("\t") for line in TABLE.split("\n") if line), *INVISIBLE]


@pytest.mark.parametrize(("written", "spoken"), CASES)
def test_written_english_becomes_spoken_english_and_stays_so(written, spoken):
    assert normalize_english(written) == spoken
    assert normalize_english(spoken) == spoken
