"""Reads the part of SSML that people use: spans of text with a language and a speed.

Breaks and phonemes become the marks of `text.markup`. Tags that are not known are named in a
warning, and their text is spoken.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from myxtts.errors import DataError
from myxtts.text.markup import MAX_PAUSE_SECONDS

_log = logging.getLogger(__name__)

_START = re.compile(r"\s*(<\?xml[^>]*>\s*)?<speak\b")
_BREAKS = {"none": 0.0, "x-weak": 0.1, "weak": 0.2, "medium": 0.4, "strong": 0.7, "x-strong": 1.0}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.25, "x-fast": 1.5}
_MAX_SPEED_CHANGE = 4.0
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Span(NamedTuple):
    text: str
    language: str | None
    """None is that of the whole text."""
    speed: float = 1.0


def is_ssml(text: str) -> bool:
    return _START.match(text) is not None


def read_ssml(text: str) -> list[Span]:
    """Return the spans of a `<speak>` element; neighbors of one kind are joined."""
    if "<!" in re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL):
        raise DataError("SSML: found a declaration (<!...), expected elements and text only")
    try:
        root = ElementTree.fromstring(text.strip())
    except ElementTree.ParseError as error:
        line, column = error.position
        raise DataError(
            f"SSML: line {line}, column {column + 1}: not valid XML ({error})"
        ) from None
    unknown: set[str] = set()
    spans: list[Span] = []
    for span in _spans(root, Span("", None), unknown):
        if spans and spans[-1][1:] == span[1:]:
            span = span._replace(text=spans.pop().text + span.text)
        spans.append(span)
    if unknown:
        _log.warning("SSML: spoken without their tags: %s", ", ".join(sorted(unknown)))
    # A line break within XML is a space; those of paragraphs and sentences are marked.
    return [span._replace(text=_clean(span.text)) for span in spans if span.text.strip()]


_PARAGRAPH, _SENTENCE = "\ue000", "\ue001"


def _clean(text: str) -> str:
    text = re.sub(r"\s+", " ", text)
    return text.replace(_PARAGRAPH, "\n\n").replace(_SENTENCE, "\n")


def _spans(element: ElementTree.Element, around: Span, unknown: set[str]) -> Iterator[Span]:
    tag = element.tag.rpartition("}")[2]
    inner, content, after = around, element.text or "", ""
    if element.get(_LANGUAGE):
        inner = inner._replace(language=element.get(_LANGUAGE))
    match tag:
        case "speak" | "lang":
            pass
        case "p":
            after = _PARAGRAPH
        case "s":
            after = _SENTENCE
        case "break":
            content = f" [pause {_break_seconds(element):g}] "
        case "phoneme":
            if element.get("alphabet", "ipa") != "ipa":
                raise DataError(f"<phoneme>: found {element.get('alphabet')!r}, expected ipa")
            content = f" [[{_attribute(element, 'ph')}]] "
        case "sub":
            content = _attribute(element, "alias")
        case "say-as":
            content = _said_as(element, _text_of(element))
        case "prosody":
            inner = inner._replace(speed=inner.speed * _speed(element.get("rate", "medium")))
            unknown |= {f"prosody {name}" for name in set(element.keys()) - {"rate"}}
        case _:
            unknown.add(tag)
    yield inner._replace(text=content)
    if tag not in ("phoneme", "sub", "say-as"):  # they replace their text
        for child in element:
            yield from _spans(child, inner, unknown)
            yield inner._replace(text=child.tail or "")
    yield inner._replace(text=after)


def _text_of(element: ElementTree.Element) -> str:
    return "".join(element.itertext()).strip()


def _attribute(element: ElementTree.Element, name: str) -> str:
    value = element.get(name, "").strip()
    if not value:
        tag = element.tag.rpartition("}")[2]
        raise DataError(f'<{tag}>: has no {name}, expected <{tag} {name}="...">')
    return value


def _break_seconds(element: ElementTree.Element) -> float:
    time = element.get("time")
    if time is None:
        strength = element.get("strength", "medium")
        if strength not in _BREAKS:
            raise DataError(f"<break>: found {strength!r}, allowed: {', '.join(_BREAKS)}")
        return _BREAKS[strength]
    number = re.fullmatch(r"\+?(\d*\.?\d+)(ms|s)", time.strip())
    seconds = float(number[1]) / (1_000 if number[2] == "ms" else 1) if number else -1.0
    if not 0 <= seconds <= MAX_PAUSE_SECONDS:
        raise DataError(
            f"<break>: found {time!r}, expected a time up to {MAX_PAUSE_SECONDS:g}s, such as 500ms"
        )
    return seconds


def _speed(rate: str) -> float:
    rate = rate.strip()
    number = re.fullmatch(r"([+-]?)(\d*\.?\d+)(%?)", rate)
    speed = _RATES.get(rate, 0.0)
    if number:
        speed = float(number[2]) / (100 if number[3] else 1)
        if number[1]:
            speed = 1 + float(f"{number[1]}{speed}")
    if not 1 / _MAX_SPEED_CHANGE <= speed <= _MAX_SPEED_CHANGE:
        raise DataError(
            f"<prosody>: found rate {rate!r}, expected {', '.join(_RATES)}, 80% or +20%"
        )
    return speed


def _said_as(element: ElementTree.Element, text: str) -> str:
    kind, order = element.get("interpret-as", ""), element.get("format", "")
    if kind in ("characters", "spell-out", "verbatim"):
        return " ".join(it.upper() for it in text if not it.isspace())
    if kind == "telephone":
        groups = re.findall(r"\+|\d+|[^\W\d]+", text)
        return ", ".join(" ".join(group) for group in groups).replace("+, ", "+ ")
    numbers = re.findall(r"\d+", text)
    if kind == "date" and sorted(order) == ["d", "m", "y"] and len(numbers) == len(order):
        parts = dict(zip(order, numbers, strict=True))
        # Languages read this order without doubt.
        return f"{parts['y']}-{parts['m']:0>2}-{parts['d']:0>2}"
    if kind not in ("date", "cardinal", "number"):
        _log.warning("SSML: <say-as interpret-as=%r> is read as it is written", kind)
    return text
