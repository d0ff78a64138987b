"""Long clips in parts, on clips of the demo corpus laid end to end: the right cuts are known."""

import dataclasses
from itertools import pairwise

import numpy as np
import pytest

from myxtts.audio.files import clean_recording, read_audio
from myxtts.audio.writing import write_audio
from myxtts.config.config import XTTSConfig
from myxtts.data.corpus.checks import check_clip
from myxtts.data.corpus.dataset import LJSpeechDataset
from myxtts.data.corpus.parts import parts_of
from myxtts.data.corpus.pause_matching import certain_cuts
from myxtts.data.features.prepare import prepare
from myxtts.text.tokenizer import text_symbols

RATE_HZ = 22_050
GAP_SECONDS = 0.4


@pytest.fixture(scope="module")
def clips(demo_corpus):
    """Text and trimmed samples of clips of one speaker."""
    items = list(LJSpeechDataset(demo_corpus))
    chosen = [item for item in items if item.speaker == items[0].speaker][:6]
    audio = XTTSConfig().audio
    return [(it.text, clean_recording(read_audio(it.audio_path, RATE_HZ), audio)) for it in chosen]


def joined(clips):
    """Text, samples, and the sample in the middle of each gap."""
    gap = np.zeros(int(GAP_SECONDS * RATE_HZ), np.float32)
    pieces = [piece for _, samples in clips for piece in (samples, gap)][:-1]
    ends = np.cumsum([piece.size for piece in pieces])[1:-1:2]
    return " ".join(text for text, _ in clips), np.concatenate(pieces), ends - gap.size // 2


@pytest.fixture
def long_clip(clips, demo_corpus, tmp_path):
    """Makes a row whose recording is some clips, one after the other."""
    first = LJSpeechDataset(demo_corpus)[0]

    def make(chosen=clips[:3], name="long"):
        text, samples, _ = joined(chosen)
        file = tmp_path / f"{name}.wav"
        write_audio(file, samples, RATE_HZ)
        return dataclasses.replace(first, id=name, text=text, audio_path=file, source=f"{name}:1")

    return make


def test_sentences_are_found_where_they_are(clips):
    for first in range(4):
        text, samples, middles = joined(clips[first : first + 3])
        symbols = text_symbols(text, "en", "phonemes")
        cuts = {cut.symbol: cut.sample for cut in certain_cuts(symbols, samples, RATE_HZ)}
        start = -1
        for (sentence, _), middle in zip(clips[first:], middles, strict=False):
            start += 1 + len(text_symbols(sentence, "en", "phonemes"))
            assert abs(cuts[start] - middle) < 0.5 * GAP_SECONDS * RATE_HZ


def test_pauses_between_words_without_a_mark_are_no_cuts(clips):
    text, samples, _ = joined(clips[:3])
    symbols = text_symbols(text.replace(".", ""), "en", "phonemes")
    assert certain_cuts(symbols, samples, RATE_HZ) == []


def test_a_long_clip_is_used_in_parts(long_clip, clips):
    item = long_clip()
    longest = max(len(text_symbols(text, "en", "phonemes")) for text, _ in clips[:3])
    config = XTTSConfig(max_text_length=longest + 2, long_clips="split")
    clip = check_clip(item, config)
    assert [rejection.reason for rejection in clip.rejections] == ["text too long"]
    parts = parts_of(item, clip, config)
    assert [part.text for part in parts] == [text for text, _ in clips[:3]]
    for part, (text, samples) in zip(parts, clips, strict=False):
        assert part.symbols == text_symbols(text, "en", "phonemes")
        assert abs(part.waveform.size - samples.size) < 0.5 * GAP_SECONDS * RATE_HZ


def test_a_clip_is_cut_no_more_often_than_needed(long_clip):
    item = long_clip()
    whole = check_clip(item, XTTSConfig(max_text_length=1_000))
    half = 0.75 * whole.waveform.size / 256
    config = XTTSConfig(
        max_text_length=1_000, max_mel_frames=int(half) // 2 * 2, long_clips="split"
    )
    parts = parts_of(item, check_clip(item, config), config)
    assert len(parts) == 2
    assert " ".join(part.text for part in parts) == item.text


def test_a_clip_without_a_clear_pause_is_left_out(long_clip, clips):
    (text, samples), *_ = clips
    item = long_clip([(text.replace(",", ""), samples)])
    config = XTTSConfig(max_text_length=12, long_clips="split")
    assert parts_of(item, check_clip(item, config), config) == ()


def test_without_the_setting_nothing_is_split(long_clip):
    item = long_clip()
    config = XTTSConfig(max_text_length=60)
    assert parts_of(item, check_clip(item, config), config) == ()


def test_parts_are_clips_of_the_cache_and_are_kept_in_the_next(
    long_clip, clips, miniature, tmp_path
):
    longest = max(len(text_symbols(text, "en", "phonemes")) for text, _ in clips)
    config = miniature(max_text_length=longest + 2, long_clips="split")
    rows = [long_clip(clips[first : first + 3], f"row{first}") for first in (0, 3)]
    cache = prepare(rows[:1], config, tmp_path / "cache")
    texts = [text for text, _ in clips]
    assert [cache.text(clip) for clip in range(len(cache))] == texts[:3]
    assert (cache.row_count, cache.rejected) == (1, {})
    more = prepare(rows, config, tmp_path / "cache")
    assert [more.text(clip) for clip in range(len(more))] == texts
    assert more.split_clips == (2, 6)
    assert more.index["row"].tolist() == [0, 0, 0, 1, 1, 1]
    for clip, other in pairwise(range(4)):
        assert more.clip_audio(clip).tobytes() != more.clip_audio(other).tobytes()
    for clip in range(3):
        np.testing.assert_array_equal(more.clip_mel(clip), cache.clip_mel(clip))
