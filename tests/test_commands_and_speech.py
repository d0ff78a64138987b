"""Corpora, tables for programs, and speech, as typed; these commands load TensorFlow rarely."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.data.ljspeech import LJSpeechDataset

ROOT = Path(__file__).parents[1]
COMMANDS = (
    *("demo-data", "collect", "review", "validate", "stats", "prepare", "train", "tune"),
    *("diagnose", "voice", "synthesize", "evaluate", "compare", "export", "serve", "dashboard"),
    "doctor",
)
LAYOUTS = {
    "id|text|normalised text": "{id}|No. 5, please.|number five, please.\n",
    "id|text": "{id}|number five, please.\n",
    "wav|speaker|text": "wavs/{id}.wav|anna|number five, please.\n",
    "a header": "audio_file|text|speaker_name|language\n"
    "wavs/{id}.wav|number five, please.|anna|en\n",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("file", ["metadata.csv", "metadata_train.csv"])
def test_layouts_are_read_as_they_are(layout, file, tmp_path, demo_corpus):
    (tmp_path / "wavs").mkdir()
    shutil.copy(next((demo_corpus / "wavs").glob("*.wav")), tmp_path / "wavs" / "clip1.wav")
    (tmp_path / file).write_text(LAYOUTS[layout].format(id="clip1"), encoding="utf-8")
    (utterance,) = LJSpeechDataset(tmp_path, validation_fraction=None)
    assert utterance.audio_path == tmp_path / "wavs" / "clip1.wav"
    assert utterance.text == "number five, please."


def test_public_imports():
    from myxtts.models import XTTS, xtts

    assert XTTS is xtts.XTTS


def test_files_are_where_they_were_promised():
    for file in (
        "train_main.py",
        "configs/config.yaml",
        "utilities/diagnose_retracing.py",
        "examples/gpu_pipeline_example.sh",
        "examples/gpu_strategy_demo.py",
    ):
        assert (ROOT / file).is_file(), file
    for page in ("gpu-pipeline.md", "static-shapes.md"):
        for language in ("en", "fa"):
            assert (ROOT / "docs" / language / page).is_file(), (language, page)


@pytest.fixture
def typed(capsys, monkeypatch, tmp_path):
    """Exit code and standard output of a command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        code = main([str(word) for word in words])
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize("command", COMMANDS)
def test_every_promised_command_is_there(typed, command, capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        typed(command, "--help")
    assert f"usage: myxtts {command} " in capsys.readouterr().out


def test_tables_are_json_on_demand(typed, demo_corpus, trained_run):
    for words in (
        ("validate", demo_corpus),
        ("stats", demo_corpus),
        ("diagnose", "--train-data", demo_corpus),
        ("compare", trained_run, trained_run),
        ("evaluate", trained_run, "--count", 1, "--only", "pitch_error", "--out", "evaluation"),
        ("doctor",),
    ):
        code, output = typed(*words, "--json")
        assert code == 0 or words == ("doctor",), words
        assert json.loads(output), words


def test_an_answer_that_is_no_and_a_mistake_of_the_user(typed, tmp_path, demo_corpus):
    broken = shutil.copytree(demo_corpus, tmp_path / "broken")
    next((broken / "wavs").iterdir()).write_bytes(b"no audio")
    assert typed("validate", broken)[0] == 1
    assert typed("diagnose", "--set", "data.batching=dynamic", "--xla")[0] == 1
    assert typed("validate", tmp_path / "none")[0] == 2


def test_from_nothing_to_prepared_features(typed, tmp_path):
    assert typed("demo-data", "corpus", "--utterances", 6, "--speakers", 1)[0] == 0
    assert (tmp_path / "corpus" / "metadata_train.csv").is_file()
    code, output = typed("prepare", "corpus")
    assert code == 0
    assert output.startswith("Training: 6 clips, ")


def test_a_voice_is_kept_by_its_name(typed, trained_run, demo_corpus, tmp_path):
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    run = ("--checkpoint", shutil.copytree(trained_run, tmp_path / "run"))
    assert typed("voice", "add", "anna", reference, *run)[0] == 0
    code, output = typed("voice", "list", *run, "--json")
    assert code == 0
    saved = [it["name"] for it in json.loads(output)["voices"] if it["source"] == "saved"]
    assert saved == ["anna"]
    spoken = ("synthesize", *run, "--text", "Good morning.", "--voice", "anna")
    assert typed(*spoken, "--out", "anna.wav")[0] == 0
    assert soundfile.info("anna.wav").frames > 0
    assert typed("voice", "remove", "anna", *run)[0] == 0


def test_speech_by_command_and_from_python(typed, trained_run, demo_corpus, tmp_path):
    from myxtts import TTS

    reference = next((demo_corpus / "wavs").glob("*.wav"))
    code, _ = typed(
        *("synthesize", "--checkpoint", trained_run, "--text", "Good morning."),
        *("--speaker-wav", reference, "--language", "en", "--out", tmp_path / "command.wav"),
    )
    assert code == 0
    TTS(trained_run).tts_to_file(
        text="Good morning.",
        speaker_wav=str(reference),
        language="en",
        file_path=str(tmp_path / "python.wav"),
    )
    for name in ("command.wav", "python.wav"):
        assert soundfile.info(tmp_path / name).frames > 0


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        (("--text", "Good morning."), "wav"),
        (("--text-file", "text.txt"), "flac"),
        (("--text", "-"), "ogg"),
        (("--text", "Good morning."), "mp3"),
    ],
)
def test_speech_from_files_and_pipes(
    typed, trained_run, demo_corpus, tmp_path, monkeypatch, source, ending
):
    (tmp_path / "text.txt").write_text("Good morning.", encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Good morning.")))
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    file = f"speech.{ending}"
    code, _ = typed("synthesize", trained_run, *source, "--speaker-wav", reference, "--out", file)
    assert code == 0
    assert soundfile.info(file).format == ending.upper()


def test_speech_from_a_table(typed, trained_run, demo_corpus, tmp_path):
    (tmp_path / "many.csv").write_text("id,text\nfirst,Good morning.\nsecond,Good evening.\n")
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    spoken = ("synthesize", trained_run, "--batch", "many.csv", "--speaker-wav", reference)
    assert typed(*spoken, "--out-dir", "many")[0] == 0
    for name in ("first", "second"):
        assert soundfile.info(tmp_path / "many" / f"{name}.wav").frames > 0


def test_the_included_base_speaks_without_a_run(tmp_path, demo_corpus):
    from myxtts import TTS

    TTS().tts_to_file(
        text="Hello.",
        speaker_wav=str(next((demo_corpus / "wavs").glob("*.wav"))),
        language="en",
        file_path=str(tmp_path / "hello.wav"),
    )
    assert soundfile.info(tmp_path / "hello.wav").frames > 0
