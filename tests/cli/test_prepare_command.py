import shutil

import pytest

from myxtts.cli.main import main


@pytest.fixture
def own_corpus(demo_corpus, tmp_path):
    folder = tmp_path / "corpus"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    return folder


def test_it_says_what_it_made_and_makes_it_once(own_corpus, capsys):
    assert main(["prepare", str(own_corpus)]) == 0
    first = capsys.readouterr().out.splitlines()
    assert first[0].startswith("Training: 18 clips, ")
    assert first[1].startswith("Validation: ")
    caches = sorted(path.name for path in (own_corpus / "myxtts-cache").iterdir())
    assert main(["prepare", str(own_corpus)]) == 0
    assert sorted(path.name for path in (own_corpus / "myxtts-cache").iterdir()) == caches


def test_what_was_left_out_is_said(own_corpus, capsys):
    next((own_corpus / "wavs").glob("en-0[0-4]*.wav")).unlink()
    assert main(["prepare", str(own_corpus)]) == 0
    assert "  left out: 1 clip, missing audio" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["none"], "none: no such folder"),
        (
            ["corpus", "--set", "data.cache_dir=corpus/metadata_eval.csv"],
            "cannot write features there",
        ),
    ],
)
def test_bad_input(own_corpus, monkeypatch, capsys, arguments, line):
    monkeypatch.chdir(own_corpus.parent)
    assert main(["prepare", *arguments]) == 2
    assert line in capsys.readouterr().err
