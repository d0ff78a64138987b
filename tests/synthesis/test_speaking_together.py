"""Sentences of one text and of several threads: batched, without a trace, each as if alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.run_dir import take_snapshot
from myxtts.synthesis.tts import TTS

OPTIONS = SpeechOptions(steps=2)
TEXTS = [
    "Good morning.",
    "Where did you put the old map of the harbour?",
    "Yes.",
    "The boat leaves at seven, and nobody has packed the tent, the ropes or the bread for us.",
    "No, thank you.",
    "She said that the train from the city would be late again today.",
]


@pytest.fixture(scope="module")
def neural(trained_run, vocoder_run) -> TTS:
    return TTS(trained_run, vocoder=vocoder_run)


def test_no_trace_after_warm_up(neural, recordings):
    voice = neural.voice(recordings[0])
    neural.warm_up()
    traces = neural.traces
    assert traces > 0
    for count in range(1, len(TEXTS) + 1):
        for speed in (1.0, 0.3):
            options = SpeechOptions(steps=count, speed=speed, seed=count, temperature=0.1 * count)
            neural.tts(" ".join(TEXTS[:count]), voice, options=options)
    list(neural.stream(" ".join(TEXTS), voice, options=OPTIONS))
    neural.voice(recordings)
    assert neural.traces == traces


def test_a_sentence_does_not_depend_on_what_it_is_batched_with(neural, recordings):
    voice = neural.voice(recordings[0])
    together = list(neural.lines(" ".join(TEXTS), voice, options=OPTIONS))
    assert [one.line.text for one in together] == TEXTS
    for text, one in zip(TEXTS, together, strict=True):
        [alone] = neural.lines(text, voice, options=OPTIONS)
        assert alone.samples.size == one.samples.size
        np.testing.assert_allclose(one.samples, alone.samples, atol=1e-4)


def test_threads_get_what_they_asked_for(neural, recordings):
    voices = [neural.voice(file) for file in recordings]
    asked = [(text, voices[index % 2]) for index, text in enumerate(TEXTS * 2)]
    expected = [neural.tts(text, voice, options=OPTIONS) for text, voice in asked]
    with ThreadPoolExecutor(6) as pool:
        spoken = list(pool.map(lambda one: neural.tts(*one, options=OPTIONS), asked))
    for one, other in zip(expected, spoken, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


def test_how_long_the_tokens_last_is_how_long_the_speech_is(neural, recordings):
    for one in neural.lines(" ".join(TEXTS), recordings[0], options=OPTIONS):
        assert len(one.token_seconds) == len(one.line.token_ids)
        frame = neural.config.audio.hop_samples / neural.sample_rate_hz
        seconds = one.samples.size / neural.sample_rate_hz
        assert one.token_seconds.sum() == pytest.approx(seconds + frame, abs=1e-6)


def test_a_long_sentence_is_decoded_in_windows(neural, recordings):
    """Slowly spoken, it is longer than the largest shape."""
    voice = neural.voice(recordings[0])
    options = SpeechOptions(steps=1, speed=0.25)
    text = ", ".join(["and then the boat went on to the next harbour"] * 8)
    [spoken] = neural.lines(text, voice, split_sentences=False, options=options)
    assert len(spoken.line.token_ids) > 250
    assert spoken.samples.size > 1_024 * 2 * neural.config.audio.hop_samples
    assert np.isfinite(spoken.samples).all()


def test_a_recording_is_encoded_once_until_it_changes(neural, recordings, tmp_path):
    file = tmp_path / "me.wav"
    file.write_bytes(recordings[0].read_bytes())
    first = neural.voice(file)
    assert neural.voice(str(file)) is first
    file.write_bytes(recordings[1].read_bytes())
    assert not np.allclose(neural.voice(file).vector, first.vector)


def test_a_saved_voice_by_name_or_the_first_of_them(trained_run, recordings, tmp_path):
    tts = TTS(trained_run)
    tts.add_voice("aaa", recordings[0])
    tts.add_voice("bbb", recordings[1])
    assert {"aaa", "bbb"} <= set(tts.voices)
    by_name = tts.tts("Good morning.", voice="bbb", options=OPTIONS)
    np.testing.assert_array_equal(by_name, tts.tts("Good morning.", recordings[1], options=OPTIONS))
    first = tts.tts("Good morning.", voice=tts.voices[0], options=OPTIONS)
    np.testing.assert_array_equal(tts.tts("Good morning.", options=OPTIONS), first)
    with pytest.raises(DataError, match="both are given"):
        tts.tts("Good morning.", recordings[0], voice="aaa")


def test_without_any_voice(trained_run, tmp_path):
    tts = TTS(take_snapshot(trained_run / "checkpoints" / "step_00000003", tmp_path / "alone"))
    with pytest.raises(DataError):
        tts.tts("Good morning.")


def test_without_compiling_it_sounds_the_same(trained_run, neural, recordings):
    tts = TTS(trained_run, compiled=False)
    voice = tts.voice(recordings[0])
    texts = [tts.tokenizer.encode(text, "en") for text in TEXTS[:2]]
    for one, other in zip(
        tts.sampler.mels(texts, [0, 0], voice, OPTIONS),
        neural.sampler.mels(texts, [0, 0], voice, OPTIONS),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-3)
    assert tts.traces == 0
