"""How numbers, dates, amounts, units and blessings are said in standard Persian, without stress."""

from pathlib import Path

import pytest

from myxtts.text import persian
from myxtts.text.tokenizer import text_symbols

TABLE = (Path(__file__).parent / "persian_spoken.tsv").read_text(encoding="utf-8")
SPOKEN = [line.split("\t") for line in TABLE.splitlines()]


@pytest.mark.parametrize(("written", "spoken"), SPOKEN)
def test_persian_as_it_is_spoken(written, spoken):
    symbols = text_symbols(written, "fa", "phonemes")
    assert "".join(symbol.strip("ˈˌ") for symbol in symbols) == spoken


def test_every_word_of_the_normalizer_is_in_the_table():
    tables = (
        persian.UNITS,
        persian.CURRENCIES,
        persian.HUNDREDTHS,
        persian.BLESSINGS,
        persian.DOTTED_ABBREVIATIONS,
        persian.BEFORE_NUMBER,
        persian.AFTER_YEAR,
        persian.ADDRESS_NAMES,
        persian.SYMBOLS,
    )
    words = {word for table in tables for word in table.values()}
    words |= {*persian.SOLAR_MONTHS, *persian.GREGORIAN_MONTHS, *persian.MAGNITUDES.split("|")}
    assert words <= dict(SPOKEN).keys()
