"""Unseen sentences by the base model, other systems, and people: one table.

    python benchmarks/listening.py --sentences FILE --voices CORPUS --peers PEERS --samples DIR

FILE has one sentence per line. CORPUS has speakers that no system was trained on. Their first clip,
cut to five seconds, is the reference of the clones, and another one is the recording. Speakers and
voices take turns. Needs the extras eval and eval-torch; --whisper DIR adds a second ASR model.

Scores are means with a 95 % bootstrap interval over sentences, in the columns of median and spread.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from harness import SkippedError, Table, arguments, ask_peer, interleave, report

from myxtts.devices.startup import load_tensorflow

# Loading TensorFlow adds variables that the command of a user does not have.
_ENVIRONMENT = dict(os.environ)
load_tensorflow()

import numpy as np  # noqa: E402
import soundfile  # noqa: E402

from myxtts import TTS  # noqa: E402
from myxtts.audio.files import clean_recording, read_audio  # noqa: E402
from myxtts.data.metadata import LJSpeechDataset  # noqa: E402
from myxtts.evaluation.evaluate import mean_of, scores_of  # noqa: E402
from myxtts.evaluation.measures import (  # noqa: E402
    FloatArray,
    ResemblyzerVectors,
    Score,
    Sound,
    Speech,
    cosine,
    open_toolbox,
)
from myxtts.runs.run_dir import run_or_base  # noqa: E402

_REFERENCE_SECONDS = 5.0
_MIN_REST_SECONDS = 3.0
_OURS, _CLONES, _RECORDINGS = "base, included voices", "base, clones", "recordings"
_SCORES = {"wer": ("WER, Moonshine tiny", "lower"), "distillmos": ("DistillMOS", "higher")}


class Speaker(NamedTuple):
    name: str
    reference: FloatArray
    vector: FloatArray
    """Embedding of what the speaker said after the reference."""
    recording: FloatArray
    text: str


class Spoken(NamedTuple):
    text: str
    sound: Sound
    speaker: Speaker | None


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--run", default="base")
    parser.add_argument("--sentences", type=Path, required=True, metavar="FILE")
    parser.add_argument("--voices", type=Path, metavar="CORPUS")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--whisper", type=Path, metavar="DIR")
    parser.add_argument("--samples", type=Path, metavar="DIR", help="keep a sample of each here")
    options = parser.parse_args()
    lines = options.sentences.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line.strip()][: options.count]
    tts, vectors = TTS(options.run), ResemblyzerVectors()
    speakers = find_speakers(tts, options.voices, vectors) if options.voices else []
    folder = Path(tempfile.mkdtemp())

    def wavs(name: str) -> Path:
        place = folder / name.replace(" ", "-").replace(",", "")
        place.mkdir(exist_ok=True)
        return place

    def peer(kind: str) -> dict[str, float]:
        model = options.peers / "kokoro-model" if options.peers else None
        asked = {
            "kind": kind,
            "texts": texts,
            "out": str(wavs(kind)),
            "threads": len(os.sched_getaffinity(0)),
            "model": str(model),
        }
        return ask_peer(options.peers, kind, "speech.py", asked)

    def clones() -> dict[str, float]:
        if not speakers:
            raise SkippedError("needs --voices CORPUS")
        turns = itertools.cycle([tts.voice_of(one.reference) for one in speakers])
        return speak_here(tts, texts, turns, wavs(_CLONES)) | of_command(options.run)

    def included() -> dict[str, float]:
        turns = itertools.cycle([tts.saved_voice(name) for name in tts.voices])
        return speak_here(tts, texts, turns, wavs(_OURS)) | of_command(options.run)

    contenders: dict[str, Callable[[], Mapping[str, float]]] = {
        _OURS: included,
        _CLONES: clones,
        "kokoro": lambda: peer("kokoro"),
        "hibari": lambda: peer("hibari"),
        "espeak-ng": lambda: by_command("espeak-ng", ["-v", "en-us", "-w"], texts, wavs),
        "flite": lambda: by_command("flite", ["-voice", "slt", "-o"], texts, wavs),
    }
    costs = {
        "cpu": Table("CPU time after loading", "seconds per second of speech", "lower"),
        "cold": Table("Cold start with one short sentence", "CPU seconds", "lower"),
        "size": Table("Weights and voices on disk", "MB", "lower"),
    }
    interleave(contenders, options.repeats, **costs)
    spoken = {
        name: [
            Spoken(text, read(file), speaker)
            for text, file, speaker in zip(
                texts,
                sorted(wavs(name).glob("*.wav")),
                itertools.cycle(speakers if name == _CLONES else [None]),
                strict=False,
            )
        ]
        for name in costs["cpu"].values
    }
    if speakers:
        rate_hz = tts.sample_rate_hz
        spoken[_RECORDINGS] = [
            Spoken(one.text, Sound(waveform=one.recording, sample_rate_hz=rate_hz), one)
            for one in speakers
        ]
    tables = score(spoken, speakers, vectors, options.whisper)
    report([*tables, *costs.values()], options)
    if options.samples:
        options.samples.mkdir(parents=True, exist_ok=True)
        for name, clips in spoken.items():
            sound = clips[0].sound
            file = options.samples / f"{name.replace(' ', '-').replace(',', '')}.ogg"
            soundfile.write(file, sound.waveform, sound.sample_rate_hz)
    shutil.rmtree(folder)


def find_speakers(tts: TTS, corpus: Path, vectors: ResemblyzerVectors) -> list[Speaker]:
    """Return the speakers that have a reference, a recording, and some speech besides."""
    clips = defaultdict(list)
    for clip in LJSpeechDataset(corpus):
        clips[clip.speaker].append(clip)
    rate_hz = tts.sample_rate_hz
    cut = round(_REFERENCE_SECONDS * rate_hz)
    found = []
    for name, own in sorted(clips.items()):
        recordings = [
            clean_recording(read_audio(clip.audio_path, rate_hz), tts.config.audio) for clip in own
        ]
        rest = np.concatenate([recordings[0][cut:], *recordings[1:]])
        if rest.size < _MIN_REST_SECONDS * rate_hz:
            continue
        vector = vectors.of(Sound(waveform=rest, sample_rate_hz=rate_hz))
        if vector is not None:
            found.append(Speaker(name, recordings[0][:cut], vector, recordings[-1], own[-1].text))
    return found


def speak_here(tts: TTS, texts: Sequence[str], voices: itertools.cycle, out: Path):
    tts.warm_up()
    seconds, spent = 0.0, 0.0
    for turn, (text, voice) in enumerate(zip(texts, voices, strict=False)):
        started = time.process_time()
        samples = tts.tts(text, voice)
        spent += time.process_time() - started
        seconds += samples.size / tts.sample_rate_hz
        soundfile.write(out / f"{turn:03d}.wav", samples, tts.sample_rate_hz)
    return {"cpu": spent / seconds}


def of_command(run: str) -> dict[str, float]:
    """Measure the whole command for one sentence, and the weights that it reads."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "myxtts", "synthesize", run, "--text", "Good morning."]
        command += ["--out", str(Path(folder, "out.wav"))]
        cold = cpu_seconds(command)
    weights = run_or_base(run)
    files = [file for file in weights.rglob("*") if file.suffix in (".safetensors", ".json")]
    vocoder = [*(weights.parent / "vocoder").glob("*")]
    return {"cold": cold, "size": sum(it.stat().st_size for it in files + vocoder) / 2**20}


def by_command(
    program: str, flags: list[str], texts: Sequence[str], wavs: Callable[[str], Path]
) -> dict[str, float]:
    if shutil.which(program) is None:
        raise SkippedError(f"needs {program}")
    text_flag = ["-t"] if program == "flite" else []
    spent, seconds = 0.0, 0.0
    for turn, text in enumerate(texts):
        file = wavs(program) / f"{turn:03d}.wav"
        spent += cpu_seconds([program, *flags, str(file), *text_flag, text])
        seconds += soundfile.info(file).duration
    return {"cpu": spent / seconds, "cold": spent / len(texts)}


def cpu_seconds(command: list[str]) -> float:
    before = os.times()
    subprocess.run(
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=_ENVIRONMENT,
    )
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system


def read(file: Path) -> Sound:
    samples, rate_hz = soundfile.read(file, dtype="float32")
    return Sound(waveform=samples, sample_rate_hz=rate_hz)


def score(
    spoken: Mapping[str, Sequence[Spoken]],
    speakers: Sequence[Speaker],
    vectors: ResemblyzerVectors,
    whisper: Path | None,
) -> list[Table]:
    passes = [(open_toolbox(only=[*_SCORES]), "")]
    if whisper is not None:
        passes.append((open_toolbox(only=["wer"], whisper=whisper), f", {whisper.name}"))
    tables = []
    for toolbox, suffix in passes:
        for metric in toolbox.metrics:
            title, better = _SCORES[metric.name]
            title = f"WER{suffix}" if suffix else title
            tables.append(Table(title, metric.unit, better))
            for name, clips in spoken.items():
                scores = [scores_of(_speech(clip), toolbox.measures) for clip in clips]
                keep(tables[-1], name, [it[metric.name] for it in scores if metric.name in it])
        tables[-1].note = "; ".join(map(str, toolbox.left_out))
    similarity = Table("Similarity to the speaker, Resemblyzer", "cosine", "higher")
    nearest = Table(f"Own speaker is nearest of {len(speakers)}", "fraction", "higher")
    for name in (_CLONES, _RECORDINGS):
        found = [(clip.speaker, vectors.of(clip.sound)) for clip in spoken.get(name, ())]
        similarities, hits = [], []
        for own, vector in found:
            if own is not None and vector is not None:
                near = {it.name: cosine(vector, it.vector) for it in speakers}
                similarities.append(Score(near[own.name]))
                hits.append(Score(float(max(near, key=near.__getitem__) == own.name)))
        keep(similarity, name, similarities)
        keep(nearest, name, hits)
    return [*tables, similarity, nearest]


def keep(table: Table, name: str, scores: Sequence[Score]) -> None:
    if mean := mean_of(scores):
        table.values[name] = [mean.low, mean.value, mean.high]


def _speech(clip: Spoken) -> Speech:
    return Speech(
        waveform=clip.sound.waveform,
        sample_rate_hz=clip.sound.sample_rate_hz,
        text=clip.text,
        language="en",
        reference=None,
    )


if __name__ == "__main__":
    main()
