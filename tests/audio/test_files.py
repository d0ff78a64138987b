import numpy as np
import pytest
import soundfile

from myxtts.audio.files import (
    UnusableAudioError,
    audio_writer,
    clean_recording,
    read_audio,
    set_loudness,
    trim_silence,
    window_levels,
)
from myxtts.config.config import AudioConfig
from myxtts.errors import DataError

RATE = 22_050


def tone(seconds: float, rate: int = RATE, level: float = 0.5) -> np.ndarray:
    time = np.arange(int(seconds * rate)) / rate
    return (level * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


@pytest.mark.parametrize("extension", ["wav", "flac", "ogg", "mp3"])
def test_pieces_and_tags_are_written_and_read_back(tmp_path, extension):
    file = tmp_path / f"clip.{extension}"
    tags = {"comment": "گفتار ساختگی", "artist": "nobody"}
    with audio_writer(file, RATE, tags) as write:
        write(tone(0.5))
        assert not file.exists()
        write(tone(0.5))
    waveform = read_audio(file, RATE)
    assert waveform.dtype == np.float32
    assert waveform.size == pytest.approx(RATE, abs=2_500)  # lossy formats pad
    assert 0.4 < np.abs(waveform).max() < 0.6
    with soundfile.SoundFile(file) as sound:
        assert tags.items() <= sound.copy_metadata().items()


def test_stereo_is_downmixed_and_resampled(tmp_path):
    file = tmp_path / "stereo.wav"
    soundfile.write(file, np.stack([tone(1.0, 48_000), np.zeros(48_000)], axis=1), 48_000)
    waveform = read_audio(file, RATE)
    assert waveform.ndim == 1
    assert abs(waveform.size - RATE) <= 1
    spectrum = np.abs(np.fft.rfft(waveform))
    assert abs(np.argmax(spectrum) * RATE / waveform.size - 440) < 2


def test_unusable_files_are_named(tmp_path):
    text = tmp_path / "notes.wav"
    text.write_text("this is not audio")
    empty = tmp_path / "empty.wav"
    soundfile.write(empty, np.zeros(0, np.float32), RATE)
    poisoned = tmp_path / "nan.wav"
    soundfile.write(poisoned, np.full(100, np.nan, np.float32), RATE, subtype="FLOAT")
    for file, reason in [
        (text, "unreadable audio"),
        (empty, "empty audio"),
        (poisoned, "unreadable audio"),
        (tmp_path / "none.wav", "missing audio"),
        (tmp_path, "unreadable audio"),
    ]:
        with pytest.raises(UnusableAudioError) as error:
            read_audio(file, RATE)
        assert error.value.reason == reason
        assert str(file) in str(error.value)


@pytest.mark.parametrize("name", ["out.aac", "out", "none/out.wav", "folder.wav"])
def test_files_that_cannot_be_written(tmp_path, name):
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(DataError), audio_writer(tmp_path / name, RATE):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["folder.wav"]


def test_trimming_keeps_the_sound_and_a_margin():
    silence = np.zeros(RATE, np.float32)
    trimmed = trim_silence(np.concatenate([silence, tone(1.0), silence]), RATE, 40.0)
    assert 1.0 <= trimmed.size / RATE <= 1.2
    np.testing.assert_array_equal(trim_silence(silence, RATE, 40.0), silence)


def test_loudness_is_the_same_for_quiet_and_loud_recordings():
    quiet, loud = tone(1.0, level=0.01), tone(1.0, level=0.6)
    levels = [
        float(np.sqrt(np.mean(set_loudness(wave, RATE, -23.0) ** 2))) for wave in (quiet, loud)
    ]
    np.testing.assert_allclose(levels, 10 ** (-23 / 20), rtol=0.02)


def test_pauses_do_not_make_speech_louder():
    speech = tone(1.0, level=0.1)
    with_pause = np.concatenate([speech, np.zeros(RATE // 2, np.float32)])
    peaks = [np.abs(set_loudness(wave, RATE, -23.0)).max() for wave in (speech, with_pause)]
    assert peaks[1] == pytest.approx(peaks[0], rel=0.02)


def test_no_gain_clips():
    click = np.full(RATE, 1e-3, np.float32)
    click[100] = 0.9
    assert np.abs(set_loudness(click, RATE, -10.0)).max() <= 1.0


def test_silence_and_short_clips_pass_through():
    audio = AudioConfig()
    for samples in (0, 1, 10, 441, 5_000):
        silence = np.zeros(samples, np.float32)
        np.testing.assert_array_equal(clean_recording(silence, audio), silence)
    assert window_levels(np.ones(10, np.float32), RATE).size == 1
