"""English numbers as words: phone numbers, money, Roman numerals, fractions, units."""

from __future__ import annotations

import re

from num2words import num2words  # type: ignore[import-untyped, unused-ignore]

from myxtts.text.characters import LONGEST_CARDINAL, any_of, roman_value

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
_CENTS_SIGN = re.compile(r"(?<![\w.,])(\d+)\s?¢")

_COUNTED_ROMAN = re.compile(rf"\b({COUNTED_BY_ROMAN}) ([IVXLC]+)\b(?!')")
_NAMED_ROMAN = re.compile(
    rf"\b((?P<ruler>King|Queen|Pope|Emperor|Tsar) )?({NAMED_BY_ROMAN}) (?P<roman>[IVXLC]+)\b"
)

_MIXED_FRACTION = re.compile(
    r"(?<![\w./,])(?:(?P<whole>\d+) )?(?P<top>\d{1,3})/(?P<bottom>\d{1,3})(?![\w/]|\.\d)"
)
_RANGE = re.compile(rf"(?<![\w.,-])({_NUMBER}%?)(\s?)-\s?({_NUMBER})(?!\w*-\d)")
_MINUS = re.compile(r"(?<![\w.)'-])-(?=\.?\d)")
_ORDINAL = re.compile(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)\b", re.IGNORECASE)
_FEET_AND_INCHES = re.compile(r"(?<!\w)(\d+)'\s?(\d{1,2})\"")
_UNIT = re.compile(rf"({_NUMBER})\s?({any_of(UNITS)})(?!\w)(?:\.(?=\s+[a-z]))?")
_PER = re.compile(r"\s?/\s?(?=(?:hour|hr|day|week|month|year|person|night|minute|second)\b)")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}")
_BARE_NUMBER = re.compile(rf"{_NUMBER}|(?<!\w)\.\d+")

_ABOUT = re.compile(rf"[~≈]\s?(?=\d|{_SIGN})")
_NUMBER_SIGN = re.compile(r"#\s?(?=\d)")
_POWER = re.compile(r"\^([23])(?!\d)")


def _plain(spoken: str) -> str:
    return spoken.replace("-", " ").replace(",", "")


def spell_digits(digits: str) -> str:
    return " ".join(str(num2words(int(digit))) for digit in digits)


def cardinal(digits: str) -> str:
    if len(digits) > LONGEST_CARDINAL or (len(digits) > 1 and digits.startswith("0")):
        return spell_digits(digits)
    return _plain(str(num2words(int(digits))))


def ordinal(digits: str) -> str:
    if len(digits) > LONGEST_CARDINAL:
        return spell_digits(digits)
    return _plain(str(num2words(int(digits), to="ordinal")))


def year_words(digits: str) -> str:
    return _plain(str(num2words(int(digits), to="year"))) if digits[0] in "12" else cardinal(digits)


def _number(written: str) -> str:
    whole, _, fraction = written.replace(",", "").partition(".")
    words = [cardinal(whole)] if whole else []
    return " ".join([*words, "point", spell_digits(fraction)] if fraction else words)


def speak_phone_numbers(text: str) -> str:
    return _PHONE.sub(_phone, text)


def _phone(match: re.Match[str]) -> str:
    groups = _DIGITS.findall(match.group())
    international = match.group().startswith("+")
    if international and len("".join(groups)) < 8:
        return match.group()
    return ("plus " if international else "") + ", ".join(map(spell_digits, groups))


def speak_money(text: str) -> str:
    text = _ABOUT.sub("about ", text)
    text = _MONEY_SIGN_LAST.sub(_money, _MONEY.sub(_money, text))
    return _CENTS_SIGN.sub(lambda m: f"{cardinal(m[1])} {'cent' if m[1] == '1' else 'cents'}", text)


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


def speak_roman_numerals(text: str) -> str:
    return _NAMED_ROMAN.sub(_named_roman, _COUNTED_ROMAN.sub(_counted_roman, text))


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


def speak_quantities(text: str) -> str:
    text = _NUMBER_SIGN.sub(" number ", text)
    text = _MIXED_FRACTION.sub(_fraction, text)
    text = _RANGE.sub(_range, text)
    text = _MINUS.sub(" minus ", text)
    text = _ORDINAL.sub(lambda m: f" {ordinal(m[1].replace(',', ''))} ", text)
    text = _FEET_AND_INCHES.sub(lambda m: f"{cardinal(m[1])} foot {cardinal(m[2])} ", text)
    text = _UNIT.sub(lambda m: f" {_number(m[1])} {_unit(m[2], m[1])} ", text)
    text = _POWER.sub(lambda m: " squared " if m[1] == "2" else " cubed ", text)
    text = _PER.sub(" per ", text)
    text = _VERSION.sub(lambda m: f" {' dot '.join(map(cardinal, m.group().split('.')))} ", text)
    return _BARE_NUMBER.sub(lambda m: f" {_bare_number(m.group())} ", text)


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


def _unit(symbol: str, amount: str) -> str:
    return UNITS[symbol].replace("*", "" if amount == "1" else "s").replace("foots", "feet")


def _bare_number(written: str) -> str:
    phone_like = written.isdigit() and len(written) >= 7 and not written.endswith("000")
    return spell_digits(written) if phone_like else _number(written)
