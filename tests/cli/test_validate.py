"""`myxtts validate` as a user types it."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.data.metadata import read_table

RATE_HZ = 22_050


def make_corpus(folder: Path, metadata: str, clips: int, name: str = "metadata.csv") -> Path:
    """Rows as given, and `clips` good recordings c0, c1, ..."""
    (folder / "wavs").mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(metadata, encoding="utf-8")
    for number in range(clips):
        noise = np.random.default_rng(number).standard_normal(2 * RATE_HZ) * 0.1
        soundfile.write(folder / "wavs" / f"c{number}.wav", noise, RATE_HZ)
    return folder


@pytest.fixture(autouse=True)
def _speakers_may_have_seconds(monkeypatch):
    monkeypatch.setattr("myxtts.data.checks.MIN_SPEAKER_SECONDS", 0)


def numbered_rows(count: int) -> str:
    return "".join(f"c{number}|This is sentence number {number}.\n" for number in range(count))


def validate(capsys, folder, *options) -> tuple[int, str]:
    quiet = ["--workers=1"]
    exit_code = main(["validate", str(folder), *quiet, *map(str, options)])
    return exit_code, capsys.readouterr().out


def test_a_good_corpus(tmp_path, capsys):
    folder = make_corpus(tmp_path / "c", numbered_rows(3), clips=3)
    exit_code, output = validate(capsys, folder)
    assert exit_code == 0
    assert output.strip().splitlines() == [
        f"{folder}/metadata.csv: 3 rows, read as columns audio|text, without a header row",
        "",
        "3 of 3 rows usable, 0.00 hours of audio",
    ]


def test_many_alike_are_counted_and_a_table_sums_up(tmp_path, capsys):
    folder = make_corpus(tmp_path / "c", numbered_rows(12) + "c0|???\n", clips=3)
    exit_code, output = validate(capsys, folder)
    assert exit_code == 1
    lines = output.splitlines()
    assert sum(": missing audio: " in line for line in lines) == 5
    assert "... and 4 more: missing audio" in lines
    assert lines[lines.index("reason         severity  clips") :] == [
        "reason         severity  clips",
        "missing audio  error         9",
        "empty text     error         1",
        "",
        "3 of 13 rows usable, 0.00 hours of audio; training stops if more than 20% are unusable "
        "(data.max_rejected_fraction)",
    ]


def test_json_holds_everything(tmp_path, capsys):
    folder = make_corpus(tmp_path / "c", numbered_rows(9) + "|x\nc0|★ und 漢.\n", clips=1)
    exit_code, output = validate(capsys, folder, "--json")
    report = json.loads(output)
    assert exit_code == 1
    assert (report["rows"], report["usable_rows"]) == (11, 1)
    assert report["files"] == [
        {
            "file": "metadata.csv",
            "rows": 11,
            "layout": "columns audio|text, without a header row",
        }
    ]
    assert len(report["errors"]) == 8 + 1 + 1
    assert report["errors"][8] == {
        "file": "metadata.csv",
        "line": 10,
        "reason": "bad row",
        "detail": "has no audio file name",
        "clips": 1,
    }
    reasons = [finding["reason"] for finding in report["warnings"]]
    assert reasons == ["symbols left out", "unknown symbols"]
    assert {"reason": "missing audio", "severity": "error", "clips": 8} in report["counts"]


def test_fix_writes_the_rows_without_errors(tmp_path, capsys):
    folder = make_corpus(
        tmp_path / "c",
        'path,text,speaker\nc0,"One, two | three.",ann\nc1.wav,Four five six.,bob\nc2,...,ann\n'
        "none,Seven eight nine.,ann\nc1,broken row\n",
        clips=3,
    )
    out = folder / "metadata_clean.csv"
    exit_code, output = validate(capsys, folder, "--fix", out, "--language=en-us")
    assert exit_code == 1
    assert f"Wrote 2 rows to {out}; audio paths are relative to {folder}" in output.splitlines()
    assert out.read_text(encoding="utf-8").splitlines() == [
        "audio_file|text|speaker_name|language",
        "wavs/c0.wav|One, two   three.|ann|en",
        "wavs/c1.wav|Four five six.|bob|en",
    ]
    rows = read_table(out, "en").utterances
    assert all(row.audio_path.is_file() for row in rows)
    out.rename(folder / "metadata_train.csv")
    assert validate(capsys, folder)[0] == 0


def test_fix_keeps_training_and_evaluation_apart(tmp_path, capsys):
    folder = make_corpus(tmp_path / "c", numbered_rows(2), clips=4)
    make_corpus(folder, "c2|Held out.\nc3|\n", clips=0, name="metadata_eval.csv")
    exit_code, output = validate(capsys, folder, "--fix", tmp_path / "clean.csv", "--json")
    assert exit_code == 1
    assert json.loads(output)["written"] == {
        str(tmp_path / "clean.csv"): 2,
        str(tmp_path / "clean_eval.csv"): 1,
    }
    assert json.loads(output)["errors"][0]["file"] == "metadata_eval.csv"


def test_fix_never_replaces_a_file(tmp_path, capsys):
    folder = make_corpus(tmp_path / "c", numbered_rows(2), clips=2)
    before = (folder / "metadata.csv").read_bytes()
    assert main(["validate", str(folder), "--fix", str(folder / "metadata.csv")]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"myxtts validate: {folder}/metadata.csv: already exists; choose another file with --fix"
    ]
    assert (folder / "metadata.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "options", "described"),
    [
        ("c0|ann|Hello there.\n", ["--layout=audio|speaker|text"], "audio|speaker|text"),
        ("ann;Hello there.;c0\n", ["--layout=speaker|text|audio"],
         "speaker;text;audio"),
        ("c0\t7\tHello there.\n", ["--layout=audio,-,text"], "audio<tab>-<tab>text"),
        ("c0,Hello there.\n", ["--layout=audio|text"], "audio,text"),
        ("c0\tHello there.\n", ["--layout=audio|text"], "audio<tab>text"),
        ("c0|Hello.|Hello there.\n", ["--layout=id|text|normalised text"],
         "audio|text|normalised text"),
        ("id|speaker|transcript\nc0|ann|Hello there.\n", ["--layout=audio|speaker|text"],
         "audio|speaker|text"),
    ],
)  # fmt: skip
def test_a_layout_that_is_forced(tmp_path, capsys, rows, options, described):
    folder = make_corpus(tmp_path / "c", rows, clips=1)
    exit_code, output = validate(capsys, folder, *options)
    assert exit_code == 0
    assert f"1 row, read as columns {described}, with" in output


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--workers=0"], "--workers: found 0, allowed: 1 or more"),
        (["--set=data.max_txt_length=3"], "unknown setting 'data.max_txt_length'; did you mean"),
        (["--config=none.yaml"], "none.yaml: found neither a file nor a built-in"),
        (["--fix=none/clean.csv"], "none/clean.csv: cannot be written (no folder none)"),
    ],
)
def test_calls_that_must_change(tmp_path, monkeypatch, capsys, options, line):
    monkeypatch.chdir(tmp_path)
    make_corpus(Path("c"), numbered_rows(1), clips=1)
    assert main(["validate", "c", *options]) == 2
    assert line in capsys.readouterr().err


def test_validate_and_stats_agree_on_hours(demo_corpus, capsys):
    assert main(["validate", str(demo_corpus), "--json"]) == 0
    validated = json.loads(capsys.readouterr().out)
    assert main(["stats", str(demo_corpus), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert validated["hours"] == round(measured["hours"], 4)


def test_checksums_find_a_recording_that_was_replaced_unnoticed(demo_corpus, tmp_path, capsys):
    """The same size and modification time: training would continue with the features it has."""
    folder = tmp_path / "corpus"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    assert main(["prepare", str(folder)]) == 0
    assert validate(capsys, folder, "--checksums")[0] == 0
    wav = sorted((folder / "wavs").iterdir())[0]
    status = wav.stat()
    samples, rate_hz = soundfile.read(wav)
    soundfile.write(wav, samples * 0.9, rate_hz)
    os.utime(wav, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert wav.stat().st_size == status.st_size
    assert validate(capsys, folder)[0] == 0
    exit_code, output = validate(capsys, folder, "--checksums", "--json")
    assert exit_code == 1
    (error,) = json.loads(output)["errors"]
    assert wav.name in error["detail"]
