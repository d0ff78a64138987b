import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from myxtts.errors import CheckpointError, DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.run_dir import run_or_base, take_snapshot
from myxtts.synthesis.tts import TTS
from myxtts.synthesis.voices import (
    Reference,
    SavedVoice,
    VoiceFacts,
    VoiceStore,
    read_voice,
    remove_voice,
    voice_names,
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
    assert (facts["name"], facts["step"]) == ("files", tts.step)
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
    with pytest.raises(DataError):
        tts.add_voice("taken", recordings[1])
    np.testing.assert_array_equal(tts.saved_voice("taken").vector, first.vector)
    second = tts.add_voice("taken", recordings[1], replace=True)
    np.testing.assert_array_equal(tts.saved_voice("taken").vector, second.vector)


def test_other_weights_do_not_speak_with_it(tts, trained_run, recordings, tmp_path):
    """Another checkpoint of the run is refused; a copy of the same weights is not."""
    voice = tts.add_voice("anna", recordings[0], replace=True)
    other = 9 - tts.step  # of 3 and 6
    with pytest.raises(CheckpointError):
        TTS(trained_run / "checkpoints" / f"step_{other:08d}").saved_voice("anna")
    own = trained_run / "checkpoints" / f"step_{tts.step:08d}"
    copy = take_snapshot(own, tmp_path / "copy")
    shutil.copytree(trained_run / "voices", copy / "voices")
    np.testing.assert_array_equal(TTS(copy).saved_voice("anna").latents, voice.latents)


def test_voices_stay_with_the_run_and_not_with_what_comes_and_goes(trained_run, tmp_path):
    checkpoint = trained_run / "checkpoints" / "step_00000006"
    for folder in (trained_run, trained_run / "best", checkpoint):
        assert VoiceStore(folder).folder == trained_run / "voices"
    alone = take_snapshot(checkpoint, tmp_path / "alone")
    assert VoiceStore(alone).folder == alone / "voices"
    with pytest.raises(CheckpointError, match="no such folder"):
        VoiceStore(tmp_path / "none")


@pytest.fixture
def base_store(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    return VoiceStore(run_or_base(None))


def test_voices_for_the_base_are_the_users(base_store, tmp_path):
    included = base_store.names
    before = sorted(base_store.included.iterdir())
    write_voice(base_store.folder, voice_of("mine"))
    assert base_store.folder.is_relative_to(tmp_path)
    assert base_store.names == [*included, "mine"]
    assert (base_store.source(included[0]), base_store.source("mine")) == ("included", "saved")
    base_store.remove("mine")
    assert base_store.names == included
    assert sorted(base_store.included.iterdir()) == before


def test_included_voices_are_read_only(base_store):
    before = {file: file.read_bytes() for file in base_store.included.iterdir()}
    for name in (base_store.names[0], base_store.names[0].upper()):
        for use in (base_store.remove, lambda it: base_store.require_free(it, replace=True)):
            with pytest.raises(DataError):
                use(name)
    assert {file: file.read_bytes() for file in base_store.included.iterdir()} == before


def test_speakers_of_the_corpus_are_voices(tts, trained_run, demo_corpus):
    """Without being saved, in whichever checkpoint; a run of one speaker has its voice."""
    speakers = list(VoiceStore(trained_run).speakers)
    assert set(speakers) <= set(tts.voices)
    options = SpeechOptions(steps=2)
    spoken = [tts.tts("Good morning.", voice=name, options=options) for name in speakers]
    assert spoken[0].shape != spoken[1].shape or not np.allclose(*spoken)
    first = TTS(trained_run / "checkpoints" / "step_00000003")
    assert first.tts("Good morning.", voice=speakers[0], options=options).size
    with pytest.raises(DataError):
        VoiceStore(trained_run).remove(speakers[0])


def test_a_run_of_one_speaker_speaks_in_its_voice(trained_run, recordings, tmp_path):
    run = shutil.copytree(trained_run, tmp_path / "run")
    mel = next(iter(VoiceStore(run).speakers.values()))
    save_file({"0": mel}, run / "speakers.safetensors", {"speakers": json.dumps(["Ann B."])})
    tts = TTS(run)
    tts.add_voice("aaa", recordings[0])
    options = SpeechOptions(steps=2)
    named, default = (
        tts.tts("Good morning.", voice=it, options=options) for it in ("Ann B.", None)
    )
    np.testing.assert_array_equal(named, default)


def test_written_listed_read_removed(tmp_path):
    for name in ("ben", "anna", "سارا", "علی\u200cرضا", "anna.v2"):
        write_voice(tmp_path, voice_of(name))
        assert read_voice(tmp_path, name).facts == voice_of(name).facts
    assert voice_names(tmp_path) == sorted(["ben", "anna", "سارا", "علی\u200cرضا", "anna.v2"])
    for name in voice_names(tmp_path):
        remove_voice(tmp_path, name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    ["", "a" * 51, "../anna", "..", "-anna", "anna.", "an\\na", "an:na", "two words", "\udcff"],
)
def test_names_that_not_every_system_can_have(tmp_path, name):
    for use in (read_voice, remove_voice, lambda folder, it: VoiceStore(folder).require_free(it)):
        with pytest.raises(DataError, match="voice name"):
            use(tmp_path, name)


def test_a_letter_and_its_accent_are_one_name(tmp_path):
    assert VoiceStore(tmp_path).require_free("e\u0301ve") == "\u00e9ve"


def test_a_missing_name_is_refused_with_the_nearest(tmp_path):
    write_voice(tmp_path, voice_of("anna"))
    for use in (read_voice, remove_voice):
        with pytest.raises(DataError, match="'anna'"):
            use(tmp_path, "ana")


def test_a_changed_byte_never_changes_a_voice(tmp_path):
    write_voice(tmp_path, voice_of("anna"))
    generator = random.Random(1)
    for file in sorted(tmp_path.iterdir()):
        whole, noticed = file.read_bytes(), 0
        for _ in range(100):
            changed = bytearray(whole)
            changed[generator.randrange(len(changed))] ^= generator.randrange(1, 256)
            file.write_bytes(changed)
            try:
                vector = read_voice(tmp_path, "anna").vector
            except CheckpointError:
                noticed += 1
            else:
                np.testing.assert_array_equal(vector, voice_of("anna").vector)
        assert noticed > (99 if file.suffix == ".safetensors" else 30)
        file.write_bytes(whole)


@pytest.mark.parametrize("changes", [{"format": "another"}, {"name": "ben"}, {"more": 1}])
def test_foreign_facts_are_damaged(tmp_path, changes):
    write_voice(tmp_path, voice_of("anna"))
    file = tmp_path / "anna.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(CheckpointError):
        read_voice(tmp_path, "anna")


@pytest.mark.parametrize("value", [1e30, np.inf, np.nan])
def test_values_that_no_encoder_gives_are_damaged(tmp_path, value):
    write_voice(tmp_path, replace(voice_of("anna"), latents=np.float32([[[value]]])))
    with pytest.raises(CheckpointError):
        read_voice(tmp_path, "anna")


def test_an_interrupted_replacement_is_damaged_and_never_a_mixture(tmp_path):
    facts = tmp_path / "anna.json"
    write_voice(tmp_path, voice_of("anna", 1.0))
    before = facts.read_bytes()
    write_voice(tmp_path, voice_of("anna", 2.0))
    facts.write_bytes(before)
    with pytest.raises(CheckpointError):
        read_voice(tmp_path, "anna")
    remove_voice(tmp_path, "anna")
    assert list(tmp_path.iterdir()) == []
