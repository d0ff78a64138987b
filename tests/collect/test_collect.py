"""From recordings to a corpus that training reads; bad recordings do not stop the others."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from myxtts.audio import ffmpeg
from myxtts.audio.files import write_audio
from myxtts.cli.main import main
from myxtts.collect import cutting, texts
from myxtts.collect.collect import Wishes, collect, look
from myxtts.collect.corpus import CorpusFolder, append, read_lines, tidy
from myxtts.collect.sources import find_sources
from myxtts.collect.texts import CommandTranscriber, TranscriberError
from myxtts.data.metadata import LJSpeechDataset

RATE_HZ = 22_050
# Says a text whose length follows from that of the wav.
TRANSCRIBER = f"{sys.executable} -IS {Path(__file__).parent / 'transcriber_program.py'}"
needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="needs ffmpeg")


def typed(*arguments):
    return main(["collect", "--any-voice", *map(str, arguments)])


def collected(capsys, *arguments):
    """What the command prints for programs."""
    assert typed(*arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def out(tmp_path):
    return tmp_path / "corpus"


@pytest.fixture
def without_base(monkeypatch):
    """Loading the base model takes seconds; its judgement has tests of its own."""
    monkeypatch.setattr(texts, "open_listener", lambda language: None)


@pytest.mark.usefixtures("without_base")
def test_the_corpus_is_what_training_reads(recording, out, capsys):
    before = recording.read_bytes()
    report = collected(capsys, recording.parent, "--out", out, "--transcriber", TRANSCRIBER)
    rows = LJSpeechDataset(out, validation_fraction=None)
    assert len(rows) == report["kept"]["clips"] > 8
    assert rows[0].speaker == "speaker"
    assert rows[0].language == "en"
    assert all(row.audio_path.is_file() for row in rows)
    assert report["speech_seconds"] < report["seconds"]
    assert recording.read_bytes() == before
    assert main(["validate", str(out)]) == 0


@pytest.mark.usefixtures("without_base")
def test_the_page_shows_what_was_kept_and_escapes_it(glued, tmp_path, out, capsys):
    file = tmp_path / "<b>talk.wav"
    write_audio(file, glued.samples, RATE_HZ)
    collected(capsys, file, "--out", out, "--transcriber", TRANSCRIBER)
    page = (out / "collect.html").read_text(encoding="utf-8")
    assert "&lt;b&gt;talk" in page
    assert "<b>talk" not in page
    assert "clips to train on" in page


def test_a_second_launch_repeats_nothing(recording, out, capsys, monkeypatch):
    first = collected(capsys, recording, "--out", out, "--transcriber", TRANSCRIBER)
    times = {file: file.stat().st_mtime_ns for file in (out / "wavs").iterdir()}

    def refuse(*arguments):
        raise AssertionError("cut again")

    monkeypatch.setattr(cutting, "cut_recording", refuse)
    monkeypatch.setattr(CommandTranscriber, "transcribe", refuse)
    assert collected(capsys, recording, "--out", out, "--transcriber", TRANSCRIBER) == first
    assert times == {file: file.stat().st_mtime_ns for file in (out / "wavs").iterdir()}


def test_recordings_are_added_and_the_same_one_is_not_kept_twice(glued, recording, out, capsys):
    first = collected(capsys, recording, "--out", out, "--no-transcripts")
    again = recording.parent / "again.flac"
    write_audio(again, glued.samples * np.float32(0.5), RATE_HZ)
    second = collected(capsys, recording.parent, "--out", out, "--no-transcripts")
    assert second["recordings"] == 2
    assert second["review"]["clips"] == first["review"]["clips"]
    assert second["dropped"]["duplicate"]["pieces"] == first["review"]["clips"]


def test_a_recording_that_changed_takes_the_place_of_what_it_was(glued, recording, out, capsys):
    first = collected(capsys, recording, "--out", out, "--no-transcripts")
    write_audio(recording, glued.samples[: glued.samples.size // 2], RATE_HZ)
    second = collected(capsys, recording, "--out", out, "--no-transcripts")
    assert second["recordings"] == 1
    assert second["seconds"] == pytest.approx(first["seconds"] / 2, abs=0.2)


def test_an_interrupted_line_is_not_read(tmp_path):
    file = tmp_path / "lines.jsonl"
    append(file, {"number": 1})
    with file.open("ab") as stream:
        stream.write(b'{"number": 2')
    append(file, {"number": 3})
    assert [line["number"] for line in read_lines(file, {"number": int})] == [1, 3]


def test_noise_clipping_and_hum_are_dropped_with_their_figures(glued, write, out, capsys):
    noisy = write("noisy.wav", glued.with_noise(-25.0))
    clipped = write("clipped.wav", np.clip(glued.samples * 8, -0.9, 0.9))
    report = collected(capsys, noisy, clipped, "--out", out, "--no-transcripts")
    assert {"noisy", "clipped"} <= set(report["dropped"])
    assert report["review"]["clips"] == 0
    for line in read_lines(CorpusFolder(out).sources, {"dropped": [{"detail": str}]}):
        details = [piece["detail"] for piece in line["dropped"] if piece["detail"]]
        assert all("SNR" in detail or "clipped" in detail for detail in details)


def test_music_is_not_speech(write, out, capsys):
    times = np.arange(8 * RATE_HZ) / RATE_HZ
    chord = sum(np.sin(2 * np.pi * pitch * times) for pitch in (220, 277, 330, 440, 554, 660))
    silence = np.zeros(2 * RATE_HZ)
    music = np.concatenate([silence, 0.1 * chord, silence]).astype(np.float32)
    report = collected(capsys, write("music.wav", music), "--out", out, "--no-transcripts")
    assert report["review"]["clips"] == 0
    assert list(report["dropped"]) == ["music or machine"]


@pytest.mark.usefixtures("without_base")
def test_bad_recordings_are_one_line_each_and_the_rest_goes_on(recording, tmp_path, out, capsys):
    folder = recording.parent
    (folder / "empty.wav").write_bytes(b"")
    (folder / "notes.wav").write_text("no sound at all" * 100)
    (folder / "half.flac").write_bytes(b"fLaC" + bytes(5000))
    (folder / "gone.wav").symlink_to(tmp_path / "nowhere.wav")
    (folder / "readme.txt").write_text("not audio")
    assert typed(folder, "--out", out, "--transcriber", TRANSCRIBER) == 0
    said = capsys.readouterr().out.splitlines()
    for name in ("empty.wav", "notes.wav", "half.flac", "nowhere.wav"):
        lines = [line for line in said if name in line]
        assert len(lines) == 1
        assert "cannot read audio" in lines[0]
    assert len(LJSpeechDataset(out, validation_fraction=None)) > 8


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
    report = collected(capsys, folder, "--out", out, "--no-transcripts")
    assert report["review"]["clips"] > 8
    assert len(report["problems"]) == 2
    assert any("mute.mp4" in line and "contains no sound" in line for line in report["problems"])
    assert any("damaged.mkv" in line for line in report["problems"])


@needs_ffmpeg
def test_protected_and_cut_off_files_are_told_and_the_rest_goes_on(recording, out, capsys):
    folder = recording.parent
    key = ["-encryption_key", "76a6c65c5ea762046bd749a2e632ccbb", "-encryption_kid", "a7" * 16]
    scheme = ["-encryption_scheme", "cenc-aes-ctr", *key]
    run = ["ffmpeg", "-v", "error", "-i", recording]
    subprocess.run([*run, *scheme, folder / "bought.m4a"], check=True)
    subprocess.run([*run, "-movflags", "+faststart", folder / "whole.m4a"], check=True)
    whole = (folder / "whole.m4a").read_bytes()
    (folder / "bought.m4p").write_bytes(whole.replace(b"mp4a", b"drms", 1))
    (folder / "cut.m4a").write_bytes(whole[: len(whole) // 2])
    report = collected(capsys, folder, "--out", out, "--no-transcripts")
    problems = {line.partition(": ")[0].rpartition("/")[2]: line for line in report["problems"]}
    assert set(problems) == {"bought.m4a", "bought.m4p", "cut.m4a"}
    assert "the sound is encrypted (DRM)" in problems["bought.m4a"]
    assert "the sound is encrypted (DRM)" in problems["bought.m4p"]
    assert "the end is missing or damaged" in problems["cut.m4a"]
    assert report["review"]["clips"] > 8


def test_files_that_are_no_sound_at_first_sight_start_no_program(
    recording, tmp_path, out, capsys, monkeypatch
):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("ffmpeg", "ffprobe"):
        (programs / name).write_text(f"#!/bin/sh\necho started >> {tmp_path / 'started'}\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    (recording.parent / "empty.mp4").write_bytes(b"")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4\n"
    (recording.parent / "pointer.m4a").write_text(pointer)
    report = collected(capsys, recording.parent, "--out", out, "--no-transcripts")
    assert any("empty.mp4" in line and "is empty" in line for line in report["problems"])
    assert any("pointer.m4a" in line and "a text" in line for line in report["problems"])
    assert report["review"]["clips"] > 8
    assert not (tmp_path / "started").exists()


def test_progress_counts_files_while_they_are_found_and_small_ones_while_they_are_cut(tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1_200):
        (folder / f"{number}.wav").write_bytes(b"")
    listed, cut = [], []
    found = look([folder], tmp_path / "corpus", Wishes(), listed.append)
    assert listed == [500, 1_000]
    collect(
        found,
        tmp_path / "corpus",
        Wishes(),
        on_progress=lambda stage, unit, done, total: cut.append((unit, done, total)),
    )
    assert cut[0] == ("recording", 1, 1_200)
    assert cut[-1] == ("recording", 1_200, 1_200)


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
    assert [source.path for source in found.sources] == [(folder / "b" / "2.wav").resolve()]
    assert found.other_files == 1


def test_without_ffmpeg_only_what_needs_it_is_left_out(recording, out, capsys, monkeypatch):
    monkeypatch.setattr(ffmpeg.shutil, "which", lambda name: None)
    (recording.parent / "memo.m4a").write_bytes(b"\0\0\0\x20ftypM4A anything")
    report = collected(capsys, recording.parent, "--out", out, "--no-transcripts")
    assert report["review"]["clips"] > 8
    assert "which is not installed; install ffmpeg" in report["problems"][0]


@needs_ffmpeg
def test_after_ffmpeg_is_installed_the_same_command_reads_the_rest(
    recording, out, capsys, monkeypatch
):
    memo = recording.with_name("memo.m4p")
    subprocess.run(["ffmpeg", "-v", "error", "-i", recording, "-f", "ipod", memo], check=True)
    command = (memo, "--out", out, "--no-transcripts")
    with monkeypatch.context() as without:
        without.setattr(ffmpeg.shutil, "which", lambda name: None)
        for _ in range(2):
            assert typed(*command) == 2
            printed = capsys.readouterr()
            assert "ffmpeg reads more formats, but is not installed" in printed.out
            assert printed.err == (
                "myxtts collect: 1 recording: nothing could be read, so there is no corpus\n"
            )
    assert len(CorpusFolder(out).sources.read_text().splitlines()) == 1
    report = collected(capsys, *command)
    assert report["problems"] == []
    assert report["review"]["clips"] > 8


def test_recordings_that_cannot_be_read_are_counted(recording, out, capsys):
    recording.with_name("empty.wav").write_bytes(b"")
    assert typed(recording.parent, "--out", out, "--no-transcripts") == 0
    assert "\n2 recordings (1 could not be read), " in capsys.readouterr().out


def test_a_recording_damaged_in_its_middle_gives_what_is_before(recording, out, capsys):
    import soundfile

    samples, rate = soundfile.read(recording)
    flac = recording.with_suffix(".flac")
    soundfile.write(flac, samples, rate)
    content = bytearray(flac.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) // 2)
    flac.write_bytes(content)
    recording.unlink()
    report = collected(capsys, flac, "--out", out, "--no-transcripts")
    assert 0 < report["seconds"] < samples.size / rate
    assert report["review"]["clips"] > 2
    assert len(report["problems"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.wav", "--out", "c"], "nothing.wav: no such file or folder"),
        (["empty", "--out", "c"], "empty: contains no audio or video"),
        (["talk.wav", "--out", "other"], "other: exists and was not made by collect"),
        (["talk.wav", "--out", "talk.wav"], "talk.wav: is a file"),
        (["talk.wav", "--out", "c", "--shortest", "9", "--longest", "3"], "--shortest 9"),
        (["talk.wav", "--out", "c", "--transcriber", "no-such-program"], "no program"),
        (["talk.wav", "--out", "c", "--transcriber", "false"], "failed on every clip so far"),
        (["talk.wav", "--out", "c", "--whisper", "empty"], "contains no Whisper model"),
        (["talk.wav", "--out", "c", "--speaker", "a|b"], "--speaker: found 'a|b'"),
    ],
)
def test_mistakes_are_one_line(recording, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(recording.parent)
    Path("empty").mkdir()
    Path("other").mkdir()
    (Path("other") / "thesis.txt").write_text("mine")
    assert typed(*arguments) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("myxtts ")]
    assert len(lines) == 1
    assert message in lines[0]


def test_other_settings_in_the_same_folder_are_refused(recording, out, capsys):
    collected(capsys, recording, "--out", out, "--no-transcripts")
    assert typed(recording, "--out", out, "--no-transcripts", "--longest", "8") == 2
    assert "was collected with --longest 12, found 8" in capsys.readouterr().err


def test_a_corpus_inside_its_source_is_not_collected_again(recording, capsys):
    folder = recording.parent
    first = collected(capsys, folder, "--out", folder / "corpus", "--no-transcripts")
    assert collected(capsys, folder, "--out", folder / "corpus", "--no-transcripts") == first


def test_without_a_recogniser_of_the_language_clips_wait_for_texts(recording, out, capsys):
    assert typed(recording, "--out", out, "--language", "fa") == 0
    assert "no recogniser for 'fa'; give --whisper DIR" in capsys.readouterr().err
    rows = (out / "review.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "audio_file|text|speaker_name|language|reason"
    assert all(row.endswith("||speaker|fa|no transcript") for row in rows[1:])
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


@pytest.mark.usefixtures("without_base")
def test_control_characters_of_a_transcriber_reach_no_file(recording, out, tmp_path, capsys):
    words = "\\033[2Jwonderful \\342\\200\\256banana banana wonderful"
    (tmp_path / "rude").write_text(f"#!/bin/sh\nprintf '{words}'\n")
    (tmp_path / "rude").chmod(0o755)
    collected(capsys, recording, "--out", out, "--transcriber", tmp_path / "rude")
    for file in (out / "metadata.csv", out / "review.csv"):
        if file.exists():
            assert not set(file.read_text()) & set("\x1b\u202e")


def test_endless_output_of_a_transcriber_is_an_error(tmp_path):
    with pytest.raises(TranscriberError):
        CommandTranscriber("yes").transcribe(np.zeros(1_600, np.float32))
    (tmp_path / "loud").write_text("#!/bin/sh\nyes >&2 & yes\n")
    (tmp_path / "loud").chmod(0o755)
    with pytest.raises(TranscriberError):
        CommandTranscriber(str(tmp_path / "loud")).transcribe(np.zeros(1_600, np.float32))


def test_a_transcriber_that_never_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(texts, "_SECONDS_ALLOWED", 0.3)
    with pytest.raises(TranscriberError):
        CommandTranscriber("sleep 60 {}").transcribe(np.zeros(1_600, np.float32))


def test_a_file_name_that_is_not_utf8_is_one_line_and_the_rest_continues(recording, out, capsys):
    name = os.fsencode(recording.parent) + b"/m\xfcnchen.wav"
    shutil.copy(recording, name)
    report = collected(capsys, recording.parent, "--out", out, "--no-transcripts")
    assert len(report["problems"]) == 1
    assert report["review"]["clips"] > 8
    again = collected(capsys, recording.parent, "--out", out, "--no-transcripts")
    assert again["recordings"] == report["recordings"]
