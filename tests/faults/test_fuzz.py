"""The fixed corpus of inputs that were, or might have been, trouble; and a little fuzzing."""

import hashlib
import importlib.util
import random
import resource
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import read_recording
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import DataError

HERE = Path(__file__).parent
SEEDS = sorted(file for file in (HERE / "seeds").rglob("*") if file.is_file())


@pytest.fixture(scope="module")
def fuzz():
    specification = importlib.util.spec_from_file_location("fuzz", HERE / "fuzz.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    with module.limited_time():
        yield module


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_each_seed_is_taken_or_refused_in_one_line(fuzz, file, tmp_path):
    target = fuzz.TARGETS[file.parent.name](tmp_path)
    counts, findings = fuzz.feed(target, [file.read_bytes()])
    assert not findings, findings[0][1]
    assert counts.total() == 1


KINDS = ["metadata", "wav", "text"]


@pytest.mark.parametrize("name", KINDS)
def test_a_hundred_mutations_of_each_kind(fuzz, name, tmp_path):
    target = fuzz.TARGETS[name](tmp_path)
    counts, findings = fuzz.feed(target, fuzz.inputs_of(target, 100, random.Random(3)))
    assert not findings, findings[0][1]
    assert counts["taken"] > 0
    # Almost every text has something to say.
    assert counts["refused"] > 0 or name == "text"


def test_the_fuzzer_finds_what_is_wrong(fuzz):
    class Broken:
        def take(self, content):
            raise IndexError(content)

    _, findings = fuzz.feed(Broken(), [b"x"])
    assert [content for content, _ in findings] == [b"x"]
    assert "IndexError" in findings[0][1]


def test_the_fuzzer_gives_up_on_what_never_ends(fuzz, monkeypatch):
    class Endless:
        def take(self, content):
            if content == b"computes":
                while True:
                    pass
            time.sleep(60)

    monkeypatch.setattr(fuzz, "_LONGEST_SECONDS", 0.1)
    monkeypatch.setattr(fuzz, "_LONGEST_WAIT_SECONDS", 0.5)
    _, findings = fuzz.feed(Endless(), [b"computes", b"waits"])
    assert ["TookTooLongError" in problem for _, problem in findings] == [True, True]


def test_a_line_of_100_megabytes_is_one_bad_row(tmp_path):
    (tmp_path / "metadata.csv").write_text("a|one\nb|" + "x" * 100_000_000 + "\nc|three\n")
    dataset = LJSpeechDataset(tmp_path, validation_fraction=None)
    assert [utterance.id for utterance in dataset] == ["a", "c"]
    assert dataset.bad_rows == [
        ("metadata.csv:2", "found 100000002 characters, expected at most 20000")
    ]


def test_a_header_that_declares_hours_costs_no_memory(tmp_path):
    """A FLAC file that declares 60 minutes of 8 channels and holds a moment of them."""
    file = tmp_path / "a.flac"
    soundfile.write(file, np.zeros((800, 8), np.float32), 44_100, subtype="PCM_16")
    content = bytearray(file.read_bytes())
    rate_and_length = struct.unpack(">Q", content[18:26])[0] >> 36 << 36
    content[18:26] = struct.pack(">Q", rate_and_length | 3_599 * 44_100)
    file.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match="truncated or damaged"):
        read_recording(file)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_the_same_seed_gives_the_same_inputs(fuzz, tmp_path):
    target = fuzz.TARGETS["text"](tmp_path)
    digests = {
        hashlib.sha256(b"".join(fuzz.inputs_of(target, 50, random.Random(1)))).hexdigest()
        for _ in range(2)
    }
    assert len(digests) == 1
