"""What commands show, from files of strangers and on terminals of any kind."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from myxtts.cli.console import (
    Stream,
    continue_without_streams,
    say,
    say_aside,
    say_json,
    standard_streams,
)
from myxtts.cli.main import main
from myxtts.errors import printable

GOLDEN = Path(__file__).parents[1] / "runs" / "golden"

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


def test_control_characters_become_escapes_and_text_stays():
    assert printable("سلام می\u200cروم\tä\n") == "سلام می\u200cروم\tä\n"
    assert printable(ESCAPES) == "\\x1b]0;owned\\x07\\x1b[2J\\u009b31m\\u202e"


def test_messages_show_no_escapes(capsys):
    say(f"say {ESCAPES}")
    say_aside(f"aside {ESCAPES}")
    shown = "".join(capsys.readouterr())
    assert {character for character in shown if not character.isprintable()} == {"\n"}
    for word in ("say", "aside"):
        assert f"{word} \\x1b]0;owned" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["train", "--config", "{0}/config.yaml"],
        ["train", f"--set={ESCAPES}.x=1"],
        ["train", f"--{ESCAPES}"],
        ["validate", "{0}"],
        ["compare", f"{{0}}/{ESCAPES}"],
        ["voice", "remove", str(GOLDEN), ESCAPES],
    ],
)
def test_no_command_shows_escapes_from_files_or_names(tmp_path, capsys, arguments):
    (tmp_path / "config.yaml").write_text('"\\e[2Jdata": 1\n')
    (tmp_path / "metadata.csv").write_text(f"/{ESCAPES}|{ESCAPES}\n" * 3)
    try:
        code = main([argument.format(tmp_path) for argument in arguments])
    except SystemExit as end:
        code = end.code
    assert code in (1, 2)
    shown = "".join(capsys.readouterr())
    assert {character for character in shown if not character.isprintable()} == {"\n"}
    assert "\\x1b" in shown or "\\e" in shown


def test_a_terminal_that_is_not_utf_8(user_environment, tmp_path):
    (tmp_path / "metadata.csv").write_text("a|سلام|x|y|z\n", encoding="utf-8")
    program = (
        "import sys; from myxtts.cli.console import say, standard_streams;"
        "from myxtts.cli.main import main\n"
        "with standard_streams(): say('سلام')\n"
        "sys.exit(main(['validate', sys.argv[1]]))"
    )
    folder = tmp_path / "پیکره"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env=user_environment | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert b"\\u0633" in done.stdout
    assert b"\\u067e" in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "ascii"])
def test_json_for_programs_can_be_read_again(monkeypatch, encoding):
    below = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", below)
    content = {"speaker": f"{ESCAPES}\x7f\x85 سلام é 🙂 \udcff"}
    with standard_streams():
        say_json(content)
        sys.stdout.flush()
    shown = below.buffer.getvalue().decode(encoding)
    assert {character for character in shown if not character.isprintable()} == {"\n"}
    assert json.loads(shown) == content


class Failing(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


def test_output_that_fails_is_an_error_unless_the_command_continues(monkeypatch, caplog):
    monkeypatch.setattr("sys.stdout", Failing())
    with standard_streams():
        with pytest.raises(OSError, match="No space left"):
            say("lost")
        continue_without_streams()
        say("lost")
    assert caplog.text.count("standard output cannot be written") == 1


def test_a_broken_pipe_is_replaced_so_that_nothing_fails_at_exit(caplog):
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    guarded = Stream(stream, "standard output")
    guarded.may_fail = True
    guarded.write("lost")
    assert "standard output" in caplog.text
    stream.write("nowhere")
    stream.close()


@pytest.mark.training
def test_a_run_whose_output_fails_is_trained_and_saved(miniature, tmp_path, monkeypatch):
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(miniature(max_steps=2).as_dict()))
    run_dir = tmp_path / "run"
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        assert main(["train", f"--config={config}", f"--run-dir={run_dir}"]) == 0
        monkeypatch.undo()
    report = json.loads((run_dir / "report.json").read_text())
    assert report["state"] == "complete"
    assert (run_dir / "checkpoints" / "step_00000002").is_dir()


def test_a_program_without_standard_error_continues_when_its_output_fails(user_environment):
    """And no file that it opens gets the number that libraries write their messages to."""
    program = (
        "import sys; from myxtts.cli import console\n"
        "with console.standard_streams():\n"
        "    console.continue_without_streams()\n"
        "    console.say('lost'); print('lost', file=sys.stderr, flush=True)\n"
        "    with open('/dev/zero') as file: sys.exit(0 if file.fileno() > 2 else 3)"
    )
    done = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "$0" 0<&- 2>&- >/dev/full', program],
        env=user_environment,
        check=False,
    )
    assert done.returncode == 0
