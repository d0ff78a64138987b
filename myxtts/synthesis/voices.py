"""Voices that were encoded once and saved with their run. No TensorFlow.

RUN/voices/NAME.safetensors   vector and latents, float32
           NAME.json          recordings, time, checkpoint; checksum of the tensors

A voice exists if its NAME.json does. Both files are written atomically, the facts last.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors.numpy import load, save

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.config.config import AudioConfig
from myxtts.config.schema import did_you_mean
from myxtts.errors import CheckpointError, DataError, quoted
from myxtts.files import read_json, write_file
from myxtts.runs.run_dir import RunDir, require_no_link

_FORMAT = "myxtts-voice-1"
# Keeps a file name below 255 bytes in UTF-8.
_MAX_CHARACTERS = 50
_ZERO_WIDTH_NON_JOINER = "\u200c"  # used in Persian names
MIN_REFERENCE_SECONDS = 0.5
# Voice encoders return values up to 20.
_LARGEST_VALUE = 1e3

Paths = str | Path | Sequence[str | Path]


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


def voices_folder(checkpoint: Path) -> Path:
    """Return the voices folder of a run, or of the run that a checkpoint belongs to."""
    RunDir(checkpoint).require_folder()
    folder = RunDir.around(checkpoint).voices
    require_no_link(folder)
    return folder


def voice_names(folder: Path) -> list[str]:
    """Return the names of voices; other files are ignored."""
    # Some file systems decompose accented letters.
    names = (
        unicodedata.normalize("NFC", file.name.removesuffix(".json"))
        for file in folder.glob("*.json")
    )
    return sorted(name for name in names if _problem_of(name) is None)


def require_free_name(folder: Path, name: str, *, replace: bool) -> str:
    """Return the normalized name; one that is taken or not portable is an error."""
    name = _checked(name)
    if not replace and _files(folder, name)[1].exists():
        raise DataError(
            f"voice '{name}': already exists in {folder}; use another name, or replace it with "
            "--replace"
        )
    return name


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
        folder.mkdir(exist_ok=True)
        write_file(tensors, arrays)
        write_file(facts, json.dumps(content, ensure_ascii=False, indent=1))
    except OSError as error:
        raise CheckpointError(f"{facts}: cannot be written ({error.strerror})") from None


def read_voice(folder: Path, name: str) -> SavedVoice:
    """Read a voice and verify its files, but not whether it fits the weights."""
    name = _require(folder, name)
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


def _require(folder: Path, name: str) -> str:
    """Return the normalized name of an existing voice."""
    name = _checked(name)
    names = voice_names(folder)
    if name not in names:
        known = (
            f"; it has: {', '.join(names[:20])}"
            if names
            else "; it has none yet, `myxtts voice add` saves one"
        )
        raise DataError(f"{folder}: no voice '{name}'{did_you_mean(name, names) or known}")
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


def reference_files(speaker_wav: Paths) -> tuple[Path, ...]:
    files = [speaker_wav] if isinstance(speaker_wav, str | Path) else speaker_wav
    if not files:
        raise DataError("speaker_wav: is empty, expected at least one recording")
    return tuple(map(Path, files))


def read_reference(file: Path, audio: AudioConfig) -> ReferenceRecording:
    samples = clean_recording(read_audio(file, audio.sample_rate_hz), audio)
    seconds = samples.size / audio.sample_rate_hz
    if seconds < MIN_REFERENCE_SECONDS or not samples.any():
        sound = "audio" if samples.any() else "silence"
        raise DataError(
            f"{file}: {seconds:.2f} s of {sound}, expected at least {MIN_REFERENCE_SECONDS} s of "
            "speech"
        )
    return ReferenceRecording(file, samples)


def reference_state(file: Path) -> tuple[Path, int, int] | None:
    """Return a value that changes with the content; None for a file that cannot be read."""
    try:
        facts = file.stat()
    except (OSError, ValueError):  # ValueError: an invalid file name
        return None
    return file.absolute(), facts.st_mtime_ns, facts.st_size
