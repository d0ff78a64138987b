"""The commands as a user types them, in a process of their own where that matters."""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli.main import command_parser, main
from myxtts.cli.parser import GROUPS
from myxtts.cli.speaking_flags import speech_options
from myxtts.cli.train import configuration_of_run, find_start
from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config
from myxtts.models.speech_options import SpeechOptions
from myxtts.runs.run_dir import find_checkpoint, run_or_base

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "runs" / "golden"
MINIATURE = "--config=miniature"
LENGTH_FROM_THE_CORPUS = "--set=training.max_steps=null"


def user_environment() -> dict[str, str]:
    """Without what the tests set for TensorFlow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return kept | {"PYTHONPATH": str(ROOT)}


def run(*arguments, cwd=None, program=("-m", "myxtts.cli.main")):
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=user_environment(),
        check=False,
    )


def fails(capsys, *arguments) -> str:
    """The one line of a command that must exit with 2."""
    assert main([str(argument) for argument in arguments]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    message = [line for line in lines if line.startswith("myxtts ")]
    assert len(message) == 1
    assert "Traceback" not in "".join(lines)
    return message[0]


def test_help_does_not_load_tensorflow():
    program = (
        "import sys\n"
        "from myxtts.cli.main import main\n"
        "for command in sys.argv[1:]:\n"
        "    try:\n        main([*command.split(), '--help'])\n"
        "    except SystemExit as stop:\n        assert stop.code == 0\n"
        "assert not {'tensorflow', 'matplotlib'} & set(sys.modules)"
    )
    commands = ["", "demo-data", "validate", "stats", "prepare", "diagnose", "tune", "train"]
    commands += ["collect", "voice add", "synthesize", "evaluate", "compare", "export"]
    commands += ["doctor", "dashboard", "serve", "review"]
    result = run(*commands, program=("-c", program))
    assert result.returncode == 0, result.stderr
    for command in commands:
        assert f"usage: myxtts {command}" in result.stdout


def test_a_command_does_not_wait_for_the_others():
    program = (
        "import sys\n"
        "from myxtts.cli.main import main\n"
        "main(['synthesize', 'nowhere', '--text', 'Hello.', '--out', 'a.wav'])\n"
        "others = {'myxtts.cli.collect', 'myxtts.cli.export', 'myxtts.cli.train'}\n"
        "assert not others & set(sys.modules)"
    )
    result = run(program=("-c", program))
    assert result.returncode == 0, result.stderr
    assert "nowhere: no such folder" in result.stderr


def test_every_flag_of_the_contract_is_taken():
    result = run("--help", program=(str(ROOT / "train_main.py"),))
    flags = """--enable-static-shapes --pad-to-fixed-length --max-text-length --max-mel-frames
        --batch-size --model-size --optimization-level --train-data --val-data --config
        --gradient-accumulation-steps --enable-memory-isolation --data-gpu-memory
        --model-gpu-memory --data-gpu --model-gpu --model-start-delay --buffer-size --multi-gpu
        --visible-gpus --max-steps --epochs --run-dir --save-every --evaluate-every --seed --resume
        --init-from --set --dry-run --virtual-devices --xla --no-xla"""
    assert [flag for flag in flags.split() if flag not in result.stdout] == []


@pytest.mark.parametrize(
    ("script", "command"),
    [("train_main.py", "train"), ("utilities/diagnose_retracing.py", "diagnose")],
)
def test_a_script_without_the_environment_says_how_to_make_it(script, command):
    result = subprocess.run(
        [sys.executable, "-I", "-S", ROOT / script, "--dry-run"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"{Path(script).name}: tensorflow is not installed ({sys.executable}); make the "
        f"environment with `make env`, then use `.venv/bin/myxtts {command}`\n"
    )


COMMANDS = """demo-data collect review validate stats prepare diagnose tune train synthesize
    evaluate compare dashboard export serve doctor voice-add voice-list voice-remove"""
WITHOUT_LANGUAGE = ["compare", "dashboard", "voice-add", "voice-list", "voice-remove"]


def help_of(command: str, capsys) -> str:
    words = [command] if command.startswith("demo") else command.split("-")
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS.split())
def test_help_shows_the_default_of_every_flag(command, capsys):
    usage, _, explained = help_of(command, capsys).partition("\n\n")
    flags = re.findall(r"\n  (--?\S.*(?:\n {4,}.*)*)", explained)
    for flag in flags:
        optional = re.search(rf"\[{flag.split()[0].rstrip(',')}[\s\]]", usage)
        if optional and not flag.startswith("-h"):
            assert "(default: " in " ".join(flag.split())
    assert any("--traceback" in flag for flag in flags)


@pytest.mark.parametrize("command", COMMANDS.split())
def test_help_has_one_order(command, capsys):
    """Arguments, what is used most, then the groups, in the order that all commands share."""
    usage, _, explained = help_of(command, capsys).partition("\n\n")
    titles = re.findall(r"^([a-z ]+):$", explained, re.MULTILINE)
    known = ["positional arguments", "options", *GROUPS]
    assert titles == sorted(titles, key=known.index)
    assert set(titles) >= {"options", "messages"}
    in_usage = re.findall(r"--[a-z-]+", re.sub(r" \| --no-\w+", "", usage))
    explained_flags = re.findall(r"^  (?:-h, )?(--[a-z-]+)", explained, re.MULTILINE)
    assert in_usage == [flag for flag in explained_flags if flag != "--help"]


@pytest.mark.parametrize("command", COMMANDS.split())
def test_every_command_has_a_language_or_says_why_not(command, capsys):
    has_flag = re.search(r"^  --language\b|, --language\b", help_of(command, capsys), re.MULTILINE)
    assert bool(has_flag) == (command not in WITHOUT_LANGUAGE)


def test_a_language_where_there_is_none(capsys):
    for words in (["voice", "add"], ["compare"]):
        with pytest.raises(SystemExit, match="2"):
            main([*words, "--language", "fa"])
    first, second = capsys.readouterr().err.splitlines()
    assert "unknown flag --language: a voice speaks every language of its run" in first
    assert "whatever they speak" in second


def test_a_language_that_the_run_does_not_speak(capsys):
    for words in (["serve"], ["export", "--format", "saved-model", "--out", "new"]):
        message = fails(capsys, *words[:1], GOLDEN, *words[1:], "--language", "fa")
        assert "language 'fa' is not one of this model's languages: en" in message


def test_defaults_of_speech_are_those_of_python():
    options = command_parser().parse_args(["synthesize", "--text", "Hello."])
    assert speech_options(options) == SpeechOptions()


@pytest.mark.training
def test_from_recordings_to_speech(demo_corpus, tmp_path):
    """The whole line in real processes: plan, train, resume, speak."""
    train = [
        "--train-data", demo_corpus, "--run-dir", tmp_path / "run", "--evaluate-every=4",
        "--save-every=2", MINIATURE,
    ]  # fmt: skip
    planned = run(
        "--dry-run",
        "--enable-static-shapes",
        "--max-mel-frames=400",
        *train,
        program=(str(ROOT / "train_main.py"),),
    )
    assert planned.returncode == 0, planned.stderr
    assert "Final Training Configuration" in planned.stdout
    assert "Static shapes (pad_to_fixed_length): True" in planned.stdout
    assert "max_text_length: 200" in planned.stdout
    assert "max_mel_frames: 400" in planned.stdout
    assert not (tmp_path / "run").exists()

    trained = run("train", "--max-steps=4", *train)
    assert trained.returncode == 0, trained.stderr
    assert "Useful utilization" in trained.stdout
    assert trained.stdout.count("Final Training Configuration") == 1
    assert re.search(r"max_mel_frames: \d+ \(from the data\)\n", trained.stdout)
    assert "Static shapes: ENABLED, " in trained.stdout
    assert json.loads((tmp_path / "run" / "report.json").read_text())["steps"] == 4

    refused = run("train", "--max-steps=4", *train)
    assert refused.returncode == 2
    assert "already contains a run" in refused.stderr

    resumed = run("train", demo_corpus, "--max-steps=6", "--resume", tmp_path / "run")
    assert resumed.returncode == 0, resumed.stderr
    assert re.search(r"about \d+ seconds? for 2 steps", resumed.stdout)
    assert json.loads((tmp_path / "run" / "report.json").read_text())["steps"] == 6

    reference = next((demo_corpus / "wavs").glob("*.wav"))
    spoken = run(
        "synthesize", "--checkpoint", tmp_path / "run", "--text", "Good morning.", "--speaker-wav",
        reference, "--language", "en", "--out", tmp_path / "out.wav",
    )  # fmt: skip
    assert spoken.returncode == 0, spoken.stderr
    assert spoken.stderr == ""
    assert (tmp_path / "out.wav").stat().st_size > 1_000


def test_a_run_starts_from_another(trained_run, demo_corpus, tmp_path, capsys):
    """Its model need not be described again, and what does not fit is one line."""
    train = [
        "train", "--init-from", str(trained_run), "--train-data", str(demo_corpus),
        "--run-dir", str(tmp_path / "run"), "--batch-size=4", "--max-steps=1",
        "--set=data.shape_count=1", "--set=data.workers=1",
    ]  # fmt: skip
    wider = fails(capsys, *train, "--set=model.decoder_width=24")
    assert "model.decoder_width: 16 in the checkpoint, 24 here" in wider
    assert "decoder/noisy/kernel: [160, 16] in the checkpoint, [160, 24] here" in wider
    assert "load the weights that fit with --init-partially" in wider
    assert main([*train, "--freeze=text_encoder"]) == 0
    shown = capsys.readouterr().out
    assert f"Initializing from the EMA weights of {trained_run}/best (step " in shown
    report = json.loads((tmp_path / "run" / "init_from.json").read_text(encoding="utf-8"))
    for part, count in report["parts"].items():
        assert f"  {part}: {count['of']:,} of {count['of']:,} weights" in shown
    assert f"Frozen: {report['parts']['text_encoder']['of']:,} of " in shown
    assert load_config(tmp_path / "run" / "config.yaml").model.text_width == 16


def configuration_of(*flags):
    options = command_parser().parse_args(["train", "my-corpus", *flags])
    _run_dir, *start = find_start(options)
    return configuration_of_run(options, *start)


def test_a_run_without_flags_has_the_defaults():
    assert configuration_of() == XTTSConfig(train_data="my-corpus")


def test_a_run_from_the_base_is_trained_as_the_base_was():
    base = find_checkpoint(run_or_base("base")).config().training
    assert base.text_guidance > 0
    training = configuration_of("--init-from=base").training
    for name in (
        *("text_drop_rate", "text_guidance", "voice_noise"),
        *("adversarial_weight", "phoneme_weight"),
    ):
        assert getattr(training, name) == getattr(base, name)
    assert training.adversarial_start == 0
    assert configuration_of("--init-from=base").augmentation.speed > 0
    own = configuration_of("--init-from=base", "--set=training.text_drop_rate=0").training
    assert own.text_drop_rate == 0


def test_demo_data_says_what_it_made(tmp_path, capsys):
    assert main(["demo-data", str(tmp_path / "c"), "--utterances", "3", "--speakers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "minutes in" in shown
    assert f"Next: myxtts train {tmp_path / 'c'}\n" in shown
    assert len(list((tmp_path / "c" / "wavs").iterdir())) > 3


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--utterances", "0"], "--utterances: found 0, allowed: 1 to 2304"),
        (["--languages", "de"], "--languages: found 'de', allowed: en, fa"),
        (["--languages", ","], "--languages: is empty"),
        (["--speakers", "99"], "--speakers: found 99, allowed: 1 to 12"),
    ],
)
def test_demo_data_with_impossible_wishes(tmp_path, capsys, arguments, line):
    assert line in fails(capsys, "demo-data", tmp_path / "c", *arguments)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--train-data", "none"], "none: no such folder"),
        (["--train-data", "empty"], "empty: no metadata found"),
        (["--train-data", "blank"], "metadata.csv: is empty"),
        (["--config", "none.yaml"], "none.yaml: found neither a file nor a built-in"),
        (["--set", "data.bach_size=3"], "unknown setting 'data.bach_size'; did you mean"),
        (["--batch-size", "0"], "--batch-size: found 0, allowed: 1 or more"),
        (["--config", "config", "--data-gpu-memory", "0"], "--data-gpu-memory: found 0, allowed"),
        (["--config", "config", "--set", "seed=-1"], "--set: training.seed: found -1, allowed"),
        (["--resume"], "--resume: which run?"),
        (["--resume", "empty"], "empty: contains no run to resume"),
        (
            ["--resume", "empty", "--run-dir", "blank"],
            "--resume empty: contradicts --run-dir blank",
        ),
        (
            ["--resume", "empty", "--init-from", "blank"],
            "--resume: cannot be combined with --init-from",
        ),
        (["--train-data", "row", "--model-gpu", "one"], "train: --model-gpu: found 'one'"),
        (["--train-data", "row", "--visible-gpus", "0,0"], "train: --visible-gpus: found '0,0'"),
        (["--run-dir", "file"], "file: is a file, expected a folder"),
        (["--init-from", "none"], "none: no such folder; expected a run folder"),
        (["--init-partially"], "--init-partially: needs --init-from RUN"),
    ],
)
def test_train_with_bad_input(tmp_path, monkeypatch, capsys, arguments, line):
    monkeypatch.chdir(tmp_path)
    for folder in ("empty", "blank"):
        Path(folder).mkdir()
    Path("blank/metadata.csv").touch()
    Path("row").mkdir()
    Path("row/metadata.csv").write_text("1|Hello there.\n")
    Path("file").touch()
    before = sorted(Path().rglob("*"))
    assert line in fails(capsys, "train", "--train-data", "blank", *arguments)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "sythesize",
            "myxtts: COMMAND: found 'sythesize', allowed: ...; did you mean 'synthesize'?",
        ),
        ("voice ad", "myxtts voice: ACTION: found 'ad', ...; did you mean 'add'?"),
        ("train --traindata d", "unknown flag --traindata; did you mean '--train-data'?"),
        ("train --traindata=d", "unknown flag --traindata; did you mean '--train-data'?"),
        ("train --prefetch-buffer-size 8", "--prefetch-buffer-size; did you mean '--buffer-size'?"),
        (
            "train --mixed-precision",
            "--mixed-precision; did you mean '--set training.precision=VALUE'?",
        ),
        ("train --grad-accum 4", "did you mean '--gradient-accumulation-steps'?"),
        # Not that a text is missing, which was only misspelt.
        ("synthesize --txt Hello", "myxtts synthesize: unknown flag --txt; did you mean '--text'?"),
        ("synthesize --precision x", "myxtts synthesize: unknown flag --precision ("),
        ("train --model-size smal", "--model-size: found 'smal', ...; did you mean 'small'?"),
        ("train --batch-size x", "--batch-size: found 'x', expected a whole number ("),
        (
            "synthesize --voice anna --speaker-wav me.wav",
            "--speaker-wav: cannot be given together with --voice (",
        ),
        (
            "synthesize --speaker-wav me.wav --voice anna",
            "--voice: cannot be given together with --speaker-wav (",
        ),
        ("", "myxtts: the following arguments are required: COMMAND"),
    ],
)
def test_a_misspelt_command_or_flag_is_one_line_with_the_nearest(capsys, arguments, line):
    with pytest.raises(SystemExit) as end:
        main(arguments.split())
    assert end.value.code == 2
    (shown,) = capsys.readouterr().err.splitlines()
    assert re.search(re.escape(line).replace(r"\.\.\.", ".*"), shown), shown


def test_a_text_that_begins_like_a_flag_is_still_a_text(capsys):
    assert main(["synthesize", "--text", "--so it began", "--checkpoint", "none"]) == 2
    assert "unknown flag" not in capsys.readouterr().err


def test_a_wrong_corpus_folder_is_said_before_tensorflow_is_loaded():
    program = (
        "import sys\n"
        "from myxtts.cli.main import main\n"
        "code = main(['train', '--train-data', 'none'])\n"
        "sys.exit(0 if code == 2 and 'tensorflow' not in sys.modules else 1)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert result.stdout == ""
    assert result.stderr == (
        "myxtts train: none: no such folder; expected a corpus with metadata.csv\n"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"--checkpoint": "none"}, "none: no such folder"),
        ({"--checkpoint": "notes"}, "notes: contains no checkpoint"),
        ({"--text": " "}, "--text: is empty"),
        ({"--text": "漢字"}, "nothing to say in '漢字'"),
        ({"--speaker-wav": "notes/notes.txt"}, "notes/notes.txt: cannot read audio"),
        ({"--speaker-wav": "none.wav"}, "none.wav: no such file"),
        ({"--language": "fa"}, "language 'fa' is not one of this model's languages: en"),
        ({"--out": "none/out.wav"}, "none/out.wav: cannot be written"),
        ({"--out": "notes"}, "notes: cannot be written"),
        ({"--speed": "0"}, "--speed: found 0, allowed: 0.25 to 4"),
        ({"--speed": "nan"}, "--speed: found nan, allowed: 0.25 to 4"),
        ({"--steps": "0"}, "--steps: found 0, allowed: 1 to 1000"),
        ({"--temperature": "2.5"}, "--temperature: found 2.5, allowed: 0 to 2"),
        ({"--text-guidance": "11"}, "--text-guidance: found 11, allowed: 0 to 10"),
        ({"--seed": "2147483648"}, "--seed: found 2147483648, allowed: 0 to 2147483647"),
    ],
)
def test_synthesize_with_bad_input(
    trained_run, demo_corpus, tmp_path, monkeypatch, capsys, changes, line
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
    } | changes
    before = sorted(Path().rglob("*"))
    assert line in fails(capsys, "synthesize", *(part for pair in given.items() for part in pair))
    assert sorted(Path().rglob("*")) == before
    assert Path("out.wav").read_text() == "an older file"


def test_without_train_data_the_demo_corpus_is_used(tmp_path, demo_corpus, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_corpus, "demo/corpus")
    assert main(["train", "--dry-run", MINIATURE, LENGTH_FROM_THE_CORPUS]) == 0
    said = capsys.readouterr().out
    assert "using the demo corpus in demo/corpus" in said
    assert "\nLength: 4,000 steps (" in said


def test_epochs_win_over_the_steps_of_a_file(demo_corpus, capsys):
    arguments = [MINIATURE, "--epochs", "5", "--train-data", str(demo_corpus)]
    assert main(["train", "--dry-run", *arguments]) == 0
    said = capsys.readouterr().out
    assert "steps (5 epochs); set by training.epochs" in said


def test_every_command_recommends_one_batch_size_and_train_uses_it(demo_corpus, capsys):
    """Eighteen clips are too few for two batches of 16, the default."""
    several = "--set=training.gradient_accumulation_steps=2"

    def said(*arguments):
        assert main([*map(str, arguments), several]) == 0
        return capsys.readouterr().out

    measured = json.loads(said("stats", demo_corpus, "--json"))
    assert measured["recommended"]["data"]["batch_size"] == 8
    train = ("train", demo_corpus, "--dry-run", "--set=data.workers=1")
    assert "Batch size: 8 clips at once, 16 in a step" in said(*train)
    assert "--batch-size" not in said("diagnose", demo_corpus)
    own = ("--batch-size", 16)
    recommended = "Recommended: --batch-size 8 (more than the 18 clips there are would repeat some)"
    kept = said(*train, *own)
    assert "Batch size: 16 clips at once" in kept
    assert recommended in kept
    assert recommended in said("diagnose", demo_corpus, *own)


def test_the_plan_as_json(demo_corpus, capsys):
    length = LENGTH_FROM_THE_CORPUS
    arguments = ["train", "--json", "--train-data", str(demo_corpus), MINIATURE, length]
    assert main([*arguments, "--dry-run"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["clips"] == sum(plan["clips_of_shapes"]) == 18
    assert plan["configuration"]["data"]["batch_size"] == plan["shapes"][0][0] == 4
    assert plan["steps"] == 4_000
    assert main(arguments) == 2
    assert "--json: needs --dry-run" in capsys.readouterr().err


def test_traceback_on_demand(tmp_path, capsys):
    assert main(["train", "--train-data", str(tmp_path / "none"), "--traceback"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_shared_flags_stand_in_one_order_in_every_help():
    from myxtts.cli.main import all_commands, command_parser

    earlier = {}
    for name, parser in all_commands(command_parser()):
        parser.format_help()  # sorts them
        flags = [action.option_strings[0] for action in parser._actions if action.option_strings]
        for pair in itertools.combinations(flags, 2):
            assert pair[::-1] not in earlier, f"{pair} in {name} and {earlier[pair[::-1]]}"
            earlier[pair] = name


@pytest.mark.parametrize("command", ["validate", "stats", "prepare", "tune", "diagnose", "train"])
def test_the_corpus_is_an_argument_or_a_flag(command, capsys, tmp_path):
    for arguments in ([tmp_path / "a"], ["--train-data", tmp_path / "a"]):
        assert f"{tmp_path / 'a'}: no such folder" in fails(capsys, command, *arguments)
    with pytest.raises(SystemExit, match="2"):
        main([command, "a", "--train-data", "b"])
    assert "found a and --train-data b; give one of them" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["validate", "stats", "prepare", "tune"])
def test_a_missing_corpus_is_asked_for(command, capsys):
    assert f"Use myxtts {command} CORPUS" in fails(capsys, command)


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
        assert "nowhere: no such folder; expected a run folder" in fails(capsys, *command)
