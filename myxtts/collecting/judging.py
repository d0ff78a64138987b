"""Which clips are trained on, which somebody should listen to, and why.

A text that does not belong to its clip does harm in training, so a doubt is enough to put a clip
aside. Each doubt has its figure.
"""

from __future__ import annotations

import difflib
import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from myxtts.audio.files import FloatArray
from myxtts.collecting.script_alignment import Script, find_in_script
from myxtts.collecting.transcribers import tidy
from myxtts.collecting.voices import (
    ClipVoice,
    group_voices,
    is_a_voice,
    likeness_of_parts,
    middle_of,
    nearest_voice,
)
from myxtts.errors import DataError
from myxtts.evaluation.recogniser import bare_words
from myxtts.text.languages import other_script
from myxtts.text.tokenizer import is_spoken, text_symbols

KEPT, REVIEW, DROPPED = "kept", "review", "dropped"
# Phonemes per second of speech, beside the median of all clips.
_SLOWEST, _FASTEST = 0.62, 1.6
_LEAST_CLIPS_FOR_A_MEDIAN = 8
_LEAST_AGREEMENT = 1.0
_LEAST_AGREEMENT_WITH_SCRIPT = 0.6
# Similarity of a clip's parts to its voice, below that of the median clip. Where others are heard,
# that they speak at the same time is likelier.
_MOST_BELOW_USUAL = 0.07
_MOST_BELOW_USUAL_WITH_OTHERS = 0.05
# Agreement of text and sound, beside the median of all clips; a model that finds fewer texts in
# their sound cannot judge.
_LEAST_OF_USUAL_AGREEMENT = 0.5
_LEAST_USUAL_AGREEMENT = 0.15
# A recogniser that is lost repeats itself.
_MOST_REPEATS = 4


@dataclass
class Clip:
    """A clip of the corpus, and what became of it."""

    id: str
    source: str
    start_seconds: float
    seconds: float
    speech_seconds: float
    figures: dict[str, float]
    speaker: str
    language: str
    text: str = ""
    second_text: str | None = None
    status: str = KEPT
    reason: str = ""
    detail: str = ""

    def put(self, status: str, reason: str, detail: str = "") -> None:
        self.status, self.reason, self.detail = status, reason, detail


def choose_voices(
    clips: Sequence[Clip],
    voices: Mapping[str, ClipVoice],
    wanted: FloatArray | None,
    *,
    all_speakers: bool,
) -> list[str]:
    """Drops the clips of other voices, or names each voice; returns what to tell of it."""
    heard = [clip for clip in clips if clip.id in voices]
    for clip in clips:
        if clip.id not in voices:
            clip.put(REVIEW, "no voice found")
    if not heard:
        return []
    every = np.stack([voices[clip.id].vector for clip in heard])
    groups = group_voices(every, [clip.seconds for clip in heard])
    shares = ", ".join(
        f"{sum(heard[index].seconds for index in group) / 60:.1f}" for group in groups[:10]
    )
    with_others = len(groups) > 1
    told = f"Voices: {len(groups)}, minutes of each: {shares}"
    if all_speakers:
        for number, group in enumerate(groups, 1):
            for index in group:
                heard[index].speaker += f"-{number}"
                if not is_a_voice(group):
                    heard[index].put(REVIEW, "voice of few clips")
            _put_mixed_aside([heard[index] for index in group], voices, with_others=with_others)
        return [told]
    kept = 0 if wanted is None else nearest_voice(groups, every, wanted)
    mean = every[groups[kept]].mean(axis=0)
    for number, group in enumerate(groups):
        for index in group if number != kept else ():
            alike = float(every[index] @ mean / np.linalg.norm(mean))
            heard[index].put(DROPPED, "another voice", f"similarity {alike:.2f} to the kept voice")
    _put_mixed_aside([heard[index] for index in groups[kept]], voices, with_others=with_others)
    return [told] if with_others else []


def _put_mixed_aside(
    clips: Sequence[Clip], voices: Mapping[str, ClipVoice], *, with_others: bool
) -> None:
    """Of the clips of one voice, those in which somebody else speaks too."""
    if len(clips) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return
    middle = middle_of(np.stack([voices[clip.id].vector for clip in clips]))
    likeness = {clip.id: likeness_of_parts(voices[clip.id], middle) for clip in clips}
    usual = statistics.median(likeness.values())
    below = _MOST_BELOW_USUAL_WITH_OTHERS if with_others else _MOST_BELOW_USUAL
    for clip in clips:
        if likeness[clip.id] < usual - below:
            detail = f"similarity {likeness[clip.id]:.2f} of its parts, {usual:.2f} is usual here"
            clip.put(REVIEW, "more than one voice", detail)


def judge_agreement(clips: Sequence[Clip], agreements: Mapping[str, float]) -> list[str]:
    """Puts aside the clips whose text is hardly found in their sound; returns what to tell."""
    if len(agreements) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return []
    usual = statistics.median(agreements.values())
    if usual < _LEAST_USUAL_AGREEMENT:
        return [
            f"The base model does not follow this speech (agreement {usual:.2f}): it was not asked "
            "which texts are wrong"
        ]
    for clip in clips:
        found = agreements.get(clip.id, usual)
        if found < _LEAST_OF_USUAL_AGREEMENT * usual:
            detail = f"agreement {found:.2f} by the base model, {usual:.2f} is usual here"
            clip.put(REVIEW, "text and sound disagree", detail)
    return []


def take_texts_from(script: Script, clips: Sequence[Clip], language: str) -> None:
    """The script wins over the recogniser, where the two are of the same words.

    Clips that are not kept stay as they are; they tell where the others begin and end.
    """
    by_source: dict[str, list[Clip]] = {}
    for clip in clips:
        by_source.setdefault(clip.source, []).append(clip)
    for same in by_source.values():
        same.sort(key=lambda clip: clip.start_seconds)
        words = [bare_words(clip.text, language).split() for clip in same]
        for clip, place in zip(same, find_in_script(words, script), strict=True):
            if clip.status != KEPT:
                continue
            clip.second_text = None
            if place is None or place.agreement < _LEAST_AGREEMENT_WITH_SCRIPT:
                found = "" if place is None else f"{place.agreement:.0%} of the words agree"
                clip.put(REVIEW, "not in the script", found)
                continue
            clip.text = tidy(place.text)
            if not place.certain_edges:
                clip.put(REVIEW, "first or last word uncertain", "the script has more words here")


def judge_texts(clips: Sequence[Clip], language: str) -> None:
    """Puts aside the clips whose text may be wrong."""
    rates: dict[str, float] = {}
    for clip in clips:
        doubt = _doubt_of_text(clip, language)
        if doubt is not None:
            clip.put(REVIEW, *doubt)
            continue
        rates[clip.id] = _spoken_symbols(clip.text, language) / max(clip.speech_seconds, 0.1)
    if len(rates) < _LEAST_CLIPS_FOR_A_MEDIAN:
        return
    usual = statistics.median(rates.values())
    for clip in clips:
        rate = rates.get(clip.id)
        if rate is not None and not _SLOWEST * usual <= rate <= _FASTEST * usual:
            detail = f"{rate:.1f} phonemes per second of speech, {usual:.1f} is usual here"
            clip.put(REVIEW, "text and duration disagree", detail)


def _doubt_of_text(clip: Clip, language: str) -> tuple[str, str] | None:
    words = bare_words(clip.text, language).split()
    if not words:
        return "no words recognised", ""
    if other_script(clip.text, language) is not None:
        return "text in another script", ""
    try:
        if not _spoken_symbols(clip.text, language):
            return "no words recognised", ""
    except DataError as error:
        return "no pronunciation", str(error)
    if _repeats(words) >= _MOST_REPEATS:
        return "words repeated", "the recogniser may have been lost"
    if clip.second_text is not None:
        again = bare_words(clip.second_text, language).split()
        agreement = difflib.SequenceMatcher(None, words, again, autojunk=False).ratio()
        if agreement < _LEAST_AGREEMENT:
            return "uncertain words", f"two hearings agree to {agreement:.0%}: {clip.second_text}"
    return None


def _spoken_symbols(text: str, language: str) -> int:
    return sum(map(is_spoken, text_symbols(text, language, "phonemes")))


def _repeats(words: Sequence[str]) -> int:
    """Length of the longest run of one word."""
    longest = run = 1
    for before, word in itertools.pairwise(words):
        run = run + 1 if word == before else 1
        longest = max(longest, run)
    return longest


def count_reasons(clips: Iterable[Clip], status: str) -> Counter[str]:
    return Counter(clip.reason for clip in clips if clip.status == status)
