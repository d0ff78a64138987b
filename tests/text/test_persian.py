"""What Persian text becomes before it is phonemized."""

from pathlib import Path

import pytest

from myxtts.text.persian import normalize_persian

TABLE = (Path(__file__).parent / "persian_normalized.tsv").read_text(encoding="utf-8")
CASES = [line.split("\t") for line in TABLE.split("\n") if line]

WITH_SIGNS = [
    ("کتابِ من", "کتابِ من"),
    ("سَلامٌ عَلَیکُم", "سَلامٌ عَلَیکُم"),
    ("كِتابِ علي", "کِتابِ علی"),
    ("مُعَل\u0651\u0650م", "مُعَل\u0650\u0651م"),
    ("کَِرم", "کَرم"),
    ("کتابْ", "کتاب"),
    ("رحمٰن", "رحمن"),
    ("خانه‌ِ من", "خانهِ من"),
    ("سرًّا", "سرّاً"),
    ("می شَوَد", "می‌شَوَد"),
    ("ماهِ می است", "ماهِ می است"),
    ("کتاب هایِ من", "کتاب‌هایِ من"),
    ("بزرگ تَر", "بزرگ‌تَر"),
    ("۱۲ مِهرِ ۱۴۰۲", "دوازدهمِ مِهرِ هزار و چهارصد و دو"),
    ("۲۳‌اُم", "بیست و سوم"),
    ("$2 میلیونِ", "دو میلیونِ دلار"),
    ("۹ نه", "نُه نه"),
    ("ص. ۹", "صفحهِ نُه"),
    ("علیِ (ع)", "علیِ علیه السلام"),
    ("کتابِ-5", "کتابِ پنج"),
    ("\u0650سلام", "سلام"),
    ("سلام \u0650دنیا", "سلام دنیا"),
    ("۵\u0650 کتاب", "پنج کتاب"),
    ("Windows\u0650 من", "Windows من"),
]


@pytest.mark.parametrize(("written", "spoken"), WITH_SIGNS)
def test_vowel_signs_are_kept_on_their_words(written, spoken):
    assert normalize_persian(written, keep_vowel_signs=True) == spoken


@pytest.mark.parametrize(("written", "spoken"), CASES)
def test_written_persian_becomes_spoken_persian_and_stays_so(written, spoken):
    assert normalize_persian(written) == spoken
    assert normalize_persian(spoken) == spoken
