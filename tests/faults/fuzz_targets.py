"""What `fuzz.py` feeds: values of settings, files of a run, voices, prepared features, links.

A target has `samples` of inputs that are right, and takes an input or refuses it with a
MyXTTSError. The first byte of an input says which of several files the rest is.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from myxtts.config.config import XTTSConfig
from myxtts.config.loading import load_config
from myxtts.dashboard.page import exported_page
from myxtts.dashboard.run_reader import RunReader
from myxtts.data.corpus.checks import Rejection
from myxtts.data.features.cache import CACHE_FORMAT, INDEX_TYPE, PART_TYPES, PARTS, open_cache
from myxtts.data.features.chunks import chunk_folder, read_chunk
from myxtts.data.features.clip_reader import checksum
from myxtts.data.planning.plan_files import load_shapes
from myxtts.errors import MyXTTSError
from myxtts.runs.lines import append_line
from myxtts.runs.run_dir import RunDir
from myxtts.synthesis.voices import (
    Reference,
    SavedVoice,
    VoiceFacts,
    read_voice,
    remove_voice,
    voice_names,
    write_voice,
)
from myxtts.text.tokenizer import Tokenizer
from myxtts.training.watching.report import RunReport
from myxtts.whole_files import write_whole_file

# What a value of a setting may be instead, as YAML.
VALUES = [
    *("null", "true", "~", "''", "'x'", "[]", "{}", "[1, 2]", "{a: b}", "0", "-0", "-1", "1"),
    *("0.0", "1.5", "-1e-9", "1e999", ".inf", "-.inf", ".nan", "2147483648", "9223372036854775808"),
    *("9" * 400, "0." + "9" * 400, "1:30:59", "1" + ":59" * 5_000, "0x7fffffffffffffff", "0b1"),
    *("2001-99-99", "2026-01-01", "!!int 'x'", "!!float '1:2'", "!!set {a}", "!!binary aGk=", "<<"),
    *('"\\e[2J"', '"\\0"', '"\\ud800"', "&a b", "*a", "? x", "| \n  a", "'" + "a" * 4_000 + "'"),
    *("[" + "1," * 9_000 + "1]", "[" * 40 + "]" * 40, "yes", "0o17", "+1", "1_000", "1e-4", "é"),
]


class SettingValues:
    """A file of settings, some with another value; what is taken must be finite and in bounds."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "config.yaml"
        self._settings = XTTSConfig().as_dict()

    def samples(self) -> list[bytes]:
        return [bytes([number]) * 16 for number in range(16)]

    def take(self, content: bytes) -> None:
        generator = random.Random(content)
        lines = []
        for section, values in self._settings.items():
            lines.append(f"{section}:")
            for name, value in values.items():
                changed = generator.random() < 0.02
                text = generator.choice(VALUES) if changed else json.dumps(value)
                lines.append(f"  {name}: {text}")
        self._file.write_text("\n".join(lines), encoding="utf-8")
        config = load_config(self._file)
        assert np.isfinite(config.training.learning_rate)


class _Files:
    """Inputs that are one of several files of a folder."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder = folder
        self.names = names
        self._whole = {name: (folder / name).read_bytes() for name in names}

    def samples(self) -> list[bytes]:
        return [bytes([index]) + self._whole[name] for index, name in enumerate(self.names)]

    def take(self, content: bytes) -> None:
        name = self.names[(content[0] if content else 0) % len(self.names)]
        try:
            (self.folder / name).write_bytes(content[1:])
            self.use(is_changed=content[1:] != self._whole[name])
        finally:
            for restored, value in self._whole.items():
                (self.folder / restored).write_bytes(value)

    def use(self, *, is_changed: bool) -> None:
        raise NotImplementedError


class RunFiles(_Files):
    """JSON and lines of a run, as resuming and comparing read them."""

    def __init__(self, folder: Path) -> None:
        golden = Path(__file__).parents[1] / "runs" / "golden"
        run = RunDir(folder)
        for name in ("tokenizer.json", "shapes.json", "config.yaml"):
            shutil.copy(golden / name, folder / name)
        for step in (1, 2, 3):
            append_line(run.metrics_file, step, {"loss": 1.0 / step, "validation_loss": None})
            append_line(run.measures_file, step, {"wer": 0.5})
        report = {
            "state": "complete",
            "interrupted_by": None,
            "planned_steps": 3,
            "steps": 3,
            "seconds": {"wall": 1.0},
            "best": {"metric": "validation_loss", "step": 3, "value": 0.5},
            "advice": ["x"],
        }
        run.report_file.write_text(json.dumps(report))
        run.lock_file.write_text(json.dumps({"pid": 1, "host": "x"}))
        names = ["metrics.jsonl", "measures.jsonl", "report.json", "tokenizer.json", "shapes.json"]
        super().__init__(folder, [*names, ".lock"])

    def use(self, *, is_changed: bool) -> None:
        run = RunDir(self.folder)
        RunReport.read(run)
        with run.lock():
            pass
        load_shapes(run.plan_file, XTTSConfig())
        Tokenizer.load(run.tokenizer_file)
        try:
            lines = [*run.metric_lines(), *run.measure_lines()]
            assert all(type(line["step"]) is int for line in lines)
        finally:
            run.drop_lines_after(2)
            assert all(line["step"] <= 2 for line in run.metric_lines())


class Dashboard(_Files):
    """The same files and an evaluation, as the dashboard reads them: it shows whatever is there."""

    def __init__(self, folder: Path) -> None:
        run = RunFiles(folder)
        (folder / "evaluation").mkdir()
        means = {"means": {"model": 0.5, "recordings": 0.2}}
        evaluation = {"step": 3, "measures": {"wer": means}, "sentences": [{"text": "x"}]}
        RunDir(folder).evaluation_file.write_text(json.dumps(evaluation))
        super().__init__(folder, [*run.names, "config.yaml", "evaluation/evaluation.json"])

    def use(self, *, is_changed: bool) -> None:
        try:
            page = exported_page([RunReader(self.folder, "x")])
        except MyXTTSError as error:
            raise AssertionError("it shows problems, it has none") from error
        assert page.count("<script") == page.count("</script>") == 2


class VoiceFiles(_Files):
    """A saved voice."""

    def __init__(self, folder: Path) -> None:
        facts = VoiceFacts(
            name="anna",
            references=[Reference("a.wav", 1.5)],
            made="2026-01-01T00:00:00+00:00",
            step=3,
            weights_sha256="0" * 64,
            width=4,
            latents=2,
        )
        vector, latents = np.ones((1, 4), np.float32), np.ones((1, 2, 4), np.float32)
        write_voice(folder, SavedVoice(facts, vector, latents))
        super().__init__(folder, ["anna.json", "anna.safetensors"])

    def use(self, *, is_changed: bool) -> None:
        assert voice_names(self.folder) == ["anna"]
        voice = read_voice(self.folder, "anna")
        assert np.isfinite(voice.latents).all()


class CacheFiles(_Files):
    """Prepared features; whatever is changed in them is noticed."""

    def __init__(self, folder: Path) -> None:
        generator = np.random.default_rng(0)
        rows = {"tokens": (6,), "mels": (6, 3), "audio": (6,), "texts": (6,)}
        index = np.zeros(2, INDEX_TYPE)
        index["text_bytes"] = 1
        for part in PARTS:
            values = generator.integers(97, 120, rows[part]).astype(PART_TYPES[part])
            np.save(folder / f"{part}.npy", values)
            for clip in range(2):
                index[f"{part}_start"][clip], index[f"{part}_count"][clip] = 3 * clip, 3
                index[f"{part}_checksum"][clip] = checksum(values[3 * clip : 3 * clip + 3])
        np.save(folder / "index.npy", index)
        content: dict[str, Any] = {
            "format": CACHE_FORMAT,
            **{"source": "", "settings": "", "description": "", "tokens": "phonemes"},
            **{"symbols": ["a"], "languages": ["en"], "speakers": ["x"]},
            **{"mel_mean": 0.0, "mel_deviation": 1.0, "rejected": {}, "rejections": []},
            "index_checksum": checksum(index),
        }
        (folder / "cache.json").write_text(json.dumps(content))
        super().__init__(folder, ["cache.json", "index.npy", *(f"{part}.npy" for part in PARTS)])
        self._digest = self._numbers()

    def use(self, *, is_changed: bool) -> None:
        assert self._numbers() == self._digest, "other numbers, unnoticed"

    def _numbers(self) -> str:
        cache = open_cache(self.folder)
        digest = hashlib.sha256()
        for clip in range(len(cache)):
            for part in PARTS:
                digest.update(cache.part_of(clip, part).tobytes())
        return digest.hexdigest()


class ChunkFiles(_Files):
    """A part of features that are being prepared; what is changed in its arrays is noticed."""

    def __init__(self, folder: Path) -> None:
        self._build_dir = folder
        chunk = chunk_folder(folder, 0)
        chunk.mkdir()
        generator = np.random.default_rng(0)
        rows = {"tokens": (6,), "mels": (6, 3), "audio": (6,), "texts": (6,)}
        records = np.zeros(2, INDEX_TYPE)
        records["row"] = [0, 1]
        arrays = {"records": records}
        for part in PARTS:
            arrays[part] = generator.integers(0, 9, rows[part]).astype(PART_TYPES[part])
            records[f"{part}_start"], records[f"{part}_count"] = [0, 3], 3
        content = {
            "checksums": {name: checksum(array) for name, array in arrays.items()},
            "symbols": list("abcdefghi"),
            "rejections": [asdict(Rejection("metadata.csv:3", "unreadable", "x"))],
            "levels": [[9, 1.0, 2.0], [9, 1.0, 2.0]],
        }
        (chunk / "chunk.json").write_text(json.dumps(content))
        for name, array in arrays.items():
            np.save(chunk / f"{name}.npy", array)
        super().__init__(chunk, ["chunk.json", *(f"{name}.npy" for name in arrays)])
        self._digest = self._numbers()

    def use(self, *, is_changed: bool) -> None:
        assert self._numbers() == self._digest, "other numbers, unnoticed"

    def _numbers(self) -> str:
        chunk = read_chunk(self._build_dir, 0, range(2))
        digest = hashlib.sha256(chunk.records.tobytes())
        for part in PARTS:
            digest.update(chunk.arrays[part].tobytes())
        return digest.hexdigest()


class Links:
    """A run with links and strange files in places that the input chooses."""

    _NAMES = (
        *(".lock", "metrics.jsonl", "measures.jsonl", "report.json", "tokenizer.json"),
        *("shapes.json", "config.yaml", "voices/anna.json", "voices/anna.safetensors", "samples"),
        *("voices", "checkpoints", "best", "evaluation", ".measuring", "events"),
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outside = folder / "outside"

    def samples(self) -> list[bytes]:
        return [bytes([number, number * 7 % 251]) * 8 for number in range(16)]

    def take(self, content: bytes) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._outside.mkdir(parents=True)
        (self._outside / "file").write_bytes(b"precious")
        (self._outside / ".x.part").write_bytes(b"precious")
        run = RunDir(self._folder / "run")
        (run.path / "voices").mkdir(parents=True)
        generator = random.Random(content)
        for name in generator.sample(self._NAMES, generator.randint(1, 4)):
            self._put(run.path / name, generator)
        before = self._state()
        try:
            if exported_page([RunReader(run.path, "x")]).count("precious"):
                raise AssertionError("a page showed what is outside of the run")
            self._use(run)
        finally:
            assert self._state() == before, "something outside of the run was changed"

    def _put(self, place: Path, generator: random.Random) -> None:
        if place.is_dir():
            shutil.rmtree(place)
        if not place.parent.is_dir() or place.parent.is_symlink():
            return
        kind = generator.randrange(6)
        if kind == 0:
            place.symlink_to(self._outside / "file")
        elif kind == 1:
            place.symlink_to(self._outside / "new")
        elif kind == 2:
            place.symlink_to(self._outside)
        elif kind == 3:
            place.symlink_to("/dev/zero")
        elif kind == 4:
            place.hardlink_to(self._outside / "file")
        else:
            os.mkfifo(place)

    def _use(self, run: RunDir) -> None:
        run.make()
        with run.lock():
            run.remove_unfinished()
            for file in (run.config_file, run.tokenizer_file, run.plan_file, run.report_file):
                write_whole_file(file, "{}")
            run.drop_lines_after(3)
            for file in (run.metrics_file, run.measures_file):
                append_line(file, 4, {"loss": 1.0})
            vector, latents = np.ones((1, 4), np.float32), np.ones((1, 2, 4), np.float32)
            facts = VoiceFacts(
                name="anna", references=[], made="", step=1, weights_sha256="", width=4, latents=2
            )
            write_voice(run.voices, SavedVoice(facts, vector, latents))
            read_voice(run.voices, "anna")
            remove_voice(run.voices, "anna")

    def _state(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._outside.iterdir()}


TARGETS = {
    "values": SettingValues,
    "run": RunFiles,
    "dashboard": Dashboard,
    "voice": VoiceFiles,
    "cache": CacheFiles,
    "chunk": ChunkFiles,
    "links": Links,
}
