"""Files of four formats, written in pieces, whole or not at all, with tags."""

import numpy as np
import pytest
import soundfile

from myxtts.audio.writing import audio_writer
from myxtts.errors import DataError

RATE = 22_050
PIECE = (0.1 * np.sin(np.arange(RATE) / 20)).astype(np.float32)


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3"])
def test_pieces_and_tags_of_every_format(tmp_path, ending):
    file = tmp_path / f"out.{ending}"
    tags = {"comment": "گفتار ساختگی", "artist": "nobody"}
    with audio_writer(file, RATE, tags) as write:
        write(PIECE)
        assert not file.exists()
        write(PIECE)
    samples, rate = soundfile.read(file)
    assert rate == RATE
    assert samples.size == pytest.approx(2 * RATE, abs=2_500)
    with soundfile.SoundFile(file) as sound:
        assert tags.items() <= sound.copy_metadata().items()


def test_what_fails_half_way_leaves_the_older_file(tmp_path):
    file = tmp_path / "out.wav"
    file.write_text("older")

    def write_half() -> None:
        with audio_writer(file, RATE) as write:
            write(PIECE)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert file.read_text() == "older"
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", ["out.aac", "out", "none/out.wav", "folder.wav"])
def test_files_that_cannot_be_written(tmp_path, name):
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(DataError, match="cannot be written"), audio_writer(tmp_path / name, RATE):
        pass


def test_a_near_ending_is_suggested(tmp_path):
    with (
        pytest.raises(DataError, match=r"did you mean '\.flac'"),
        audio_writer(tmp_path / "out.flc", RATE),
    ):
        pass
