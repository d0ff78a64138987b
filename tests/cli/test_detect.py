"""`detect` answers for each file, in words and as JSON."""

import json

import numpy as np
import pytest

from myxtts.audio.files import read_audio
from myxtts.audio.watermark import with_watermark
from myxtts.audio.writing import write_audio
from myxtts.cli.main import main


@pytest.fixture
def files(demo_corpus, tmp_path):
    clips = sorted((demo_corpus / "wavs").glob("*.wav"))
    speech = np.concatenate([read_audio(clip, 22_050) for clip in clips])[: 6 * 22_050]
    plain, marked = tmp_path / "plain.wav", tmp_path / "marked.mp3"
    write_audio(plain, speech, 22_050)
    write_audio(marked, with_watermark(speech, 22_050), 22_050, {"comment": "by a test"})
    return plain, marked


def test_a_marked_file_and_one_that_is_not(files, capsys):
    plain, marked = map(str, files)
    assert main(["detect", marked]) == 0
    said = capsys.readouterr().out
    assert f"{marked}: marked as synthetic speech" in said
    assert "its metadata say: by a test" in said
    assert main(["detect", plain, marked]) == 1
    assert f"{plain}: no mark found (score" in capsys.readouterr().out


def test_as_json(files, capsys):
    assert main(["detect", "--json", *map(str, files)]) == 1
    rows = json.loads(capsys.readouterr().out)["files"]
    assert [row["marked"] for row in rows] == [False, True]
    assert rows[1]["score"] > 6 > rows[0]["score"]


def test_a_file_that_is_no_audio(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("notes")
    assert main(["detect", str(tmp_path / "notes.txt")]) == 2
    assert "cannot read audio" in capsys.readouterr().err
