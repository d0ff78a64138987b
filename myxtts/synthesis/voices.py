"""Voices that were encoded once and saved with their run. No TensorFlow.

RUN/voices/NAME.safetensors   vector and latents, float32
           NAME.json          recordings, time, checkpoint; checksum of the tensors

A voice exists if its NAME.json does. Both files are written under temporary names, then the tensors
are renamed, then the facts. A crash in between leaves facts whose checksum does not match, and the
right ones next to them under their temporary name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.numpy import save

from myxtts.audio.files import FloatArray, clean_recording, read_audio
from myxtts.config.config import AudioConfig
from myxtts.config.schema import did_you_mean
from myxtts.errors import CheckpointError, DataError, quoted
from myxtts.files import atomic_file, read_json, sync_stream, temporaries_of
from myxtts.runs.checkpoint import read_tensors
from myxtts.runs.run_dir import RunDir, require_no_link

_FORMAT = "myxtts-voice-1"
# In UTF-8 and with prefix and suffix it stays below the 255 bytes of a file name.
_MOST_CHARACTERS = 50
_ZERO_WIDTH_NON_JOINER = "\u200c"  # Persian names have it
_DEVICES_OF_WINDOWS = {"CON", "PRN", "AUX", "NUL"} | {
    f"{device}{number}" for device in ("COM", "LPT") for number in range(10)
}


@dataclass(frozen=True)
class Reference:
    file: str
    seconds: float
    """Without the silence at its ends."""


@dataclass(frozen=True, kw_only=True)
class VoiceFacts:
    name: str
    references: Sequence[Reference]
    made: str
    """ISO 8601, UTC."""
    step: int
    weights_sha256: str
    """Of the weights that encoded it."""
    width: int
    latents: int


@dataclass(frozen=True)
class SavedVoice:
    facts: VoiceFacts
    vector: FloatArray  # [1, width]
    latents: FloatArray  # [1, latents, width]

    def require_weights(self, step: int, weights_sha256: str) -> None:
        """Raises an error for other weights, to which this encoding means nothing."""
        if self.facts.weights_sha256 != weights_sha256:
            name = self.facts.name
            raise CheckpointError(
                f"voice '{name}': encoded with another checkpoint (step {self.facts.step:,}, this "
                f"one is step {step:,}); encode it again: myxtts voice add RUN {name} REF.wav "
                "--replace"
            )


def voices_folder(checkpoint: Path) -> Path:
    """The voices folder of a run, or of the run that a checkpoint belongs to."""
    RunDir(checkpoint).require_folder()
    folder = RunDir.around(checkpoint).voices
    require_no_link(folder)
    return folder


def voice_names(folder: Path) -> list[str]:
    """Of what has a name that a voice can have; other files there are left alone."""
    names = (_composed(file.name.removesuffix(".json")) for file in folder.glob("*.json"))
    return sorted(name for name in names if _problem_of(name) is None)


def require_free_name(folder: Path, name: str, *, replace: bool) -> str:
    """The normalised name; one that is taken or not portable is an error."""
    name = _checked(name)
    # Some file systems are case-insensitive.
    alike = [one for one in voice_names(folder) if one.casefold() == name.casefold()]
    if alike and alike != [name]:
        raise DataError(f"voice '{name}': {folder} has '{alike[0]}'; remove it, or use that name")
    if alike and not replace:
        raise DataError(
            f"voice '{name}': already exists in {folder}; use another name, or replace it with "
            "--replace"
        )
    return name


def write_voice(folder: Path, voice: SavedVoice) -> None:
    """Replaces an existing voice of the same name."""
    tensors, facts = _files(folder, voice.facts.name)
    try:
        folder.mkdir(exist_ok=True)
        # The contexts exit from the inside out: tensors are renamed first, facts last. Both are
        # on disk before that.
        with (
            atomic_file(facts, durable=True) as facts_stream,
            atomic_file(tensors, durable=True) as tensors_stream,
        ):
            arrays = {"vector": voice.vector, "latents": voice.latents}
            written = save(arrays)
            tensors_stream.write(written)
            checksum = hashlib.sha256(written).hexdigest()
            content = {"format": _FORMAT, **asdict(voice.facts), "tensors_sha256": checksum}
            facts_stream.write(json.dumps(content, ensure_ascii=False, indent=1).encode())
            # A writer that is killed after renaming the tensors must leave the facts behind.
            sync_stream(facts_stream)
    except OSError as error:
        raise CheckpointError(f"{facts}: cannot be written ({error.strerror})") from None


def read_voice(folder: Path, name: str) -> SavedVoice:
    """Raises an error if its files are damaged; does not check which weights it fits."""
    name = _require(folder, name)
    tensors, facts = _files(folder, name)
    try:
        checksum = hashlib.sha256(tensors.read_bytes()).hexdigest()
        content = read_json(facts)
        if content["tensors_sha256"] != checksum:
            content = _facts_not_yet_moved(facts, checksum) or content
        if content.pop("format") != _FORMAT:
            raise ValueError("unknown format")
        if content.pop("tensors_sha256") != checksum:
            raise ValueError(f"{tensors}: checksum mismatch")
        read = _facts_from(content)
        if read.name != name:
            raise ValueError(f"{facts}: belongs to '{read.name}'")
        arrays = read_tensors(tensors)
        return SavedVoice(read, arrays["vector"], arrays["latents"])
    except (CheckpointError, OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"voice '{name}': damaged, or not from MyXTTS ({error}); remove it with myxtts voice "
            f"remove RUN {name}, and add it again"
        ) from None


def remove_voice(folder: Path, name: str) -> None:
    tensors, facts = _files(folder, _require(folder, name))
    try:
        # Facts first: without them the voice no longer exists.
        for file in (*temporaries_of(facts), facts, tensors, *temporaries_of(tensors)):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise CheckpointError(f"{facts}: cannot be removed ({error.strerror})") from None


def _require(folder: Path, name: str) -> str:
    """The normalised name of an existing voice."""
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


def _composed(name: str) -> str:
    """Normalises accented letters, which some file systems decompose."""
    return unicodedata.normalize("NFC", name)


def _checked(name: str) -> str:
    name = _composed(name)
    problem = _problem_of(name)
    if problem is not None:
        raise DataError(f"voice name {quoted(name[:_MOST_CHARACTERS])}: {problem}")
    return name


def _problem_of(name: str) -> str | None:
    if not 1 <= len(name) <= _MOST_CHARACTERS:
        return f"{len(name)} characters, expected 1 to {_MOST_CHARACTERS}"
    if strange := [character for character in name if not _is_plain(character)]:
        return f"found {strange[0]!r}, expected letters, digits and . _ -"
    if not name[0].isalnum() or name[-1] == ".":
        return "expected a letter or digit at the start and no full stop at the end"
    if unicodedata.normalize("NFKC", name.split(".")[0]).upper() in _DEVICES_OF_WINDOWS:
        return "is a device name on Windows; use another name"
    return None


def _is_plain(character: str) -> bool:
    is_mark = unicodedata.category(character).startswith("M")
    return character.isalnum() or is_mark or character in f"._-{_ZERO_WIDTH_NON_JOINER}"


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.safetensors", folder / f"{name}.json"


def _facts_not_yet_moved(facts: Path, tensors_sha256: str) -> dict[str, Any] | None:
    """Facts that match the tensors, if their writer was killed before renaming them."""
    for file in temporaries_of(facts):
        with contextlib.suppress(OSError, ValueError):
            content: dict[str, Any] = read_json(file, ("tensors_sha256",))
            if content["tensors_sha256"] == tensors_sha256:
                return content
    return None


def _facts_from(content: dict[str, Any]) -> VoiceFacts:
    references = [Reference(**reference) for reference in content.pop("references")]
    return VoiceFacts(references=references, **content)


Paths = str | Path | Sequence[str | Path]

_SHORTEST_SECONDS = 0.5


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
    if not samples.any():
        raise DataError(
            f"{file}: {seconds:.2f} s of silence, expected at least {_SHORTEST_SECONDS} s of speech"
        )
    if seconds < _SHORTEST_SECONDS:
        raise DataError(
            f"{file}: {seconds:.2f} s of audio, expected at least {_SHORTEST_SECONDS} s of speech"
        )
    return ReferenceRecording(file, samples)


def reference_state(file: Path) -> tuple[Path, int, int] | None:
    """Differs when the content does; None for a file that cannot be read."""
    try:
        facts = file.stat()
    except (OSError, ValueError):  # ValueError: a name that no file can have
        return None
    return file.absolute(), facts.st_mtime_ns, facts.st_size
