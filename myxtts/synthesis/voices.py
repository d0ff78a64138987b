"""The voices that a run has: saved ones, the speakers of its corpus, those of the base model.

RUN/voices/NAME.safetensors   vector and latents, float32
           NAME.json          recordings, time, checkpoint; checksum of the tensors

A saved voice exists if its NAME.json does. Both files are written atomically, the facts last. The
voices of the included base model are read-only; those that users add to it are in their own folder.
No TensorFlow.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt
import soxr
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from myxtts.audio.files import FloatArray, clean_recording, read_audio, window_levels
from myxtts.config.config import AudioConfig
from myxtts.config.schema import did_you_mean
from myxtts.errors import CheckpointError, DataError, quoted
from myxtts.files import read_json, write_file
from myxtts.runs.run_dir import RunDir, is_included, require_no_link, user_folder

_log = logging.getLogger(__name__)

_FORMAT = "myxtts-voice-1"
# Keeps a file name below 255 bytes in UTF-8.
_MAX_CHARACTERS = 50
_ZERO_WIDTH_NON_JOINER = "\u200c"  # used in Persian names
MIN_REFERENCE_SECONDS = 0.5
# Levels of speech range over 20 dB and more, those of steady noise over one or two.
_MIN_LEVEL_RANGE_DB = 8.0
# Voice encoders return values up to 20.
_LARGEST_VALUE = 1e3

Paths = str | Path | Sequence[str | Path]
Samples = tuple[npt.NDArray[Any], int]
"""Samples in [-1, 1], of one or more channels, and their rate, as soundfile.read returns them."""


@dataclass(frozen=True)
class Reference:
    file: str
    seconds: float
    """Duration without the silence at both ends."""


@dataclass(frozen=True, kw_only=True)
class VoiceFacts:
    name: str
    references: Sequence[Reference]
    made: str
    """ISO 8601, UTC."""
    step: int
    weights_sha256: str
    """Checksum of the weights that encoded it."""
    width: int
    latents: int


@dataclass(frozen=True)
class SavedVoice:
    facts: VoiceFacts
    vector: FloatArray  # [1, width]
    latents: FloatArray  # [1, latents, width]

    def require_weights(self, step: int, weights_sha256: str) -> None:
        """Raise an error unless the voice was encoded with these weights."""
        if self.facts.weights_sha256 != weights_sha256:
            name = self.facts.name
            raise CheckpointError(
                f"voice '{name}': encoded with another checkpoint (step {self.facts.step:,}, this "
                f"one is step {step:,}); encode it again: myxtts voice add RUN {name} REF.wav "
                "--replace"
            )


class VoiceStore:
    """The voices of a run or of a checkpoint in it.

    `folder` is where voices are saved: in the run, or for the base model in the user's data folder.
    """

    def __init__(self, checkpoint: Path) -> None:
        RunDir(checkpoint).require_folder()
        run = RunDir.around(checkpoint)
        self.folder: Path = run.voices
        self.included: Path | None = None
        if is_included(checkpoint):
            self.folder, self.included = user_folder() / "voices", run.voices
        require_no_link(self.folder)
        self._speakers_file = run.speakers_file

    @functools.cached_property
    def speakers(self) -> Mapping[str, FloatArray]:
        """Log-mels of the speakers that the run was trained on, by name."""
        return read_speakers(self._speakers_file)

    @property
    def names(self) -> list[str]:
        """Names of all voices, the default first."""
        included = voice_names(self.included) if self.included else []
        names = [*included, *voice_names(self.folder), *self.speakers]
        if len(self.speakers) == 1:
            names = [*self.speakers, *names]
        return list(dict.fromkeys(names))

    def source(self, name: str) -> str:
        """Return whether a voice is saved, included or a speaker of the run's corpus."""
        if name in voice_names(self.folder):
            return "saved"
        return "speaker" if name in self.speakers else "included"

    def read(self, name: str) -> SavedVoice:
        """Return a saved or included voice; it may be one of other weights."""
        name = _checked(name)
        source = self.source(name) if name in self.names else "saved"
        if source == "included" and self.included is not None:
            return read_voice(self.included, name)
        return read_voice(self.folder, name, known=self.names)

    def require_free(self, name: str, *, replace: bool = False) -> str:
        """Return the normalized name; one that cannot be written is an error."""
        name = _checked(name)
        self._require_own(name)
        if not replace and _files(self.folder, name)[1].exists():
            raise DataError(
                f"voice '{name}': already exists in {self.folder}; use another name, or replace "
                "it with --replace"
            )
        return name

    def remove(self, name: str) -> None:
        name = _checked(name)
        if name not in voice_names(self.folder):
            self._require_own(name)
        remove_voice(self.folder, name)

    def is_read_only(self, name: str) -> bool:
        """Return whether a name belongs to the package or to the corpus."""
        # Some file systems are case-insensitive.
        fixed = [*(voice_names(self.included) if self.included else []), *self.speakers]
        return name.casefold() in map(str.casefold, fixed)

    def _require_own(self, name: str) -> None:
        if self.is_read_only(name):
            whose = "included with MyXTTS" if self.included else "a speaker of the corpus"
            raise DataError(f"voice '{name}': is {whose} and read-only; use another name")


def read_speakers(file: Path) -> dict[str, FloatArray]:
    """Read the log-mels of `training.output.save_speakers`; a run without them has no speakers."""
    if not file.is_file():
        return {}
    try:
        with safe_open(file, framework="numpy") as tensors:
            names = json.loads((tensors.metadata() or {})["speakers"])
            mels = [tensors.get_tensor(str(index)) for index in range(len(names))]
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise CheckpointError(f"{file}: damaged ({error}); delete it") from None
    return {name: mel.astype(np.float32) for name, mel in zip(names, mels, strict=True)}


def voice_names(folder: Path) -> list[str]:
    """Return the names of voices; other files are ignored."""
    # Some file systems decompose accented letters.
    names = (
        unicodedata.normalize("NFC", file.name.removesuffix(".json"))
        for file in folder.glob("*.json")
    )
    return sorted(name for name in names if _problem_of(name) is None)


def write_voice(folder: Path, voice: SavedVoice) -> None:
    """Write a voice, or replace the one of this name."""
    tensors, facts = _files(folder, voice.facts.name)
    arrays = save({"vector": voice.vector, "latents": voice.latents})
    content = {
        "format": _FORMAT,
        **asdict(voice.facts),
        "tensors_sha256": hashlib.sha256(arrays).hexdigest(),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_file(tensors, arrays)
        write_file(facts, json.dumps(content, ensure_ascii=False, indent=1))
    except OSError as error:
        raise CheckpointError(f"{facts}: cannot be written ({error.strerror})") from None


def read_voice(folder: Path, name: str, *, known: Sequence[str] = ()) -> SavedVoice:
    """Read a voice and verify its files, but not whether it fits the weights."""
    name = _require(folder, name, known)
    tensors, facts = _files(folder, name)
    try:
        content, written = read_json(facts), tensors.read_bytes()
        if (content.pop("format"), content["name"]) != (_FORMAT, name):
            raise ValueError("another format or another name")
        if content.pop("tensors_sha256") != hashlib.sha256(written).hexdigest():
            raise ValueError(f"{tensors}: checksum mismatch")
        references = [Reference(**reference) for reference in content.pop("references")]
        arrays = load(written)
        if not all((np.abs(array) <= _LARGEST_VALUE).all() for array in arrays.values()):
            raise ValueError(f"{tensors}: a value is not finite or above {_LARGEST_VALUE:g}")
        return SavedVoice(
            VoiceFacts(references=references, **content), arrays["vector"], arrays["latents"]
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"voice '{name}': damaged, or not from MyXTTS ({error}); remove it with myxtts voice "
            f"remove RUN {name}, and add it again"
        ) from None


def remove_voice(folder: Path, name: str) -> None:
    tensors, facts = _files(folder, _require(folder, name))
    try:
        # Facts first: without them the voice no longer exists.
        facts.unlink()
        tensors.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"{facts}: cannot be removed ({error.strerror})") from None


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.safetensors", folder / f"{name}.json"


def _require(folder: Path, name: str, known: Sequence[str] = ()) -> str:
    """Return the normalized name of an existing voice."""
    name = _checked(name)
    names = voice_names(folder)
    if name not in names:
        names = list(known) or names
        there = (
            f"; there are: {', '.join(names[:20])}"
            if names
            else "; there are none yet, `myxtts voice add` saves one"
        )
        raise DataError(f"no voice '{name}'{did_you_mean(name, names) or there}")
    return name


def _checked(name: str) -> str:
    name = unicodedata.normalize("NFC", name)
    if (problem := _problem_of(name)) is not None:
        raise DataError(f"voice name {quoted(name[:_MAX_CHARACTERS])}: {problem}")
    return name


def _problem_of(name: str) -> str | None:
    if not 1 <= len(name) <= _MAX_CHARACTERS:
        return f"{len(name)} characters, expected 1 to {_MAX_CHARACTERS}"
    for character in name:
        is_mark = unicodedata.category(character).startswith("M")
        if not (character.isalnum() or is_mark or character in f"._-{_ZERO_WIDTH_NON_JOINER}"):
            return f"found {character!r}, expected letters, digits and . _ -"
    if not name[0].isalnum() or name[-1] == ".":
        return "expected a letter or digit at the start and no full stop at the end"
    return None


class ReferenceRecording(NamedTuple):
    file: Path
    samples: FloatArray


def reference_files(speaker_wav: object) -> tuple[Path, ...]:
    files: list[Any] = [speaker_wav]
    if isinstance(speaker_wav, Sequence) and not isinstance(speaker_wav, str):
        files = list(speaker_wav)
    if not files:
        raise DataError("speaker_wav: is empty, expected at least one recording")
    for file in files:
        if not isinstance(file, str | Path):
            raise DataError(
                f"speaker_wav: found {type(file).__name__}, expected paths, or (samples, rate)"
            )
    return tuple(map(Path, files))


def read_reference(file: Path, audio: AudioConfig) -> ReferenceRecording:
    return ReferenceRecording(
        file, _speech(str(file), read_audio(file, audio.sample_rate_hz), audio)
    )


def is_samples(speaker_wav: object) -> TypeGuard[Samples]:
    return isinstance(speaker_wav, tuple) and isinstance(next(iter(speaker_wav), None), np.ndarray)


def reference_samples(samples: npt.NDArray[Any], rate_hz: int, audio: AudioConfig) -> FloatArray:
    """Return the cleaned samples of a reference, at the rate of the model."""
    if samples.ndim not in (1, 2) or not np.issubdtype(samples.dtype, np.floating):
        raise DataError(
            f"speaker_wav: found {samples.ndim} dimensions of {samples.dtype}, expected samples as "
            "floating-point numbers, [time] or [time, channels]"
        )
    mono = samples if samples.ndim == 1 else samples.mean(1)
    waveform = soxr.resample(mono.astype(np.float32), rate_hz, audio.sample_rate_hz)
    return _speech("speaker_wav", waveform, audio)


def _speech(where: str, waveform: FloatArray, audio: AudioConfig) -> FloatArray:
    """Return a reference without silence at its ends; warn of one that is not speech."""
    samples = clean_recording(waveform, audio)
    seconds = samples.size / audio.sample_rate_hz
    if seconds < MIN_REFERENCE_SECONDS or not samples.any():
        sound = "audio" if samples.any() else "silence"
        raise DataError(
            f"{where}: {seconds:.2f} s of {sound}, expected at least {MIN_REFERENCE_SECONDS} s of "
            "speech"
        )
    levels = 20 * np.log10(window_levels(samples, audio.sample_rate_hz) + 1e-6)
    quiet, loud = np.percentile(levels, (10, 90))
    if loud - quiet < _MIN_LEVEL_RANGE_DB:
        _log.warning(
            "%s: its level hardly changes (%.0f dB), so it may be noise or music; expected speech",
            where,
            loud - quiet,
        )
    return samples


def reference_state(file: Path) -> tuple[Path, int, int] | None:
    """Return a value that changes with the content; None for a file that cannot be read."""
    try:
        facts = file.stat()
    except (OSError, ValueError):  # ValueError: an invalid file name
        return None
    return file.absolute(), facts.st_mtime_ns, facts.st_size
