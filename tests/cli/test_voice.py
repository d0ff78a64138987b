"""Voices that are saved, listed, spoken with and removed from the command line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.runs.run_dir import find_checkpoint


@pytest.fixture(scope="module")
def run_dir(trained_run, tmp_path_factory) -> Path:
    """Return a run of this file's own, so that the voices in it are known."""
    return shutil.copytree(trained_run, tmp_path_factory.mktemp("voices") / "run")


@pytest.fixture(scope="module")
def recordings(demo_corpus) -> list[str]:
    return [str(file) for file in sorted((demo_corpus / "wavs").glob("*.wav"))[:2]]


def fails(capsys, *arguments) -> str:
    """Return the one line of a command that must exit with 2."""
    assert main([str(argument) for argument in arguments]) == 2
    # Lines before it show what was being done.
    line = capsys.readouterr().err.strip().splitlines()[-1]
    return line


def listed(capsys, checkpoint) -> dict[str, dict]:
    capsys.readouterr()
    assert main(["voice", "list", "--checkpoint", str(checkpoint), "--json"]) == 0
    return {voice["name"]: voice for voice in json.loads(capsys.readouterr().out)["voices"]}


def test_from_a_recording_to_speech_by_name(run_dir, recordings, tmp_path, capsys):
    run = ["--checkpoint", str(run_dir)]
    speakers = {name: it["source"] for name, it in listed(capsys, run_dir).items()}
    assert list(speakers.values()) == ["speaker"] * 2
    assert main(["voice", "add", "anna", *recordings, *run]) == 0
    assert "from 2 recordings" in capsys.readouterr().out
    assert main(["voice", "list", *run]) == 0
    shown = capsys.readouterr().out
    assert "anna" in shown
    assert all(Path(file).name in shown for file in recordings)
    assert listed(capsys, run_dir)["anna"]["problem"] is None

    out = tmp_path / "out.wav"
    speak = ["synthesize", *run, "--text", "Good morning.", "--out", str(out), "--steps", "2"]
    assert main([*speak, "--voice", "anna"]) == 0
    by_name, _ = soundfile.read(out)
    assert main([*speak, "--speaker-wav", *recordings]) == 0
    np.testing.assert_allclose(soundfile.read(out)[0], by_name, atol=2e-3)

    assert main(["voice", "remove", "anna", *run]) == 0
    assert set(listed(capsys, run_dir)) == set(speakers)
    assert "'anna'" in fails(capsys, *speak, "--voice", "anna")


def test_a_voice_of_other_weights_and_a_damaged_one(run_dir, recordings, tmp_path, capsys):
    run = ["--checkpoint", str(run_dir)]
    for name in ("ben", "eva"):
        assert main(["voice", "add", name, recordings[0], *run]) == 0
    (run_dir / "voices" / "eva.safetensors").write_bytes(b"no tensors")
    step = find_checkpoint(run_dir, for_synthesis=True).info.step
    other = run_dir / "checkpoints" / f"step_{9 - step:08d}"  # of 3 and 6
    voices = listed(capsys, other)
    assert voices["ben"]["step"] == step
    assert f"step {step}" in voices["ben"]["problem"]
    assert "damaged" in voices["eva"]["problem"]
    assert main(["voice", "list", *run]) == 0
    assert "voice 'eva': damaged" in capsys.readouterr().out

    out = tmp_path / "out.wav"
    line = fails(
        capsys, "synthesize", "--checkpoint", other, "--text", "Good morning.", "--voice", "ben",
        "--out", out,
    )  # fmt: skip
    assert "'ben'" in line
    assert not out.exists()
    for name in ("ben", "eva"):
        assert main(["voice", "remove", name, *run]) == 0
    assert list((run_dir / "voices").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["add", "a/b", "none.wav"], "voice name 'a/b': found '/'"),
        (["add", "anna", "none.wav"], "none.wav: no such file"),
        (["add", "kept", "none.wav"], "already exists in"),
        (["add", "kept", "none.wav", "--replace"], "none.wav: no such file"),
        (["remove", "anna"], "'anna'"),
        (["add", "rob", "none.wav", "--replace"], "'rob'"),
        (["remove", "rob"], "'rob'"),
        (["list", "--checkpoint", "none"], "none: no such folder"),
        (["remove", "anna", "--checkpoint", "none"], "none: no such folder"),
    ],
)
def test_bad_input_changes_nothing(run_dir, recordings, capsys, arguments, line):
    folder = run_dir / "voices"
    folder.mkdir(exist_ok=True)
    (folder / "kept.json").write_text("whatever it is")
    before = {file: file.read_bytes() for file in folder.iterdir()}
    action, *rest = arguments
    assert line in fails(capsys, "voice", action, "--checkpoint", run_dir, *rest)
    assert {file: file.read_bytes() for file in folder.iterdir()} == before
    (folder / "kept.json").unlink()


def test_the_traceback_is_shown_wherever_it_is_asked_for(tmp_path, capsys):
    of_none = ["list", "--checkpoint", str(tmp_path / "none")]
    for arguments in (["voice", "--traceback", *of_none], ["voice", *of_none, "--traceback"]):
        assert main(arguments) == 2
        assert "Traceback" in capsys.readouterr().err


def test_without_a_run_the_voices_of_the_base_are_listed(capsys):
    assert main(["voice", "list", "--json"]) == 0
    voices = json.loads(capsys.readouterr().out)["voices"]
    assert {voice["source"] for voice in voices} == {"included"}
    assert main(["voice", "remove", "base", voices[0]["name"]]) == 2
