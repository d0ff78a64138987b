"""Speech in chunks: the first one early, and together the same as the whole."""

from itertools import pairwise

import numpy as np
import pytest

from myxtts.models.sampler import SentencePlan, windows
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.tts import TTS

OPTIONS = SpeechOptions(steps=2)
SENTENCE = (
    "The boat leaves at seven, and nobody has packed the tent, the ropes, the maps, the lamp or "
    "the bread for us, which is what happens every single time we go to the islands together."
)


@pytest.fixture(scope="module")
def neural(trained_run, vocoder_run) -> TTS:
    return TTS(trained_run, vocoder=vocoder_run)


def test_chunks_joined_are_the_whole_up_to_its_level(neural, recordings):
    voice = neural.voice(recordings[0])
    # So quiet that the limiter has nothing to do.
    options = SpeechOptions(steps=2, speed=0.5, loudness=-40.0)
    whole = neural.tts(SENTENCE, voice, options=options)
    chunks = list(neural.stream(SENTENCE, voice, options=options))
    joined = np.concatenate(chunks)
    assert len(chunks) > 3
    assert joined.size == whole.size
    gain = float(np.dot(joined, whole) / np.dot(joined, joined))
    difference = np.sqrt(np.mean((whole - gain * joined) ** 2) / np.mean(whole**2))
    assert difference < 0.01


def test_the_first_chunk_needs_only_its_own_window(neural, recordings, monkeypatch):
    decoded = []
    decode = neural.sampler._decode_windows

    def counted(stretches, size, options):
        decoded.append(size)
        return decode(stretches, size, options)

    monkeypatch.setattr(neural.sampler, "_decode_windows", counted)
    voice = neural.voice(recordings[0])
    stream = neural.stream(SENTENCE, voice, options=SpeechOptions(steps=2, speed=0.5))
    first = next(stream)
    assert first.size > 0.2 * neural.sample_rate_hz
    assert sum(decoded) <= 64
    rest = list(stream)
    assert sum(chunk.size for chunk in rest) > 2 * first.size


def test_pauses_and_several_sentences(neural, recordings):
    voice = neural.voice(recordings[0])
    whole = neural.tts("Good morning. Good evening. Yes.", voice, options=OPTIONS)
    chunks = list(neural.stream("Good morning. Good evening. Yes.", voice, options=OPTIONS))
    assert sum(chunk.size for chunk in chunks) == whole.size
    assert abs(chunks[0][0]) < 1e-6
    assert abs(chunks[-1][-1]) < 0.05


def test_griffin_lim_streams_sentence_by_sentence(trained_run, recordings):
    tts = TTS(trained_run, vocoder="griffin-lim")
    voice = tts.voice(recordings[0])
    text = "Good morning. Good evening."
    whole = tts.tts(text, voice, options=OPTIONS)
    stream = tts.stream(text, voice, options=OPTIONS)
    joined = np.concatenate(list(stream))
    np.testing.assert_allclose(joined, whole, atol=1e-4)


@pytest.mark.parametrize("positions", [1, 64, 65, 500, 5_000])
def test_windows_cover_a_sentence_once(positions):
    plan = SentencePlan(np.zeros((positions, 1), np.float32), None, np.ones(1, np.int64))
    for cuts in (list(windows(plan)), list(windows(plan, (64, 64, 192)))):
        assert cuts[0].start == 0
        assert cuts[-1].end == positions
        assert all(one.end == other.start for one, other in pairwise(cuts))
        assert max(cut.context_end - cut.context_start for cut in cuts) <= 1_024
