"""A recording of the demo corpus laid end to end, with known pauses."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from myxtts.audio.files import FloatArray, read_audio, write_audio
from myxtts.data.metadata import LJSpeechDataset

RATE_HZ = 22_050


@dataclass(frozen=True)
class Glued:
    """Sentences with silence between them."""

    samples: FloatArray
    places: list[tuple[float, float]]
    """Start and end of each sentence, in seconds."""
    texts: list[str]

    def with_noise(self, level_dbfs: float) -> FloatArray:
        noise = np.random.default_rng(0).standard_normal(self.samples.size)
        return (self.samples + noise * 10 ** (level_dbfs / 20)).astype(np.float32)


@pytest.fixture(scope="session")
def glued(demo_corpus: Path) -> Glued:
    rows = LJSpeechDataset(demo_corpus, validation_fraction=None)
    generator = np.random.default_rng(0)
    parts: list[FloatArray] = []
    places, texts, at = [], [], 0
    for row in rows:
        speech = read_audio(row.audio_path, RATE_HZ)
        loud = np.flatnonzero(np.abs(speech) > 0.01 * np.abs(speech).max())
        speech = speech[loud[0] : loud[-1] + 1]
        pause = int(generator.uniform(0.5, 1.5) * RATE_HZ)
        parts += [np.zeros(pause, np.float32), 0.5 * speech / np.abs(speech).max()]
        places.append(((at + pause) / RATE_HZ, (at + pause + speech.size) / RATE_HZ))
        texts.append(row.text)
        at += pause + speech.size
    parts.append(np.zeros(RATE_HZ, np.float32))
    return Glued(np.concatenate(parts), places, texts)


@pytest.fixture
def recording(glued: Glued, tmp_path: Path) -> Path:
    file = tmp_path / "recordings" / "talk.wav"
    file.parent.mkdir()
    write_audio(file, glued.samples, RATE_HZ)
    return file


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, FloatArray], Path]:
    def write_samples(name: str, samples: FloatArray) -> Path:
        file = tmp_path / name
        write_audio(file, samples, RATE_HZ)
        return file

    return write_samples


class WordCounter:
    """Stands in for an ASR model: as many words as fit into the clip."""

    name = "word counter"

    def transcribe(self, samples: FloatArray) -> str:
        return " ".join(["wonderful banana"] * max(1, round(samples.size / 16_000 - 0.3)))


@pytest.fixture
def asr_model(monkeypatch: pytest.MonkeyPatch) -> WordCounter:
    """Replace the ASR model that the command opens."""
    model = WordCounter()
    monkeypatch.setattr("myxtts.collect.texts.open_transcriber", lambda *arguments: model)
    return model


@pytest.fixture
def wait_until() -> Callable[[Any, str], None]:
    """Wait for an expression in a page whose policy forbids to evaluate strings in it."""

    def wait(page: Any, expression: str) -> None:
        for _ in range(400):
            if page.evaluate(expression):
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"{expression} did not come true")

    return wait


@pytest.fixture
def serve_review() -> Iterator[Callable[..., str]]:
    """Return a function that serves a review in this process and gives its address."""
    from myxtts.collect.review import make_app
    from myxtts.web import Server, bind

    with contextlib.ExitStack() as stack:

        def serve(review: Any, language: str | None = None) -> str:
            app, path = make_app(review, language)
            is_ready = threading.Event()
            listener = stack.enter_context(bind("127.0.0.1", 0))
            server = Server(app, is_ready.set)
            thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
            thread.start()
            stack.callback(thread.join, 60)
            stack.callback(setattr, server, "should_exit", True)
            port = listener.getsockname()[1]
            assert is_ready.wait(30)
            return f"http://127.0.0.1:{port}{path}"

        yield serve
