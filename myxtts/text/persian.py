"""Persian: registry entry, and text as the words that a reader would say."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial

from num2words import num2words  # type: ignore[import-untyped, unused-ignore]

from myxtts.text.general import (
    HALF_SPACE,
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
from myxtts.text.persian_phonemes import (
    HAMZA_ABOVE,
    KASRA,
    SIGN,
    TANVIN,
    TASHDID,
    VOWEL_MARKS,
    VOWEL_SIGNS,
    WORD,
    letters_and_marks,
    persian_phonemes,
)
from myxtts.text.sentences import ABBREVIATIONS, TERMINATORS, SentenceRules

NINE = "نُه"
MARKS = "؟!.؛:،"

ADDRESS_NAMES = {".": "دات", "@": "ات", "/": "اسلش", "-": "خط تیره", "_": "آندرلاین"}

LETTERS = str.maketrans(
    {
        **dict.fromkeys("يىېے", "ی"),
        **dict.fromkeys("كڪ", "ک"),
        **dict.fromkeys("ہھەة", "ه"),
        **dict.fromkeys("إٱ", "ا"),
        **dict.fromkeys("ۀۂ", "ه" + HAMZA_ABOVE),
        "ـ": "",
    }
)
# Old word processors used the not sign as a half-space.
BEFORE_COMPATIBILITY = str.maketrans({"¬": HALF_SPACE, "²": "^2", "³": "^3", "™": "", "º": "°"})
PUNCTUATION = str.maketrans({",": "،", ";": "؛", "?": "؟", "۔": ".", "٪": "%", "٭": " "})

SOLAR_MONTHS = [
    "فروردین", "اردیبهشت", "خرداد", "تیر", "مرداد", "شهریور", "مهر", "آبان", "آذر", "دی", "بهمن",
    "اسفند",
]  # fmt: skip
GREGORIAN_MONTHS = [
    "ژانویه", "فوریه", "مارس", "آوریل", "مه", "ژوئن", "ژوئیه", "اوت", "سپتامبر", "اکتبر", "نوامبر",
    "دسامبر",
]  # fmt: skip

DOTTED_ABBREVIATIONS = {
    "ج.ا.ا": "جمهوریِ اسلامیِ ایران", "ج.ا": "جمهوریِ اسلامی", "ق.م": "قبل از میلاد",
    "ب.م": "بعد از میلاد", "ه.ش": "هجریِ شمسی", "ه.ق": "هجریِ قمری", "ر.ک": "رجوع کنید",
    "ق.ظ": "قبل از ظهر", "ب.ظ": "بعد از ظهر", "پ.ن": "پی‌نوشت",
}  # fmt: skip
BLESSINGS = {
    "ص": "صلی الله علیه و آله", "ع": "علیه السلام", "س": "سلام الله علیها",
    "ره": "رحمت الله علیه", "عج": "عجل الله تعالی فرجه",
}  # fmt: skip
BEFORE_NUMBER = {
    "ص": "صفحهِ", "صص": "صفحاتِ", "ص.": "صفحهِ", "صص.": "صفحاتِ", "ج.": "جلدِ",
    "چ.": "چاپِ", "ش.": "شمارهِ",
}  # fmt: skip
# «برو!» و رفت. «چرا؟» پرسید.
AFTER_QUOTATIONS = (
    "و", "که", "را", "گفت", "گفتم", "گفتی", "گفتند", "گفتیم", "می‌گوید", "می‌گفت", "می‌گویند",
    "پرسید", "پرسیدم", "پرسیدند", "می‌پرسد", "می‌پرسید", "فریاد", "داد", "پاسخ", "جواب", "نوشت",
)  # fmt: skip
AFTER_YEAR = {"م": "میلادی", "ق": "قمری", "ش": "شمسی"}

CURRENCIES = {"$": "دلار", "€": "یورو", "£": "پوند", "¥": "ین", "₺": "لیر"}
HUNDREDTHS = {"$": "سنت", "€": "سنت", "£": "پنی"}
MAGNITUDES = "هزار|میلیون|میلیارد|تریلیون"

UNITS = {
    "km": "کیلومتر", "m": "متر", "cm": "سانتی‌متر", "mm": "میلی‌متر", "kg": "کیلوگرم",
    "g": "گرم", "mg": "میلی‌گرم", "l": "لیتر", "L": "لیتر", "ml": "میلی‌لیتر", "mL": "میلی‌لیتر",
    "KB": "کیلوبایت", "MB": "مگابایت", "GB": "گیگابایت", "TB": "ترابایت", "Hz": "هرتز",
    "kHz": "کیلوهرتز", "MHz": "مگاهرتز", "GHz": "گیگاهرتز", "W": "وات", "kW": "کیلووات",
    "MW": "مگاوات", "V": "ولت", "h": "ساعت", "min": "دقیقه", "s": "ثانیه", "ms": "میلی‌ثانیه",
    "km/h": "کیلومتر بر ساعت", "m/s": "متر بر ثانیه", "mph": "مایل بر ساعت",
    "m^2": "مترِ مربع", "km^2": "کیلومترِ مربع", "cm^2": "سانتی‌مترِ مربع", "m^3": "مترِ مکعب",
    "cm^3": "سانتی‌مترِ مکعب", "°C": "درجهِ سانتی‌گراد", "° C": "درجهِ سانتی‌گراد",
    "Km": "کیلومتر", "KM": "کیلومتر", "Kg": "کیلوگرم", "KG": "کیلوگرم", "cc": "سی‌سی",
    "°F": "درجهِ فارنهایت", "° F": "درجهِ فارنهایت", "°": "درجه", "%": "درصد",
}  # fmt: skip

# Words that follow a decimal, and words that follow a fraction.
MEASURED = (
    "هزار", "میلیون", "میلیارد", "تریلیون", "درصد", "برابر", "متر", "سانتی‌متر", "میلی‌متر",
    "کیلومتر", "کیلو", "کیلوگرم", "گرم", "تن", "لیتر", "ریشتر", "درجه", "دلار", "یورو", "تومان",
    "ریال", "سال", "ساعت", "ثانیه", "واحد", *(unit for unit in UNITS if unit.isascii()), "%",
)  # fmt: skip
SHARED = ("از", "مردم", "جمعیت", "کل", "این", "آن", "آنها", "افراد", "راه", "مسیر")
COUNTED_BY_ROMAN = ("نوع", "تیپ", "سطح", "کلاس", "فاز", "گروه", "فصل", "بخش", "جلد", "قرن", "سده")
READ_AS_CARDINAL = frozenset(COUNTED_BY_ROMAN[:6])

SYMBOLS = {
    "&": "و", "+": "به‌علاوهِ", "=": "مساویِ", "@": "ات", "#": "شمارهِ", "%": "درصد", "°": "درجه",
    "×": "ضرب در", "÷": "تقسیم بر", "±": "مثبت و منفی", "$": "دلار", "€": "یورو", "£": "پوند",
    "¥": "ین", "₺": "لیر",
}  # fmt: skip

# The month of May is spelled like the verb prefix می; none of these words follows the prefix.
NOT_VERBS = frozenset({
    "به", "که", "این", "آن", "است", "نیست", "من", "همه", "ماه", "هم", "یکی", "منفی", "صد", "دویست",
    "سیصد", "چهارصد", "پانصد", "ششصد", "هفتصد", "هشتصد", "نهصد", "ده", "یازده", "دوازده", "سیزده",
    "چهارده", "پانزده", "شانزده", "هفده", "هجده", "نوزده", "بیست", "سی", "شصت", "سه", "نه",
    "میلیون",
})  # fmt: skip
VERB_ENDINGS = tuple("میدتهن")

_PERSIAN_LETTER = re.compile("[ء-ۓ]")
_EDGE = rf"\w{HALF_SPACE}{TANVIN}{HAMZA_ABOVE}"
_LETTER = r"[^\W\d_]"
_NUMBER = r"(?:\d{1,3}(?:٬\d{3})+(?!\d)|\d+)"
_DECIMAL = rf"(?:{_NUMBER}(?:[./٫]\d+)?)"

_HE_WITH_HAMZA = re.compile(rf"ه[ {HALF_SPACE}]?{HAMZA_ABOVE}+")
_YE_WITH_HAMZA = re.compile(rf"ی{HAMZA_ABOVE}+")
_OTHER_HAMZA = re.compile(rf"(?<!ه){HAMZA_ABOVE}")
_DIACRITICS = re.compile("[\u0610-\u061a\u064c-\u0653\u0655-\u065f\u0670\u06d6-\u06ed]")
_UNREAD_SIGNS = re.compile(f"(?![{VOWEL_SIGNS}]){_DIACRITICS.pattern}")
_SIGNS_AFTER_HALF_SPACE = re.compile(f"{HALF_SPACE}([{VOWEL_SIGNS}]+)")
_TANVIN_BEFORE_ALEF = re.compile(rf"{TANVIN}+ا(?![{_EDGE}])")
_REPEATED_TANVIN = re.compile(rf"{TANVIN}{{2,}}")
_GROUPED_NUMBER = re.compile(r"(?<![\d.])\d{1,3}(?:(?:[,،٬]\d{3})+|(?:\.\d{3}){2,})(?![\d.]|,\d)")
_GROUP_MARK = re.compile("[,،.]")

_HALF_SPACE_RUN = re.compile(rf"{HALF_SPACE}{{2,}}")
_LOOSE_HALF_SPACE = re.compile(
    rf"(?<!{_LETTER})(?<![{TANVIN}{HAMZA_ABOVE}]){HALF_SPACE}|{HALF_SPACE}(?!{_LETTER})"
)
_VERB_PREFIX = re.compile(
    rf"(?<!ماه )(?<![{_EDGE}])((?:بر|در|باز|فرا|وا)?ن?می)"
    rf" (?=((?:{_LETTER}|{HALF_SPACE})+)(?![{_EDGE}]))"
)
_SUFFIX = re.compile(rf"(?<=[ء-ۓ]) (?=(?:ها(?:ی(?:ی|م|ت|ش|مان|تان|شان)?)?|تر(?:ین)?)(?![{_EDGE}]))")

_ENDING = re.compile(rf"(?<=[^\W\d_اوه]ه) (?=(?:ام|ات|اش|ای|ایم|اید|اند)(?![{_EDGE}]))")

# بیست‌ونه, هزارو یک
_SPELLED = "|".join(
    sorted(
        {
            str(num2words(number, lang="fa"))
            for number in (*range(1, 21), *range(30, 100, 10), *range(100, 1_001, 100))
        },
        key=len,
        reverse=True,
    )
)
_JOINED_NUMBER = re.compile(
    rf"(?<![{_EDGE}])(?:(?:{_SPELLED}){HALF_SPACE}?و[ {HALF_SPACE}]?)+(?:{_SPELLED})"
    rf"(?=م?(?:ین)?(?![{_EDGE}]))"
)
_THIRTIETH = re.compile(rf"(?<![{_EDGE}])سی ام(?=(?:ین)?(?![{_EDGE}]))")
_NUMBER_PART = re.compile(rf"({_SPELLED}){HALF_SPACE}?و[ {HALF_SPACE}]?(?=(?:{_SPELLED}))")

_DOTTED_ABBREVIATION = re.compile(
    rf"(?<![{_EDGE}.])(?:"
    + "|".join(key.replace(".", r"\. ?") for key in DOTTED_ABBREVIATIONS)
    + rf")(?:\.(?!{_LETTER})|(?![{_EDGE}.]))"
)
_BLESSING = re.compile(rf"(?<={_LETTER}) ?\( ?({any_of(BLESSINGS)}) ?\)")
_BEFORE_NUMBER = re.compile(rf"(?<![{_EDGE}])({any_of(BEFORE_NUMBER)}) ?(?=\d)")
_AFTER_YEAR = re.compile(
    rf"(?<!\d)(?P<year>\d{{3,4}}(?= ?[مقش]\.)|\d{{4}}(?=[مقش])) ?(?P<era>[مقش])(?![{_EDGE}])\.?"
)
_DOCTOR = re.compile(
    rf"(?<![{_EDGE}])(آقای|خانم|جناب|استاد|با|توسط|نظر|مطب) د\. ?(?={_LETTER}{{2}})"
)

_DATE = re.compile(r"(?<![\w/.-])(\d{1,4})([/.-])(\d{1,2})\2(\d{1,4})(?![\d/-]|\.\d)")
_DAY_AND_MONTH = re.compile(
    rf"(?<![\w/.:٬٫-])(\d{{1,2}})(?:ا?م)? ({'|'.join(SOLAR_MONTHS + GREGORIAN_MONTHS)}"
    rf"|می(?= \d{{4}}))(?![{_EDGE}])"
)
_YEAR = re.compile(r" \d{4}(?!\d)")
_POSTAL_CODE = re.compile(r"(?<=پستی )(\d{5})-?(\d{4,5})(?!\d)|(?<![\d-])(\d{5})-(\d{4})(?![\d-])")
_CLOCK = re.compile(r"(?<![\w:.])([01]?\d|2[0-4]):([0-5]\d)(?::([0-5]\d))?(?![\d:])")
_PHONE = re.compile(
    r"(?<![\w./-])(?:\+\d{1,3}(?:[ -]?\(?\d{2,8}\)?){1,4}|0\d{2,3}(?:[ -]\d{2,8}){1,3}"
    r"|\d+(?:-\d+){2,})(?![\d-])"
)

_DIGITS = re.compile(r"\d+")
# Long digit runs are spelled out first: number patterns take quadratic time on them.
_ENDLESS_DIGITS = re.compile(r"\d{100,}")

_SIGN = f"[{''.join(CURRENCIES)}]"
_MAGNITUDE = rf"(?: ?(?P<magnitude>{MAGNITUDES})(?![{_EDGE}]))?"
_MONEY = re.compile(
    rf"(?P<minus>(?<![\w-])-)?(?P<sign>{_SIGN}) ?(?P<amount>{_DECIMAL}){_MAGNITUDE}"
)
_MONEY_SIGN_LAST = re.compile(
    rf"(?<![\w./])(?P<amount>{_DECIMAL}){_MAGNITUDE} ?(?P<sign>{_SIGN})(?! ?\d)"
)

_FRACTION = re.compile(r"(?:(\d+) +)?(\d{1,15})\u2044(\d{1,15})")
# The slash is also the decimal point: ۲/۵ متر.
_SLASH_FRACTION = re.compile(
    r"(?<![\w./٫-])(?:(\d+) +)?([1-9])/([2-9]|10)(?![\w/.٫-])"
    rf"(?! ?(?:{any_of(MEASURED)})(?![{_EDGE}]))"
    rf"(?P<fraction> (?:{any_of(SHARED)})(?![{_EDGE}]))?"
)
_HALF = re.compile(rf"(?<![\w./٫])({_NUMBER})[./٫]5(?= ?(?:{MAGNITUDES})(?![{_EDGE}]))")
_IRANIAN_DOMAIN = re.compile(r"(?<=دات )ir\b")
_INITIALS = re.compile(r"\b(?:[A-Z]\.)+[A-Z]\b(?:\.(?= ?[^\W\d_]))?")
_HASHTAG = re.compile(rf"(?<!\w)#(?={_LETTER})[\w{HALF_SPACE}]+")
_STRETCHED = re.compile(r"([ء-ۓ])\1{2,}")
_ROMAN = re.compile(
    rf"(?<![{_EDGE}])(?P<before>(?P<counted>{any_of(COUNTED_BY_ROMAN)})|[ء-ۓ{HALF_SPACE}]+) "
    r"(?P<roman>[IVX]+)(?![\w.])"
)
_ORDINAL = re.compile(
    rf"({_NUMBER})(?:(?: ?ام|م)(?P<superlative>ین)?(?![{_EDGE}])|(?:st|nd|rd|th)\b)"
)
_RANGE = re.compile(rf"(?<![\w./٫-])({_DECIMAL}%?)( ?)- ?({_DECIMAL})(?!-\d)")
_UNIT = re.compile(rf"({_DECIMAL}) ?({any_of(UNITS)})(?![A-Za-z\d])")
_VERSION = re.compile(r"\d+(?:\.\d+){2,}")
_BARE_NUMBER = re.compile(_DECIMAL)
_POINT = re.compile("[./٫]")


def normalize_persian(text: str, *, keep_vowel_signs: bool = False) -> str:
    """Return Persian text as words and light punctuation in one standard spelling."""
    # From here on, vowel signs belong to substituted words.
    spoken = settle(_normalize_once, _DIACRITICS.sub("", _unify_letters(text)))
    if not keep_vowel_signs:
        return without_signs(spoken)
    written = _UNREAD_SIGNS.sub("", _unify_letters(text))
    return carry_signs(_SIGNS_AFTER_HALF_SPACE.sub(rf"\1{HALF_SPACE}", written), spoken)


def _normalize_once(text: str) -> str:
    text = _INITIALS.sub(lambda m: m.group().replace(".", " "), _clean(text))
    text = _IRANIAN_DOMAIN.sub("آی آر", speak_addresses(text, ADDRESS_NAMES))
    text = _HASHTAG.sub(lambda m: f" هشتگ{KASRA} {m.group()[1:].replace('_', ' ')} ", text)
    text = _unify_punctuation(text)
    for pattern, spoken in _RULES:
        text = pattern.sub(spoken, text)
    text = fold_spaces(keep_speakable(text, MARKS + HALF_SPACE))
    return tidy_marks(_join_affixes(_tidy_half_spaces(text)), MARKS)


def _unify_letters(text: str) -> str:
    text = remove_invisible(text.translate(BEFORE_COMPATIBILITY), keep=HALF_SPACE)
    return fold_compatibility(text).translate(LETTERS)


def _clean(text: str) -> str:
    text = _unify_letters(text)
    text = _HE_WITH_HAMZA.sub("ه" + HAMZA_ABOVE, text)
    text = _OTHER_HAMZA.sub("", _YE_WITH_HAMZA.sub("ئ", text))
    text = _STRETCHED.sub(r"\1", text)
    text = _TANVIN_BEFORE_ALEF.sub("ا" + TANVIN, _REPEATED_TANVIN.sub(TANVIN, text))
    text = ascii_numerals(text.translate(PLAIN_QUOTES_AND_DASHES))
    text = _ENDLESS_DIGITS.sub(lambda m: f" {_spell_digits(m.group())} ", text)
    return fold_spaces(_tidy_half_spaces(text))


def _unify_punctuation(text: str) -> str:
    text = _GROUPED_NUMBER.sub(lambda match: _GROUP_MARK.sub("٬", match.group()), text)
    return text.translate(PUNCTUATION)


def _tidy_half_spaces(text: str) -> str:
    return _LOOSE_HALF_SPACE.sub("", _HALF_SPACE_RUN.sub(HALF_SPACE, text))


def _join_affixes(text: str) -> str:
    text = _ENDING.sub(HALF_SPACE, _SUFFIX.sub(HALF_SPACE, _VERB_PREFIX.sub(_verb_prefix, text)))
    text = _THIRTIETH.sub(f"سی{HALF_SPACE}ام", text)
    return _JOINED_NUMBER.sub(lambda m: _NUMBER_PART.sub(r"\1 و ", m.group()), text)


def _verb_prefix(match: re.Match[str]) -> str:
    prefix, word = match[1], match[2]
    is_verb = len(word) > 1 and word.endswith(VERB_ENDINGS) and word not in NOT_VERBS
    return prefix + (HALF_SPACE if is_verb else " ")


def _spell_digits(digits: str) -> str:
    return " ".join(_words(int(digit)) for digit in digits)


def _words(number: int) -> str:
    """Return a number in words; nine is spelled unlike "no"."""
    return re.sub(r"\bنه\b", NINE, str(num2words(number, lang="fa")))


def _cardinal(written: str) -> str:
    digits = written.replace("٬", "")
    # Beyond this length num2words silently drops digits.
    if len(digits) > MAX_CARDINAL_DIGITS or (len(digits) > 1 and digits.startswith("0")):
        return _spell_digits(digits)
    return _words(int(digits))


def _ordinal(written: str) -> str:
    """Return the ordinal; not from num2words, which gives سیم for the thirtieth."""
    words = without_signs(_cardinal(written.lstrip("0") or "0"))
    if words.endswith("سه"):
        return words.removesuffix("سه") + "سوم"
    if words.endswith("سی"):
        return words + HALF_SPACE + "ام"
    return words + "م"


def _number(written: str) -> str:
    """Return an integer or decimal in words; num2words reads 0.05 as a half."""
    whole, *fractions = _POINT.split(written)
    if not fractions:
        return _cardinal(whole)
    return f"{_cardinal(whole)} ممیز {_fraction_digits(fractions[0])}"


def _fraction_digits(digits: str) -> str:
    rest = digits.lstrip("0")
    if len(digits) > 3 or not rest:
        return _spell_digits(digits)
    zeros = ["صفر"] * (len(digits) - len(rest))
    return " ".join([*zeros, _cardinal(rest)])


def _dotted_abbreviation(match: re.Match[str]) -> str:
    key = match.group().replace(" ", "").rstrip(".")
    return f"{DOTTED_ABBREVIATIONS[key]}{_stop_after(match)} "


def _stop_after(match: re.Match[str]) -> str:
    """Return a full stop when the dot of the matched abbreviation also ends the text."""
    return "." if match.group().endswith(".") and match.end() == len(match.string) else ""


def _date(first: str, month: str, last: str) -> str | None:
    year_is_last = len(last) == 4 or (len(first) < 4 and int(last) > 31)
    year, day = (last, first) if year_is_last else (first, last)
    clear = len(year) == 4 or (len(year) == 2 and (int(year) > 31 or year.startswith("0")))
    if not (clear and 1 <= int(month) <= 12 and 1 <= int(day) <= 31):
        return None
    if year.startswith("0"):
        year = "14" + year[-2:]
    months = GREGORIAN_MONTHS if int(year) >= 1700 else SOLAR_MONTHS
    return f"{_ordinal(day)}{KASRA} {months[int(month) - 1]}{KASRA} {_cardinal(year)}"


def _day_and_month(match: re.Match[str]) -> str:
    day = _ordinal(match[1]) + KASRA if 1 <= int(match[1]) <= 31 else match[1]
    year_follows = _YEAR.match(match.string, match.end())
    return f"{day} {match[2]}{KASRA if year_follows else ''}"


def _phone(match: re.Match[str]) -> str:
    groups = _DIGITS.findall(match.group())
    if len("".join(groups)) < 10 and "-" not in match.group():
        return match.group()
    plus = "مثبت " if match.group().startswith("+") else ""
    return f" {plus}{'، '.join(_spell_digits(group) for group in groups)} "


def _time(match: re.Match[str]) -> str:
    hour, minute, second = (int(part or 0) for part in match.groups())
    words = [_cardinal(str(hour))]
    if minute:
        words.append(f"{_cardinal(str(minute))} دقیقه")
    if second:
        words.append(f"{_cardinal(str(second))} ثانیه")
    return f" {' و '.join(words)} "


def _money(match: re.Match[str]) -> str:
    sign, amount, magnitude = match["sign"], match["amount"], match["magnitude"]
    whole, _, fraction = amount.partition(".")
    if len(fraction) == 2 and fraction != "00" and sign in HUNDREDTHS and not magnitude:
        spoken = f"{_cardinal(str(int(fraction)))} {HUNDREDTHS[sign]}"
        if whole != "0":
            spoken = f"{_cardinal(whole)} {CURRENCIES[sign]} و {spoken}"
    else:
        number = _cardinal(whole) if fraction == "00" else _number(amount)
        if magnitude and fraction == "5":
            number = _and_half(whole)
        spoken = " ".join(filter(None, [number, magnitude, CURRENCIES[sign]]))
    minus = "منفی " if match.groupdict().get("minus") else ""
    return f" {minus}{spoken} "


def _fraction(match: re.Match[str]) -> str:
    whole, top, bottom = match[1], match[2], match[3]
    part = "نیم" if (top, bottom) == ("1", "2") else f"{_cardinal(top)} {_ordinal(bottom)}"
    return f" {_cardinal(whole)} و {part} " if whole else f" {part} "


def _slash_fraction(match: re.Match[str]) -> str:
    whole, top, bottom = match[1], match[2], match[3]
    # ۲/۵ alone is a decimal.
    is_fraction = whole or match["fraction"] or int(bottom) <= 4
    if int(top) >= int(bottom) or not is_fraction:
        return match.group()
    said, shared = _fraction(match), match["fraction"] or ""
    has_ezafe = shared not in ("", " از") and not said.endswith("نیم ")
    return (said.rstrip() + KASRA if has_ezafe else said) + shared


def _and_half(whole: str) -> str:
    return f"{_cardinal(whole)} و نیم" if whole != "0" else "نیم"


def _roman(match: re.Match[str]) -> str:
    value = roman_value(match["roman"])
    if value is None or (len(match["roman"]) == 1 and not match["counted"]):
        return match.group()
    number = str(value)
    said = _cardinal(number) if match["before"] in READ_AS_CARDINAL else _ordinal(number)
    return f"{match['before']} {said}"


def _range(match: re.Match[str]) -> str:
    low, high = (float(_POINT.sub(".", match[i].replace("٬", "")).rstrip("%")) for i in (1, 3))
    # "5 - 3" is a sum, but "3-2" is a score.
    falling = "منهای" if match[2] else "بر"
    between = falling if low > high else "تا"
    return f"{match[1]} {between} {match[3]}"


def _bare_number(written: str) -> str:
    phone_like = written.isdigit() and len(written) >= 10 and not written.endswith("000")
    return _spell_digits(written) if phone_like else _number(written)


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_BLESSING, lambda m: " " + BLESSINGS[m[1]]),
    (_DOTTED_ABBREVIATION, _dotted_abbreviation),
    (_BEFORE_NUMBER, lambda m: BEFORE_NUMBER[m[1]] + " "),
    (_DOCTOR, lambda m: m[1] + " دکتر "),
    (_AFTER_YEAR, lambda m: f"{m['year']} {AFTER_YEAR[m['era']]}{_stop_after(m)}"),
    # dates, phone numbers and times
    (_DATE, lambda m: _date(m[1], m[3], m[4]) or m.group()),
    (_DAY_AND_MONTH, _day_and_month),
    (_POSTAL_CODE, lambda m: "، ".join(_spell_digits(part) for part in m.groups() if part)),
    (_PHONE, _phone),
    (re.compile(rf"(?<![{_EDGE}])(ساعت) (?=\d\d?:\d\d(?!\d))"), rf"\1{KASRA} "),
    (_CLOCK, _time),
    (re.compile(r"(?<=\d) ?: ?(?=\d)"), " به "),
    # money and other numbers
    (_MONEY, _money),
    (_MONEY_SIGN_LAST, _money),
    (_FRACTION, _fraction),
    (_SLASH_FRACTION, _slash_fraction),
    (_HALF, lambda m: f" {_and_half(m[1])} "),
    (_ROMAN, _roman),
    (re.compile(r"(?<=متر) ?\^2(?!\d)"), f"{KASRA} مربع"),
    (re.compile(r"(?<=متر) ?\^3(?!\d)"), f"{KASRA} مکعب"),
    (_ORDINAL, lambda m: f" {_ordinal(m[1])}{m['superlative'] or ''} "),
    (_RANGE, _range),
    (re.compile(r"(?<![\w.)-])-(?=\d)"), " منفی "),
    (re.compile(r"(?<![\w)])(?<![\w)] )\+(?=\d)"), " مثبت "),
    (re.compile(rf"(?<!\d)(?<!\d )% ?({_DECIMAL})"), lambda m: f" {_number(m[1])} درصد "),
    (_UNIT, lambda m: f" {_number(m[1])} {UNITS[m[2]]} "),
    (re.compile(r"\^2(?!\d)"), " به توانِ دو "),
    (re.compile(r"\^3(?!\d)"), " به توانِ سه "),
    (_VERSION, lambda m: f" {' نقطه '.join(map(_cardinal, m.group().split('.')))} "),
    (_BARE_NUMBER, lambda m: f" {_bare_number(m.group())} "),
    # symbols
    (re.compile(r"[=#]{2,}"), " "),
    (re.compile(rf"\.{{2,}}(?=\s*{_LETTER})|\s-+\s|-{{2,}}"), "، "),
    (re.compile(r"[(\[{]|[)\]}](?=\s*\w)"), "، "),
    (re.compile(f"[{re.escape(''.join(SYMBOLS))}]"), lambda m: f" {SYMBOLS[m.group()]} "),
    (re.compile(rf"(?<={_LETTER})'(?={_LETTER})"), ""),
)


# ---- vowel signs -----------------------------------------------------------------------------
# Signs are written only where a reader would guess wrong. They are removed before normalization, so
# that it treats a word the same with and without signs, and restored afterwards.


def carry_signs(written: str, spoken: str) -> str:
    """Return `spoken`, which has no vowel signs, with those of the same words in `written`.

    Both use the same letters. Signs without a letter are dropped.
    """
    signed = [letters_and_marks(word) for word in WORD.findall(written)]
    matcher = SequenceMatcher(
        None,
        [_letters(word) for word in signed],
        [_letters(letters_and_marks(word)) for word in WORD.findall(spoken)],
    )
    source_of = {
        block.b + offset: signed[block.a + offset]
        for block in matcher.get_matching_blocks()
        for offset in range(block.size)
    }
    numbers = itertools.count()
    return WORD.sub(lambda word: _with_signs(word.group(), source_of.get(next(numbers))), spoken)


def without_signs(text: str) -> str:
    return SIGN.sub("", text)


def _letters(word: list[tuple[str, str]]) -> str:
    return "".join(letter for letter, _ in word)


def _with_signs(word: str, source: list[tuple[str, str]] | None) -> str:
    if source is None:
        return word
    signed = ""
    for (letter, own), (_, written) in zip(letters_and_marks(word), source, strict=True):
        marks = SIGN.sub("", own)
        signed += letter + (_signs(letter, written, marks) or own.replace(marks, "")) + marks
    return signed


def _signs(letter: str, written: str, marks: str) -> str:
    """Return at most one vowel and a tashdid; tanvin counts as a vowel."""
    if not _PERSIAN_LETTER.match(letter):
        return ""
    vowel = next((sign for sign in written if sign in VOWEL_MARKS), "")
    return ("" if TANVIN in marks else vowel) + (TASHDID if TASHDID in written else "")


PERSIAN = Language(
    code="fa",
    names=("Persian", "Farsi"),
    normalize=normalize_persian,
    normalize_for_phonemes=partial(normalize_persian, keep_vowel_signs=True),
    phonemes=persian_phonemes,
    espeak_voice="fa",
    scripts=frozenset({"ARABIC"}),
    # The Persian semicolon separates whole clauses.
    sentences=SentenceRules(
        terminators=f"{TERMINATORS}؛",
        abbreviations=(*ABBREVIATIONS, "صص"),
        after_quotations=AFTER_QUOTATIONS,
    ),
    greeting="سلام",
    example="سلام، حال شما چطور است؟",
    demo_file="fa.txt",
)
