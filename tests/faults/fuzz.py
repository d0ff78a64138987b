"""Thousands of damaged and malicious inputs: each is accepted, or rejected with a MyXTTSError.

    .venv/bin/python tests/faults/fuzz.py [--inputs 100000] [--seed 0] [--only wav] [--json FILE]

Real samples of metadata, sound and text are mutated at random, from a seed.
Any other exception, an input that takes ten seconds of computing or two minutes of waiting, or
memory beyond the limit is a finding: it is shown with its traceback, and its bytes are kept next to
--findings.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from myxtts.audio.files import clean_recording, read_recording
from myxtts.config.config import AudioConfig
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import MyXTTSError
from myxtts.text.tokenizer import Tokenizer, text_symbols

# CPU time; on a busy machine an input may wait longer.
_LONGEST_SECONDS = 10
_LONGEST_WAIT_SECONDS = 120
_MEMORY_BYTES = 3 << 30

# What parsers stumble over.
WORDS = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"|", b"||", b'"', b",", b"\t", b"-"),
    *(b"../", b"/etc/passwd", b"C:\\", b"~", b"%s", b"{}", b"[" * 400, b"(" * 400),
    *(b"&a [*a, *a]", b"*a", b"<<: *a", b"!!python/object/apply:os.system ['true']", b"!!binary"),
    *(b"2001-99-99", b"0x", b"1e999", b"-1e999", b".nan", b".inf", b"9" * 5_000, b"1_0:99:99"),
    *(b"null", b"true", b"? ", b": ", b"- ", b"#", b"---\n", b"...\n", b"\xe2\x80\x8f"),
    *(b"\xd8\xb3\xd9\x84\xd8\xa7\xd9\x85", b"\xf0\x9f\x99\x82", b"\xcd\x8f" * 50, b"a" * 3_000),
    *(b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\1\0\0\0"),
    *(b"$1,000,000.99", b"12:60", b"3/0", b"1st", b"IIII", b"https://a.b/c?d=e", b"-0.0e-9"),
    *(b"data", b"fmt ", b"RIFF", b"LIST", b"fact", b"\xfe\xff", b"F64", b"BF16", b"I8"),
]


def mutated(sample: bytes, others: list[bytes], generator: random.Random) -> bytes:
    """Return the sample with a few changes."""
    content = bytearray(sample)
    for _ in range(generator.choice([1, 1, 1, 2, 3, 8])):
        place = generator.randrange(len(content) + 1)
        span = generator.choice([1, 2, 4, 8, 64])
        kind = generator.randrange(8)
        if kind == 0 and content:
            content[place % len(content)] ^= 1 << generator.randrange(8)
        elif kind == 1:
            content[place : place + span] = generator.randbytes(span)
        elif kind == 2:
            content[place:place] = generator.choice(WORDS)
        elif kind == 3:
            word = generator.choice(WORDS)
            content[place : place + len(word)] = word
        elif kind == 4:
            del content[place : place + span * generator.choice([1, 1, 100])]
        elif kind == 5:
            content[place:place] = content[place : place + span] * generator.choice([2, 50])
        elif kind == 6:
            other = generator.choice(others)
            start = generator.randrange(len(other) + 1)
            content[place:] = other[start:]
        else:
            number = generator.choice([0, 1, 255, 1 << 15, 1 << 31, (1 << 32) - 1, 1 << 40])
            content[place : place + 4] = (number & 0xFFFFFFFF).to_bytes(4, "little")
    return bytes(content)


class Metadata:
    """A corpus whose metadata is the input."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "wavs").mkdir()
        (folder / "wavs" / "a.wav").touch()

    def samples(self) -> list[bytes]:
        texts = [
            "a|Hello there.|hello there\nb|Dr. Smith paid $5.|doctor smith paid five dollars\n",
            "audio_file|text|speaker_name|language\nwavs/a.wav|Good morning.|anna|en\n",
            "wavs/a.wav|anna|One two.\nwavs/b.wav|anna|Three.\nwavs/c.wav|ben|Four five.\n",
            'file,sentence,speaker\na,"He said ""no"", twice",anna\n',
            "a\tسلام دنیا\nb\tصبح بخیر\n",
        ]
        return [text.encode() for text in texts]

    def take(self, content: bytes) -> None:
        (self._folder / "metadata.csv").write_bytes(content)
        dataset = LJSpeechDataset(self._folder)
        inside = self._folder.resolve()
        for utterance in dataset:
            assert utterance.audio_path.resolve().is_relative_to(inside), utterance.audio_path


class Sound:
    """A sound file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "sound.wav"

    def samples(self) -> list[bytes]:
        tone = np.sin(np.arange(4_000) / 9).astype(np.float32)
        kinds = [
            *(("WAV", subtype) for subtype in ("PCM_16", "PCM_24", "FLOAT", "ULAW", "IMA_ADPCM")),
            *(("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III"), ("RF64", "PCM_16")),
            *(("AIFF", "PCM_16"), ("AU", "PCM_16"), ("W64", "PCM_16"), ("CAF", "PCM_16")),
        ]
        return [self._encoded(tone, *kind) for kind in kinds]

    @staticmethod
    def _encoded(tone: np.ndarray, kind: str, subtype: str) -> bytes:
        buffer = io.BytesIO()
        soundfile.write(buffer, np.stack([tone, tone], 1), 16_000, format=kind, subtype=subtype)
        return buffer.getvalue()

    def take(self, content: bytes) -> None:
        self._file.write_bytes(content)
        samples = read_recording(self._file).at_rate(22_050)
        cleaned = clean_recording(samples, AudioConfig())
        assert np.isfinite(cleaned).all()


class Text:
    """A sentence to say, in two languages and as phonemes and letters."""

    def __init__(self, folder: Path) -> None:
        symbols = [chr(code) for code in range(ord("a"), ord("z") + 1)]
        self._tokenizer = Tokenizer.learn("phonemes", symbols, ["en", "fa"])

    def samples(self) -> list[bytes]:
        texts = [
            "On 3 May 1999 Dr. Smith paid $1,234.50 for 2/3 of it, i.e. 50% at 12:30 p.m.",
            "در ۱۲ مهر ۱۴۰۲ ساعت ۱۰:۳۰ مبلغ ۱۲٬۵۰۰ تومان پرداخت شد؛ یعنی ۵۰٪.",
            "Call +49 30 123456 or mail me@example.com; see https://example.com/a?b=c#d.",
            "It's the 21st century: XIV, IV and NATO… (yes!) \u200fمی\u200cروم\u200e",
        ]
        return [text.encode() for text in texts]

    def take(self, content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        for language in ("en", "fa"):
            text_symbols(text, language, "graphemes")
            self._tokenizer.encode(text, language)


TARGETS: dict[str, Callable[[Path], Any]] = {
    "metadata": Metadata,
    "wav": Sound,
    "text": Text,
}


class TookTooLongError(Exception):
    pass


def _on_alarm(number: int, frame: object) -> None:
    raise TookTooLongError(
        f"an input computed for {_LONGEST_SECONDS} s or waited for {_LONGEST_WAIT_SECONDS} s"
    )


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """Handle the alarms of `feed`, which would end the process outside this context."""
    numbers = (signal.SIGPROF, signal.SIGALRM)
    before = {number: signal.signal(number, _on_alarm) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _set_alarms(computing: float, waiting: float) -> None:
    signal.setitimer(signal.ITIMER_PROF, computing)
    signal.setitimer(signal.ITIMER_REAL, waiting)


def inputs_of(target: Any, count: int, generator: random.Random) -> Iterator[bytes]:
    samples = target.samples()
    yield from samples[:count]
    for _ in range(count - len(samples)):
        yield mutated(generator.choice(samples), samples, generator)


def feed(target: Any, inputs: Iterable[bytes]) -> tuple[Counter[str], list[tuple[bytes, str]]]:
    """Return the numbers of accepted and rejected inputs, and the inputs that broke something."""
    counts: Counter[str] = Counter()
    findings = []
    for content in inputs:
        _set_alarms(_LONGEST_SECONDS, _LONGEST_WAIT_SECONDS)
        try:
            target.take(content)
            counts["taken"] += 1
        except MyXTTSError as error:
            counts["refused"] += 1
            shown = str(error).replace("\t", " ")
            if any(unicodedata.category(character) == "Cc" for character in shown):
                findings.append((content, f"not printable: {str(error)[:500]!r}"))
            if "\n" in str(error).strip() or len(str(error)) > 2_000:
                findings.append((content, f"not one line: {str(error)[:500]!r}"))
        except Exception:  # noqa: BLE001 - whatever it is, it is what this program looks for
            findings.append((content, traceback.format_exc()))
        finally:
            _set_alarms(0, 0)
    return counts, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=TARGETS)
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    names = [options.only] if options.only else list(TARGETS)
    result: dict[str, Any] = {"seed": options.seed, "inputs": 0, "findings": 0}
    for name in names:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            target = TARGETS[name](Path(folder))
            generator = random.Random(f"{options.seed} {name}")
            inputs = inputs_of(target, options.inputs // len(names), generator)
            with limited_time():
                counts, findings = feed(target, inputs)
        for content, problem in findings:
            options.findings.mkdir(exist_ok=True)
            file = options.findings / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
            file.write_bytes(content)
            print(f"{file}: {problem}")
        seconds = time.monotonic() - started
        row = {**counts, "findings": len(findings), "seconds": round(seconds)}
        print(f"{name:12}" + "  ".join(f"{key} {value}" for key, value in row.items()))
        result[name] = row
        result["inputs"] += options.inputs // len(names)
        result["findings"] += len(findings)
    result["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{result['inputs']} inputs, {result['findings']} findings, "
        f"{result['peak_memory_mb']} MB at most"
    )
    if options.json:
        options.json.write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 1 if result["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
