"""`myxtts stats` as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import yaml

from myxtts.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def corpus_folder(tmp_path):
    """Forty clips of two speakers, of 1, 2, 3 and 4 seconds."""
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    rows = []
    for number in range(40):
        name = f"clip{number:02d}"
        samples = np.zeros(22_050 * (1 + number % 4), np.float32)
        soundfile.write(folder / "wavs" / f"{name}.wav", samples, 22_050)
        rows.append(f"{name}|{'ann' if number % 5 else 'bob'}|a bad cab")
    (folder / "metadata.csv").write_text("\n".join(rows))
    return folder


def shown(capsys, *arguments) -> str:
    assert main(["stats", *map(str, arguments), "--set", "text.tokens=graphemes"]) == 0
    return capsys.readouterr().out


def test_the_tables(corpus_folder, capsys):
    lines = [" ".join(line.split()) for line in shown(capsys, corpus_folder).splitlines()]
    for start in (
        f"{corpus_folder}/metadata.csv: read as columns audio|speaker|text, without a header row",
        "Clips 40",
        "Hours 0.03",
        "Speakers 2",
        "Languages en (40 clips)",
        "Symbols 5 graphemes; the rarest: c 40 d 40 ' ' 80 b 80 a 120",
        "clip in seconds 1.00 2.50 2.50 4.00 4.00 4.00",
        "text in tokens 11 11 11 11 11 11",
        "mel in frames 87 216 216 345 345 345",
        "ann 32 0.022",
        "bob 8 0.006",
        # Too few clips for more than two shapes, unless they are asked for. Of 87, 173, 259 and
        # 345 frames padded to 88, 176, 264 and 352.
        "as configured 2 200 352 0 81.8%",
        "bucketed, 4 4 12 352 0 98.2%",
        "fixed, longest 1 12 352 0 61.4%",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_the_lines_to_paste_are_the_configuration(corpus_folder, tmp_path, capsys):
    text = shown(capsys, corpus_folder)
    pasted = tmp_path / "config.yaml"
    pasted.write_text(text[text.index("data:") :])
    settings = yaml.safe_load(pasted.read_text())
    assert settings["data"] == {
        "batching": "bucketed",
        "max_text_length": 12,
        "max_mel_frames": 352,
        "batch_size": 16,
    }
    assert "as configured" in shown(capsys, corpus_folder, "--config", pasted)


def test_json_is_one_object_with_everything(corpus_folder, tmp_path, capsys):
    plot = tmp_path / "plot.png"
    content = json.loads(shown(capsys, corpus_folder, "--json", "--plot", plot))
    assert content["clips"] == 40
    assert content["mel_length"]["max"] == 345
    assert content["speakers"]["bob"]["clips"] == 8
    assert content["token_inventory"] == {"a": 120, " ": 80, "b": 80, "d": 40, "c": 40}
    assert len(content["choices"]) == 8
    assert content["recommended"]["data"]["max_text_length"] == 12
    assert content["plot"] == str(plot)
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("subset", "clips"), [("train", 36), ("eval", 4)])
def test_one_part_of_the_corpus(corpus_folder, capsys, subset, clips):
    output = shown(
        capsys, corpus_folder, "--subset", subset, "--json", "--set", "data.validation_fraction=0.1"
    )
    assert json.loads(output)["clips"] == clips


@pytest.fixture
def validation_folder(tmp_path):
    """Three clips of five seconds."""
    folder = tmp_path / "validation"
    (folder / "wavs").mkdir(parents=True)
    for number in range(3):
        soundfile.write(folder / "wavs" / f"v{number}.wav", np.zeros(5 * 22_050), 22_050)
    (folder / "metadata.csv").write_text("\n".join(f"v{number}|eve|a cab" for number in range(3)))
    return folder


@pytest.mark.parametrize(
    ("subset", "clips", "max_frames"),
    [(["--subset", "train"], 40, 345), (["--subset", "eval"], 3, 431), ([], 43, 431)],
)
def test_a_validation_corpus_of_its_own_is_what_is_held_out(
    corpus_folder, validation_folder, capsys, subset, clips, max_frames
):
    setting = f"data.val_data={validation_folder}"
    content = json.loads(shown(capsys, corpus_folder, *subset, "--json", "--set", setting))
    assert (content["clips"], content["mel_length"]["max"]) == (clips, max_frames)
    assert content["validation_corpus"] == str(validation_folder)


def test_clips_that_are_left_out_are_counted(corpus_folder, capsys):
    (corpus_folder / "wavs" / "clip00.wav").unlink()
    (corpus_folder / "wavs" / "clip01.wav").write_text("not audio")
    assert (
        "Clips       38 (left out: 2 with missing or unreadable audio)"
        in shown(capsys, corpus_folder).splitlines()
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("none", "none"),
        ("empty", "empty"),
        ("corpus --plot plot.jpg", "plot.jpg"),
        ("corpus --plot none/plot.png", "none/plot.png"),
        ("corpus --plot folder.png", "folder.png"),
        ("corpus --config none.yaml", "none.yaml"),
        ("corpus --set text.token=x", "text.tokens"),
        ("corpus --subset eval --set data.validation_fraction=0", "eval"),
    ],
)
def test_bad_input(corpus_folder, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(corpus_folder.parent)
    Path("empty").mkdir()
    Path("folder.png").mkdir()
    before = sorted(Path().rglob("*"))
    assert main(["stats", *arguments.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert sorted(Path().rglob("*")) == before
