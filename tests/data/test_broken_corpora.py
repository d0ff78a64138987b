"""Broken corpora, each with the exact lines that `myxtts validate` shows for it.

Every corpus has two good rows, `a` and `b`, and something broken beside them. Lines of findings
are compared whole; `{corpus}` stands for the corpus folder.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from myxtts.cli.main import main

RATE_HZ = 22_050
GOOD_ROWS = "a|The first of the good rows.\nb|And here is the second one.\n"
SENTENCE = "This one is not like the others."
HEADER = "audio_file|text|speaker_name|language\n"


def voice(seconds: float = 2.0, *, seed: int = 7, rate_hz: int = RATE_HZ) -> np.ndarray:
    """Something with the spectrum and the pauses of speech, different for every seed."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal(int(seconds * rate_hz))
    colour = noise + 0.9 * np.roll(noise, 1) + 0.8 * np.roll(noise, 2)
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * np.arange(noise.size) / rate_hz)
    return (0.06 * colour * syllables).astype(np.float32)


def encoded(samples: np.ndarray, rate_hz: int = RATE_HZ, **how: str) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate_hz, **({"format": "WAV"} | how))
    return stream.getvalue()


def decoded(content: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(content), dtype="int16")[0]


def cut(content: bytes, share: float = 0.5) -> bytes:
    return content[: int(len(content) * share)]


def upsampled(from_hz: int) -> np.ndarray:
    return soxr.resample(voice(rate_hz=from_hz), from_hz, RATE_HZ)


def with_not_a_number() -> np.ndarray:
    samples = voice()
    samples[100] = np.nan
    return samples


def with_wrong_header() -> bytes:
    """A WAV whose declared format does not exist."""
    content = bytearray(encoded(voice(0.5)))
    content[20:22] = b"\xee\xee"
    return bytes(content)


@dataclass(frozen=True)
class Case:
    """What is added to the two good rows, and the lines that are shown."""

    name: str
    rows: str
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    metadata: str | None = None
    """The whole metadata file, for corpora that differ in more than a row."""


def bad_audio(name: str, content: Callable[[], bytes], line: str, *options: str) -> Case:
    return Case(name, f"c|{SENTENCE}\n", {"wavs/c.wav": content}, (line,), options=options)


def doubtful_audio(name: str, content: Callable[[], bytes], line: str) -> Case:
    return Case(name, f"c|{SENTENCE}\n", {"wavs/c.wav": content}, warnings=(line,))


def bad_row(name: str, row: str, line: str) -> Case:
    return Case(name, f"{row}\n", {"wavs/c.wav": lambda: encoded(voice())}, (line,))


def bad_text(name: str, text: str, line: str, *options: str) -> Case:
    files = {"wavs/c.wav": lambda: encoded(voice())}
    return Case(name, f"c|{text}\n", files, (line,), options=options)


def doubtful_text(name: str, text: str, line: str, *options: str) -> Case:
    files = {"wavs/c.wav": lambda: encoded(voice())}
    return Case(name, f"c|{text}\n", files, warnings=(line,), options=options)


LOST_SYNC = "truncated or damaged (flac decoder lost sync); copy or export it again"

AUDIO_CASES = [
    Case(
        "missing file",
        f"c|{SENTENCE}\n",
        errors=("metadata.csv:3: missing audio: {corpus}/wavs/c.wav: no such file",),
    ),
    Case(
        "missing file with an extension",
        f"c.flac|{SENTENCE}\n",
        errors=("metadata.csv:3: missing audio: {corpus}/wavs/c.flac: no such file",),
    ),
    Case(
        "missing file in a folder of its own",
        f"ann/c.wav|{SENTENCE}\n",
        errors=("metadata.csv:3: missing audio: {corpus}/ann/c.wav: no such file",),
    ),
    Case(
        "text where the name should be",
        f"{'No file can have so long a name. ' * 9}|c\n",
        {"wavs/c.wav": lambda: encoded(voice())},
        errors=(
            "metadata.csv:3: bad row: audio path 'No file can have so long a name. No file...' is "
            "too long for a file name",
        ),
    ),
    bad_audio(
        "text in an audio file",
        lambda: b"this is not audio",
        "metadata.csv:3: unreadable audio: {corpus}/wavs/c.wav: cannot read audio "
        "(Format not recognised); expected wav, flac, ogg or mp3",
    ),
    bad_audio(
        "header of an unknown format",
        with_wrong_header,
        "metadata.csv:3: unreadable audio: {corpus}/wavs/c.wav: cannot read audio "
        "(Error in WAV/W64/RF64 file. Malformed 'fmt ' chunk); expected wav, flac, ogg or mp3",
    ),
    bad_audio(
        "samples that are not numbers",
        lambda: encoded(with_not_a_number(), subtype="FLOAT"),
        "metadata.csv:3: unreadable audio: {corpus}/wavs/c.wav: contains samples that are "
        "NaN or far beyond full scale; export it again",
    ),
    bad_audio(
        "file without a byte",
        lambda: b"",
        "metadata.csv:3: empty audio: {corpus}/wavs/c.wav: empty file; record it again or "
        "remove it",
    ),
    bad_audio(
        "file without samples",
        lambda: encoded(np.zeros(0, np.float32)),
        "metadata.csv:3: empty audio: {corpus}/wavs/c.wav: contains no samples; record it again or "
        "remove it",
    ),
    bad_audio(
        "wav that breaks off",
        lambda: cut(encoded(voice(3.0))),
        "metadata.csv:3: truncated audio: 1.50 s of 3.00 s present",
    ),
    Case(
        "flac that breaks off",
        f"c|{SENTENCE}\n",
        {"wavs/c.flac": lambda: cut(encoded(voice(), format="FLAC"))},
        ("metadata.csv:3: truncated audio: {corpus}/wavs/c.flac: " + LOST_SYNC,),
    ),
    bad_audio(
        "too short",
        lambda: encoded(voice(0.1)),
        "metadata.csv:3: too short: 0.10 s of audio",
    ),
    bad_audio(
        "a click in silence",
        lambda: encoded(np.pad(voice(0.02), RATE_HZ)),
        "metadata.csv:3: too short: 0.12 s of audio",
    ),
    bad_audio(
        "digital silence",
        lambda: encoded(np.zeros(2 * RATE_HZ, np.float32)),
        "metadata.csv:3: silent audio: digital silence",
    ),
    bad_audio(
        "a constant offset",
        lambda: encoded(np.full(2 * RATE_HZ, 0.25, np.float32)),
        "metadata.csv:3: silent audio: digital silence",
    ),
    bad_audio(
        "the noise of an unplugged microphone",
        lambda: encoded(voice() * 0.006),
        "metadata.csv:3: silent audio: the loudest part is -64 dBFS",
    ),
    bad_audio(
        "longer than the configuration allows",
        lambda: encoded(voice(5.0)),
        "metadata.csv:3: clip too long: 431 frames, data.max_mel_frames is 300",
        "--set=data.max_mel_frames=300",
    ),
    doubtful_audio(
        "clipped",
        lambda: encoded(np.clip(voice() * 8, -1, 1)),
        "metadata.csv:3: clipped audio: 2.0% of the samples are clipped",
    ),
    doubtful_audio(
        "clipped and then turned down",
        lambda: encoded(np.clip(voice() * 8, -1, 1) * 0.6),
        "metadata.csv:3: clipped audio: 2.0% of the samples are clipped",
    ),
    doubtful_audio(
        "upsampled from telephone quality",
        lambda: encoded(upsampled(8_000)),
        "metadata.csv:3: band-limited audio: nothing above 4.0 kHz at 22050 Hz; upsampled from a "
        "lower rate?",
    ),
    doubtful_audio(
        "upsampled and quiet",
        lambda: encoded(upsampled(11_025) * 0.1),
        "metadata.csv:3: band-limited audio: nothing above 5.4 kHz at 22050 Hz; upsampled from a "
        "lower rate?",
    ),
    doubtful_audio(
        "another sample rate",
        lambda: encoded(voice(rate_hz=44_100), 44_100),
        "metadata.csv: other sample rate: 1 clip at 44100 Hz, resampled to 22050 Hz",
    ),
    Case(
        "two other sample rates, of which one is too low",
        f"c|{SENTENCE}\nd|And this one is a third kind.\ne|There are two of its kind.\n",
        {
            "wavs/c.wav": lambda: encoded(voice(seed=3, rate_hz=48_000), 48_000),
            "wavs/d.wav": lambda: encoded(voice(seed=4, rate_hz=8_000), 8_000),
            "wavs/e.wav": lambda: encoded(voice(seed=5, rate_hz=8_000), 8_000),
        },
        warnings=(
            "metadata.csv: other sample rate: 2 clips at 8000 Hz, resampled to 22050 Hz, "
            "with nothing above 4 kHz",
            "metadata.csv: other sample rate: 1 clip at 48000 Hz, resampled to 22050 Hz",
        ),
    ),
]

TEXT_CASES = [
    bad_text(
        "only punctuation",
        "... !",
        "metadata.csv:3: empty text: nothing to say in '... !'",
    ),
    bad_text(
        "only signs that are not said",
        "★ ☆ ★",
        "metadata.csv:3: empty text: nothing to say in '★ ☆ ★'",
    ),
    Case(
        "no text",
        "c|\n",
        {"wavs/c.wav": lambda: encoded(voice())},
        ("metadata.csv:3: empty text: nothing to say in ''",),
    ),
    bad_text(
        "text too long",
        f"{SENTENCE} " * 9,
        "metadata.csv:3: text too long: 253 tokens, data.max_text_length is 200",
    ),
    bad_text(
        "more text than can be said",
        f"{SENTENCE} " * 7,
        "metadata.csv:3: too short for its text: 173 frames for 197 tokens; does this text "
        "belong to this clip?",
    ),
    Case(
        "more text than anybody says",
        f"c|{f'{SENTENCE} ' * 3}\n",
        {"wavs/c.wav": lambda: encoded(voice(2.4))},
        (
            "metadata.csv:3: text does not fit: 31.2 graphemes per second is an implausible "
            "speaking rate; does this text belong to this clip?",
        ),
        options=("--set=text.tokens=graphemes",),
    ),
    Case(
        "one letter in a long recording",
        "c|I.\n",
        {"wavs/c.wav": lambda: encoded(voice(6.0))},
        (
            "metadata.csv:3: text does not fit: 0.3 phonemes per second is an implausible "
            "speaking rate; does this text belong to this clip?",
        ),
    ),
    Case(
        "a language without a voice",
        "c|This one has a language.|ann|xx-none\n",
        {"wavs/c.wav": lambda: encoded(voice())},
        (
            "metadata.csv:4: no pronunciation: espeak-ng has no voice 'xx-none': choose a "
            "language code it supports, such as en-us, fa, de, or set text.tokens to graphemes",
        ),
        metadata=HEADER + "a|The first.|ann|en\nb|The second.|ann|en\n",
    ),
    doubtful_text(
        "foreign script",
        "He wrote 漢字 on the wall.",
        "metadata.csv:3: unknown symbols: 字 漢 cannot be pronounced in language en",
    ),
    Case(
        "Persian text in an English corpus",
        "c|سلام دنیا\n",
        {"wavs/c.wav": lambda: encoded(voice(4.0))},
        errors=(
            "metadata.csv:3: another script: 'سلام دنیا' is written in Arabic letters, but its "
            "language is 'en'; add --language fa or a language column",
        ),
    ),
    Case(
        "digits in a language whose numbers are not known",
        "",
        {},
        warnings=("metadata.csv:3: unknown symbols: 4 7 cannot be pronounced in language xx",),
        options=("--language=xx", "--set=text.tokens=graphemes"),
        metadata=GOOD_ROWS + "c|Room 47 is not free today.\n",
    ),
    doubtful_text(
        "a sign that espeak-ng passes over",
        "Das ist ein ★ für dich.",
        "metadata.csv:3: unknown symbols: ★ cannot be pronounced in language de",
        "--language=de",
    ),
]

ROW_CASES = [
    bad_row(
        "a column too many",
        f"c|{SENTENCE}|c|d",
        "metadata.csv:3: bad row: found 4 columns, expected 2 (audio|text)",
    ),
    bad_row(
        "a column too few",
        f"c {SENTENCE}",
        "metadata.csv:3: bad row: found 1 column, expected 2 (audio|text)",
    ),
    bad_row("no audio name", f"|{SENTENCE}", "metadata.csv:3: bad row: has no audio file name"),
    bad_row(
        "a path upwards",
        f"../c.wav|{SENTENCE}",
        "metadata.csv:3: bad row: audio path '../c.wav' leaves the corpus folder; expected a path "
        "inside it",
    ),
    bad_row(
        "an absolute path",
        f"/etc/passwd|{SENTENCE}",
        "metadata.csv:3: bad row: audio path '/etc/passwd' leaves the corpus folder; expected a "
        "path inside it",
    ),
    bad_row(
        "an absolute path from Windows",
        f"C:\\data\\c.wav|{SENTENCE}",
        "metadata.csv:3: bad row: audio path 'C:/data/c.wav' leaves the corpus folder; expected a "
        "path inside it",
    ),
    Case(
        "broken rows below a header",
        "c|hello\n",
        errors=(
            "metadata.csv:4: bad row: found 2 columns, expected 4 (audio|text|speaker|language)",
        ),
        metadata=HEADER + "a|The first good row.|ann|en\nb|And the second one.|ann|en\n",
    ),
    Case(
        "a comma in a text without quotes",
        "c,One, and another.\n",
        {"wavs/c.wav": lambda: encoded(voice())},
        ("metadata.csv:4: bad row: found 3 columns, expected 2 (audio,text)",),
        metadata='path,text\na,"First, the good row."\nb,And the second one.\n',
    ),
    Case(
        "a row of every kind of trouble",
        "|x\n/x|x\nx\nc|...\n",
        {"wavs/c.wav": lambda: b""},
        (
            "metadata.csv:3: bad row: has no audio file name",
            "metadata.csv:4: bad row: audio path '/x' leaves the corpus folder; expected a path "
            "inside it",
            "metadata.csv:5: bad row: found 1 column, expected 2 (audio|text)",
            "metadata.csv:6: empty audio: {corpus}/wavs/c.wav: empty file; record it again or "
            "remove it",
            "metadata.csv:6: empty text: nothing to say in '...'",
        ),
    ),
    Case(
        "the wrong layout forced",
        "",
        errors=(
            "metadata.csv:1: bad row: found 2 columns, expected 3 (audio|text|speaker)",
            "metadata.csv:2: bad row: found 2 columns, expected 3 (audio|text|speaker)",
        ),
        options=("--layout=audio|text|speaker",),
    ),
]

CORPUS_CASES = [
    Case(
        "a row twice",
        "a|The first of the good rows.\n",
        errors=(
            "metadata.csv:3: duplicate audio: same audio as metadata.csv:1, with the same text",
        ),
    ),
    Case(
        "one sound with two texts",
        "a|It says something else here.\n",
        errors=(
            "metadata.csv:3: duplicate audio: same audio as metadata.csv:1, with another text",
        ),
    ),
    Case(
        "one sound in two formats",
        f"c|{SENTENCE}\n",
        {"wavs/c.flac": lambda: encoded(decoded(encoded(voice(seed=0))), format="FLAC")},
        ("metadata.csv:3: duplicate audio: same audio as metadata.csv:1, with another text",),
    ),
    Case(
        "a text twice",
        "c|the first of the  good rows.\n",
        {"wavs/c.wav": lambda: encoded(voice())},
        warnings=("metadata.csv:3: duplicate text: same text as metadata.csv:1",),
    ),
    Case(
        "a speaker with too little",
        "c|It is said by another one.|bob|en\n",
        {"wavs/c.wav": lambda: encoded(voice(1.5))},
        warnings=(
            "metadata.csv: small speaker: bob has 1.5 s in 1 usable clip, "
            "data.min_speaker_seconds is 3",
        ),
        options=("--set=data.min_speaker_seconds=3",),
        metadata=HEADER + "a|The first good row.|ann|en\nb|And the second one.|ann|en\n",
    ),
    Case(
        "a speaker with one sound twice",
        "c|It is said by another one.|bob|en\nc|It is said by another one.|bob|en\n",
        {"wavs/c.wav": lambda: encoded(voice(2.0))},
        ("metadata.csv:5: duplicate audio: same audio as metadata.csv:4, with the same text",),
        warnings=(
            "metadata.csv: small speaker: bob has 2.0 s in 1 usable clip, "
            "data.min_speaker_seconds is 3",
        ),
        options=("--set=data.min_speaker_seconds=3",),
        metadata=HEADER + "a|The first good row.|ann|en\nb|And the second one.|ann|en\n",
    ),
    Case(
        "a text of another clip",
        "".join(f"c{number}|This is the sentence of number {number}.\n" for number in range(20))
        + "d|No.\n",
        {
            f"wavs/{name}.wav": lambda seed=seed: encoded(voice(2.5, seed=seed))
            for seed, name in enumerate([*(f"c{number}" for number in range(20)), "d"], 50)
        },
        warnings=(
            "metadata.csv:23: unusual speaking rate: 1.2 phonemes per second, the median is 10.0; "
            "does this text belong to this clip?",
        ),
    ),
]

CASES = [*AUDIO_CASES, *TEXT_CASES, *ROW_CASES, *CORPUS_CASES]


def build(folder: Path, case: Case) -> None:
    files = {
        "wavs/a.wav": lambda: encoded(voice(seed=0)),
        "wavs/b.wav": lambda: encoded(voice(seed=1)),
    }
    if "c|" in (case.metadata or ""):
        files["wavs/c.wav"] = lambda: encoded(voice())
    for name, content in (files | dict(case.files)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content())
    text = (GOOD_ROWS if case.metadata is None else case.metadata) + case.rows
    (folder / "metadata.csv").write_text(text, encoding="utf-8")


def shown_lines(output: str) -> tuple[list[str], list[str]]:
    """The lines below Errors and below Warnings."""
    lines = output.splitlines()
    found: dict[str, list[str]] = {"Errors": [], "Warnings": []}
    for title, below in found.items():
        if title in lines:
            rest = lines[lines.index(title) + 1 :]
            below += rest[: rest.index("")]
    return found["Errors"], found["Warnings"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_the_user_sees(tmp_path, capsys, case):
    folder = tmp_path / "corpus"
    build(folder, case)
    options = ("--workers=1", "--set=data.min_speaker_seconds=0", *case.options)
    exit_code = main(["validate", str(folder), *options])
    output = capsys.readouterr()
    expected = [
        [line.replace("{corpus}", str(folder)) for line in lines]
        for lines in (case.errors, case.warnings)
    ]
    assert list(shown_lines(output.out)) == expected
    assert exit_code == (1 if case.errors else 0)
    assert output.err == ""


def test_the_table_is_long_enough():
    assert len(CASES) + len(UNREADABLE) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


UNREADABLE = {
    "no folder": ({}, (), "{corpus}: no such folder; expected a corpus with metadata.csv"),
    "no metadata": (
        {"notes.txt": b""},
        (),
        "{corpus}: no metadata found; expected metadata_train.csv or metadata.csv with lines "
        "such as id|text",
    ),
    "empty metadata": (
        {"metadata.csv": b"\n \n"},
        (),
        "{corpus}/metadata.csv: is empty; expected lines such as id|text",
    ),
    "only a header": (
        {"metadata.csv": HEADER.encode()},
        (),
        "{corpus}/metadata.csv: has a header row but no rows; expected one row per clip",
    ),
    "a header without text": (
        {"metadata.csv": b"audio_file|speaker_name\na|b\n"},
        (),
        "{corpus}/metadata.csv:1: the header row names no text column; expected names such as "
        "audio_file|text|speaker_name|language",
    ),
    "no columns": (
        {"metadata.csv": b"a The first.\nb The second.\n"},
        (),
        "{corpus}/metadata.csv:1: found 1 column, expected id|text, id|text|normalised text, "
        "wav|speaker|text, or a header row such as audio_file|text|speaker_name|language",
    ),
    "five columns without a header": (
        {"metadata.csv": b"a|b|c|d|e\n"},
        (),
        "{corpus}/metadata.csv:1: found 5 columns, expected id|text, id|text|normalised text, "
        "wav|speaker|text, or a header row such as audio_file|text|speaker_name|language",
    ),
    "not UTF-8": (
        {"metadata.csv": "a|one\nb|café\n".encode("latin-1")},
        (),
        "{corpus}/metadata.csv:2: not UTF-8; save the file as UTF-8",
    ),
    "UTF-16": (
        {"metadata.csv": "a|one\n".encode("utf-16-le")},
        (),
        "{corpus}/metadata.csv: not UTF-8, possibly UTF-16; save the file as UTF-8",
    ),
    "an empty evaluation file": (
        {"metadata.csv": b"a|one\n", "metadata_eval.csv": b""},
        (),
        "{corpus}/metadata_eval.csv: is empty; expected lines such as id|text",
    ),
    "a layout without text": (
        {"metadata.csv": b"a|one\n"},
        ("--layout=audio|speaker",),
        "layout 'audio|speaker': expected one text column",
    ),
    "a layout with an unknown column": (
        {"metadata.csv": b"a|one\n"},
        ("--layout=audio|text|mood",),
        "layout 'audio|text|mood': unknown column 'mood', allowed: audio, text, speaker, "
        "language, normalised text, or - for an unused column",
    ),
    "a delimiter of two characters": (
        {"metadata.csv": b"a|one\n"},
        ("--delimiter=||",),
        "delimiter '||': expected one character, such as | or , or tab",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_corpus_that_cannot_be_read_at_all(tmp_path, capsys, name):
    files, options, line = UNREADABLE[name]
    folder = tmp_path / "corpus"
    for file, content in files.items():
        folder.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
    assert main(["validate", str(folder), *options]) == 2
    output = capsys.readouterr()
    assert output.err.splitlines() == [f"myxtts validate: {line.replace('{corpus}', str(folder))}"]
    assert output.out.strip() == ""
