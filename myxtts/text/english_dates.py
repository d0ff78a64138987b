"""English dates, times of day, years and decades as words."""

from __future__ import annotations

import re

from myxtts.text.characters import any_of
from myxtts.text.english_numbers import cardinal, ordinal, year_words
from myxtts.text.english_stops import stop_after

MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
]  # fmt: skip
SHORT_MONTHS = {month[:3]: month for month in MONTHS if month != "May"} | {"Sept": "September"}
MONTH_NAMES = {month: month for month in MONTHS} | SHORT_MONTHS

_YEAR = r"(?:1[1-9]\d\d|20\d\d)"
_DAY_END = r"(?:st|nd|rd|th)?"
_NUMBER_ENDS = r"(?![\w%°]|[.,:/-]?\d)"

_MONTH = rf"(?P<month>(?:{any_of(MONTHS)})\b|(?:{any_of(SHORT_MONTHS)})\b\.?)"

_ISO_DATE = re.compile(r"(?<![\w-])(\d{4})-(\d\d)-(\d\d)(?![\w-])")
_SLASH_DATE = re.compile(r"(?<![\w/-])(\d{1,2})([/-])(\d{1,2})\2(\d{4}|\d\d)(?![\w/-])")
_MONTH_FIRST = re.compile(
    rf"\b{_MONTH} (?P<day>\d{{1,2}}){_DAY_END}(?: ?- ?(?P<last>\d{{1,2}}){_DAY_END})?"
    rf"(?:,? (?P<year>{_YEAR})(?!\d))?(?![\w:%]|[.,-]\d)"
)
_DAY_FIRST = re.compile(
    rf"(?:\b[Tt]he )?(?<![\w.,/:-])(?P<day>\d{{1,2}}){_DAY_END} (?:of )?{_MONTH}"
    rf"(?:,? (?P<year>{_YEAR})(?!\d))?(?!\w)"
)
_MONTH_AND_YEAR = re.compile(rf"\b{_MONTH},? (?P<year>{_YEAR}){_NUMBER_ENDS}")

_HALF_DAY = r"(?:\s?(?P<half>[AaPp])(?:[Mm]\b|\.\s?[Mm]\b\.?))"
_CLOCK = re.compile(
    r"(?<![\w:.,])(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:])"
    rf"{_HALF_DAY}?"
)
_WHOLE_HOUR = re.compile(rf"(?<![\w:.,])(?P<hour>1[0-2]|0?[1-9]){_HALF_DAY}")
_TIME_RANGE = re.compile(r"(?:(?<=:\d\d)|(?<=\d[ap]m)|(?<=\d [ap]m))\s?-\s?(?=\d)")
_RATIO = re.compile(r"(?<=\d)\s?:\s?(?=\d)")

_YEAR_PAIR = re.compile(rf"\b([Bb]etween|[Ff]rom) ({_YEAR}) (and|to|until) ({_YEAR}){_NUMBER_ENDS}")
_YEAR_RANGE = re.compile(rf"(?<![\w.,/$£€-])({_YEAR})\s?-\s?({_YEAR}|\d\d){_NUMBER_ENDS}")
_YEAR_IN_CONTEXT = re.compile(
    r"(?P<before>\b(?:in|since|until|till|by|from|year|circa|during|before|after|around|early|late"
    rf"|mid|spring|summer|autumn|fall|winter|AD)[ -]|\()(?P<year>{_YEAR}){_NUMBER_ENDS}",
    re.IGNORECASE,
)
_YEAR_OF_ERA = re.compile(r"(?<=\bAD )\d{4}\b|(?<![\w.,])\d{4}(?= (?:BCE?|AD|CE)\b)")
_DECADE = re.compile(r"(?<![\w.,])'?(\d\d)?(\d0)'?s\b")


def speak_dates(text: str) -> str:
    text = _ISO_DATE.sub(lambda m: _date(m[2], m[3], m[1]) or m.group(), text)
    text = _SLASH_DATE.sub(lambda m: _date(m[1], m[3], m[4]) or m.group(), text)
    text = _MONTH_FIRST.sub(_month_first, text)
    text = _DAY_FIRST.sub(_day_first, text)
    return _MONTH_AND_YEAR.sub(lambda m: f"{_month(m)} {year_words(m['year'])}", text)


def _month(match: re.Match[str]) -> str:
    return MONTH_NAMES[match["month"].rstrip(".")]


def _date(month: str, day: str, year: str) -> str | None:
    if not (1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    if len(year) == 2:
        year = ("20" if int(year) < 50 else "19") + year
    return f"{MONTHS[int(month) - 1]} {ordinal(day)}, {year_words(year)}"


def _month_first(match: re.Match[str]) -> str:
    spoken = f"{_month(match)} {ordinal(match['day'])}"
    spoken += f" to {ordinal(match['last'])}" if match["last"] else ""
    return spoken + (f", {year_words(match['year'])}" if match["year"] else "")


def _day_first(match: re.Match[str]) -> str:
    article = "The" if match.group().startswith("The") else "the"
    spoken = f"{article} {ordinal(match['day'])} of {_month(match)}"
    return spoken + (f", {year_words(match['year'])}" if match["year"] else stop_after(match))


def speak_times(text: str) -> str:
    text = _TIME_RANGE.sub(" to ", text)
    text = _WHOLE_HOUR.sub(_time, _CLOCK.sub(_time, text))
    return _RATIO.sub(" to ", text)


def _time(match: re.Match[str]) -> str:
    parts = match.groupdict()
    hour, minute, second, half = (parts.get(k) for k in ("hour", "minute", "second", "half"))
    words = [cardinal(str(int(hour or 0)))]
    if minute == "00" and not half:
        words.append("o'clock" if int(hour or 0) <= 12 else "hundred")
    elif minute and minute != "00":
        words.append(f"oh {cardinal(minute[1])}" if minute[0] == "0" else cardinal(minute))
    if second:
        words.append(f"and {cardinal(str(int(second)))} second{'' if second == '01' else 's'}")
    if half:
        words.append(half.upper() + "M")
    return " ".join(words) + stop_after(match)


def speak_years(text: str) -> str:
    text = _YEAR_PAIR.sub(lambda m: f"{m[1]} {year_words(m[2])} {m[3]} {year_words(m[4])}", text)
    text = _YEAR_RANGE.sub(lambda m: f"{year_words(m[1])} to {_year_range_end(m[2])}", text)
    text = _YEAR_IN_CONTEXT.sub(_year_in_context, text)
    text = _YEAR_OF_ERA.sub(lambda m: year_words(m.group()), text)
    return _DECADE.sub(_decade, text)


def _year_range_end(digits: str) -> str:
    return year_words(digits) if len(digits) == 4 else cardinal(digits)


def _year_in_context(match: re.Match[str]) -> str:
    year = match["year"]
    # Round figures such as 1500 count things as often as they name years.
    if year.endswith("00") and year < "1900":
        return match.group()
    return match["before"] + year_words(year)


def _decade(match: re.Match[str]) -> str:
    words = year_words(match[1] + match[2]) if match[1] else cardinal(match[2])
    return (words[:-1] + "ies" if words.endswith("y") else words + "s") + " "
