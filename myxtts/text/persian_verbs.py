"""Forms of common Persian verbs: which words are verbs, and where those are stressed."""

from __future__ import annotations

import functools
import re

from myxtts.text.characters import HALF_SPACE

IMPERFECT = re.compile(f"(?:بر|در|باز|فرا|فرو|وا)?(ن?می){HALF_SPACE}")

# Past and present stem of verbs. A star: the present is also used without a prefix.
_VERBS = """
    رفت رو* گفت گو شد شو* کرد کن* بود باش* داشت دار* دید بین آمد آی داد ده زد زن* گرفت گیر* خورد خور
    برد بر آورد آور گذاشت گذار خواست خواه* توانست توان دانست دان نوشت نویس خواند خوان ماند مان
    رسید رس* شنید شنو خرید خر فروخت فروش ساخت ساز کشید کش کشت کش افتاد افت نشست نشین ایستاد ایست
    گشت گرد یافت یاب* پرسید پرس ترسید ترس فهمید فهم شناخت شناس انداخت انداز پذیرفت پذیر شکست شکن
    بست بند دوید دو پرید پر خوابید خواب خندید خند پوشید پوش نوشید نوش کوشید کوش جنگید جنگ پخت پز
    سوخت سوز آموخت آموز ریخت ریز گریخت گریز پرداخت پرداز* نواخت نواز باخت باز شتافت شتاب کوبید کوب
    گذشت گذر سپرد سپار شمرد شمار فشرد فشار افزود افزای گشود گشای نمود نمای ربود ربای پیمود پیمای
    فرستاد فرست نهاد نه دوخت دوز فرمود فرمای بخشید بخش چید چین گزید گزین رقصید رقص کاشت کار
    پیوست پیوند جست جوی برخاست برخیز کند کن راند ران نشاند نشان رساند رسان گرداند گردان چرخید چرخ
    دزدید دزد بوسید بوس ورزید ورز نامید نام تابید تاب بارید بار پیچید پیچ پاشید پاش سنجید سنج
    لرزید لرز چسبید چسب گریست گری کاست کاه
""".split()
_ENDS_OF_PAST = ("م", "ی", "یم", "ید", "ند")
_ENDS_OF_PRESENT = ("م", "ی", "د", "یم", "ید", "ند", "ه", "ن", "ین")
# Nouns and adjectives with the form of a verb.
_NO_VERBS = frozenset("شدید بدهی ببر بیان نبرد ندا نشست کاری باری بازی خوابی جنگی نامی".split())


@functools.lru_cache(maxsize=16_384)
def is_verb(word: str) -> bool:
    """Return whether a word has the form of a finite verb."""
    first, before_last = verb_forms()
    return word in first or word in before_last or word in _others() or bool(IMPERFECT.match(word))


@functools.cache
def verb_forms() -> tuple[frozenset[str], frozenset[str]]:
    """Return forms that are stressed on the first syllable, and on the last but one."""
    first: set[str] = set()
    before_last: set[str] = set()
    for past, starred in zip(_VERBS[::2], _VERBS[1::2], strict=True):
        present = starred.rstrip("*")
        before_last |= {past + end for end in _ENDS_OF_PAST}
        if starred != present:
            before_last |= {present + end for end in _ENDS_OF_PRESENT}
        # ب and ن before an alef: بیا, نیفتاد
        short = {stem: re.sub("^آ", "یا", re.sub("^ا", "ی", stem)) for stem in (past, present)}
        first |= {"ن" + short[past] + end for end in ("", "ه", *_ENDS_OF_PAST)}
        first |= {sign + short[present] + end for sign in "بن" for end in ("", *_ENDS_OF_PRESENT)}
        first |= {
            sign + stem + end
            for sign in ("می", "نمی")
            for stem, ends in ((past, ("", *_ENDS_OF_PAST)), (present, _ENDS_OF_PRESENT))
            for end in ends
        }
    return frozenset(first - _NO_VERBS), frozenset(before_last - _NO_VERBS)


@functools.cache
def _others() -> frozenset[str]:
    """Return the third person of the past, the perfect, and forms of to be."""
    perfect = ("ام", "ای", "ایم", "اید", "اند")
    return frozenset(_VERBS[::2]) | {
        *(f"{past}ه{HALF_SPACE}{end}" for past in _VERBS[::2] for end in perfect),
        *"است نیست هست هستم هستی هستیم هستید هستند باید نباید نیستم نیستند خواهد خواهند".split(),
    }
