"""Formats that libsndfile does not read, made and read by a real ffmpeg."""

import shutil
import subprocess

import numpy as np
import pytest
import soundfile

from myxtts.audio import ffmpeg
from myxtts.audio.files import UnusableAudioError, read_recording
from myxtts.data.statistics import _read_header

needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


@pytest.fixture(scope="module")
def tone(tmp_path_factory):
    """Two seconds, as wav."""
    file = tmp_path_factory.mktemp("tone") / "tone.wav"
    times = np.arange(2 * 22_050) / 22_050
    soundfile.write(file, 0.3 * np.sin(2 * np.pi * 440 * times), 22_050)
    return file


def converted(tone, ending, *arguments):
    file = tone.with_suffix(ending)
    command = ["ffmpeg", "-v", "error", "-y", "-i", tone, *arguments, file]
    subprocess.run(command, check=True)
    return file


@needs_ffmpeg
@pytest.mark.parametrize(
    ("ending", "arguments"),
    [
        (".m4a", []),
        (".aac", []),
        (".wma", []),
        (".opus", []),
        (".mp4", ["-f", "mp4"]),
        (".mkv", []),
    ],
)
def test_formats_are_decoded(tone, ending, arguments):
    file = converted(tone, ending, *arguments)
    recording = read_recording(file)
    seconds = recording.samples.size / recording.sample_rate_hz
    assert seconds == pytest.approx(2.0, abs=0.15)
    spectrum = np.abs(np.fft.rfft(recording.samples))
    loudest_hz = np.argmax(spectrum) * recording.sample_rate_hz / recording.samples.size
    assert loudest_hz == pytest.approx(440, abs=2)
    samples, rate = _read_header(file)
    assert samples / rate == pytest.approx(seconds, abs=0.1)


@needs_ffmpeg
def test_a_damaged_file_gives_one_line(tone, tmp_path):
    damaged = tmp_path / "damaged.m4a"
    damaged.write_bytes(b"this is no sound at all" * 10)
    with pytest.raises(UnusableAudioError) as error:
        read_recording(damaged)
    assert str(damaged) in str(error.value)
    assert "\n" not in str(error.value)
    assert _read_header(damaged) is None


@needs_ffmpeg
def test_playlists_are_not_followed(tone, tmp_path):
    playlist = tmp_path / "list.m4a"
    playlist.write_text("#EXTM3U\n#EXTINF:2,\nhttp://127.0.0.1:9/a.wav\n")
    with pytest.raises(UnusableAudioError):
        read_recording(playlist)


@needs_ffmpeg
def test_a_name_like_an_option(tone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(converted(tone, ".m4a"), "-i.m4a")
    assert read_recording("-i.m4a").samples.size


def test_missing_ffmpeg_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(ffmpeg.shutil, "which", lambda name: None)
    file = tmp_path / "voice.M4A"
    file.write_bytes(b"anything")
    with pytest.raises(UnusableAudioError) as error:
        read_recording(file)
    assert "apt install ffmpeg" in str(error.value)
