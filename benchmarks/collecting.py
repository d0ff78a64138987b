"""`myxtts collect` on recordings whose contents are known: clips of a corpus glued together.

    .venv/bin/pip install -e '.[eval,eval-torch]'
    .venv/bin/python benchmarks/collecting.py CORPUS --other CORPUS2 --minutes 30 --work DIR

Sentences of CORPUS, and now and then one of CORPUS2, follow each other with pauses of 0.25 to 1.5
seconds; during a share of them somebody of CORPUS2 speaks too, 3 dB below. White noise is added to
all of it. Interrupted, the same command goes on. With --script the sentences of CORPUS in their
order are the script, and the run without it is not needed. With --no-transcripts what would be
transcribed counts as kept.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import jiwer
import numpy as np
from pauses import find_pauses

from myxtts.audio.files import FloatArray, read_audio, trim_silence
from myxtts.audio.pretrained import bare_words
from myxtts.audio.writing import write_audio
from myxtts.collect.collect import (
    DROPPED,
    KEPT,
    REVIEW,
    Clip,
    Outcome,
    Wishes,
    collect,
    count_reasons,
    look,
)
from myxtts.collect.report import page, write_corpus
from myxtts.collect.texts import open_listener, open_transcriber
from myxtts.collect.voices import open_encoder
from myxtts.data.metadata import LJSpeechDataset, Utterance

RATE_HZ = 22_050
EDGE_SECONDS = 0.05
STEP_SECONDS = 0.01
# Of a voice that speaks at the same time.
OVERLAP_GAIN = 10 ** (-3 / 20)


class Sentence(NamedTuple):
    start: float
    end: float
    text: str
    is_other: bool
    pauses: list[tuple[float, float]]
    """Where the sentence alone pauses."""
    file: str
    is_overlapped: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, help="of the voice that should be kept")
    parser.add_argument("--other", type=Path, help="a corpus of other voices")
    parser.add_argument("--other-share", type=float, default=0.2, help="of the sentences")
    parser.add_argument("--overlap-share", type=float, default=0.0, help="of the sentences")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--noise", type=float, default=-55.0, help="level of the noise in dBFS")
    parser.add_argument("--work", type=Path, required=True, help="folder to work in")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--script", action="store_true")
    parser.add_argument("--no-transcripts", action="store_true")
    parser.add_argument("--any-voice", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    recording, sentences = glued(options)
    script = options.work / "script.txt"
    script.write_text("\n".join(one.text for one in sentences if not one.is_other), "utf-8")
    wishes = Wishes(twice=options.twice, script=script if options.script else None)
    started = time.monotonic()
    outcome = collect(
        look([recording], options.work / "corpus", wishes),
        options.work / "corpus",
        wishes,
        None if options.no_transcripts else open_transcriber("en"),
        None if options.any_voice else open_encoder(),
        None if options.no_transcripts else open_listener("en"),
    )
    write_corpus(outcome, page(outcome))
    results = {"wall_seconds": time.monotonic() - started, **measured(outcome, sentences)}
    for name, value in results.items():
        print(f"{name:<32} {value:.4g}" if isinstance(value, float) else f"{name:<32} {value}")
    if options.json:
        options.json.write_text(json.dumps(results, indent=1), encoding="utf-8")


def glued(options: argparse.Namespace) -> tuple[Path, list[Sentence]]:
    """The recording and what is in it; the same arguments give the same."""
    recording, known = options.work / "glued.wav", options.work / "known.json"
    if known.is_file():
        return recording, [Sentence(*one) for one in json.loads(known.read_text("utf-8"))]
    generator = np.random.default_rng(0)
    ours, others = _shuffled(options.corpus, generator), []
    if options.other is not None:
        others = _shuffled(options.other, generator)
    parts: list[FloatArray] = []
    sentences: list[Sentence] = []
    at = 0.0
    while at < options.minutes * 60 and ours:
        is_other = bool(others) and generator.random() < options.other_share
        row = (others if is_other else ours).pop()
        speech = _speech(row)
        is_overlapped = not is_other and bool(others) and generator.random() < options.overlap_share
        if is_overlapped:
            second = _speech(others.pop())[: speech.size]
            speech[: second.size] += np.float32(OVERLAP_GAIN) * second
            speech *= np.float32(0.5) / np.abs(speech).max()
        pause = round(generator.uniform(0.25, 1.5) * RATE_HZ)
        parts += [np.zeros(pause, np.float32), speech]
        start, end = at + pause / RATE_HZ, at + (pause + speech.size) / RATE_HZ
        pauses = [
            (start + one.start / RATE_HZ, start + one.end / RATE_HZ)
            for one in find_pauses(speech, RATE_HZ)
        ]
        file = str(row.audio_path.resolve())
        sentences.append(Sentence(start, end, row.text, is_other, pauses, file, is_overlapped))
        at = end
    samples = np.concatenate([*parts, np.zeros(RATE_HZ, np.float32)])
    noise = generator.standard_normal(samples.size) * 10 ** (options.noise / 20)
    write_audio(recording, (samples + noise).astype(np.float32), RATE_HZ)
    known.write_text(json.dumps(sentences, ensure_ascii=False), "utf-8")
    return recording, sentences


def _shuffled(corpus: Path, generator: np.random.Generator) -> list[Utterance]:
    rows = list(LJSpeechDataset(corpus, validation_fraction=None))
    return [rows[index] for index in generator.permutation(len(rows))]


def _speech(row: Utterance) -> FloatArray:
    speech = trim_silence(read_audio(row.audio_path, RATE_HZ), RATE_HZ, 35.0, 0.0)
    return np.float32(0.5) * speech / np.abs(speech).max()


def measured(outcome: Outcome, sentences: list[Sentence]) -> dict[str, Any]:
    ends = [end for clip in outcome.clips for end in (clip.start_seconds, _end(clip))]
    inside = [end for end in ends if _sentence_around(end, sentences)]
    in_words = [end for end in inside if not _is_pause(end, sentences)]
    kept = outcome.of(KEPT)
    if outcome.transcriber is None:
        kept = [clip for clip in outcome.of(REVIEW) if clip.reason == "no transcript"]
    wrong = [clip for clip in kept if _other_share(clip, sentences) > 0.5]
    both = [clip for clip in kept if 0.05 < _other_share(clip, sentences) <= 0.5]
    right = [clip for clip in outcome.of(DROPPED) if clip.reason == "another voice"]
    lost = [clip for clip in right if _other_share(clip, sentences) < 0.5]
    results = {
        "minutes": outcome.source_seconds / 60,
        "speech in clips, share": _covered(outcome.clips, sentences),
        "clips": len(outcome.clips),
        "ends of clips": len(ends),
        "ends inside sentences": len(inside),
        "ends inside words": len(in_words),
        "clips of the other voice, all": sum(
            _other_share(clip, sentences) > 0.5 for clip in outcome.clips
        ),
        "clips of the other voice, kept": len(wrong),
        "clips with both voices, kept": len(both),
        "clips of the voice, dropped": len(lost),
        "clips with overlap, all": sum(_is_overlapped(clip, sentences) for clip in outcome.clips),
        "clips with overlap, kept": sum(_is_overlapped(clip, sentences) for clip in kept),
        "put aside": dict(count_reasons(outcome.clips, REVIEW)),
        "clips kept": len(kept),
        "minutes kept": sum(clip.seconds for clip in kept) / 60,
    }
    for status in (KEPT, REVIEW):
        errors, words, exact, compared = _word_errors(outcome.of(status), sentences)
        results |= {
            f"clips compared, {status}": compared,
            f"word error rate, {status}": errors / max(1, words),
            f"clips without an error, {status}": exact,
        }
    return results


def _end(clip: Clip) -> float:
    return clip.start_seconds + clip.seconds


def _sentence_around(place: float, sentences: list[Sentence]) -> bool:
    return any(one.start + EDGE_SECONDS < place < one.end - EDGE_SECONDS for one in sentences)


def _is_pause(place: float, sentences: list[Sentence]) -> bool:
    return any(
        start - EDGE_SECONDS <= place <= end + EDGE_SECONDS
        for one in sentences
        for start, end in one.pauses
    )


def _overlap(clip: Clip, one: Sentence) -> float:
    return max(0.0, min(_end(clip), one.end) - max(clip.start_seconds, one.start))


def _other_share(clip: Clip, sentences: list[Sentence]) -> float:
    spoken = sum(_overlap(clip, one) for one in sentences)
    other = sum(_overlap(clip, one) for one in sentences if one.is_other)
    return other / max(spoken, 1e-6)


def _is_overlapped(clip: Clip, sentences: list[Sentence]) -> bool:
    return any(one.is_overlapped and _overlap(clip, one) > 0.5 for one in sentences)


def _covered(clips: list[Clip], sentences: list[Sentence]) -> float:
    """Share of the sentences, without their pauses, that is in clips."""
    spoken = np.zeros(round(sentences[-1].end / STEP_SECONDS) + 1, bool)
    in_clips = np.zeros_like(spoken)
    for one in sentences:
        spoken[_steps(one.start, one.end)] = True
        for start, end in one.pauses:
            spoken[_steps(start, end)] = False
    for clip in clips:
        in_clips[_steps(clip.start_seconds, _end(clip))] = True
    return float(in_clips[spoken].mean())


def _steps(start: float, end: float) -> slice:
    return slice(round(start / STEP_SECONDS), round(end / STEP_SECONDS))


def _word_errors(clips: list[Clip], sentences: list[Sentence]) -> tuple[int, int, int, int]:
    """Errors, words, clips without an error and clips, of those that have whole sentences."""
    errors = words = exact = compared = 0
    for clip in clips:
        shares = [(_overlap(clip, one) / (one.end - one.start), one) for one in sentences]
        if not clip.text or any(0.03 < share < 0.97 for share, _ in shares):
            continue
        true = bare_words(" ".join(one.text for share, one in shares if share >= 0.97), "en")
        if not true:
            continue
        result = jiwer.process_words(true, bare_words(clip.text, "en"))
        here = result.substitutions + result.deletions + result.insertions
        errors, words = errors + here, words + len(true.split())
        exact, compared = exact + (here == 0), compared + 1
    return errors, words, exact, compared


if __name__ == "__main__":
    main()
