"""Runs, corpora and folders that somebody else has made, each with one thing in them that bites."""

import json
import os
import resource
import shutil
import time

import numpy as np
import pytest
import yaml

from myxtts.cli.main import main
from myxtts.data.corpus import open_corpus
from myxtts.errors import CheckpointError, DataError
from myxtts.runs.checkpoint import write_sealed_folder
from myxtts.runs.run_dir import RunDir
from myxtts.synthesis.voices import (
    Reference,
    SavedVoice,
    VoiceFacts,
    VoiceStore,
    voice_names,
    write_voice,
)
from myxtts.training.output import RunWriter

PRECIOUS = b"what the user would miss"


@pytest.fixture
def run(tmp_path, trained_run):
    shutil.copytree(trained_run, tmp_path / "run")
    return RunDir(tmp_path / "run")


@pytest.fixture
def precious(tmp_path):
    file = tmp_path / "precious"
    file.write_bytes(PRECIOUS)
    yield file
    assert file.read_bytes() == PRECIOUS


def put_link(link, target):
    link.unlink(missing_ok=True)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)


def test_the_lock_of_a_run_empties_no_other_file(run, precious):
    put_link(run.lock_file, precious)
    with pytest.raises(CheckpointError), run.lock():
        pass


@pytest.mark.parametrize("name", ["metrics.jsonl", "measures.jsonl"])
@pytest.mark.parametrize("exists", [True, False])
def test_lines_are_never_written_through_a_link(run, precious, tmp_path, name, exists):
    put_link(run.path / name, precious if exists else tmp_path / "new")
    with pytest.raises(CheckpointError):
        run.make()
    assert not (tmp_path / "new").exists()


def test_what_a_run_writes_whole_replaces_a_link(run, precious, miniature, corpus):
    from myxtts.config.loading import save_config
    from myxtts.data.shapes import save_plan

    config = miniature()
    sounds = (run.sample_file(7), run.recording_file)
    whole = (run.config_file, run.tokenizer_file, run.plan_file, run.alignment_file(7), *sounds)
    for file in (*whole, run.report_file):
        put_link(file, precious)
    save_config(config, run.config_file)
    corpus.tokenizer.save(run.tokenizer_file)
    save_plan(corpus.train.plan, config, run.plan_file)
    writer = RunWriter(run, 10)
    writer.write_sample(7, np.zeros(100, np.float32), 22_050, "text")
    writer.write_recording(7, np.zeros(100, np.float32), 22_050, "text")
    writer.write_alignment(7, np.eye(4, dtype=np.float32))
    writer.close()
    for file in whole:
        assert not file.is_symlink()


FOLDERS = ["checkpoints", "best", "samples", "events", "evidence", "evaluation", "voices"]
FOLDERS += [".measuring"]


@pytest.mark.parametrize("name", FOLDERS)
def test_no_folder_of_a_run_is_written_to_through_a_link(run, tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".notes.00000000.part").touch()
    shutil.rmtree(run.path / name, ignore_errors=True)
    (run.path / name).symlink_to(elsewhere)
    with pytest.raises(CheckpointError, match=f"{name}: is a link"):
        run.make()
    assert [file.name for file in elsewhere.iterdir()] == [".notes.00000000.part"]


def test_a_voice_is_not_saved_through_a_link(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run.path / "voices").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="is a link"):
        VoiceStore(run.path)


def test_a_checkpoint_behind_a_link_is_none_of_the_run(run, tmp_path):
    (newest,) = run.checkpoint_folders()[-1:]
    shutil.move(newest, tmp_path / "moved")
    newest.symlink_to(tmp_path / "moved")
    assert newest not in run.checkpoint_folders()


def test_preparing_removes_only_what_it_has_made(demo_corpus, miniature, tmp_path):
    cache_dir = tmp_path / "cache"
    own = ["0" * 32 + ".build", "." + "0" * 32 + ".00000000.part"]
    others = ["thesis.build", "film.part", ".film.part", "f" * 31 + ".build", "0" * 32 + ".part"]
    long_ago = time.time() - 30 * 86_400
    for name in (*own, *others):
        (cache_dir / name).mkdir(parents=True)
        (cache_dir / name / "file").write_text("x")
        os.utime(cache_dir / name, (long_ago, long_ago))
    # A folder that says it is an older cache of the same corpus.
    (cache_dir / "album").mkdir()
    open_corpus(miniature(cache_dir=str(cache_dir), workers=1))
    made = next(cache_dir.glob("*/cache.json"))
    shutil.copy(made, cache_dir / "album" / "cache.json")
    (demo_corpus / "unused").touch()
    open_corpus(miniature(cache_dir=str(cache_dir), workers=1, max_text_length=190))
    left = {path.name for path in cache_dir.iterdir()}
    assert left >= {*others, "album"}
    assert left.isdisjoint(own)


@pytest.mark.parametrize("name", ["myxtts-cache", "{cache}.build"])
def test_features_are_not_written_through_a_link_in_a_corpus(
    demo_corpus, miniature, tmp_path, name
):
    corpus, elsewhere = tmp_path / "corpus", tmp_path / "elsewhere"
    shutil.copytree(demo_corpus, corpus, ignore=shutil.ignore_patterns("myxtts-cache"))
    config = miniature(train_data=str(corpus), cache_dir=None, workers=1)
    elsewhere.mkdir()
    if name != "myxtts-cache":
        open_corpus(config)
        cache = next(corpus.glob("myxtts-cache/*/cache.json")).parent
        shutil.rmtree(cache)
        name = f"myxtts-cache/{cache.name}.build"
    (corpus / name).symlink_to(elsewhere)
    with pytest.raises(DataError):
        open_corpus(config)
    assert list(elsewhere.iterdir()) == []


WRONG_LINES = [
    "[]",
    "7",
    "{",
    "\x00",
]


@pytest.mark.parametrize("line", WRONG_LINES)
def test_a_wrong_line_is_named_by_compare_and_dropped_by_resume(run, capsys, caplog, line):
    with open(run.metrics_file, "a") as stream:
        stream.write(line + "\n")
    number = len(run.metrics_file.read_text().splitlines())
    assert main(["compare", str(run), "--out", str(run.path / "out")]) == 2
    problem = capsys.readouterr().err
    assert f"metrics.jsonl:{number}: not a line of a run" in problem
    assert len(problem.splitlines()) == 1
    before = run.metrics_file.read_text().splitlines()
    RunWriter(run, 100).close()
    assert run.metrics_file.read_text().splitlines() == before[:-1]
    assert f"metrics.jsonl:{number}: not a line of a run" in caplog.text


def test_a_file_with_an_odd_name_does_not_break_the_list_of_voices(run, capsys):
    facts = VoiceFacts(
        name="anna",
        references=[Reference("a.wav", 1.0)],
        made="2026-01-01T00:00:00+00:00",
        step=1,
        weights_sha256="0",
        width=2,
        latents=1,
    )
    voice = SavedVoice(facts, np.zeros((1, 2), np.float32), np.zeros((1, 1, 2), np.float32))
    write_voice(run.voices, voice)
    odd = ["\x1b[2J.json", "a b.json", "-x.json", b"\xff.json", f"{'x' * 80}.json"]
    for name in odd:
        with open(run.voices / os.fsdecode(name), "wb"):
            pass
    assert voice_names(run.voices) == ["anna"]
    assert main(["voice", "list", "--checkpoint", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "anna" in shown
    assert "\x1b" not in shown


def test_names_that_are_not_text_are_one_line(demo_corpus, run, tmp_path, capsys):
    odd = tmp_path / os.fsdecode(b"n\xe4me")
    shutil.copytree(demo_corpus, odd, ignore=shutil.ignore_patterns("myxtts-cache"))
    for arguments in (
        ["validate", odd],
        ["prepare", odd],
        ["train", demo_corpus, "--run-dir", odd],
    ):
        assert main([*map(str, arguments)]) == 2
    shutil.rmtree(odd)
    shutil.move(run, odd)
    for arguments in (["compare", odd], ["train", "--resume", odd]):
        assert main([*map(str, arguments)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert all("n\\udce4me" in line and "not UTF-8" in line for line in lines)


def resealed(folder, **files):
    """Return a checkpoint with other files, by somebody who knows the format."""
    content = {file.name: file.read_bytes() for file in folder.iterdir()}
    del content["manifest.json"]
    write_sealed_folder(folder, content | files)


def test_a_configuration_of_absurd_size_is_compared_with_the_weights_first(run):
    """Nine billion weights, if they were built."""
    from myxtts.synthesis.tts import TTS

    (folder,) = run.checkpoint_folders()[-1:]
    sizes = dict.fromkeys(("text_width", "voice_width", "decoder_width"), 2_048)
    sizes |= dict.fromkeys(("text_blocks", "voice_blocks", "decoder_blocks"), 64)
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings["model"] |= sizes
    resealed(folder, **{"config.yaml": json.dumps(settings).encode()})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match=r"its shape does not match config\.yaml"):
        TTS(folder)
    assert main(["train", "corpus", "--resume", str(run), "--max-steps=9"]) == 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000
