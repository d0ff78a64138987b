"""English: registry entry, and text as the words that a reader would say."""

from __future__ import annotations

import re
from collections.abc import Callable

from num2words import num2words  # type: ignore[import-untyped, unused-ignore]

from myxtts.text.general import (
    LATIN,
    MAX_CARDINAL_DIGITS,
    PLAIN_QUOTES_AND_DASHES,
    Language,
    ascii_numerals,
    fold_compatibility,
    fold_spaces,
    keep_speakable,
    remove_invisible,
    roman_value,
    settle,
    speak_addresses,
    tidy_marks,
)
from myxtts.text.markup import any_of
from myxtts.text.sentences import SentenceRules

MARKS = "?!.;:,"

ADDRESS_NAMES = {".": "dot", "@": "at", "/": "slash", "-": "dash", "_": "underscore"}

TITLES = {
    "Mr": "Mister", "Mrs": "Missus", "Ms": "Miz", "Dr": "Doctor", "Prof": "Professor",
    "St": "Saint",
}  # fmt: skip
DOTTED_TITLES = {
    "Gen": "General", "Col": "Colonel", "Capt": "Captain", "Lt": "Lieutenant", "Sgt": "Sergeant",
    "Rev": "Reverend", "Sen": "Senator", "Gov": "Governor", "Mt": "Mount",
}  # fmt: skip
AFTER_NAME = {
    "St": "Street", "Dr": "Drive", "Ave": "Avenue", "Rd": "Road", "Blvd": "Boulevard",
    "Jr": "Junior", "Sr": "Senior", "Inc": "Incorporated", "Ltd": "Limited",
    "Corp": "Corporation",
}  # fmt: skip
ABBREVIATIONS = {
    "etc.": "et cetera", "e.g.": "for example", "i.e.": "that is", "vs.": "versus",
    "vs": "versus", "approx.": "approximately", "dept.": "department", "a.k.a.": "also known as",
    "w/o": "without", "w/": "with", "et al.": "and others",
}  # fmt: skip
ABBREVIATIONS |= {short.capitalize(): full.capitalize() for short, full in ABBREVIATIONS.items()}
ABBREVIATIONS["Ph.D."] = "PhD"
BEFORE_NUMBER = {
    "No": "number", "Nos": "numbers", "p": "page", "pp": "pages", "vol": "volume", "Vol": "Volume",
    "ch": "chapter", "Ch": "Chapter", "fig": "figure", "Fig": "Figure", "Sec": "Section",
}  # fmt: skip

SYMBOLS = {
    "&": "and", "+": "plus", "=": "equals", "@": "at", "#": "hash", "%": "percent",
    "°": "degrees", "×": "times", "÷": "divided by", "±": "plus or minus", "$": "dollar",
    "£": "pound", "€": "euro", "¥": "yen", "§": "section",
}  # fmt: skip

# NFKC would turn these into bare letters or digits and lose what they mean.
BEFORE_COMPATIBILITY = str.maketrans(
    {"²": "^2", "³": "^3", "™": "", "№": "No. ", "º": "°", "µ": "micro", "´": "'"}
)

_TITLE = re.compile(rf"\b(?:({any_of(TITLES)})\b\.?|({any_of(DOTTED_TITLES)})\.)(?=\s+[A-Z])")
_STREET_END = re.compile(r"(\b[A-Z]\w+ )(St|Dr)\.")
_AFTER_NAME = re.compile(rf"(?<=\w)(,?\s+)({any_of(AFTER_NAME)})\b\.")
_ABBREVIATION = re.compile(rf"(?<![\w.])({any_of(ABBREVIATIONS)})(?!\w)")
_BEFORE_NUMBER = re.compile(rf"\b({any_of(BEFORE_NUMBER)})\.\s?(?=\d)")
_DOTTED_LETTERS = re.compile(r"(?<![\w.])(?:[A-Za-z]\.){2,}(?!\w)|(?<![\w.])(?:[A-Z]\.)+[A-Z]\b")
# The pronoun I is left out: it often ends a sentence.
_INITIAL = re.compile(r"(?<![\w.'])([A-HJ-Z])\.(?=\s+[A-Z])")

# Long digit runs are spelled out first: number patterns take quadratic time on them.
_ENDLESS_DIGITS = re.compile(r"\d{100,}")

_STRAY_APOSTROPHE = re.compile(
    r"(?<![^\W\d_])'(?!(?:tis|twas|em|cause|til|bout|round)\b)|'(?![^\W\d_])", re.IGNORECASE
)


def normalize_english(text: str) -> str:
    """Return English text as words and light punctuation, keeping its case."""
    return settle(_normalize_once, text)


def _normalize_once(text: str) -> str:
    text = speak_addresses(_clean(text), ADDRESS_NAMES)
    for pattern, spoken in _RULES:
        text = pattern.sub(spoken, text)
    return tidy_marks(keep_speakable(text, MARKS + "'"), MARKS)


def _clean(text: str) -> str:
    text = remove_invisible(text, keep="").translate(BEFORE_COMPATIBILITY)
    text = fold_compatibility(text).replace("\u2044", "/").translate(PLAIN_QUOTES_AND_DASHES)
    text = _ENDLESS_DIGITS.sub(lambda m: f" {spell_digits(m.group())} ", ascii_numerals(text))
    return fold_spaces(text)


def _dotted_letters(match: re.Match[str]) -> str:
    letters = match.group().replace(".", "")
    spoken = letters if letters.isupper() else " ".join(letters)
    return spoken + stop_after(match)


# ---- full stops --------------------------------------------------------------------------------

SENTENCE_STARTS = (
    "The", "This", "That", "These", "Those", "He", "She", "It", "We", "They", "You", "I", "A", "An",
    "And", "But", "So", "Then", "There", "When", "What", "Why", "How", "Where", "If", "In", "On",
    "At", "For", "As", "After", "My", "His", "Her", "Our", "Their", "Yes", "Not", "However", "Now",
    "Let", "Please",
)  # fmt: skip
_SENTENCE_START = re.compile(rf"[\"')\]]*(?:\s*$|\s+[\"'(]*(?:{any_of(SENTENCE_STARTS)})\b)")


def stop_after(match: re.Match[str]) -> str:
    """Return a full stop when the dot of the matched abbreviation also ends its sentence."""
    ends = match.group().endswith(".") and _SENTENCE_START.match(match.string, match.end())
    return "." if ends else ""


# ---- numbers -----------------------------------------------------------------------------------

CURRENCIES = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "€": ("euro", "euros", "cent", "cents"),
    "¥": ("yen", "yen", "sen", "sen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
MAGNITUDES = {
    "k": "thousand", "m": "million", "bn": "billion", "b": "billion", "tn": "trillion",
    "hundred": "hundred", "thousand": "thousand", "million": "million", "billion": "billion",
    "trillion": "trillion",
}  # fmt: skip

# A star stands for the s of the plural.
UNITS = {
    "km": "kilometer*", "m": "meter*", "cm": "centimeter*", "mm": "millimeter*", "mi": "mile*",
    "yd": "yard*", "ft": "foot*", "kg": "kilogram*", "g": "gram*", "mg": "milligram*",
    "lb": "pound*", "lbs": "pound*", "oz": "ounce*", "L": "liter*", "l": "liter*",
    "ml": "milliliter*", "mL": "milliliter*", "KB": "kilobyte*", "kB": "kilobyte*",
    "MB": "megabyte*", "GB": "gigabyte*", "TB": "terabyte*", "Hz": "hertz", "kHz": "kilohertz",
    "MHz": "megahertz", "GHz": "gigahertz", "W": "watt*", "kW": "kilowatt*", "MW": "megawatt*",
    "kWh": "kilowatt hour*", "V": "volt*", "h": "hour*", "hr": "hour*", "hrs": "hour*",
    "min": "minute*", "mins": "minute*", "s": "second*", "sec": "second*", "secs": "second*",
    "ms": "millisecond*", "yr": "year*", "yrs": "year*", "m^2": "square meter*",
    "km^2": "square kilometer*", "cm^2": "square centimeter*", "sq ft": "square foot*",
    "m^3": "cubic meter*", "cm^3": "cubic centimeter*", "mph": "mile* per hour",
    "km/h": "kilometer* per hour", "kph": "kilometer* per hour", "m/s": "meter* per second",
    "°C": "degree* Celsius", "° C": "degree* Celsius", "°F": "degree* Fahrenheit",
    "° F": "degree* Fahrenheit", "°": "degree*", "%": "percent", "bn": "billion",
}  # fmt: skip

COUNTED_BY_ROMAN = (
    "Chapter|Part|Book|Volume|Act|Scene|Section|Article|Phase|Stage|Type|Appendix|Title|Level"
    "|World War|Super Bowl"
)
NAMED_BY_ROMAN = (
    "Alexander|Benedict|Catherine|Charles|Edward|Elizabeth|Francis|Frederick|George|Gregory|Henry"
    "|Innocent|Ivan|James|John|Leo|Louis|Mary|Napoleon|Nicholas|Paul|Peter|Philip|Pius|Richard"
    "|Urban|William"
)

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?)"

_PHONE = re.compile(
    r"(?<![\w.,/-])(?:\+\d{1,3}(?:[ .-]?\(?\d{2,5}\)?){2,4}(?!\d)"
    r"|(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-])"
    r"|\d{3}-\d{4}(?![\w-])|\d+(?:-\d+){2,}(?![\w-]))"
)

_DIGITS = re.compile(r"\d+")

_SIGN = f"[{''.join(CURRENCIES)}]"
_MAGNITUDE = rf"(?:\s?(?P<magnitude>{any_of(MAGNITUDES)})\b)?"
_MONEY = re.compile(
    rf"(?P<minus>(?<![\w-])-)?(?:US)?(?P<sign>{_SIGN})\s?"
    rf"(?:(?P<low>{_NUMBER})\s?-\s?{_SIGN}?)?(?P<amount>{_NUMBER}){_MAGNITUDE}",
    re.IGNORECASE,
)
_MONEY_SIGN_LAST = re.compile(rf"(?<![\w.,])(?P<amount>{_NUMBER})\s?(?P<sign>{_SIGN})(?!\s?\d)")

_COUNTED_ROMAN = re.compile(rf"\b({COUNTED_BY_ROMAN}) ([IVXLC]+)\b(?!')")
_NAMED_ROMAN = re.compile(
    rf"\b((?P<ruler>King|Queen|Pope|Emperor|Tsar) )?({NAMED_BY_ROMAN}) (?P<roman>[IVXLC]+)\b"
)

_MIXED_FRACTION = re.compile(
    r"(?<![\w./,])(?:(?P<whole>\d+) )?(?P<top>\d{1,3})/(?P<bottom>\d{1,3})(?![\w/]|\.\d)"
)
_RANGE = re.compile(rf"(?<![\w.,-])({_NUMBER}%?)(\s?)-\s?({_NUMBER})(?!\w*-\d)")
_ORDINAL = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_UNIT = re.compile(rf"({_NUMBER})\s?({any_of(UNITS)})(?!\w)(?:\.(?=\s+[a-z]))?")
_FEET_AND_INCHES = re.compile(r"(?<!\w)(\d+)'\s?(\d{1,2})\"")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}")
_PER = re.compile(r"\s?/\s?(?=(?:hour|hr|day|week|month|year|person|night|minute|second)\b)")
_BARE_NUMBER = re.compile(rf"{_NUMBER}|(?<!\w)\.\d+")


def _plain(spoken: str) -> str:
    return spoken.replace("-", " ").replace(",", "")


def spell_digits(digits: str) -> str:
    return " ".join(str(num2words(int(digit))) for digit in digits)


def cardinal(digits: str) -> str:
    if len(digits) > MAX_CARDINAL_DIGITS or (len(digits) > 1 and digits.startswith("0")):
        return spell_digits(digits)
    return _plain(str(num2words(int(digits))))


def ordinal(digits: str) -> str:
    if len(digits) > MAX_CARDINAL_DIGITS:
        return spell_digits(digits)
    return _plain(str(num2words(int(digits), to="ordinal")))


def year_words(digits: str) -> str:
    return _plain(str(num2words(int(digits), to="year"))) if digits[0] in "12" else cardinal(digits)


def _number(written: str) -> str:
    whole, _, fraction = written.replace(",", "").partition(".")
    words = [cardinal(whole)] if whole else []
    return " ".join([*words, "point", spell_digits(fraction)] if fraction else words)


def _phone(match: re.Match[str]) -> str:
    groups = _DIGITS.findall(match.group())
    international = match.group().startswith("+")
    if international and len("".join(groups)) < 8:
        return match.group()
    return ("plus " if international else "") + ", ".join(map(spell_digits, groups))


def _money(match: re.Match[str]) -> str:
    parts = match.groupdict()
    one, many, one_part, many_parts = CURRENCIES[match["sign"]]
    whole, _, fraction = match["amount"].partition(".")
    magnitude, low = parts.get("magnitude"), parts.get("low")
    units = one if whole == "1" and not (magnitude or low) else many
    if magnitude:
        spoken = f"{_number(match['amount'])} {MAGNITUDES.get(magnitude.lower(), magnitude)} {many}"
    elif len(fraction) == 2 and fraction != "00":
        small = f"{cardinal(str(int(fraction)))} {one_part if fraction == '01' else many_parts}"
        spoken = small if whole == "0" else f"{_number(whole)} {units} and {small}"
    elif fraction.strip("0"):
        spoken = f"{_number(match['amount'])} {many}"
    else:
        spoken = f"{_number(whole)} {units}"
    before = "minus " if parts.get("minus") else f"{_number(low)} to " if low else ""
    return f" {before}{spoken} "


def _roman_value(roman: str) -> int | None:
    # A lone C or L after such words is far more often a letter (Section C) than a number.
    return None if roman in ("C", "L") else roman_value(roman)


def _counted_roman(match: re.Match[str]) -> str:
    value = _roman_value(match[2])
    return f"{match[1]} {cardinal(str(value))}" if value else match.group()


def _named_roman(match: re.Match[str]) -> str:
    value = _roman_value(match["roman"])
    # "Mary I think" holds a pronoun; only a ruler's title makes a lone I safe to read.
    if not value or (match["roman"] == "I" and not match["ruler"]):
        return match.group()
    return match.group().removesuffix(match["roman"]) + f"the {ordinal(str(value))}"


def _fraction(match: re.Match[str]) -> str:
    whole, top, bottom = match["whole"], match["top"], match["bottom"]
    if top == bottom or (top, bottom) == ("24", "7"):
        return " ".join(map(cardinal, filter(None, [whole, top, bottom])))
    if int(top) >= int(bottom) or int(top) == 0:
        spoken = f"{cardinal(top)} over {cardinal(bottom)}"
        return f"{_number(whole)} {spoken}" if whole else spoken
    names = {"2": "half", "4": "quarter"}
    part = names.get(bottom) or ordinal(bottom)
    if int(top) > 1:
        part += "s"
    article = "a" if whole and top == "1" else cardinal(top)
    return f"{cardinal(whole)} and {article} {part}" if whole else f"{article} {part}"


def _range(match: re.Match[str]) -> str:
    low, high = (float(match[i].replace(",", "").rstrip("%")) for i in (1, 3))
    # "5 - 3" is a sum, but "3-2" is a score.
    between = "minus" if low > high and match[2] else "to"
    return f"{match[1]} {between} {match[3]}"


def _unit(match: re.Match[str]) -> str:
    unit = UNITS[match[2]].replace("*", "" if match[1] == "1" else "s").replace("foots", "feet")
    return f" {_number(match[1])} {unit} "


def _bare_number(written: str) -> str:
    phone_like = written.isdigit() and len(written) >= 7 and not written.endswith("000")
    return spell_digits(written) if phone_like else _number(written)


# ---- dates and times ---------------------------------------------------------------------------

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

_YEAR_PAIR = re.compile(rf"\b([Bb]etween|[Ff]rom) ({_YEAR}) (and|to|until) ({_YEAR}){_NUMBER_ENDS}")
_YEAR_RANGE = re.compile(rf"(?<![\w.,/$£€-])({_YEAR})\s?-\s?({_YEAR}|\d\d){_NUMBER_ENDS}")
_YEAR_IN_CONTEXT = re.compile(
    r"(?P<before>\b(?:in|since|until|till|by|from|year|circa|during|before|after|around|early|late"
    rf"|mid|spring|summer|autumn|fall|winter|AD)[ -]|\()(?P<year>{_YEAR}){_NUMBER_ENDS}",
    re.IGNORECASE,
)
_YEAR_OF_ERA = re.compile(r"(?<=\bAD )\d{4}\b|(?<![\w.,])\d{4}(?= (?:BCE?|AD|CE)\b)")
_DECADE = re.compile(r"(?<![\w.,])'?(\d\d)?(\d0)'?s\b")


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


def _year_in_context(match: re.Match[str]) -> str:
    year = match["year"]
    # Round figures such as 1500 count things as often as they name years.
    if year.endswith("00") and year < "1900":
        return match.group()
    return match["before"] + year_words(year)


def _decade(match: re.Match[str]) -> str:
    words = year_words(match[1] + match[2]) if match[1] else cardinal(match[2])
    return (words[:-1] + "ies" if words.endswith("y") else words + "s") + " "


# ---- the rules in their order --------------------------------------------------------------------

_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BEFORE_NUMBER, lambda m: BEFORE_NUMBER[m[1]] + " "),
    (_STREET_END, lambda m: m[1] + AFTER_NAME[m[2]] + "." if stop_after(m) else m.group()),
    (_TITLE, lambda m: TITLES[m[1]] if m[1] else DOTTED_TITLES[m[2]]),
    (re.compile(r"\b(mr|mrs|ms|dr|prof)\.(?=\s+\w)"), lambda m: TITLES[m[1].title()].lower()),
    (_AFTER_NAME, lambda m: m[1] + AFTER_NAME[m[2]] + stop_after(m)),
    (_ABBREVIATION, lambda m: f"{ABBREVIATIONS[m[1]]}{stop_after(m)} "),
    # dates, phone numbers and times
    (_ISO_DATE, lambda m: _date(m[2], m[3], m[1]) or m.group()),
    (_SLASH_DATE, lambda m: _date(m[1], m[3], m[4]) or m.group()),
    (_MONTH_FIRST, _month_first),
    (_DAY_FIRST, _day_first),
    (_MONTH_AND_YEAR, lambda m: f"{_month(m)} {year_words(m['year'])}"),
    (_PHONE, _phone),
    (re.compile(r"(?:(?<=:\d\d)|(?<=\d[ap]m)|(?<=\d [ap]m))\s?-\s?(?=\d)"), " to "),
    (_CLOCK, _time),
    (_WHOLE_HOUR, _time),
    (re.compile(r"(?<=\d)\s?:\s?(?=\d)"), " to "),
    (_DOTTED_LETTERS, _dotted_letters),
    (_INITIAL, lambda m: m[1] + stop_after(m)),
    # money, Roman numerals and years
    (re.compile(rf"[~≈]\s?(?=\d|{_SIGN})"), "about "),
    (_MONEY, _money),
    (_MONEY_SIGN_LAST, _money),
    (re.compile(r"(?<![\w.,])1\s?¢"), "one cent"),
    (re.compile(r"(?<![\w.,])(\d+)\s?¢"), lambda m: f"{cardinal(m[1])} cents"),
    (_COUNTED_ROMAN, _counted_roman),
    (_NAMED_ROMAN, _named_roman),
    (_YEAR_PAIR, lambda m: f"{m[1]} {year_words(m[2])} {m[3]} {year_words(m[4])}"),
    (
        _YEAR_RANGE,
        lambda m: f"{year_words(m[1])} to {(year_words if m[2][2:] else cardinal)(m[2])}",
    ),
    (_YEAR_IN_CONTEXT, _year_in_context),
    (_YEAR_OF_ERA, lambda m: year_words(m.group())),
    (_DECADE, _decade),
    # other numbers
    (re.compile(r"#\s?(?=\d)"), " number "),
    (_MIXED_FRACTION, _fraction),
    (_RANGE, _range),
    (re.compile(r"(?<![\w.)'-])-(?=\.?\d)"), " minus "),
    (_ORDINAL, lambda m: f" {ordinal(m[1].replace(',', ''))} "),
    (_FEET_AND_INCHES, lambda m: f"{cardinal(m[1])} foot {cardinal(m[2])} "),
    (_UNIT, _unit),
    (re.compile(r"\^2(?!\d)"), " squared "),
    (re.compile(r"\^3(?!\d)"), " cubed "),
    (_PER, " per "),
    (_VERSION, lambda m: f" {' dot '.join(map(cardinal, m.group().split('.')))} "),
    (_BARE_NUMBER, lambda m: f" {_bare_number(m.group())} "),
    # symbols
    (re.compile(r"[=#]{2,}"), " "),
    (re.compile(r"#(?=[^\W\d_])"), " hashtag "),
    (re.compile(r"\.{2,}(?=\s*[a-z])"), ", "),
    (re.compile(r"\s-+\s|-{2,}"), ", "),
    (re.compile(r"[(\[{]|[)\]}](?=\s*[\"']?\w)"), ", "),
    (re.compile(f"[{re.escape(''.join(SYMBOLS))}]"), lambda m: f" {SYMBOLS[m.group()]} "),
    (_STRAY_APOSTROPHE, " "),
)

ENGLISH = Language(
    code="en",
    names=("English",),
    normalize=normalize_english,
    espeak_voice="en-us",
    scripts=LATIN,
    sentences=SentenceRules(starts=SENTENCE_STARTS),
    greeting="hello",
    example="Hello there.",
    demo_file="en.txt",
)
