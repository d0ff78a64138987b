import numpy as np
import pytest
import soundfile

import myxtts
from myxtts.audio.files import trim_silence
from myxtts.errors import CheckpointError, DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.tts import TTS


def test_the_call_that_users_know(tts, recordings, tmp_path):
    assert myxtts.TTS is TTS
    out = tmp_path / "out.wav"
    tts.tts_to_file(
        text="Good morning.", speaker_wav=str(recordings[0]), language="en", file_path=str(out)
    )
    sound = soundfile.info(out)
    assert sound.samplerate == 22_050
    assert sound.duration > 0.1


def test_same_seed_same_samples(tts, recordings):
    options = SpeechOptions(steps=2, seed=3)
    first, second = (
        tts.tts("Good morning.", recordings[0], "en", options=options) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


def likeness(one, other) -> float:
    """Return the similarity of two voices: 1 for the same vectors."""
    pairs = zip(one, other, strict=True)
    return min(float(np.vdot(a, b) / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in pairs)


def test_several_recordings_make_one_voice(tts, recordings):
    first, second = (tts.voice(file) for file in recordings)
    both = tts.voice(recordings)
    assert both.vector.shape == first.vector.shape
    assert both.latents.shape == first.latents.shape
    apart = likeness(first, second)
    assert apart < min(likeness(both, first), likeness(both, second)) < 0.99999
    assert likeness(both, tts.voice(recordings[::-1])) > 0.999


def test_references_of_any_length_are_one_voice(tts, recordings, tmp_path):
    """More of the same sound is the same voice; 0.6 s are enough for one."""
    sound, rate = soundfile.read(recordings[0], dtype="float32")
    sound = trim_silence(sound, rate, threshold_db=40)
    once = tts.voice(recordings[0])
    minutes, moment = tmp_path / "minutes.wav", tmp_path / "moment.wav"
    soundfile.write(minutes, np.tile(sound, int(200 * rate / sound.size)), rate)
    loudest = int(np.abs(sound).argmax())
    start = min(loudest, sound.size - int(0.6 * rate))
    soundfile.write(moment, sound[start : start + int(0.6 * rate)], rate)
    assert likeness(once, tts.voice(minutes)) > 0.99
    assert np.isfinite(tts.voice(moment).latents).all()
    assert tts.tts("Good morning.", moment, options=SpeechOptions(steps=2)).size > 1_000


def test_long_text_is_said_sentence_by_sentence(tts, recordings):
    options = SpeechOptions(steps=2)
    voice = tts.voice(recordings[0])
    one = tts.tts("Good morning.", voice, options=options)
    two = tts.tts("Good morning. Good morning.", voice, options=options)
    assert two.size == pytest.approx(2 * one.size + 0.25 * 22_050, abs=2)
    assert two.max() <= 1.0


def test_speed_and_samples_of_a_recording(tts, recordings):
    """In the format of soundfile.read, also at another rate and in stereo."""
    options = SpeechOptions(steps=2)
    sound, rate = soundfile.read(recordings[0])
    spoken = tts.tts("Good morning.", (sound, rate), options=options)
    expected = tts.tts("Good morning.", recordings[0], options=options)
    np.testing.assert_allclose(spoken, expected, atol=1e-3)
    stereo = np.stack([sound, sound], axis=1)
    slow = tts.tts("Good morning.", (stereo, rate), speed=0.5, options=options)
    assert slow.size > 1.5 * spoken.size


@pytest.mark.parametrize(
    ("text", "voice"),
    [(None, "me.wav"), ("Hi.", [None]), ("Hi.", (np.zeros(9, np.int16), 8_000)), ("Hi.", 3)],
)
def test_arguments_of_another_type(tts, text, voice):
    with pytest.raises(DataError, match="found"):
        tts.tts(text, voice)


@pytest.mark.parametrize("text", ["", "...", "漢字"])
def test_nothing_to_say(tts, recordings, text):
    with pytest.raises(DataError, match="nothing to say"):
        tts.tts(text, recordings[0], "en")


def test_bad_references(tts, tmp_path):
    not_audio = tmp_path / "notes.txt"
    not_audio.write_text("hello")
    silence, short = tmp_path / "silence.wav", tmp_path / "short.wav"
    soundfile.write(silence, np.zeros(44_100), 22_050)
    soundfile.write(short, np.full(2_000, 0.3), 22_050)
    for file in (not_audio, silence, short, tmp_path / "none.wav"):
        with pytest.raises(DataError) as error:
            tts.voice(file)
        assert str(file) in str(error.value)
    with pytest.raises(DataError, match="at least one recording"):
        tts.voice([])


def test_an_unknown_language(tts, recordings):
    with pytest.raises(DataError, match="language 'fa' is not one of this model's languages: en"):
        tts.tts("hello", recordings[0], "fa")


def test_folders_that_are_not_runs(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(CheckpointError):
            TTS(folder)
