"""The commands as a user types them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli.main import all_commands, command_parser, main
from myxtts.cli.parser import configuration, speech_options
from myxtts.cli.train import configuration_of_run
from myxtts.config.config import XTTSConfig
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.run_dir import find_checkpoint, run_or_base
from myxtts.training.train import find_start

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "runs" / "golden"
MINIATURE = "--config=miniature"
LENGTH_FROM_THE_CORPUS = "--set=training.max_steps=null"
COMMANDS = dict(all_commands(command_parser()))


def fails(capsys, *arguments) -> str:
    """Return the one line of a command that must exit with 2."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code
    lines = capsys.readouterr().err.strip().splitlines()
    (message,) = [line for line in lines if line.startswith("myxtts ")]
    assert (code, message) == (2, lines[-1])
    return message


def shown(capsys, *arguments) -> str:
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def test_a_command_loads_neither_tensorflow_nor_other_commands():
    program = """if True:
        import sys
        from myxtts.cli.main import command_parser, main
        main(['synthesize', 'nowhere', '--text', 'Hello.', '--out', 'a.wav'])
        assert 'myxtts.cli.train' not in sys.modules
        assert main(['diagnose', '--set=data.model_gpu=1,2']) == 0
        command_parser()
        assert not {'tensorflow', 'matplotlib'} & set(sys.modules)"""
    environment = {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_every_flag_of_the_contract_is_taken():
    flags = """--enable-static-shapes --pad-to-fixed-length --max-text-length --max-mel-frames
        --batch-size --model-size --optimization-level --train-data --val-data --config
        --gradient-accumulation-steps --enable-memory-isolation --data-gpu-memory
        --model-gpu-memory --data-gpu --model-gpu --model-start-delay --buffer-size --multi-gpu
        --visible-gpus --max-steps --epochs --run-dir --save-every --evaluate-every --seed --resume
        --init-from --set --dry-run --virtual-devices --xla --no-xla"""
    assert set(flags.split()) <= set(COMMANDS["train"]._option_string_actions)


@pytest.mark.parametrize("script", ["train_main.py", "utilities/diagnose_retracing.py"])
def test_a_script_without_the_environment_says_so(script):
    command = [sys.executable, "-I", "-S", ROOT / script, "--dry-run"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    assert "make env" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_every_default_and_a_language(command):
    explained = COMMANDS[command].format_help()
    for flag in re.findall(r"\n  (--?\S.*(?:\n {4,}.*)*)", explained.partition("\n\n")[2]):
        action = COMMANDS[command]._option_string_actions[flag.split()[0].rstrip(",")]
        assert action.required or action.dest == "help" or "(default: " in " ".join(flag.split())
    has_none = command.partition(" ")[0] in ("compare", "dashboard", "voice")
    assert ("--language" in COMMANDS[command]._option_string_actions) != has_none
    assert "--traceback" in explained


def test_a_language_where_there_is_none(capsys):
    for words in (["voice", "add"], ["compare"]):
        assert "--language" in fails(capsys, *words, "--language", "fa")


def test_a_language_that_the_run_does_not_speak(capsys):
    for words in (["serve"], ["export", "--format", "saved-model", "--out", "new"]):
        assert "'fa'" in fails(capsys, *words[:1], GOLDEN, *words[1:], "--language", "fa")


def test_defaults_of_speech_are_those_of_python():
    options = command_parser().parse_args(["synthesize", "--text", "Hello."])
    assert speech_options(options) == SpeechOptions()


def test_a_run_starts_from_another(trained_run, demo_corpus, tmp_path, capsys):
    """Its model need not be described again, and what does not fit is one line."""
    run = tmp_path / "run"
    train = ["train", demo_corpus, "--init-from", trained_run, "--run-dir", run]
    train += ["--batch-size=4", "--max-steps=1", "--set=data.shape_count=1", "--set=data.workers=1"]
    wider = fails(capsys, *train, "--set=model.decoder_width=24")
    assert "decoder/noisy/kernel: [160, 16]" in wider
    assert "--init-partially" in wider
    shown(capsys, *train, "--freeze=text_encoder")
    parts = json.loads((run / "init_from.json").read_text(encoding="utf-8"))["parts"]
    assert "text_encoder" in parts


def configuration_of(*flags):
    options = command_parser().parse_args(["train", "my-corpus", *flags])
    return configuration_of_run(options)


def test_a_run_from_scratch_has_the_defaults():
    assert configuration_of("--from-scratch") == XTTSConfig(train_data="my-corpus")


BASE = find_checkpoint(run_or_base(None), for_synthesis=True)
BASE_WIDTH = BASE.config().model.text_width


@pytest.mark.parametrize(
    ("flags", "is_base"),
    [
        ("", True),
        ("--init-from=base", True),
        ("--set=model.segment_frames=128", True),
        (f"--set=model.text_width={BASE_WIDTH}", True),
        (f"--set=model.text_width={BASE_WIDTH + 8}", False),
        ("--from-scratch", False),
        ("--model-size=small", False),
        ("--set=text.tokens=graphemes", False),
        ("--task=vocoder", False),
    ],
)
def test_the_base_is_the_start_where_its_weights_fit(flags, is_base):
    options = command_parser().parse_args(["train", *flags.split()])
    config = configuration(options)
    start, _ = find_start(config, options.init_from, from_scratch=options.from_scratch)
    assert (start is not None and start.folder == BASE.folder) == is_base


@pytest.mark.parametrize(
    "flags", ["--model-size=small", "--from-scratch", "--resume=run --from-scratch"]
)
def test_starts_that_exclude_each_other(flags, capsys):
    init = [] if "--resume" in flags else ["--init-from=base"]
    assert flags.split()[-1].partition("=")[0] in fails(capsys, "train", *init, *flags.split())


def test_flags_are_settings():
    flags = ["--model-size=small", "--epochs=5", "--data-gpu-memory=9", "--multi-gpu", "--no-xla"]
    config = configuration_of(MINIATURE, *flags, "--language=FA")
    assert (config.model.size, config.training.multi_gpu, config.training.xla) == ("small", 1, 0)
    assert (config.training.epochs, config.training.max_steps) == (5, None)
    assert (config.data.data_gpu_memory_mb, config.text.default_language) == (9, "fa")
    assert config.data.batch_size == 4


def test_a_run_from_the_base_is_trained_as_the_base_was():
    started = configuration_of("--init-from=base")
    assert started.training.adversarial_start == 0
    assert started.training.voice_noise > 0
    assert started.augmentation.speed > 0
    own = configuration_of("--init-from=base", "--set=training.text_drop_rate=0").training
    assert own.text_drop_rate == 0


def test_demo_data_says_what_it_made(tmp_path, capsys):
    folder = tmp_path / "c"
    said = shown(capsys, "demo-data", folder, "--utterances", "3", "--speakers", "1")
    assert f"myxtts train {folder}\n" in said
    assert len(list((folder / "wavs").iterdir())) > 3


def test_the_included_human_voice_is_a_corpus(tmp_path, capsys):
    shown(capsys, "demo-data", tmp_path / "voice", "--natural")
    found = json.loads(shown(capsys, "validate", tmp_path / "voice", "--workers=1", "--json"))
    assert found["rows"] == found["usable_rows"] > 80
    assert found["errors"] == []
    size = sum(file.stat().st_size for file in (tmp_path / "voice").rglob("*.ogg"))
    assert size < 2_000_000
    assert str(tmp_path) in fails(capsys, "demo-data", tmp_path / "voice", "--natural")


@pytest.mark.parametrize(
    "arguments",
    [["--utterances", "0"], ["--languages", "de"], ["--languages", ","], ["--speakers", "99"]],
)
def test_demo_data_with_impossible_wishes(tmp_path, capsys, arguments):
    assert arguments[0] in fails(capsys, "demo-data", tmp_path / "c", *arguments)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ("--train-data none", "none"),
        ("--train-data empty", "empty"),
        ("--train-data blank", "metadata.csv"),
        ("--config none.yaml", "none.yaml"),
        ("--set data.bach_size=3", "data.batch_size"),
        ("--batch-size 0", "--batch-size: found 0"),
        ("--config config --data-gpu-memory 0", "--data-gpu-memory: found 0"),
        ("--config config --set seed=-1", "training.seed: found -1"),
        ("--resume", "--resume DIR"),
        ("--resume empty", "empty"),
        ("--resume empty --run-dir blank", "--run-dir blank"),
        ("--resume empty --init-from blank", "--init-from"),
        ("--train-data row --model-gpu one", "--model-gpu: found 'one'"),
        ("--train-data row --visible-gpus 0,0", "--visible-gpus: found '0,0'"),
        ("--run-dir file", "file"),
        ("--init-from none", "none"),
        ("--init-partially", "--init-from"),
    ],
)
def test_train_with_bad_input(tmp_path, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "blank", "row"):
        Path(folder).mkdir()
    Path("blank/metadata.csv").touch()
    Path("row/metadata.csv").write_text("1|Hello there.\n")
    Path("file").touch()
    before = sorted(Path().rglob("*"))
    assert named in fails(capsys, "train", "--train-data", "blank", *arguments.split())
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("sythesize", "'synthesize'"),
        ("voice ad", "'add'"),
        ("train --traindata d", "'--train-data'"),
        ("train --traindata=d", "'--train-data'"),
        ("train --prefetch-buffer-size 8", "'--buffer-size'"),
        ("train --mixed-precision", "'--set training.precision=VALUE'"),
        ("train --grad-accum 4", "'--gradient-accumulation-steps'"),
        # Not that a text is missing, which was only misspelled.
        ("synthesize --txt Hello", "'--text'"),
        ("synthesize --precision x", "--precision"),
        ("train --model-size smal", "'small'"),
        ("train --batch-size x", "--batch-size: found 'x'"),
        ("synthesize --voice anna --speaker-wav me.wav", "--speaker-wav"),
        ("", "COMMAND"),
    ],
)
def test_a_misspelled_command_or_flag_is_one_line_with_the_nearest(capsys, arguments, meant):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    (line,) = capsys.readouterr().err.splitlines()
    assert meant in line


def test_a_text_that_begins_like_a_flag_is_still_a_text(capsys):
    speak = ["synthesize", "--text", "--so it began", "--out", "a.wav"]
    assert "nowhere" in fails(capsys, *speak, "--checkpoint", "nowhere")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--checkpoint", "none"),
        ("--checkpoint", "notes"),
        ("--text", " "),
        ("--text", "漢字"),
        ("--speaker-wav", "notes/notes.txt"),
        ("--speaker-wav", "none.wav"),
        ("--language", "fa"),
        ("--out", "none/out.wav"),
        ("--out", "notes"),
        ("--speed", "nan"),
        ("--steps", "0"),
        ("--temperature", "2.5"),
        ("--text-guidance", "11"),
        ("--seed", "2147483648"),
    ],
)
def test_synthesize_with_bad_input(
    trained_run, demo_corpus, tmp_path, monkeypatch, capsys, flag, value
):
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes/notes.txt").write_text("this is not audio")
    Path("out.wav").write_text("an older file")
    given = {
        "--checkpoint": trained_run,
        "--text": "Good morning.",
        "--speaker-wav": next((demo_corpus / "wavs").glob("*.wav")),
        "--language": "en",
        "--out": "out.wav",
    } | {flag: value}
    before = sorted(Path().rglob("*"))
    message = fails(capsys, "synthesize", *(part for pair in given.items() for part in pair))
    assert value.strip() in message
    assert sorted(Path().rglob("*")) == before
    assert Path("out.wav").read_text() == "an older file"


def test_without_train_data_the_demo_corpus_is_used(tmp_path, demo_corpus, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_corpus, "demo/corpus")
    said = shown(capsys, "train", "--dry-run", MINIATURE, LENGTH_FROM_THE_CORPUS)
    assert "demo/corpus" in said
    assert "4,000 steps" in said


def test_the_plan_as_json(demo_corpus, capsys):
    arguments = ["train", "--json", demo_corpus, MINIATURE, LENGTH_FROM_THE_CORPUS]
    plan = json.loads(shown(capsys, *arguments, "--dry-run"))
    assert plan["clips"] == sum(plan["clips_of_shapes"]) == 18
    assert plan["configuration"]["data"]["batch_size"] == plan["shapes"][0][0] == 4
    assert plan["steps"] == 4_000
    assert "--dry-run" in fails(capsys, *arguments)


@pytest.mark.parametrize("command", ["validate", "stats", "prepare", "tune", "diagnose", "train"])
def test_the_corpus_is_an_argument_or_a_flag(command, capsys, tmp_path):
    for arguments in ([tmp_path / "a"], ["--train-data", tmp_path / "a"]):
        assert str(tmp_path / "a") in fails(capsys, command, *arguments)
    if command not in ("diagnose", "train"):
        assert f"myxtts {command} CORPUS" in fails(capsys, command)


@pytest.mark.parametrize("words", [["nowhere"], ["--checkpoint", "nowhere"]])
def test_the_run_is_an_argument_or_a_flag(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in (
        ["synthesize", *words, "--text=Hi.", "--voice=anna", "--out=a.wav"],
        ["evaluate", *words],
        ["voice", "add", *words, "anna", "a.wav"],
        ["voice", "list", *words],
        ["voice", "remove", *words, "anna"],
    ):
        assert "nowhere" in fails(capsys, *command)
