"""Voices that are saved, listed, spoken with and removed from the command line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.cli.main import main


@pytest.fixture(scope="module")
def run_dir(trained_run, tmp_path_factory) -> Path:
    """A run of this file's own, so that the voices in it are known."""
    return shutil.copytree(trained_run, tmp_path_factory.mktemp("voices") / "run")


@pytest.fixture(scope="module")
def recordings(demo_corpus) -> list[str]:
    return [str(file) for file in sorted((demo_corpus / "wavs").glob("*.wav"))[:2]]


def fails(capsys, *arguments) -> str:
    """The one line of a command that must exit with 2."""
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
    assert main(["voice", "list", *run]) == 0
    assert "no voices yet" in capsys.readouterr().out
    assert main(["voice", "add", "anna", *recordings, *run]) == 0
    assert "from 2 recordings with the checkpoint of step 6" in capsys.readouterr().out
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
    assert listed(capsys, run_dir) == {}
    assert "no voice 'anna'" in fails(capsys, *speak, "--voice", "anna")


def test_a_voice_of_other_weights_and_a_damaged_one(run_dir, recordings, tmp_path, capsys):
    run = ["--checkpoint", str(run_dir)]
    for name in ("ben", "eva"):
        assert main(["voice", "add", name, recordings[0], *run]) == 0
    (run_dir / "voices" / "eva.safetensors").write_bytes(b"no tensors")
    earlier = run_dir / "checkpoints" / "step_00000003"
    voices = listed(capsys, earlier)
    assert voices["ben"]["step"] == 6
    assert (
        "encoded with another checkpoint (step 6, this one is step 3)" in voices["ben"]["problem"]
    )
    assert "damaged" in voices["eva"]["problem"]
    assert main(["voice", "list", *run]) == 0
    assert "voice 'eva': damaged" in capsys.readouterr().out

    out = tmp_path / "out.wav"
    line = fails(
        capsys, "synthesize", "--checkpoint", earlier, "--text", "Good morning.", "--voice", "ben",
        "--out", out,
    )  # fmt: skip
    assert "voice 'ben': encoded with another checkpoint (step 6, this one is step 3)" in line
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
        (["remove", "anna"], "no voice 'anna'; it has: kept"),
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
