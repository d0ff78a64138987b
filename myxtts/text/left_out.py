"""Symbols of a text that are not spoken, such as emoji."""

from __future__ import annotations

import functools
import unicodedata
from collections import Counter

from myxtts.text.normalise import normalise
from myxtts.wording import plural_count

_SHOWN_SYMBOLS = 10


def left_out_symbols(text: str, language: str) -> Counter[str]:
    """Emoji, arrows, stars and the like that have no words in this language."""
    symbols = Counter(it for it in text if unicodedata.category(it) in ("So", "Sm", "Sc"))
    return Counter({it: count for it, count in symbols.items() if not _is_spoken(it, language)})


def describe_left_out(symbols: Counter[str]) -> str:
    shown = " ".join(symbol for symbol, _ in symbols.most_common(_SHOWN_SYMBOLS))
    more = " ..." if len(symbols) > _SHOWN_SYMBOLS else ""
    return f"{plural_count(symbols.total(), 'symbol')} left out of speech: {shown}{more}"


@functools.lru_cache(maxsize=4_096)
def _is_spoken(symbol: str, language: str) -> bool:
    return normalise(f"1 {symbol} 2", language) != normalise("1 2", language)
