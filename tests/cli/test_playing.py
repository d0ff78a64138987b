"""`--play` gives the sound device what is written; a stand-in takes the place of the device."""

import builtins
import sys
import types

import numpy as np
import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.synthesis.tts import EDGE_SECONDS


class Device:
    """A fake `sounddevice.OutputStream`."""

    written: list[np.ndarray]

    def __init__(self, rate, channels, dtype):
        assert (rate, channels, dtype) == (22_050, 1, "float32")

    def __enter__(self):
        Device.written = []
        return self

    def __exit__(self, *_):
        pass

    def write(self, samples):
        assert samples.ndim == 2
        Device.written.append(samples[:, 0])


class PortAudioError(Exception):
    pass


@pytest.fixture
def sound_device(monkeypatch):
    library = types.ModuleType("sounddevice")
    library.OutputStream = Device
    library.PortAudioError = PortAudioError
    library.query_devices = lambda kind: {"name": "stand-in"}
    monkeypatch.setitem(sys.modules, "sounddevice", library)
    return library


@pytest.fixture
def words(trained_run, demo_corpus):
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    return [
        *("synthesize", "--checkpoint", str(trained_run), "--text", "Good morning. Yes."),
        *("--speaker-wav", str(reference), "--steps", "2", "--play"),
    ]


def test_what_is_played_is_what_is_written(sound_device, words, tmp_path):
    file = tmp_path / "out.wav"
    assert main([*words, "--out", str(file)]) == 0
    played = np.concatenate(Device.written)
    written, rate_hz = soundfile.read(file)
    edge = np.zeros(round(EDGE_SECONDS * rate_hz))  # silence, which only files have
    np.testing.assert_allclose(written, np.concatenate([edge, played, edge]), atol=1e-4)


def test_without_a_file(sound_device, words, capsys):
    assert main(words) == 0
    assert len(Device.written) >= 3
    assert "played: " in capsys.readouterr().out


def test_no_device_is_said_before_anything_is_loaded(sound_device, words, capsys):
    def no_devices(kind):
        raise PortAudioError("no default output device")

    sound_device.query_devices = no_devices
    assert main(words) == 2
    assert "--play: no sound device (no default output device)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ImportError(), "[play]'"),
        (OSError("PortAudio library not found"), "PortAudio library not found; install PortAudio"),
    ],
)
def test_a_missing_library_is_named(monkeypatch, words, capsys, error, line):
    importing = builtins.__import__

    def without_it(name, *rest, **more):
        if name == "sounddevice":
            raise error
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without_it)
    assert main(words) == 2
    assert line in capsys.readouterr().err
