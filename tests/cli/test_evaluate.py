"""`myxtts evaluate` and `myxtts compare` as a user types them."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from myxtts.cli.main import main


@pytest.fixture(scope="module")
def evaluated(trained_run, tmp_path_factory):
    """Return the folder of one evaluation, with measures that are always there."""
    out = tmp_path_factory.mktemp("evaluated")
    arguments = ["--count", "1", "--only", "mel_cepstral_distance,silence,own_similarity"]
    assert main(["evaluate", str(trained_run), *arguments, "--out", str(out)]) == 0
    return out


def failure(capsys, *arguments) -> str:
    assert main([*map(str, arguments)]) == 2
    # Lines before it show what was being done.
    return capsys.readouterr().err.splitlines()[-1]


def test_the_table_has_a_column_for_each_source(trained_run, tmp_path, capsys):
    arguments = ["--count", "1", "--only", "mel_cepstral_distance,own_similarity"]
    assert main(["evaluate", str(trained_run), *arguments, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    columns = ["recordings", "griffin-lim copies", "vocoder copies", "model"]
    assert lines[2].split() == " ".join(["unit", "better", *columns]).split()
    row = next(line for line in lines if line.startswith("mel-cepstral distance")).split()
    assert row[2:5] == ["dB", "lower", "0.00"]
    assert float(row[7]) > float(row[5]) > 0
    assert any(line.startswith("* not independent") for line in lines)


def test_in_a_narrow_terminal_no_line_of_the_table_is_broken(
    trained_run, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("myxtts.cli.evaluate.terminal_width", lambda: 80)
    arguments = ["--count", "1", "--only", "mel_cepstral_distance,own_similarity"]
    assert main(["evaluate", str(trained_run), *arguments, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[2 : lines.index("", 2)]
    assert max(map(len, table)) < 80
    assert [line.split() for line in table[:2]] == [
        ["griffin-lim", "vocoder"],
        ["recordings", "copies", "copies", "model"],
    ]
    assert table[-1].split()[:3] == ["mel-cepstral", "distance", "0.00"]


def test_sentences_of_a_file_have_no_recordings(trained_run, demo_corpus, tmp_path, capsys):
    file = tmp_path / "lines.txt"
    file.write_text("Good morning.\n")
    voice = sorted((demo_corpus / "wavs").glob("*.wav"))[0]
    arguments = ["--sentences", file, "--speaker-wav", voice, "--out", tmp_path / "out", "--json"]
    names = ["--only", "mel_cepstral_distance,silence"]
    assert main(["evaluate", *map(str, [trained_run, *arguments, *names])]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["columns"] == ["model"]
    assert content["measures"]["silence"]["means"]["model"] is not None
    assert {"there are no recordings of these sentences"} == {
        left_out["reason"] for left_out in content["left_out"]
    }


def test_the_base_is_evaluated_and_compared_with_a_run(trained_run, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "base", "--count", "2", "--only", "silence", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["columns"] == ["model"]
    assert {one["speaker"] for one in content["sentences"]} == {"adam", "callie"}
    assert main(["compare", str(trained_run), "base", "--json"]) == 0
    run, base = json.loads(capsys.readouterr().out)["runs"]
    assert (base["run"], base["steps"]) == ("base", content["step"])
    assert base["curves"]["silence"]["values"] == [content["measures"]["silence"]["means"]["model"]]
    assert "loss" in run["curves"]


def test_bad_input_gets_one_line(trained_run, tmp_path, capsys):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    unspeakable = tmp_path / "unspeakable.txt"
    unspeakable.write_text("Good morning.\n...\n")
    for arguments, expected in (
        ([tmp_path / "none"], "no such folder"),
        ([tmp_path], "contains no checkpoint"),
        ([trained_run, "--data", tmp_path / "none"], "no such folder; expected a corpus"),
        ([trained_run, "--sentences", empty], "contains no sentences"),
        ([trained_run, "--sentences", unspeakable], "nothing to say"),
        ([trained_run, "--sentences", tmp_path / "none.txt"], "no such file"),
        ([trained_run, "--count", "0"], "--count: found 0"),
        ([trained_run, "--language", "en"], "needs --sentences"),
        ([trained_run, "--only", "were"], "unknown metric 'were'"),
        ([trained_run, "--sentences", empty, "--language", "xx"], "language 'xx'"),
    ):
        assert expected in failure(capsys, "evaluate", *arguments)


def test_compare_draws_and_stars_the_better_run(trained_run, evaluated, tmp_path, capsys):
    worse = tmp_path / "worse"
    worse.mkdir()
    for name in ("metrics.jsonl", "report.json", "config.yaml"):
        shutil.copy(trained_run / name, worse / name)
    lines = [json.loads(line) for line in (worse / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["loss"] += 1
    (worse / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    shutil.copytree(evaluated, worse / "evaluation")
    out = tmp_path / "out"
    assert main(["compare", str(trained_run), str(worse), "--out", str(out)]) == 0
    rows = {line[:32].strip(): line.split() for line in capsys.readouterr().out.splitlines()}
    better_loss, star, worse_loss = rows["loss"][2:]
    assert star == "*"
    assert float(worse_loss) == pytest.approx(float(better_loss) + 1, abs=0.002)
    assert rows["steps"][-2:] == ["6", "6"]
    assert "mel-cepstral distance" in rows
    content = json.loads((out / "comparison.json").read_text())
    assert content["runs"][1]["recordings"]["mel_cepstral_distance"] == pytest.approx(0, abs=1e-6)
    for picture in content["pictures"].values():
        assert Path(picture).stat().st_size > 10_000


def test_compare_does_not_star_losses_of_different_corpora(trained_run, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(trained_run / "metrics.jsonl", other)
    settings = (trained_run / "config.yaml").read_text()
    assert "validation_fraction" in settings
    lines = [
        "  train_data: elsewhere" if line.startswith("  train_data:") else line
        for line in settings.splitlines()
    ]
    (other / "config.yaml").write_text("\n".join(lines))
    assert main(["compare", str(trained_run), str(other), "--out", str(tmp_path / "out")]) == 0
    text = capsys.readouterr().out
    assert "*" not in text
    assert "different corpora" in text


def test_nothing_is_spoken_where_nothing_can_be_measured(trained_run, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "moonshine_voice", None)
    assert main(["evaluate", str(trained_run), "--only", "wer"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "--only" in message
    assert "word error rate" in message
    assert "-m pip install" in message
    assert "[eval]" in message
