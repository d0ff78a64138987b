"""Mistakes of users of `synthesize`: one line each, before TensorFlow is loaded, nothing lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# In one process for all, since starting Python takes longer than finding a mistake.
PROGRAM = """
import contextlib, io, json, sys
from myxtts.cli.main import main
results = []
for arguments, given in json.load(sys.stdin):
    error = io.StringIO()
    sys.stdin = io.TextIOWrapper(io.BytesIO(bytes(given)))
    with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = main(arguments)
        except SystemExit as stop:
            code = stop.code
    results.append([code, error.getvalue(), "tensorflow" in sys.modules])
print(json.dumps(results))
"""
OUT = ["--out", "out.wav"]
TEXT = ["--text", "Good morning."]
VOICE = ["--voice", "anna"]
BATCH = ["--out-dir", "made", *VOICE]
MISTAKES = [
    ([*TEXT, *VOICE], "where to? Give --out FILE, --out-dir DIR or --play"),
    ([*OUT, *VOICE], "what to say? Give --text TEXT, --text-file FILE or --batch FILE"),
    ([*OUT, *VOICE, "--text", " "], "--text: is empty"),
    ([*OUT, *VOICE, "--text", "-"], "standard input: is empty"),
    ([*OUT, *VOICE, "--text-file", "none.txt"], "none.txt: cannot be read (No such file"),
    ([*OUT, *VOICE, "--text-file", "folder"], "folder: cannot be read ("),
    ([*OUT, *VOICE, "--text-file", "latin1.txt"], "latin1.txt: line 2 is not UTF-8"),
    ([*OUT, *VOICE, "--text-file", "zero.txt"], "zero.txt: is not text"),
    ([*OUT, *VOICE, "--text-file", "empty.txt"], "empty.txt: is empty"),
    (
        [*OUT, *VOICE, *TEXT, "--text-file", "text.txt"],
        "--text-file: cannot be given together with --text",
    ),
    ([*TEXT, *VOICE, "--out", "out.aac"], "out.aac: cannot be written (its name ends in '.aac'"),
    ([*TEXT, *VOICE, "--out", "out"], "out: cannot be written (its name has no ending, expected"),
    ([*TEXT, *VOICE, "--out", "none/out.wav"], "cannot be written (no folder none)"),
    ([*TEXT, *VOICE, "--out", "folder.wav"], "folder.wav: cannot be written (is a folder)"),
    ([*TEXT, *OUT, *VOICE, "--out-dir", "made"], "--out-dir: cannot be given together with --out"),
    (
        [*TEXT, *OUT, *VOICE, "--speaker-wav", "me.wav"],
        "--speaker-wav: cannot be given together with --voice",
    ),
    ([*TEXT, *VOICE, "--out-dir", "text.txt"], "text.txt: is a file, expected a folder"),
    ([*TEXT, *VOICE, "--out-dir", "none/made"], "none/made: cannot be made (no folder none)"),
    ([*TEXT, *BATCH, "--format", "aac"], "--format: found 'aac', allowed: wav, flac, ogg, mp3"),
    ([*TEXT, *BATCH, "--play"], "--play: goes with --out FILE, not with --out-dir"),
    ([*TEXT, *BATCH, "--subtitles", "out.srt"], "--subtitles: goes with --out FILE"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", "out.sub"], "out.sub: cannot be written (its name ends"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", "none/out.srt"], "cannot be written (no folder none)"),
    ([*OUT, *VOICE, "--batch", "good.csv"], "--batch: needs --out-dir DIR"),
    ([*BATCH, "--batch", "none.csv"], "none.csv: cannot be read"),
    ([*BATCH, "--batch", "text.txt"], "text.txt: expected a name that ends in .csv or .tsv"),
    ([*BATCH, "--batch", "column.csv"], "unknown column 'txt', expected id, text, voice"),
    ([*BATCH, "--batch", "twice.csv"], "the ids 'a' and 'A' are the same file"),
    ([*BATCH, "--batch", "climbs.csv"], "climbs.csv: line 2: id '../a', expected a name"),
    ([*BATCH, "--batch", "silent.csv"], "silent.csv: line 2: 'a' has no text"),
    ([*BATCH, "--batch", "wide.csv"], "wide.csv: line 2: found 5 columns, expected at most 4"),
    ([*BATCH, "--batch", "quotes.csv"], "quotes.csv: line "),
    ([*BATCH, "--batch", "empty.csv"], "empty.csv: has no rows"),
    ([*TEXT, *VOICE, "--out", f"{'x' * 245}.wav"], "cannot be written (File name too long)"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", f"{'x' * 245}.srt"], "(File name too long)"),
    ([*TEXT, *VOICE, "--out-dir", "x" * 250], "cannot be written (File name too long)"),
    ([*TEXT, *OUT, *VOICE, "--lexicon", "none.tsv"], "none.tsv: cannot be read"),
    ([*TEXT, *OUT, *VOICE, "--lexicon", "text.txt"], "text.txt: line 1: found 'Good morning.'"),
    ([*TEXT, *OUT, *VOICE, "--speed", "0"], "--speed: found 0, allowed: 0.25 to 4"),
    ([*TEXT, *OUT, *VOICE, "--steps", "0"], "--steps: found 0, allowed: 1 to 1000"),
    ([*TEXT, *OUT, *VOICE, "--temperature", "nan"], "--temperature: found nan, allowed: 0 to 2"),
    ([*TEXT, *OUT, *VOICE, "--seed", "-1"], "--seed: found -1, allowed: 0 to"),
    ([*TEXT, *OUT, *VOICE, "--speed", "fast"], "--speed: found 'fast', expected a number"),
    ([*TEXT, *OUT, *VOICE, "--sped", "2"], "unknown flag --sped; did you mean '--speed'?"),
    ([*TEXT, *OUT, *VOICE, "--checkpoint", "none"], "none: no such folder"),
]
# Where the model must be loaded to know.
LATE_MISTAKES = [
    (["--out-dir", "made", "--batch", "nobody.csv"], "nobody.csv: 'a': "),
    (["--out-dir", "made", "--batch", "unheard.csv"], "unheard.csv: 'a': none.wav"),
    (["--out-dir", "made", "--batch", "late.csv"], "late.csv: '29': language 'tlh'"),
    ([*OUT, *VOICE, "--text-file", "long.txt"], "1000001"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "folder").mkdir()
    (folder / "folder.wav").mkdir()
    for name, content in {
        "text.txt": b"Good morning.\n",
        "empty.txt": b" \n",
        "latin1.txt": b"Gr\xc3\xbcn\nGr\xfcn\n",
        "zero.txt": b"a\0b",
        "good.csv": b"a,Good morning.\n",
        "column.csv": b"id,text,txt\na,Hello.,\n",
        "twice.csv": b"a,Hello.\nA,Hello.\n",
        "climbs.csv": b"id,text\n../a,Hello.\n",
        "silent.csv": b"id,text\na, \n",
        "wide.csv": b"a,Hello.\nb,Hello, there, my, friend\n",
        "quotes.csv": b'a,"Hello.\n',
        "empty.csv": b"id,text\n",
        "nobody.csv": b"a,Hello.,nobody\n",
        "unheard.csv": b"a,Hello.,none.wav\n",
        "late.csv": "".join(
            f"{row},Hello.,,{'tlh' if row == 29 else 'en'}\n" for row in range(30)
        ).encode(),
        "long.txt": b"x" * 1_000_001,
        "out.wav": b"an older file",
    }.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def results(folder, user_environment) -> list[tuple[int, str, bool]]:
    asked = [(["synthesize", *arguments], []) for arguments, _ in MISTAKES + LATE_MISTAKES]
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=folder,
        env=user_environment,
        check=True,
    )
    return json.loads(result.stdout)


@pytest.mark.parametrize(
    ("index", "line"), [(index, line) for index, (_, line) in enumerate(MISTAKES + LATE_MISTAKES)]
)
def test_a_mistake_is_one_line(results, folder, index, line):
    code, said, tensorflow_is_loaded = results[index]
    assert code == 2
    assert line in said
    assert said.count("\n") == 1
    assert tensorflow_is_loaded == (index >= len(MISTAKES))


def test_nothing_was_changed(results, folder):
    assert (folder / "out.wav").read_bytes() == b"an older file"
    assert not (folder / "made").exists()
    assert not list(folder.glob(".*"))
