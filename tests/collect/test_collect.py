"""From recordings to a corpus that training reads; bad recordings do not stop the others."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import write_audio
from myxtts.cli.main import main
from myxtts.collect import recordings, texts
from myxtts.collect.folder import CorpusFolder, append, read_lines, read_rows, tidy
from myxtts.collect.recordings import find_sources
from myxtts.collect.texts import CommandTranscriber, TranscriberError
from myxtts.data.metadata import LJSpeechDataset

RATE_HZ = 22_050
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


def typed(*arguments):
    return main(["collect", "--any-voice", *map(str, arguments)])


def collected(capsys, *arguments):
    """Return what the command prints for programs, without transcripts."""
    assert typed(*arguments, "--no-transcripts", "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "corpus"


@pytest.mark.usefixtures("asr_model")
def test_the_corpus_is_what_training_reads(recording, out, capsys):
    before = recording.read_bytes()
    assert typed(recording.parent, "--out", out, "--json") == 0
    report = json.loads(capsys.readouterr().out)
    rows = LJSpeechDataset(out, validation_fraction=None)
    assert len(rows) == report["kept"]["clips"] > 8
    assert (rows[0].speaker, rows[0].language) == ("speaker", "en")
    assert all(row.audio_path.is_file() for row in rows)
    assert report["speech_seconds"] < report["seconds"]
    assert recording.read_bytes() == before
    assert main(["validate", str(out)]) == 0


def test_a_second_launch_repeats_nothing(recording, out, capsys, monkeypatch, asr_model):
    assert typed(recording, "--out", out, "--json") == 0
    first = capsys.readouterr().out
    times = {file: file.stat().st_mtime_ns for file in (out / "wavs").iterdir()}
    monkeypatch.setattr(recordings, "cut_recording", None)
    monkeypatch.setattr(type(asr_model), "transcribe", None)
    assert typed(recording, "--out", out, "--json") == 0
    assert capsys.readouterr().out == first
    assert times == {file: file.stat().st_mtime_ns for file in (out / "wavs").iterdir()}


def test_recordings_are_added_and_the_same_one_is_not_kept_twice(glued, recording, out, capsys):
    first = collected(capsys, recording, "--out", out)
    again = recording.parent / "again.flac"
    write_audio(again, glued.samples * np.float32(0.5), RATE_HZ)
    second = collected(capsys, recording.parent, "--out", out)
    assert second["recordings"] == 2
    assert second["review"]["clips"] == first["review"]["clips"]
    assert second["dropped"]["duplicate"]["pieces"] == first["review"]["clips"]


def test_a_recording_that_changed_takes_the_place_of_what_it_was(glued, recording, out, capsys):
    first = collected(capsys, recording, "--out", out)
    write_audio(recording, glued.samples[: glued.samples.size // 2], RATE_HZ)
    second = collected(capsys, recording, "--out", out)
    assert second["recordings"] == 1
    assert second["seconds"] == pytest.approx(first["seconds"] / 2, abs=0.2)


def test_an_interrupted_line_is_not_read(tmp_path):
    file = tmp_path / "lines.jsonl"
    append(file, {"number": 1})
    with file.open("ab") as stream:
        stream.write(b'{"number": 2')
    append(file, {"number": 3})
    assert [line["number"] for line in read_lines(file, ["number"])] == [1, 3]


def test_a_line_with_a_name_that_is_not_utf8_is_read_back(tmp_path):
    line = {"by": os.fsdecode(b"command m\xfcnchen {}")}
    append(tmp_path / "lines.jsonl", line)
    assert list(read_lines(tmp_path / "lines.jsonl", ["by"])) == [line]


def test_noise_and_clipping_are_dropped(glued, write, out, capsys):
    noisy = write("noisy.wav", glued.with_noise(-25.0))
    clipped = write("clipped.wav", np.clip(glued.samples * 8, -0.9, 0.9))
    report = collected(capsys, noisy, clipped, "--out", out)
    assert {"noisy", "clipped"} <= set(report["dropped"])
    assert report["review"]["clips"] == 0


def test_music_is_not_speech(write, out, capsys):
    times = np.arange(8 * RATE_HZ) / RATE_HZ
    chord = sum(np.sin(2 * np.pi * pitch * times) for pitch in (220, 277, 330, 440, 554, 660))
    silence = np.zeros(2 * RATE_HZ)
    music = np.concatenate([silence, 0.1 * chord, silence]).astype(np.float32)
    report = collected(capsys, write("music.wav", music), "--out", out)
    assert report["review"]["clips"] == 0
    assert list(report["dropped"]) == ["music or machine"]


def test_bad_recordings_are_one_problem_each_and_the_rest_is_collected(
    recording, tmp_path, out, capsys
):
    folder = recording.parent
    (folder / "empty.wav").write_bytes(b"")
    (folder / "notes.wav").write_text("no sound at all" * 100)
    (folder / "half.flac").write_bytes(b"fLaC" + bytes(5000))
    (folder / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    shutil.copy(recording, os.fsencode(folder) + b"/m\xfcnchen.wav")
    (folder / "readme.txt").write_text("not audio")
    report = collected(capsys, folder, "--out", out)
    assert len(report["problems"]) == 5
    for name in ("empty.wav", "notes.wav", "half.flac", "nowhere.wav", "nchen.wav"):
        assert sum(name in problem for problem in report["problems"]) == 1
    assert report["review"]["clips"] > 8
    assert collected(capsys, folder, "--out", out) == report


@needs_ffmpeg
def test_videos_with_and_without_sound(recording, out, capsys):
    folder = recording.parent
    picture = ["-f", "lavfi", "-i", "color=s=16x16:d=1"]
    run = ["ffmpeg", "-v", "error"]
    subprocess.run([*run, *picture, folder / "mute.mp4"], check=True)
    subprocess.run([*run, *picture, "-i", recording, folder / "talk.mkv"], check=True)
    damaged = (folder / "talk.mkv").read_bytes()
    (folder / "damaged.mkv").write_bytes(damaged[:60] + bytes(500))
    recording.unlink()
    report = collected(capsys, folder, "--out", out)
    assert report["review"]["clips"] > 8
    assert len(report["problems"]) == 2
    for name in ("mute.mp4", "damaged.mkv"):
        assert any(name in problem for problem in report["problems"])


@needs_ffmpeg
def test_protected_and_cut_off_files_are_reported(recording, out, capsys):
    folder = recording.parent
    key = ["-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb", "-encryption_kid", "a7" * 16]
    scheme = ["-encryption_scheme", "cenc-aes-ctr", *key]
    run = ["ffmpeg", "-v", "error", "-i", recording]
    subprocess.run([*run, *scheme, folder / "bought.m4a"], check=True)
    subprocess.run([*run, "-movflags", "+faststart", folder / "whole.m4a"], check=True)
    whole = (folder / "whole.m4a").read_bytes()
    (folder / "bought.m4p").write_bytes(whole.replace(b"mp4a", b"drms", 1))
    (folder / "cut.m4a").write_bytes(whole[: len(whole) // 2])
    report = collected(capsys, folder, "--out", out)
    problems = {line.partition(": ")[0].rpartition("/")[2]: line for line in report["problems"]}
    assert set(problems) == {"bought.m4a", "bought.m4p", "cut.m4a"}
    assert "DRM" in problems["bought.m4a"]
    assert "DRM" in problems["bought.m4p"]
    assert report["review"]["clips"] > 8


def test_links_are_followed_to_files_and_not_to_folders(tmp_path):
    folder, elsewhere = tmp_path / "talks", tmp_path / "elsewhere"
    for place in (folder / "b", folder / ".hidden", elsewhere):
        place.mkdir(parents=True)
    for file in (folder / "b" / "2.wav", folder / ".hidden" / "3.wav", elsewhere / "4.wav"):
        file.write_bytes(b"sound")
    (folder / "1.mp3").symlink_to(folder / "b" / "2.wav")
    (folder / "linked").symlink_to(elsewhere)
    (folder / "a.txt").write_text("no sound")
    found = find_sources([folder, folder / "b"], tmp_path / "corpus")
    assert [source.path for source in found] == [(folder / "b" / "2.wav").resolve()]


@needs_ffmpeg
def test_after_ffmpeg_is_installed_the_same_command_reads_the_rest(
    recording, out, capsys, monkeypatch
):
    memo = recording.with_name("memo.m4p")
    subprocess.run(["ffmpeg", "-v", "error", "-i", recording, "-f", "ipod", memo], check=True)
    command = (memo, "--out", out)
    with monkeypatch.context() as without:
        without.setattr("shutil.which", lambda name: None)
        for _ in range(2):
            assert typed(*command, "--no-transcripts") == 2
        capsys.readouterr()
    assert len(CorpusFolder(out).sources.read_text().splitlines()) == 1
    report = collected(capsys, *command)
    assert report["problems"] == []
    assert report["review"]["clips"] > 8


def test_a_recording_damaged_in_its_middle_gives_what_is_before(recording, out, capsys):
    samples, rate = soundfile.read(recording)
    flac = recording.with_suffix(".flac")
    soundfile.write(flac, samples, rate)
    content = bytearray(flac.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) // 2)
    flac.write_bytes(content)
    recording.unlink()
    report = collected(capsys, flac, "--out", out)
    assert 0 < report["seconds"] < samples.size / rate
    assert report["review"]["clips"] > 2
    assert len(report["problems"]) == 1


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["nothing.wav", "--out", "c"], "nothing.wav"),
        (["empty", "--out", "c"], "empty"),
        (["talk.wav", "--out", "other"], "other"),
        (["talk.wav", "--out", "talk.wav"], "talk.wav"),
        (["talk.wav", "--out", "c", "--shortest", "9", "--longest", "3"], "--shortest"),
        (["talk.wav", "--out", "c", "--transcriber", "no-such-program"], "no-such-program"),
        (["talk.wav", "--out", "c", "--transcriber", "false"], "--transcriber"),
        (["talk.wav", "--out", "c", "--whisper", "empty"], "empty"),
        (["talk.wav", "--out", "c", "--speaker", "a|b"], "--speaker"),
    ],
)
def test_mistakes_are_one_line(recording, monkeypatch, capsys, arguments, name):
    monkeypatch.chdir(recording.parent)
    Path("empty").mkdir()
    Path("other").mkdir()
    (Path("other") / "thesis.txt").write_text("mine")
    assert typed(*arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("myxtts ")]
    assert len(lines) == 1
    assert name in lines[0]


def test_other_settings_in_the_same_folder_are_refused(recording, out, capsys):
    collected(capsys, recording, "--out", out)
    assert typed(recording, "--out", out, "--no-transcripts", "--longest", "8") == 2


def test_a_corpus_inside_its_source_is_not_collected_again(recording, capsys):
    folder = recording.parent
    first = collected(capsys, folder, "--out", folder / "corpus")
    assert collected(capsys, folder, "--out", folder / "corpus") == first


def test_without_an_asr_model_of_the_language_clips_wait_for_texts(recording, out):
    assert typed(recording, "--out", out, "--language", "fa") == 0
    rows = read_rows(out / "review.csv")
    assert {row[1:] for row in rows} == {("", "speaker", "fa", "no transcript")}
    assert not (out / "metadata.csv").exists()


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        (" One |\n two\r\n", "One two"),
        ("\x1b[31mred\x1b[0m \x07bell \x1b]0;title\x07", "red bell ]0;title"),
        ("a\u202egnp.exe\u2069 \u200fb\ufeff", "agnp.exe b"),
        ("half \ud800 done\x9b", "half done"),
        ("می\u200cروم", "می\u200cروم"),
    ],
)
def test_a_transcript_is_one_plain_line(text, tidied):
    assert tidy(text) == tidied


def test_a_command_transcribes(monkeypatch):
    silence = np.zeros(1_600, np.float32)
    assert CommandTranscriber("echo it is {}").transcribe(silence).startswith("it is /")
    for command in ("false", "ls --no-such-flag", "yes {}", "sh -c 'yes >&2'"):
        with pytest.raises(TranscriberError):
            CommandTranscriber(command).transcribe(silence)
    monkeypatch.setattr(texts, "_MAX_SECONDS", 0.3)
    with pytest.raises(TranscriberError):
        CommandTranscriber("sh -c 'tail -f {}; true'").transcribe(silence)
