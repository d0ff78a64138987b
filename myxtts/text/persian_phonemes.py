"""Persian words to phonemes: vowel signs, exceptions to espeak-ng, the ezafe and stress.

espeak-ng reads a Persian word the same way alone and in a clause, so words are read one by one.
Its stress and vowel length follow no rule of Persian: stress is set here and length is left out.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import NamedTuple

import numpy as np
from num2words import num2words

from myxtts.text import espeak
from myxtts.text.general import HALF_SPACE

TANVIN = "\u064b"
FATHA, ZAMMA, KASRA, TASHDID = "\u064e", "\u064f", "\u0650", "\u0651"
HAMZA_ABOVE = "\u0654"
# Includes the endings -on and -en of Arabic words. Sukun is excluded: with it espeak-ng does not
# find the word in its dictionary, and reads no word better.
VOWEL_MARKS = f"\u064c\u064d{FATHA}{ZAMMA}{KASRA}"
VOWEL_SIGNS = VOWEL_MARKS + TASHDID

_LETTER = r"[^\W\d_]"
_MARKS = f"[{VOWEL_SIGNS}{TANVIN}{HAMZA_ABOVE}]"
WORD = re.compile(rf"(?:{_LETTER}{_MARKS}*)+")
_LETTER_AND_MARKS = re.compile(rf"({_LETTER})({_MARKS}*)")
SIGN = re.compile(f"[{VOWEL_SIGNS}]")

# First version of the text rules with everything in this module.
WHOLE_RULES = 3

Letters = list[tuple[str, str]]

_VOWELS = "ɑaeiou"
_ALEFS = "اآأ"
_NOTHING = ("", "")
_PERSIAN_WORD = re.compile(rf"(?=[ء-ۓ])(?:{WORD.pattern}|{HALF_SPACE})+")
_WRITTEN_EZAFE = re.compile(rf"(?:(?<=ه)(?:{HAMZA_ABOVE}|{HALF_SPACE}ی){KASRA}?|{KASRA})$")

# Words with another meaning after a number, and before an ezafe.
_AFTER_NUMBERS = {"گرم": "ɡeram", "سنت": "sent", "مایل": "mɑjl", "بعدی": "boʔdi"}
_BEFORE_EZAFE = {"دور": "dor", "سبک": "sabk", "کشت": "keʃt", "سیر": "sejr"}
_BEFORE_VERBS = {"اعمال": "eʔmɑl", "خرد": "xord"}
_LIGHT_VERBS = re.compile("کرد|شد|شو|نمود|گرد|می‌(?:کن|شو)|کن(?!ار)")
_NUMBERS = frozenset(
    str(num2words(number, lang="fa"))
    for number in (*range(21), *range(30, 100, 10), *range(100, 1_001, 100))
) | {"میلیون", "میلیارد", "نیم", "ربع", "چند"}

# مرد is the man after them, and else the verb if it ends a clause.
_BEFORE_MAN = (
    frozenset("و یا این آن یک هر هیچ چند کدام همان همین پیر جوان زن چه ای".split()) | _NUMBERS
)
_GO_IN = ("بیا", "بیاید", "بیایید", "بیاد", "برو", "بریم", "بفرمایید")
# They take an ezafe before a number.
_ALWAYS_NUMBERED = frozenset("شماره صفحه فصل پلاک بند تبصره اصل ماده نسخه ردیف نمره رتبه".split())
_NUMBERED = _ALWAYS_NUMBERED | frozenset(
    "ساعت جلد طبقه واحد اتاق سال قرن دهه کلاس درس بخش قسمت مرحله سطر کانال شبکه منطقه ناحیه رقم"
    " عدد سوره آیه".split()
)
_MONTHS = frozenset("فروردین اردیبهشت خرداد تیر مرداد شهریور مهر آبان آذر دی بهمن اسفند".split())
# نه is nine before them, and no elsewhere.
_COUNTED = frozenset(
    "نفر سال ماه روز ساعت دقیقه ثانیه هفته بار هزار میلیون میلیارد درصد متر کیلومتر کیلو گرم تومان"
    " ریال دلار تن عدد دهم ممیز".split()
)
_TIMES_OF_DAY = frozenset("صبح بامداد ظهر عصر غروب شب بعدازظهر".split())
# رو is the face, or to, and not the object marker را.
_BEFORE_FACE = frozenset("از این آن به بر در پیش زیر رو پیاده دو".split())

# Numbers, words of addresses and particles take no ezafe.
_WITHOUT_EZAFE = _NUMBERS | frozenset(
    "تریلیون ممیز دات ات اسلش آندرلاین و که را به از در با تا یا هم این آن هر هیچ چه اگر اما ولی"
    " نیز است نیست بود شد خیلی همین همان چون".split()
)
_PRONOUN = (
    f"(?:{HALF_SPACE}(?:ام|ات|اش|ایم|اید|اند|م|ت|ش|مان|تان|شان)|ها(?:یی|یم|یت|یش|یمان|یتان|یشان))$"
)
_CLITIC = re.compile(f"{HALF_SPACE}ای$|{_PRONOUN}")
# In adjectives such as هسته‌ای this is not an ending.
_NO_CLITIC = (
    "نهایت", "تنهایی", "رهایی", "نهایی", "سی‌ام", "هسته‌ای", "حرفه‌ای", "منطقه‌ای", "رسانه‌ای",
    "دوره‌ای", "ریشه‌ای", "پایه‌ای", "رایانه‌ای", "کلیشه‌ای", "قبیله‌ای", "قهوه‌ای", "شبکه‌ای",
    "ماهواره‌ای", "یارانه‌ای", "بودجه‌ای", "گلخانه‌ای", "توده‌ای", "قاره‌ای", "سلیقه‌ای",
)  # fmt: skip
_BLESSINGS = (
    "صلی الله", "علیه السلام", "علیها السلام", "علیهم السلام", "سلام الله", "رحمت الله", "عجل الله",
)  # fmt: skip

# Endings that words in the list of exceptions may have.
_ENDINGS = {
    "یی": "ji", "ها": "hɑ", "های": "hɑje", "هایی": "hɑji", "هایم": "hɑjam", "هایت": "hɑjat",
    "هایش": "hɑjaʃ", "هایمان": "hɑjemɑn", "هایتان": "hɑjetɑn", "هایشان": "hɑjeʃɑn",
    "تر": "tar", "ترین": "tarin", "ی": "i", "م": "am", "ش": "aʃ", "ام": "am", "اش": "aʃ",
    "ای": "i", "ات": "ɑt", "مان": "emɑn", "تان": "etɑn", "شان": "eʃɑn",
}  # fmt: skip
_MIN_STEM = 4
_IYYAT = re.compile(f"(?<=...)یت(?=$|{HALF_SPACE}|ی|ها|(?:مان|تان|شان|م|ش)$)")
# به‌دلیل, قابل‌قبول
_JOINED = re.compile(f"(?<!\\S)(به|(?:غیر)?قابل){HALF_SPACE}(?=\\S\\S)(?!(?:تون|شون|مون)(?!\\S))")

# Their last consonant is doubled before a vowel.
_DOUBLED = frozenset(
    "حق حد خط حل حس سد رد فن جد حج سن ظن کل محل مقر شک صف کف قد مواد خاص عام تضاد مستقل رب".split()
)
# They end in a consonant before the ezafe: nove.
_ENDS_IN_OV = frozenset("نو جو پرتو خسرو پیرو راهرو تندرو پیشرو رهرو".split())


def persian_phonemes(clause: str, ezafe: bool = True, rules: int = WHOLE_RULES) -> str:
    """Return the phonemes of a clause without punctuation, in IPA with stress.

    A written ezafe is always read. With `ezafe`, so are those that are left unwritten. `rules` is
    the version of the text rules.
    """
    if rules >= WHOLE_RULES:
        clause = _JOINED.sub(r"\1 ", clause)
    words = [_Word.read(written) for written in clause.split()]
    if rules < WHOLE_RULES:
        return _plain_phonemes(words)
    letters = [word.letters for word in words]
    tagged = _unwritten_ezafes(letters) if ezafe else [False] * len(words)
    spoken: list[str] = []
    start = 0
    while start < len(words):
        end, phonemes = _phrase(words, start, tagged)
        *before, last = phonemes.split() or [""]
        spoken += [part if part == "va" else with_stress(part) for part in before]
        word = words[end - 1]
        if word.is_persian:
            takes_ezafe = word.has_ezafe or (tagged[end - 1] and _may_take_ezafe(word, last))
            last = with_stress(last, word.letters, _ezafe(word.letters, last) * takes_ezafe)
        spoken.append(last)
        start = end
    return " ".join(filter(None, spoken))


def _unwritten_ezafes(letters: Sequence[str]) -> list[bool]:
    """Return which words take an unwritten ezafe, corrected for cases the tagger cannot see."""
    tagged = ezafe_words(letters)
    for index, (word, following) in enumerate(itertools.pairwise(letters)):
        before_blessing = " ".join(letters[index + 1 : index + 3]) in _BLESSINGS
        if (
            word in _WITHOUT_EZAFE
            or word.endswith("ً")
            or (_CLITIC.search(word) and not word.endswith(_NO_CLITIC))
            or _is_finite(word)
            or (word in ("نقطه", "منفی", "مثبت") and following in _NUMBERS)
            or before_blessing
        ):
            tagged[index] = False
        if word in _NUMBERED and following in _NUMBERS:
            # دو ساعت ده دقیقه, but طبقه دو واحد ده
            is_counted = index > 0 and letters[index - 1] in _NUMBERS
            is_counted = is_counted and (index < 2 or letters[index - 2] not in _NUMBERED)
            tagged[index] = word in _ALWAYS_NUMBERED or not is_counted
        if following in _TIMES_OF_DAY and (word in _NUMBERS or word in ("نه", "دقیقه")):
            # دو شب are two nights.
            tagged[index] = following != "شب" or "ساعت" in letters[max(index - 6, 0) : index]
        if word == "اول" and following in _MONTHS:
            tagged[index] = True
    return tagged


def _is_finite(word: str) -> bool:
    """Return whether a word is a form of a verb and no noun: دهد, کردند, می‌رود."""
    is_form = word.endswith(("د", "دم", "دیم")) and any(word in forms for forms in _verb_forms())
    return is_form or _IMPERFECT.match(word) is not None


def _plain_phonemes(words: Sequence[_Word]) -> str:
    """Return espeak-ng's phonemes of the words, as older runs were trained."""
    if not any(word.has_ezafe for word in words):
        return espeak.phonemes(" ".join(_spelled(word.core) for word in words), "fa")
    spoken = []
    for word in words:
        phonemes = espeak.phonemes(_spelled(word.core), "fa")
        bare = phonemes.rstrip("ː")
        spoken.append(bare + _ezafe(word.letters, bare) if word.has_ezafe else phonemes)
    return " ".join(filter(None, spoken))


class _Word(NamedTuple):
    core: str
    """Word with the signs that the user wrote, without an ezafe."""
    letters: str
    has_ezafe: bool
    is_persian: bool

    @classmethod
    def read(cls, written: str) -> _Word:
        core = _WRITTEN_EZAFE.sub("", written)
        if len(core) < 2:
            core = written
        is_persian = _PERSIAN_WORD.fullmatch(written) is not None
        return cls(core, SIGN.sub("", core), core != written, is_persian)


def _phrase(words: Sequence[_Word], start: int, tagged: Sequence[bool]) -> tuple[int, str]:
    """Return the end and the phonemes of the longest known phrase, or else of one word."""
    longest = _longest_phrases().get(words[start].core, 1)
    for end in range(min(start + longest, len(words)), start + 1, -1):
        phrase = " ".join(word.core for word in words[start:end])
        if phrase in _exceptions():
            return end, _exceptions()[phrase]
    word = words[start]
    if not word.is_persian:
        return start + 1, espeak.phonemes(word.core, "fa")
    return start + 1, _homograph(words, start, tagged) or _bare_phonemes(word.core)


def _homograph(words: Sequence[_Word], at: int, tagged: Sequence[bool]) -> str | None:
    """Return the phonemes of a word without signs whose neighbors decide how it is read."""
    is_tagged, follows_ezafe = tagged[at], at > 0 and (tagged[at - 1] or words[at - 1].has_ezafe)
    letters = [word.letters for word in words]
    before, after = (["", *letters][at], [*letters, ""][at + 1])
    word = words[at].core
    if word in _AFTER_NUMBERS and before in _NUMBERS:
        return _AFTER_NUMBERS[word]
    if word in _BEFORE_EZAFE and (is_tagged or words[at].has_ezafe):
        return _BEFORE_EZAFE[word]
    if word == "رو" and at and after != "به" and before not in _BEFORE_FACE and not is_tagged:
        return "ro"
    if word in _BEFORE_VERBS and _LIGHT_VERBS.match(after):
        return _BEFORE_VERBS[word]
    if word == "مرد" and at and not after and not follows_ezafe and before not in _BEFORE_MAN:
        return "mord"
    if word == "تو" and not after and before in _GO_IN:
        return "tu"
    if word == "کند" and (after in ("است", "بود", "شد", "شده") or before in ("خیلی", "بسیار")):
        return "kond"
    if word == "کی" and before in ("با", "به", "مال", "برای", "پیش"):
        return "ki"
    if word == "نه":
        ends_number = before == "و" and at > 1 and letters[at - 2] in _NUMBERS
        counts = after in _COUNTED and letters.count("نه") == 1
        return "noh" if ends_number or counts or before in _NUMBERED else None
    return None


@functools.lru_cache(maxsize=16_384)
def _bare_phonemes(core: str) -> str:
    """Return the phonemes of a word without stress, length and ezafe."""
    if "أ" in core and not SIGN.search(core) and core not in _exceptions():
        core = core[:1] + core[1:].replace("أ", "ا")
    if known := _known(core) or _verb(core):
        return known
    phonemes = re.sub("[ˈˌː1]", "", espeak.phonemes(_spelled(core), "fa")).removeprefix("ʔ")
    if "یی" in core:
        phonemes = re.sub("(?<=[ɑuo])i", "ji", phonemes)
    if _IYYAT.search(core):
        phonemes = re.sub("(?<=[^ɑe]i)jat", "jjat", phonemes)
    if "یسم" in core:
        phonemes = phonemes.replace("isam", "ism")
    phonemes = re.sub("j{3,}", "jj", re.sub("^tʃɑhɑr", "tʃahɑr", phonemes))
    # Between vowels there is always a consonant.
    phonemes = re.sub(f"(?<=[{_VOWELS}])i(?=[{_VOWELS}])", "j", phonemes)
    phonemes = re.sub(f"i(?=[{_VOWELS}])", "ij", phonemes)
    phonemes = re.sub("uɑn$", "ovɑn", phonemes)  # بازوان
    return re.sub(f"(?<=[{_VOWELS}])(?=[{_VOWELS}])", "ʔ", phonemes)


def _known(core: str) -> str | None:
    """Return the phonemes of an exception, alone or with an ending."""
    exceptions = _exceptions()
    if core in exceptions:
        return exceptions[core]
    for ending, said in _ENDINGS.items():
        stem = core.removesuffix(ending).removesuffix(HALF_SPACE)
        if core.endswith(ending) and len(stem) >= _MIN_STEM and stem in exceptions:
            last = exceptions[stem][-1]
            if ending == "ی" and last in "ɑu":
                return exceptions[stem] + "j"
            glide = "ʔ" if last == "e" else "j"
            return exceptions[stem] + glide * (last in _VOWELS and said[0] in _VOWELS) + said
    return None


@functools.cache
def _exceptions() -> dict[str, str]:
    return dict(line.split("\t") for line in _lines("persian_words.txt"))


def _lines(name: str) -> list[str]:
    lines = (resources.files("myxtts.text") / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@functools.cache
def _longest_phrases() -> dict[str, int]:
    """Return the number of words of the longest phrase by its first word."""
    phrases = sorted((phrase.split() for phrase in _exceptions()), key=len)
    return {words[0]: len(words) for words in phrases}


def _may_take_ezafe(word: _Word, phonemes: str) -> bool:
    """Return False after ā and u, where an ezafe is always written, as ی."""
    return not (word.letters[-1] in "اآو" and phonemes[-1:] in ("ɑ", "u"))


def _ezafe(letters: str, phonemes: str) -> str:
    """Return the phonemes that an ezafe adds to a word."""
    last = phonemes[-1:]
    if last == "e" and (
        letters[-1] != "ه" or (phonemes.endswith("he") and letters[-2] not in "هح")
    ):
        return ""  # بَرایِ and others are read with it
    if letters in _ENDS_IN_OV:
        return "ve"
    if letters in _DOUBLED and phonemes[-2:-1] != last:
        return last + "e"
    return "je" if last and last in _VOWELS else "e"


# ---- vowel signs -----------------------------------------------------------------------------
# espeak-ng pronounces every sign, so a sign and a letter for the same sound are both pronounced,
# and some endings are lost.


def letters_and_marks(word: str) -> list[tuple[str, str]]:
    """Return each letter of a word with its signs."""
    return _LETTER_AND_MARKS.findall(word)


@functools.lru_cache(maxsize=4_096)
def _spelled(word: str) -> str:
    """Respell a word with vowel signs so that espeak-ng reads it correctly."""
    if not SIGN.search(word):
        return word
    return _joined(_with_silent_he(_with_single_vowels(letters_and_marks(word))))


def _with_single_vowels(letters: Letters) -> Letters:
    """Remove signs that repeat a neighboring letter; put tashdid first, or its name is read."""
    spelled = []
    for index, (letter, marks) in enumerate(letters):
        following, after = (*letters[index + 1 : index + 3], _NOTHING, _NOTHING)[:2]
        kept = "".join(mark for mark in marks if mark != TASHDID)
        if letter == "آ" or (letter in _ALEFS and index > 0):
            kept = kept.translate(dict.fromkeys(map(ord, (FATHA, ZAMMA, KASRA))))
        if following[0] and following[0] in _ALEFS:
            kept = kept.replace(FATHA, "")
        if following[0] == "ؤ" or (following == ("و", "") and after[0] != "ا"):
            kept = kept.replace(ZAMMA, "")
        if following == ("ی", "") and after[0] == "ا":
            kept = kept.replace(KASRA, "")
        spelled.append((letter, TASHDID + kept if TASHDID in marks else kept))
    return spelled


def _with_silent_he(letters: Letters) -> Letters:
    """Write a final he that stands for e as a sign: after signs it is read as h, or not at all."""
    if len(letters) < 2:
        return letters
    *start, (letter, marks), (last, last_marks) = letters
    is_silent = (
        last == "ه"
        and not last_marks
        and marks.strip(TASHDID) in ("", KASRA)
        and _ends_in_e("".join(letter for letter, _ in letters))
    )
    if not is_silent or _ends_in_e(_joined([*start, (letter, marks), (last, "")])):
        return letters
    said = (letter, marks.replace(KASRA, "") + KASRA)
    return [*start, said, (last, "")] if letter == "و" else [*start, said]


def _joined(letters: Letters) -> str:
    return "".join(letter + marks for letter, marks in letters)


def _ends_in_e(word: str) -> bool:
    return espeak.phonemes(word, "fa").rstrip("ː").endswith("e")


# ---- stress ----------------------------------------------------------------------------------

_UNSTRESSED = frozenset("و که را به از در با بر تا یا هم است ی".split())
_FIRST = frozenset(
    "اگر ولی اما بله آری آره خیلی شاید باید نباید لیکن بلکه مگر یعنی حتی زیرا وقتی کسی چیزی بعضی"
    " برخی یکی کمی آیا هرگز اینک چرا نیستم نیستی نیستیم نیستید نیستند هستم هستی هستیم هستید"
    " هستند".split()
)
_LONG_CLITIC = re.compile("[^ɑaeiou]?e[mtʃ]ɑn$")

_IMPERFECT = re.compile(f"(بر|در|باز|فرا|فرو|وا)?(ن?می{HALF_SPACE}.*)")
_PREVERBS = {"بر": "bar", "در": "dar", "باز": "bɑz", "فرا": "farɑ", "فرو": "foru", "وا": "vɑ"}

_VERB_ENDINGS = {
    "": "", "م": "am", "ی": "i", "د": "ad", "یم": "im", "ید": "id", "ند": "and", "ه": "e",
    "ن": "an", "ین": "in",
}  # fmt: skip
_PAST_ENDINGS = ("م", "ی", "یم", "ید", "ند")
_PRESENT_ENDINGS = (*_PAST_ENDINGS, "د", "ه", "ن", "ین")
_PREFIXES = {
    "": "", "ب": "be", "ن": "na", f"می{HALF_SPACE}": "mi", f"نمی{HALF_SPACE}": "nemi", "می": "mi",
    "نمی": "nemi",
}  # fmt: skip
_IMPERFECT_PREFIXES = tuple(prefix for prefix in _PREFIXES if "می" in prefix)
_ROUNDED = ("kon", "xor")  # بکن, بخور

# Words with the form of a verb.
_NO_VERBS = frozenset(
    "شدید بدهی ببر بیان نبرد ندا نشست کاری باری بازی خوابی جنگی نامی مردم مردی کندی کشتی نزد نزدی"
    " برنج برنجی میدانی میان نمونه نشین نشینی نشون بتون بدوی نهم بنام بخار"
    " نکنه نگردان بستی گشتی نبردی بردار".split()
)


def with_stress(phonemes: str, letters: str = "", ezafe: str = "") -> str:
    """Put the stress mark where Persian has it.

    That is the last syllable of a noun's stem, and the prefix or the last syllable of a verb's
    stem. Particles are unstressed.
    """
    vowels = [index for index, sound in enumerate(phonemes) if sound in _VOWELS]
    if letters in _UNSTRESSED or not vowels:
        return phonemes + ezafe
    syllable = vowels[_stressed_syllable(letters, phonemes, len(vowels))]
    return f"{phonemes[:syllable]}ˈ{phonemes[syllable:]}{ezafe}"


def _stressed_syllable(letters: str, phonemes: str, syllables: int) -> int:
    """Return the index of the stressed syllable."""
    first, before_last = _verb_forms()
    if letters in _FIRST or letters in first:
        return 0
    if prefix := _IMPERFECT.match(letters):
        return min(int(bool(prefix[1])), syllables - 1)
    unstressed = 0
    if letters in before_last or (phonemes.endswith("e") and letters and letters[-1] != "ه"):
        unstressed = 1  # an ending of a verb, or an ezafe as in بَرایِ
    elif _LONG_CLITIC.search(phonemes) and syllables > 3 - (HALF_SPACE in letters):
        unstressed = 2
    elif _CLITIC.search(letters) and not letters.endswith(_NO_CLITIC):
        unstressed = 1
    return max(syllables - 1 - unstressed, 0)


@functools.cache
def _verb_forms() -> tuple[dict[str, str], dict[str, str]]:
    """Return the phonemes of forms stressed on the first syllable, and on the last but one.

    Without phonemes espeak-ng reads the form right.
    """
    first: dict[str, str] = {}
    before_last: dict[str, str] = {}

    def add(prefix: str, stem: str, said: str, ending: str) -> None:
        said_prefix, said_ending = _PREFIXES[prefix], _VERB_ENDINGS[ending]
        if prefix in ("ب", "ن"):
            stem = _after_prefix(stem)
        if said[0] in _VOWELS and prefix:
            said_prefix += "j"
        if prefix == "ب":
            harmony = "i" if (said_prefix + said)[2] == "j" else "o" if said in _ROUNDED else "e"
            said_prefix = said_prefix.replace("e", harmony)
        if said[-1] == "ɑ":
            said_ending = re.sub("^i", "j", said_ending).lstrip("a")
        forms = first if prefix else before_last
        forms.setdefault(prefix + stem + ending, said_prefix + said + said_ending)

    for line in _lines("persian_verbs.txt"):
        past, said_past, starred, said_present = line.split()
        present = starred.rstrip("*")
        if past != "-":
            # نخورد is past more often, می‌خورد is present.
            for ending in ("", *_PAST_ENDINGS, "ه"):
                add("ن", past, said_past, ending)
        prefixes = ("ب", "ن", *_IMPERFECT_PREFIXES) if len(present) > 1 else _IMPERFECT_PREFIXES
        for ending in _present_endings(past, present, said_present):
            for prefix in prefixes:
                add(prefix, present, said_present, ending)
            if starred != present:
                before_last[present + ending] = ""
        for prefix in ("ب", "ن"):
            if present[-1] not in "وهی" and past != "-":
                add(prefix, present, said_present, "")
            for imperative in (present, present.removesuffix("ی")):
                first.setdefault(prefix + _after_prefix(imperative), "")
        if past != "-":
            for ending in _PAST_ENDINGS:
                add("", past, said_past, ending)
            for prefix in _IMPERFECT_PREFIXES:
                for ending in ("", *_PAST_ENDINGS, "ن"):
                    add(prefix, past, said_past, ending)
    for forms in (first, before_last):
        for word in _NO_VERBS:
            forms.pop(word, None)
    return first, before_last


def _after_prefix(stem: str) -> str:
    """Return how a stem is spelled after ب and ن: بیا, نیفتاد."""
    return re.sub("^ا", "ی", re.sub("^آ", "یا", stem))


def _present_endings(past: str, present: str, said: str) -> Sequence[str]:
    if present == "ا" or present == "خوا":
        return ("م", "ی", "د", "یم", "ین", "ن")  # and not خواند
    if past == "-":
        return ("م", "ی", "یم", "ید", "ه", "ن", "ین")
    is_long = present in ("رو", "شو", "دو") or said[-1] == "j"  # میشون is no form of شو
    return _PRESENT_ENDINGS[:6] if is_long else _PRESENT_ENDINGS


def _verb(core: str) -> str | None:
    """Return the phonemes of a form of a known verb."""
    first, before_last = _verb_forms()
    preverb, form = "", core
    if (match := _IMPERFECT.fullmatch(core)) and match[1]:
        preverb, form = _PREVERBS[match[1]], match[2]
    said = first.get(form) or before_last.get(form)
    return said and preverb + said


_BEFORE, _AFTER = "<", ">"


def ezafe_words(words: Sequence[str]) -> list[bool]:
    """Return, for each word of a clause without punctuation, whether it takes an ezafe.

    Words are in the standard spelling, without vowel signs. The last word never takes one.
    """
    weights, (stay, start, stop, continued) = _model()
    # Scores of the best labelings in which the current word has no ezafe, or has one.
    without, having = 0.0, 0.0
    sources: list[tuple[bool, bool]] = []
    for index, features in enumerate(clause_features(words)):
        score = sum(weights.get(feature, 0.0) for feature in features)
        if index == 0:
            having = score
            sources.append((False, False))
            continue
        sources.append((having + stop > without + stay, having + continued > without + start))
        without, having = (
            max(without + stay, having + stop),
            max(without + start, having + continued) + score,
        )
    labels = [False] * len(words)
    label = False
    for index in range(len(words) - 1, -1, -1):
        labels[index] = label
        label = sources[index][label]
    return labels


def clause_features(words: Sequence[str]) -> Iterator[list[str]]:
    """Yield the features of each word: itself, its neighbors, their beginnings and ends."""
    padded = (_BEFORE, _BEFORE, *words, _AFTER, _AFTER)
    for before_that, before, word, after, after_that in zip(
        padded, padded[1:], padded[2:], padded[3:], padded[4:], strict=False
    ):
        yield [
            "b",
            "w" + word,
            "p" + before,
            "n" + after,
            "P" + before_that,
            "N" + after_that,
            f"wn{word} {after}",
            f"pw{before} {word}",
            *(f"s{word[-length:]}" for length in (1, 2, 3, 4) if length < len(word)),
            *(f"f{word[:length]}" for length in (1, 2, 3) if length < len(word)),
            *(f"ns{after[-length:]}" for length in (1, 2, 3) if length < len(after)),
            *(f"nf{after[:length]}" for length in (1, 2, 3) if length < len(after)),
            *(f"ps{before[-length:]}" for length in (1, 2, 3) if length < len(before)),
            f"sn{word[-2:]} {after[:3]}",
            f"ss{word[-2:]} {after[-2:]}",
        ]


@functools.cache
def _model() -> tuple[dict[str, float], tuple[float, float, float, float]]:
    """Return weights by feature, and those of the pairs: none-none, none-ezafe, and so on."""
    stored = resources.files("myxtts") / "weights" / "ezafe" / "weights.npz"
    with stored.open("rb") as file, np.load(file) as arrays:
        names = arrays["features"].tobytes().decode().split("\n")
        weights = dict(zip(names, arrays["weights"].astype(float).tolist(), strict=True))
        stay, start, stop, continued = arrays["transitions"].astype(float).tolist()
    return weights, (stay, start, stop, continued)
