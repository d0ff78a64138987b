"""Decisions of a reviewer about clips, and sentences recorded in the browser."""

from __future__ import annotations

import functools
import io
import itertools
import secrets
import threading
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import soundfile
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, HTMLResponse, JSONResponse
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from myxtts.audio.files import FloatArray, read_recording, write_audio
from myxtts.collect.activity import (
    HOP_SECONDS,
    Figures,
    Span,
    band_levels_db,
    find_speech,
    hop_samples,
    measure,
    speech_runs,
)
from myxtts.collect.folder import (
    DECISION_LINE,
    DROPPED,
    KEPT,
    RECORDED,
    REVIEW,
    CorpusFolder,
    Row,
    append,
    read_lines,
    read_rows,
    tidy,
)
from myxtts.errors import DataError, MyXTTSError
from myxtts.text.languages import REGISTRY, find_language
from myxtts.text.tokenizer import is_spoken, text_symbols
from myxtts.web import AccessRules, Guard, add_error_handlers, error_response

# Takes, in the browser.
_MIN_SECONDS, _MAX_SECONDS = 0.1, 60.0
_MIN_RATE_HZ = 8_000
_MARGIN_SECONDS = 0.2
_MIN_SPEECH_SECONDS = 0.4
_MIN_DBFS, _MAX_CLIPPED, _MIN_SNR_DB = -42.0, 0.0005, 18.0
# Plausible speaking rates; careful readers speak 8 to 16 phonemes per second.
_PHONEMES_PER_SECOND = (4.0, 24.0)
# Shorter parts of a clip contain no sentence.
_MIN_PART_SECONDS = 0.3
HOST = "127.0.0.1"
# A minute at 96 kHz.
_MAX_TAKE_BYTES = 16 << 20


class Prompt(NamedTuple):
    id: str
    text: str
    pairs_covered: float
    """Share of all phoneme pairs covered by this sentence and the previous ones."""


def prompts(language: str) -> list[Prompt]:
    """Return the sentences that add coverage, the most useful first."""
    sentences = find_language(language).demo_sentences()
    if not sentences:
        raise DataError(
            f"--language: no sentences to read in '{language}', allowed: {', '.join(REGISTRY)}"
        )
    symbols = {text: text_symbols(text, language, "phonemes") for text in sentences}
    phonemes = {text: set(filter(is_spoken, found)) for text, found in symbols.items()}
    # Within words: across them readers may pause.
    pairs = {
        text: {pair for pair in itertools.pairwise(found) if all(map(is_spoken, pair))}
        for text, found in symbols.items()
    }
    chosen: dict[str, None] = {}  # a set in order
    for units in (phonemes, pairs):
        missing: set[Any] = set().union(*units.values())
        missing -= set().union(*(units[text] for text in chosen))
        while missing:
            best = max(units, key=lambda text: len(units[text] & missing) / len(symbols[text]))
            chosen[best] = None
            missing -= units[best]
    count = len(set().union(*pairs.values()))
    covered: set[Any] = set()
    found = []
    for text in chosen:
        covered |= pairs[text]
        name = f"{RECORDED}-{language}-{sentences.index(text) + 1:04d}"
        found.append(Prompt(name, text, len(covered) / count))
    return found


@dataclass(frozen=True)
class Take:
    samples: FloatArray
    """Samples from shortly before the speech to shortly after it."""
    sample_rate_hz: int
    figures: Figures
    problems: tuple[str, ...]
    """Problems by the names that the page translates; empty if the take is good."""


def check_take(content: bytes, text: str, language: str) -> Take:
    """Check a wav as the browser sends it, and cut it to its speech."""
    try:
        samples, rate_hz = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, ValueError, TypeError):
        raise DataError("the recording is not audio; expected a wav") from None
    mono = samples.mean(axis=1, dtype=np.float32)
    seconds = mono.size / rate_hz
    if not _MIN_SECONDS <= seconds <= _MAX_SECONDS or rate_hz < _MIN_RATE_HZ:
        raise DataError(
            f"the recording has {seconds:.1f} s at {rate_hz} Hz, expected at most "
            f"{_MAX_SECONDS:g} s at {_MIN_RATE_HZ} Hz or more"
        )
    bands_db = band_levels_db(mono, rate_hz)
    activity = find_speech(bands_db, bands_db[:0])
    runs = speech_runs(activity, _MAX_SECONDS)
    if sum(run.seconds for run in runs) < _MIN_SPEECH_SECONDS:
        whole = Span(0, len(bands_db))
        return Take(mono, rate_hz, measure(mono, rate_hz, activity, whole), ("no_speech",))
    margin = round(_MARGIN_SECONDS / HOP_SECONDS)
    clip = Span(max(0, runs[0].start - margin), min(len(bands_db), runs[-1].end + margin))
    hop = hop_samples(rate_hz)
    cut = mono[clip.start * hop : clip.end * hop]
    figures = measure(cut, rate_hz, activity, clip)
    spoken = sum(map(is_spoken, text_symbols(text, language, "phonemes")))
    rate = spoken / sum(run.seconds for run in runs)
    slowest, fastest = _PHONEMES_PER_SECOND
    problems = {
        "too_quiet": figures.level_dbfs < _MIN_DBFS,
        "clipped": figures.clipped_share > _MAX_CLIPPED,
        "noisy": figures.snr_db < _MIN_SNR_DB,
        "other_length": not slowest <= rate <= fastest,
    }
    named = tuple(name for name, is_so in problems.items() if is_so)
    return Take(cut - np.float32(figures.dc_offset), rate_hz, figures, named)


@dataclass
class Reviewed:
    """A clip as shown on the page."""

    row: Row
    status: str


class Review:
    """The clips of a corpus and the decisions on them. Thread-safe."""

    def __init__(self, folder: Path, language: str = "en", speaker: str = "speaker") -> None:
        """Open a corpus; `language` and `speaker` apply to takes recorded on the page."""
        self._folder = CorpusFolder(folder)
        self._language, self._speaker = language, speaker
        if not self._folder.is_collected():
            raise DataError(
                f"{folder}: was not made by collect; expected the --out of `myxtts collect`"
            )
        self._lock = threading.Lock()
        self._clips: dict[str, Reviewed] = {}
        for status, file in ((REVIEW, self._folder.review), (KEPT, self._folder.metadata)):
            for row in read_rows(file):
                self._clips[row.id] = Reviewed(row, status)
        for line in read_lines(self._folder.decisions, DECISION_LINE):
            if line["status"] == DROPPED:
                row = Row(line["id"], line["text"], line["speaker"], line["language"])
                self._clips[row.id] = Reviewed(row, DROPPED)

    def clips(self) -> list[dict[str, str]]:
        with self._lock:
            return [{**clip.row._asdict(), "status": clip.status} for clip in self._clips.values()]

    def sound(self, clip_id: str) -> Path:
        """Return the wav of a known clip; names from a browser are never used as paths."""
        with self._lock:
            self._known(clip_id)
        return self._folder.clip(clip_id)

    @functools.cached_property
    def _prompts(self) -> dict[str, Prompt]:
        return {prompt.id: prompt for prompt in prompts(self._language)}

    def prompts(self) -> list[dict[str, Any]]:
        """Return sentences to read, with those that are already recorded."""
        with self._lock:
            return [
                {
                    "id": prompt.id,
                    "text": prompt.text,
                    "covered": prompt.pairs_covered,
                    "done": prompt.id in self._clips and self._clips[prompt.id].status != DROPPED,
                }
                for prompt in self._prompts.values()
            ]

    def record(self, prompt_id: str, wav: bytes, *, even_so: bool = False) -> dict[str, Any]:
        """Save a take if it has no problems or the reader insists."""
        if prompt_id not in self._prompts:
            raise DataError(f"no sentence {prompt_id!r}")
        text = self._prompts[prompt_id].text
        take = check_take(wav, text, self._language)
        answer = {
            "problems": take.problems,
            "level_dbfs": round(take.figures.level_dbfs, 1),
            "snr_db": round(take.figures.snr_db, 1),
            "saved": not take.problems or even_so,
        }
        if answer["saved"]:
            with self._lock:
                file = self._folder.clip(prompt_id)
                write_audio(file, take.samples, take.sample_rate_hz)
                row = Row(prompt_id, text, self._speaker, self._language, "")
                clip = self._clips[prompt_id] = Reviewed(row, KEPT)
                self._record(clip, KEPT, text)
                self._write()
        return answer

    def decide(self, clip_id: str, status: str, text: str) -> None:
        """Accept a clip, reject it or put it back, with the text as it is now."""
        text = tidy(text)
        if status == KEPT and not text:
            raise DataError(f"{clip_id}: has no text; expected the words that are spoken")
        with self._lock:
            self._record(self._known(clip_id), status, text)
            self._write()

    def split(self, clip_id: str, at_seconds: float, texts: tuple[str, str]) -> list[str]:
        """Split a clip into two, which are set aside until accepted, and return their ids."""
        with self._lock:
            clip = self._known(clip_id)
            recording = read_recording(self._folder.clip(clip_id))
            rate_hz = recording.sample_rate_hz
            place = round(at_seconds * rate_hz)
            shortest = _MIN_PART_SECONDS * rate_hz
            if not shortest <= place <= recording.samples.size - shortest:
                raise DataError(
                    f"{clip_id}: cannot be split at {at_seconds:.2f} s; expected a place at least "
                    f"{_MIN_PART_SECONDS:g} s from both ends"
                )
            parts = (recording.samples[:place], recording.samples[place:])
            ids = [f"{clip_id}-{name}" for name in ("a", "b")]
            for part_id, samples, text in zip(ids, parts, texts, strict=True):
                write_audio(self._folder.clip(part_id), samples, rate_hz)
                row = Row(part_id, tidy(text), clip.row.speaker, clip.row.language, "split")
                part = self._clips[part_id] = Reviewed(row, REVIEW)
                self._record(part, REVIEW, row.text, part_of=clip_id)
            self._record(clip, DROPPED, clip.row.text)
            self._write()
        return ids

    def _known(self, clip_id: str) -> Reviewed:
        if clip_id not in self._clips:
            raise DataError(f"no clip {clip_id!r} in {self._folder.folder}")
        return self._clips[clip_id]

    def _record(self, clip: Reviewed, status: str, text: str, part_of: str | None = None) -> None:
        clip.row, clip.status = clip.row._replace(text=text), status
        line = {**clip.row._asdict(), "status": status, "part_of": part_of}
        del line["reason"]
        append(self._folder.decisions, line)

    def _write(self) -> None:
        self._folder.write_rows(
            *(
                [clip.row for clip in self._clips.values() if clip.status == status]
                for status in (KEPT, REVIEW)
            )
        )


class Decision(BaseModel):
    id: str
    status: Literal["kept", "review", "dropped"]
    text: str


class Split(BaseModel):
    id: str
    at: float
    texts: tuple[str, str]


def make_app(review: Review, language: str | None = None) -> tuple[ASGIApp, str]:
    """Return the application and the path of its page.

    `language` is that of the page, by default the one chosen last.
    """
    token = secrets.token_urlsafe(16)
    app = FastAPI(openapi_url=None)
    add_error_handlers(app)
    html = (resources.files(__package__) / "page" / "review.html").read_text("utf-8")
    if language is not None:
        html = html.replace("<html ", f'<html data-language="{language}" ', 1)

    @app.exception_handler(MyXTTSError)
    async def refused(_: Request, error: MyXTTSError) -> JSONResponse:
        return error_response(400, str(error))

    @app.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse(html)

    @app.get("/clips")
    def clips() -> dict[str, Any]:
        return {"clips": review.clips()}

    @app.get("/prompts")
    def prompts() -> dict[str, Any]:
        return {"prompts": review.prompts()}

    @app.get("/wavs/{clip_id:path}")
    def wav(clip_id: str) -> FileResponse:
        try:
            file = review.sound(clip_id)
        except MyXTTSError:
            raise HTTPException(404, "no such clip") from None
        # An untrusted corpus may contain a link or a device instead.
        if file.is_symlink() or not file.is_file():
            raise HTTPException(404, "no such clip")
        return FileResponse(file, media_type="audio/wav", headers={"Cache-Control": "no-store"})

    @app.post("/decide")
    def decide(decision: Decision) -> dict[str, Any]:
        review.decide(decision.id, decision.status, decision.text)
        return {}

    @app.post("/split")
    def split(wanted: Split) -> dict[str, Any]:
        return {"ids": review.split(wanted.id, wanted.at, wanted.texts)}

    @app.post("/take/{prompt_id}")
    async def take(prompt_id: str, request: Request, even_so: bool = False) -> dict[str, Any]:
        content = await request.body()
        return await run_in_threadpool(review.record, prompt_id, content, even_so=even_so)

    packages: Any = [(__package__, "page"), ("myxtts.web", "page")]
    app.mount("/page", StaticFiles(packages=packages))

    def body_bytes(scope: Scope) -> int:
        return _MAX_TAKE_BYTES if scope["path"].startswith(f"/{token}/take/") else 1 << 20

    outer = FastAPI(openapi_url=None)
    add_error_handlers(outer)
    outer.mount(f"/{token}", app)
    return Guard(outer, AccessRules(body_bytes=body_bytes)), f"/{token}/"
