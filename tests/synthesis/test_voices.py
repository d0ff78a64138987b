import json
import random
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from safetensors.numpy import load_file

from myxtts.errors import CheckpointError, DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.run_dir import take_snapshot
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.voices import (
    Reference,
    SavedVoice,
    VoiceFacts,
    read_voice,
    remove_voice,
    require_free_name,
    voice_names,
    voices_folder,
    write_voice,
)

WEIGHTS = "a" * 64


def voice_of(name: str, value: float = 1.0) -> SavedVoice:
    facts = VoiceFacts(
        name=name,
        references=[Reference("me.wav", value)],
        made="2025-01-02T03:04:05+00:00",
        step=7,
        weights_sha256=WEIGHTS,
        width=4,
        latents=2,
    )
    vector, latents = np.full((1, 4), value, np.float32), np.full((1, 2, 4), value, np.float32)
    return SavedVoice(facts, vector, latents)


def assert_whole(voice: SavedVoice) -> None:
    """Facts and tensors are of one and the same writing."""
    assert {voice.facts.references[0].seconds} == {*voice.vector.flat, *voice.latents.flat}


def test_a_saved_voice_speaks_as_it_was_heard(tts, recordings):
    tts.add_voice("anna", recordings)
    options = SpeechOptions(steps=2)
    spoken, again = (
        tts.tts("Good morning.", voice, options=options)
        for voice in (recordings, tts.saved_voice("anna"))
    )
    np.testing.assert_array_equal(again, spoken)


def test_the_two_files_of_a_voice(tts, trained_run, recordings):
    tts.add_voice("files", recordings)
    facts = json.loads((trained_run / "voices" / "files.json").read_text(encoding="utf-8"))
    assert (facts["name"], facts["step"]) == ("files", 6)
    assert (facts["width"], facts["latents"]) == (16, 2)
    assert [one["file"] for one in facts["references"]] == [file.name for file in recordings]
    assert all(0.5 < one["seconds"] < 20 for one in facts["references"])
    tensors = load_file(trained_run / "voices" / "files.safetensors")
    assert {name: value.shape for name, value in tensors.items()} == {
        "vector": (1, 16),
        "latents": (1, 2, 16),
    }
    assert {value.dtype.name for value in tensors.values()} == {"float32"}


def test_a_taken_name_is_kept_unless_it_is_to_be_replaced(tts, recordings):
    first = tts.add_voice("taken", recordings[0])
    with pytest.raises(DataError, match=r"already exists in .*; use another name, or .* --replace"):
        tts.add_voice("taken", recordings[1])
    np.testing.assert_array_equal(tts.saved_voice("taken").vector, first.vector)
    second = tts.add_voice("taken", recordings[1], replace=True)
    np.testing.assert_array_equal(tts.saved_voice("taken").vector, second.vector)


def test_other_weights_do_not_speak_with_it(tts, trained_run, recordings, tmp_path):
    """An earlier checkpoint of the run is refused; a copy of the same weights is not."""
    voice = tts.add_voice("anna", recordings[0], replace=True)
    earlier = TTS(trained_run / "checkpoints" / "step_00000003")
    line = (
        r"voice 'anna': encoded with another checkpoint \(step 6, this one is step 3\); "
        r".* voice add RUN anna"
    )
    with pytest.raises(CheckpointError, match=line):
        earlier.saved_voice("anna")
    copy = take_snapshot(trained_run / "checkpoints" / "step_00000006", tmp_path / "copy")
    shutil.copytree(trained_run / "voices", copy / "voices")
    np.testing.assert_array_equal(TTS(copy).saved_voice("anna").latents, voice.latents)


def test_voices_stay_with_the_run_and_not_with_what_comes_and_goes(trained_run, tmp_path):
    checkpoint = trained_run / "checkpoints" / "step_00000006"
    for folder in (trained_run, trained_run / "best", checkpoint):
        assert voices_folder(folder) == trained_run / "voices"
    alone = take_snapshot(checkpoint, tmp_path / "alone")
    assert voices_folder(alone) == alone / "voices"
    with pytest.raises(CheckpointError, match="no such folder"):
        voices_folder(tmp_path / "none")


def test_written_listed_read_removed(tmp_path):
    for name in ("ben", "anna", "سارا", "علی\u200cرضا", "anna.v2"):
        write_voice(tmp_path, voice_of(name))
        assert read_voice(tmp_path, name).facts == voice_of(name).facts
    assert voice_names(tmp_path) == sorted(["ben", "anna", "سارا", "علی\u200cرضا", "anna.v2"])
    for name in voice_names(tmp_path):
        remove_voice(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "0 characters, expected 1 to 50"),
        ("a" * 51, "51 characters"),
        ("../anna", "found '/'"),
        ("..", "expected a letter or digit at the start"),
        ("-anna", "expected a letter or digit at the start"),
        ("anna.", "no full stop at the end"),
        ("an\\na", "found '\\\\'"),
        ("an:na", "found ':'"),
        ("two words", "found ' '"),
        ("an\nna", "found '\\n'"),
        ("\udcff", "found '\\udcff'"),
        ("con", "is a device name on Windows"),
        ("Lpt1.old", "is a device name on Windows"),
        ("COM¹", "is a device name on Windows"),
    ],
)
def test_names_that_not_every_system_can_have(tmp_path, name, problem):
    for use in (read_voice, remove_voice, lambda *of: require_free_name(*of, replace=True)):
        with pytest.raises(DataError) as error:
            use(tmp_path, name)
        assert problem in str(error.value)


def test_names_that_some_systems_cannot_tell_apart(tmp_path):
    write_voice(tmp_path, voice_of("Anna"))
    with pytest.raises(DataError, match="has 'Anna'; remove it, or use that name"):
        require_free_name(tmp_path, "anna", replace=True)
    # One letter, or a letter and its accent: the same name.
    assert require_free_name(tmp_path, "e\u0301ve", replace=False) == "\u00e9ve"


def test_a_name_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no voice 'anna'; it has none yet"):
        read_voice(tmp_path / "none", "anna")
    write_voice(tmp_path, voice_of("anna"))
    with pytest.raises(DataError, match="no voice 'ana'; did you mean 'anna'"):
        remove_voice(tmp_path, "ana")


def damaged(content: bytes, generator: random.Random) -> bytes:
    changed = bytearray(content)
    changed[generator.randrange(len(changed))] ^= generator.randrange(1, 256)
    return bytes(changed)


def test_one_changed_byte_of_the_tensors_is_noticed(tmp_path):
    write_voice(tmp_path, voice_of("anna"))
    file, generator = tmp_path / "anna.safetensors", random.Random(1)
    whole = file.read_bytes()
    for _ in range(100):
        file.write_bytes(damaged(whole, generator))
        with pytest.raises(CheckpointError, match=r"voice 'anna': damaged.*voice remove RUN anna"):
            read_voice(tmp_path, "anna")


def test_one_changed_byte_of_the_facts_leads_to_no_other_voice(tmp_path):
    """It is noticed, or it stands in words that change nothing of the sound."""
    write_voice(tmp_path, voice_of("anna"))
    file, generator = tmp_path / "anna.json", random.Random(1)
    whole = file.read_bytes()
    noticed = 0
    for _ in range(300):
        file.write_bytes(damaged(whole, generator))
        try:
            vector = read_voice(tmp_path, "anna").vector
        except CheckpointError:
            noticed += 1
            continue
        np.testing.assert_array_equal(vector, voice_of("anna").vector)
    assert noticed > 100


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "another"},
        {"name": "ben"},
        {"more": 1},
    ],
)
def test_facts_that_are_none(tmp_path, changes):
    write_voice(tmp_path, voice_of("anna"))
    file = tmp_path / "anna.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(CheckpointError, match="voice 'anna': damaged, or not from MyXTTS"):
        read_voice(tmp_path, "anna")


def test_a_file_that_is_missing(tmp_path):
    write_voice(tmp_path, voice_of("anna"))
    (tmp_path / "anna.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"anna\.safetensors"):
        read_voice(tmp_path, "anna")


def test_a_voice_that_cannot_be_written_leaves_the_old_one(tmp_path):
    write_voice(tmp_path, voice_of("anna", 1.0))
    files = sorted(tmp_path.iterdir())
    tensors = tmp_path / "anna.safetensors"
    tensors.rename(tmp_path / "kept")
    tensors.mkdir()
    with pytest.raises(CheckpointError, match=r"anna\.json: cannot be written"):
        write_voice(tmp_path, voice_of("anna", 2.0))
    tensors.rmdir()
    (tmp_path / "kept").rename(tensors)
    assert sorted(tmp_path.iterdir()) == files
    assert read_voice(tmp_path, "anna").vector[0, 0] == 1.0


def test_stopped_between_the_two_files(tmp_path):
    """The tensors are the later ones, and the facts that go with them still beside their place."""
    facts = tmp_path / "anna.json"
    write_voice(tmp_path, voice_of("anna", 1.0))
    before = facts.read_bytes()
    write_voice(tmp_path, voice_of("anna", 2.0))
    facts.rename(tmp_path / ".anna.json.0123abcd.part")
    (tmp_path / ".anna.json.00000000.part").write_text("half of some oth")
    facts.write_bytes(before)
    voice = read_voice(tmp_path, "anna")
    assert_whole(voice)
    assert voice.vector[0, 0] == 2.0
    remove_voice(tmp_path, "anna")
    assert list(tmp_path.iterdir()) == []


def test_a_writer_killed_at_any_moment_leaves_a_whole_voice(tmp_path, user_environment):
    program = f"""
import itertools, sys
from pathlib import Path
import numpy as np
from myxtts.synthesis.voices import Reference, SavedVoice, VoiceFacts, write_voice
for value in itertools.count(1.0):
    facts = VoiceFacts(name="anna", references=[Reference("me.wav", value)], made="", step=7,
                       weights_sha256="{WEIGHTS}", width=4, latents=2)
    arrays = np.full((1, 4), value, np.float32), np.full((1, 2, 4), value, np.float32)
    write_voice(Path(sys.argv[1]), SavedVoice(facts, *arrays))
    print(value, flush=True)
"""
    generator = random.Random(2)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            env=user_environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        process.stdout.readline()
        time.sleep(generator.random() / 10)
        process.kill()
        with process:
            said = process.stdout.read().split()
        voice = read_voice(tmp_path, "anna")
        assert_whole(voice)
        assert not said or voice.vector[0, 0] >= float(said[-1])
