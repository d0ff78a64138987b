"""Mistakes of users of `synthesize`: one line that names the value, and nothing is lost."""

import io
from pathlib import Path

import pytest

from myxtts.cli.main import main

OUT = ["--out", "out.wav"]
TEXT = ["--text", "Good morning."]
VOICE = ["--voice", "anna"]
BATCH = ["--out-dir", "made", *VOICE]
MISTAKES = [
    ([*TEXT, *VOICE], "--out FILE"),
    ([*OUT, *VOICE], "standard input"),
    ([*TEXT, *VOICE, "--out", "-", "--play"], "--play"),
    ([*TEXT, *OUT, *VOICE, "--format", "pcm"], "--format pcm"),
    ([*OUT, *VOICE, "--text", "<speak>Hi"], "SSML"),
    ([*OUT, *VOICE, "--text", " "], "--text"),
    ([*OUT, *VOICE, "--text", "-"], "standard input"),
    ([*OUT, *VOICE, "--text-file", "none.txt"], "none.txt"),
    ([*OUT, *VOICE, "--text-file", "folder"], "folder"),
    ([*OUT, *VOICE, "--text-file", "latin1.txt"], "latin1.txt: line 2"),
    ([*OUT, *VOICE, "--text-file", "zero.txt"], "zero.txt"),
    ([*OUT, *VOICE, "--text-file", "empty.txt"], "empty.txt"),
    (
        [*OUT, *VOICE, *TEXT, "--text-file", "text.txt"],
        "--text-file",
    ),
    ([*TEXT, *VOICE, "--out", "out.aac"], "out.aac"),
    ([*TEXT, *VOICE, "--out", "out"], "out"),
    ([*TEXT, *VOICE, "--out", "none/out.wav"], "none"),
    ([*TEXT, *VOICE, "--out", "folder.wav"], "folder.wav"),
    ([*TEXT, *OUT, *VOICE, "--out-dir", "made"], "--out-dir"),
    (
        [*TEXT, *OUT, *VOICE, "--speaker-wav", "me.wav"],
        "--speaker-wav",
    ),
    ([*TEXT, *VOICE, "--out-dir", "text.txt"], "text.txt"),
    ([*TEXT, *VOICE, "--out-dir", "none/made"], "none/made"),
    ([*TEXT, *BATCH, "--format", "aac"], "--format: found 'aac'"),
    ([*TEXT, *BATCH, "--play"], "--play"),
    ([*TEXT, *BATCH, "--subtitles", "out.srt"], "--subtitles"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", "out.sub"], "out.sub"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", "none/out.srt"], "none"),
    ([*OUT, *VOICE, "--batch", "good.csv"], "--out-dir"),
    ([*BATCH, "--batch", "none.csv"], "none.csv"),
    ([*BATCH, "--batch", "text.txt"], "text.txt"),
    ([*BATCH, "--batch", "column.csv"], "'txt'"),
    ([*BATCH, "--batch", "header.csv"], "'text'"),
    ([*BATCH, "--batch", "twice.csv"], "'A'"),
    ([*BATCH, "--batch", "climbs.csv"], "climbs.csv: line 2"),
    ([*BATCH, "--batch", "silent.csv"], "silent.csv: line 2"),
    ([*BATCH, "--batch", "wide.csv"], "wide.csv: line 2"),
    ([*BATCH, "--batch", "quotes.csv"], "quotes.csv: line "),
    ([*BATCH, "--batch", "empty.csv"], "empty.csv"),
    ([*TEXT, *VOICE, "--out", f"{'x' * 245}.wav"], "too long"),
    ([*TEXT, *OUT, *VOICE, "--subtitles", f"{'x' * 245}.srt"], "too long"),
    ([*TEXT, *VOICE, "--out-dir", "x" * 250], "too long"),
    ([*TEXT, *OUT, *VOICE, "--lexicon", "none.tsv"], "none.tsv"),
    ([*TEXT, *OUT, *VOICE, "--lexicon", "text.txt"], "text.txt: line 1"),
    ([*TEXT, *OUT, *VOICE, "--speed", "0"], "--speed: found 0"),
    ([*TEXT, *OUT, *VOICE, "--steps", "0"], "--steps: found 0"),
    ([*TEXT, *OUT, *VOICE, "--temperature", "nan"], "--temperature: found nan"),
    ([*TEXT, *OUT, *VOICE, "--seed", "-1"], "--seed: found -1"),
    ([*TEXT, *OUT, *VOICE, "--speed", "fast"], "--speed: found 'fast'"),
    ([*TEXT, *OUT, *VOICE, "--sped", "2"], "'--speed'"),
    ([*TEXT, *OUT, *VOICE, "--checkpoint", "none"], "none"),
]
# Where the model must be loaded to know.
MISTAKES += [
    (["--out-dir", "made", "--batch", "nobody.csv"], "nobody.csv: 'a': "),
    (["--out-dir", "made", "--batch", "unheard.csv"], "unheard.csv: 'a': none.wav"),
    (["--out-dir", "made", "--batch", "late.csv"], "late.csv: '29'"),
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
        "header.csv": b"id,sentence\na,Hello.\n",
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


@pytest.mark.parametrize(("arguments", "named"), MISTAKES)
def test_a_mistake_is_one_line(folder, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    try:
        code = main(["synthesize", *arguments])
    except SystemExit as end:
        code = end.code
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert code == 2
    assert line.startswith("myxtts synthesize: ")
    assert named in line
    assert (folder / "out.wav").read_bytes() == b"an older file"
    assert not (folder / "made").exists()
    assert not list(folder.glob(".*"))
