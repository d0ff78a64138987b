"""Uses a clip that is over the length limits in parts, cut at pauses (data.long_clips: split).

`data.corpus.pause_matching` knows where that is safe; this module chooses among those places.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator

from myxtts.audio.files import FloatArray, trim_silence
from myxtts.audio.mel_geometry import mel_frame_count
from myxtts.config.config import XTTSConfig
from myxtts.data.corpus.checks import OVER_LIMITS, CheckedClip, check_fit
from myxtts.data.corpus.dataset import Utterance
from myxtts.data.corpus.pause_matching import Cut, certain_cuts
from myxtts.text.tokenizer import EDGE_TOKENS, text_symbols

# A recording of minutes has too many pauses to be sure of each.
_LONGEST_CLIP_SECONDS = 60.0
# A word or two between pauses: too little context to learn from.
_SHORTEST_PART_SECONDS = 1.0
_SPACE_AFTER_MARK = re.compile(r"(?<=[^\w\s])\s+")


@dataclasses.dataclass(frozen=True)
class Part:
    text: str
    symbols: tuple[str, ...]
    waveform: FloatArray


def parts_of(item: Utterance, clip: CheckedClip, config: XTTSConfig) -> tuple[Part, ...]:
    """The clip as training uses it: whole, in parts, or nothing if it must be left out."""
    if not clip.rejections:
        return (Part(item.text, clip.symbols, clip.waveform),)
    is_only_long = {rejection.reason for rejection in clip.rejections} <= OVER_LIMITS
    seconds = clip.waveform.size / config.audio.sample_rate_hz
    if config.data.long_clips != "split" or not is_only_long or seconds > _LONGEST_CLIP_SECONDS:
        return ()
    return _fewest_parts(item, clip, config)


def _fewest_parts(item: Utterance, clip: CheckedClip, config: XTTSConfig) -> tuple[Part, ...]:
    """As few parts as the limits allow, the longest of them as short as possible."""
    ends = [
        (0, Cut(-1, 0)),
        *_cuts_of_text(item, clip, config),
        (len(item.text), Cut(len(clip.symbols), clip.waveform.size)),
    ]

    def part(first: int, last: int) -> Part | None:
        (text_start, start), (text_end, end) = ends[first], ends[last]
        waveform = clip.waveform[start.sample : end.sample]
        if config.audio.trim_silence_db is not None:
            waveform = trim_silence(
                waveform, config.audio.sample_rate_hz, config.audio.trim_silence_db
            )
        symbols = clip.symbols[start.symbol + 1 : end.symbol]
        found = Part(item.text[text_start:text_end].strip(), symbols, waveform)
        return found if _is_usable(found, item, config) else None

    @functools.cache
    def best(last: int) -> tuple[int, int, tuple[Part, ...]] | None:
        """Number of parts, samples of the longest, and the parts up to a place."""
        if last == 0:
            return 0, 0, ()
        ways = []
        for first in range(last):
            before, added = best(first), part(first, last)
            if before is not None and added is not None:
                count, longest, parts = before
                ways.append((count + 1, max(longest, added.waveform.size), (*parts, added)))
        return min(ways, key=lambda way: way[:2], default=None)

    found = best(len(ends) - 1)
    return found[2] if found else ()


def _cuts_of_text(
    item: Utterance, clip: CheckedClip, config: XTTSConfig
) -> Iterator[tuple[int, Cut]]:
    """Cuts with their place in the text, as far as both sides sound as in the whole."""
    cuts = {
        cut.symbol: cut
        for cut in certain_cuts(clip.symbols, clip.waveform, config.audio.sample_rate_hz)
    }
    for after_mark in _SPACE_AFTER_MARK.finditer(item.text):
        place = after_mark.start()
        left, right = (
            text_symbols(side, item.language, config.text.tokens)
            for side in (item.text[:place], item.text[place:])
        )
        if len(left) in cuts and (*left, " ", *right) == clip.symbols:
            yield place, cuts[len(left)]


def _is_usable(part: Part, item: Utterance, config: XTTSConfig) -> bool:
    most_frames = config.data.max_mel_frames
    frames = mel_frame_count(part.waveform.size, config.audio)
    return (
        part.waveform.size >= _SHORTEST_PART_SECONDS * config.audio.sample_rate_hz
        and len(part.symbols) + EDGE_TOKENS <= config.data.max_text_length
        and (most_frames is None or frames <= most_frames)
        and not any(check_fit(item, part.symbols, part.waveform, config))
    )
