"""`synthesize`: sources, targets, tables, formats and aliases."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.cli.main import main


def tags_of(file: Path) -> dict[str, str]:
    with soundfile.SoundFile(file) as sound:
        return sound.copy_metadata()


@pytest.fixture(scope="module")
def run_dir(trained_run, recordings, tmp_path_factory) -> Path:
    """Return a run with the voices anna and ben."""
    folder = shutil.copytree(trained_run, tmp_path_factory.mktemp("speaking") / "run")
    for name, file in zip(("anna", "ben"), recordings, strict=True):
        assert main(["voice", "add", name, str(file), "--checkpoint", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def recordings(demo_corpus) -> list[Path]:
    return sorted((demo_corpus / "wavs").glob("*.wav"))[:2]


@pytest.fixture
def speak(run_dir, tmp_path, monkeypatch, capsys):
    """Run the command in a folder of its own; return its output."""
    monkeypatch.chdir(tmp_path)

    def run(*words) -> str:
        capsys.readouterr()
        arguments = ["synthesize", "--checkpoint", run_dir, "--steps", 2, *words]
        assert main([str(word) for word in arguments]) == 0
        return capsys.readouterr().out

    return run


def samples_of(file) -> np.ndarray:
    return soundfile.read(file, dtype="float32")[0]


def test_a_text_file_and_standard_input_are_said_like_an_argument(speak, monkeypatch):
    text = "Good morning. Where is the boat?"
    speak("--text", text, "--voice", "anna", "--out", "argument.wav")
    Path("text.txt").write_bytes(b"\xef\xbb\xbf" + text.encode())
    speak("--text-file", "text.txt", "--voice", "anna", "--out", "file.wav")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    speak("--text", "-", "--voice", "anna", "--out", "pipe.wav")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    speak("--text-file", "-", "--voice", "anna", "--out", "pipe_as_file.wav")
    for name in ("file.wav", "pipe.wav", "pipe_as_file.wav"):
        np.testing.assert_array_equal(samples_of(name), samples_of("argument.wav"))


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "mp3", "WAV"])
def test_the_format_is_that_of_the_name(speak, ending):
    speak("--text", "Good morning.", "--voice", "anna", "--out", f"out.{ending}")
    assert soundfile.info(f"out.{ending}").format == {"wav": "WAV", "mp3": "MP3"}.get(
        ending.lower(), ending.upper()
    )
    tags = tags_of(Path(f"out.{ending}"))
    assert "Synthetic speech, not a recording" in tags["comment"]
    assert "model run (step " in tags["comment"]
    assert "in the voice: anna" in tags["comment"]
    assert [file.name for file in Path().iterdir()] == [f"out.{ending}"]


def test_the_names_of_coqui(speak, recordings):
    speak(
        *("--text", "Good morning.", "--speaker_wav", recordings[0], "--language_idx", "en"),
        *("--out_path", "coqui.wav"),
    )
    speak(
        *("--text", "Good morning.", "--speaker-wav", recordings[0], "--language", "en"),
        *("--out", "own.wav"),
    )
    np.testing.assert_array_equal(samples_of("coqui.wav"), samples_of("own.wav"))


def test_a_table_becomes_files_and_those_that_are_there_are_kept(speak, recordings):
    Path("batch.csv").write_text(
        "id,text,voice,language\n"
        'first,"Good morning, friend.",anna,en\n'
        f"second,Good evening.,{recordings[1]},\n"
        "third,Yes.,,\n",
        encoding="utf-8",
    )
    Path("out").mkdir()
    Path("out/first.flac").write_text("kept")
    said = speak("--batch", "batch.csv", "--out-dir", "out", "--format", "flac", "--voice", "ben")
    assert "out: 2 files" in said
    assert "kept 1" in said
    assert Path("out/first.flac").read_text() == "kept"
    speak("--text", "Good evening.", "--voice", "ben", "--out", "alone.flac")
    np.testing.assert_allclose(samples_of("out/second.flac"), samples_of("alone.flac"), atol=2e-3)
    speak("--batch", "batch.csv", "--out-dir", "out", "--format", "flac", "--overwrite")
    assert soundfile.info("out/first.flac").frames > 0
    assert "in the voice: anna" in tags_of(Path("out/first.flac"))["comment"]
    assert sorted(file.name for file in Path("out").iterdir()) == [
        "first.flac",
        "second.flac",
        "third.flac",
    ]


def test_nothing_is_loaded_where_everything_is_there_already(speak, monkeypatch):
    Path("batch.csv").write_text("a,Yes.\nb,No.\n", encoding="utf-8")
    Path("new").mkdir()
    for name in ("a", "b"):
        Path(f"new/{name}.wav").write_text("kept")
    monkeypatch.setattr("myxtts.synthesis.tts.TTS", None)
    said = speak("--batch", "batch.csv", "--out-dir", "new", "--voice", "anna")
    assert "nothing to do" in said


def test_lines_of_a_text_become_files(speak):
    Path("text.txt").write_text("Good morning.\n\n* * *\nGood evening.\n")
    speak("--text-file", "text.txt", "--out-dir", "lines", "--voice", "anna")
    assert sorted(file.name for file in Path("lines").iterdir()) == ["001.wav", "002.wav"]


@pytest.mark.parametrize("format_", ["wav", "flac", "pcm"])
def test_a_pipe_in_and_a_pipe_out(run_dir, tmp_path, monkeypatch, capfdbinary, format_):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Good morning.")))
    words = ["--checkpoint", str(run_dir), "--steps=2", "--voice=anna", "--out=-"]
    assert main(["synthesize", *words, "--format", format_]) == 0
    written = capfdbinary.readouterr().out
    if format_ == "pcm":
        assert np.abs(np.frombuffer(written, "<i2")).max() > 1_000
    else:
        sound = soundfile.SoundFile(io.BytesIO(written))
        assert (sound.format, sound.samplerate) == (format_.upper(), 22_050)
        assert sound.frames > 1_000


def test_text_in_another_language_and_noise_as_a_voice_are_warned_of(run_dir, tmp_path, caplog):
    noise = np.random.default_rng(0).normal(0, 0.1, 44_100)
    soundfile.write(tmp_path / "noise.wav", noise, 22_050)
    words = ["--checkpoint", str(run_dir), "--steps=2", f"--out={tmp_path / 'out.wav'}"]
    assert main(["synthesize", *words, "--text=Hi.", f"--speaker-wav={tmp_path}/noise.wav"]) == 0
    assert "noise.wav" in caplog.text


def test_ssml_without_its_element(speak):
    text = "Good <sub alias='morning'>Bnr</sub>."
    speak("--ssml", "--text", text, "--voice", "anna", "--out", "ssml.wav")
    speak("--text", "Good morning.", "--voice", "anna", "--out", "plain.wav")
    np.testing.assert_array_equal(samples_of("ssml.wav"), samples_of("plain.wav"))


@pytest.mark.parametrize("ending", ["srt", "vtt", "json"])
def test_subtitles(speak, ending):
    speak(
        *("--text", "Good morning. Where is it?", "--voice", "anna", "--out", "out.wav"),
        *("--subtitles", f"out.{ending}"),
    )
    content = Path(f"out.{ending}").read_text(encoding="utf-8")
    assert "morning." in content
    if ending == "json":
        [first, second] = json.loads(content)["sentences"]
        assert 0 <= first["start"] < first["end"] < second["start"] < second["end"]
        assert second["end"] <= soundfile.info("out.wav").duration + 0.1
        assert [word["word"] for word in second["words"]] == ["Where", "is", "it?"]


def test_speed_pauses_and_a_lexicon(speak):
    speak("--text", "Good morning.", "--voice", "anna", "--out", "plain.wav")
    plain = samples_of("plain.wav").size
    speak("--text", "Good morning.", "--voice", "anna", "--out", "slow.wav", "--speed", 0.5)
    assert samples_of("slow.wav").size > 1.5 * plain
    speak("--text", "Good morning. [pause 2]", "--voice", "anna", "--out", "pause.wav")
    assert samples_of("pause.wav").size == plain + 2 * 22_050
    Path("words.tsv").write_text("Bnr\tmorning\n", encoding="utf-8")
    speak(
        *("--text", "Good Bnr.", "--voice", "anna", "--out", "lexicon.wav"),
        *("--lexicon", "words.tsv"),
    )
    np.testing.assert_array_equal(samples_of("lexicon.wav"), samples_of("plain.wav"))


def test_the_first_saved_voice_is_the_default(speak):
    speak("--text", "Good morning.", "--out", "default.wav")
    assert "in the voice: anna" in tags_of(Path("default.wav"))["comment"]
