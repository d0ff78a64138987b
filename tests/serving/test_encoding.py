import io
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.serving.speech import PCM_RATE_HZ, StreamEncoder, encode

RATE_HZ = 22_050
SAMPLES = (0.4 * np.sin(np.arange(3 * RATE_HZ) * 0.05)).astype(np.float32)


def streamed(format_name, samples=SAMPLES):
    with StreamEncoder(format_name, RATE_HZ) as encoder:
        pieces = [encoder.add(piece) for piece in np.array_split(samples, 7)]
        return b"".join([*pieces, encoder.end()])


@pytest.mark.parametrize(
    ("format_name", "rate_hz"), [("wav", RATE_HZ), ("mp3", RATE_HZ), ("opus", PCM_RATE_HZ)]
)
def test_a_stream_decodes_to_the_same_length_and_sound(format_name, rate_hz):
    content = streamed(format_name)
    decoded, found_hz = soundfile.read(io.BytesIO(content))
    assert found_hz == rate_hz
    assert 0 <= decoded.size / rate_hz - 3 <= 0.25
    assert np.sqrt(np.mean(decoded**2)) == pytest.approx(np.sqrt(np.mean(SAMPLES**2)), rel=0.1)
    if format_name == "wav":  # the length is open
        assert content[4:8] == content[40:44] == b"\xff" * 4


def test_pcm_has_the_rate_that_clients_of_openai_expect():
    for content in (streamed("pcm"), encode("pcm", SAMPLES, RATE_HZ, {})):
        decoded = np.frombuffer(content, "<i2") / 32_767
        assert decoded.size == pytest.approx(3 * PCM_RATE_HZ, abs=2)
        assert np.abs(decoded).max() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("format_name", ["wav", "flac", "mp3", "opus"])
def test_a_whole_file_has_its_length_and_tags(format_name):
    content = encode(format_name, SAMPLES, RATE_HZ, {"comment": "Synthetic speech"})
    with soundfile.SoundFile(io.BytesIO(content)) as sound:
        assert sound.frames == 3 * sound.samplerate
        assert sound.comment == "Synthetic speech"


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")
def test_aac_decodes():
    decoder = ["ffmpeg", "-v", "error", "-i", "pipe:0", "-f", "f32le", "pipe:1"]
    content = encode("aac", SAMPLES, RATE_HZ, {})
    decoded = subprocess.run(decoder, input=content, capture_output=True, check=True).stdout
    assert len(decoded) / 4 == pytest.approx(SAMPLES.size, abs=4_096)


def test_samples_beyond_full_scale_are_limited():
    decoded, _ = soundfile.read(io.BytesIO(streamed("wav", np.float32([2, -2, 0, 0, 0, 0, 0]))))
    np.testing.assert_allclose(decoded[:3], [1, -1, 0], atol=1e-3)


def test_an_abandoned_encoder_leaves_no_open_files():
    folder = Path("/proc/self/fd")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        with StreamEncoder("mp3", RATE_HZ) as encoder:
            encoder.add(SAMPLES)
    assert len(list(folder.iterdir())) == before
