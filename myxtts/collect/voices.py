"""Voices of clips: embeddings of a speaker encoder, clustered by scipy."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray, read_audio
from myxtts.audio.pretrained import MEASURED_RATE_HZ, ResemblyzerVectors, Sound
from myxtts.collect.folder import VOICE_LINE, CorpusFolder, append, read_lines
from myxtts.devices.doctor import install_command
from myxtts.errors import DataError

# Minimum mean cosine similarity of two groups of clips with the same voice.
_MIN_ALIKE = 0.72
# Above this only a sample is clustered, and other clips join the nearest voice.
_MAX_CLUSTERED = 2_000
_TRIMMINGS = 2

Vectors = npt.NDArray[np.float32]


class VoiceEncoder(Protocol):
    def with_windows(self, sound: Sound) -> tuple[FloatArray, FloatArray] | None:
        """Return the vector of a clip and those of short windows of it; None for silence."""


class ClipVoice(NamedTuple):
    """Vectors of length one."""

    vector: FloatArray  # [width]
    windows: FloatArray  # [windows, width]


def open_encoder() -> VoiceEncoder:
    try:
        import scipy  # noqa: F401

        return ResemblyzerVectors()
    except ImportError:
        raise DataError(
            f"comparing voices needs Resemblyzer and scipy: {install_command('collect,eval-torch')}"
        ) from None


def embed_clips(
    clip_ids: Iterable[str],
    folder: CorpusFolder,
    encoder: VoiceEncoder,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, ClipVoice]:
    """Return the voices of clips that are not silent; they are cached for the next launch."""
    known = {line["id"]: line for line in read_lines(folder.voices, VOICE_LINE)}
    clip_ids = list(clip_ids)
    for done, clip_id in enumerate(clip_ids, 1):
        if clip_id not in known:
            known[clip_id] = _line(clip_id, encoder.with_windows(_sound(folder.clip(clip_id))))
            append(folder.voices, known[clip_id])
        on_progress(done, len(clip_ids))
    return {clip_id: _voice(known[clip_id]) for clip_id in clip_ids if known[clip_id]["vector"]}


def _line(clip_id: str, heard: tuple[FloatArray, FloatArray] | None) -> dict[str, str]:
    vector, windows = heard if heard is not None else (np.zeros(0), np.zeros(0))
    return {
        "id": clip_id,
        "vector": base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode(),
        "windows": base64.b64encode(np.asarray(windows, "<f2").tobytes()).decode(),
    }


def _voice(line: Mapping[str, str]) -> ClipVoice:
    vector = np.frombuffer(base64.b64decode(line["vector"]), "<f4")
    windows = np.frombuffer(base64.b64decode(line["windows"]), "<f2").astype(np.float32)
    return ClipVoice(_unit(vector), _unit(windows.reshape(-1, vector.size)))


def embed_file(file: Path, encoder: VoiceEncoder) -> FloatArray:
    heard = encoder.with_windows(_sound(file))
    if heard is None:
        raise DataError(f"{file}: no voice in it; expected a few seconds of speech")
    return _unit(np.asarray(heard[0], np.float32))


def _sound(file: Path) -> Sound:
    samples = read_audio(file, MEASURED_RATE_HZ)
    return Sound(waveform=samples, sample_rate_hz=MEASURED_RATE_HZ)


def _unit(vector: FloatArray) -> FloatArray:
    return vector / (np.linalg.norm(vector, axis=-1, keepdims=True) + np.float32(1e-9))


def group_voices(vectors: Vectors, seconds: Sequence[float]) -> list[list[int]]:
    """Return the indices of the clips of each voice, the voice with most speech first."""
    count = len(vectors)
    chosen = np.unique(np.linspace(0, count - 1, min(count, _MAX_CLUSTERED)).astype(int))
    labels = _cluster(vectors[chosen])
    means = np.stack([_unit(vectors[chosen[labels == name]].mean(axis=0)) for name in set(labels)])
    nearest = np.argmax(vectors @ means.T, axis=1)
    groups = [np.flatnonzero(nearest == name).tolist() for name in range(len(means))]
    by_speech = sorted(groups, key=lambda group: -sum(seconds[index] for index in group))
    return [group for group in by_speech if group]


def _cluster(vectors: Vectors) -> npt.NDArray[np.intp]:
    """Cluster with average linkage, which needs no number of voices."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(vectors) == 1:
        return np.zeros(1, np.intp)
    tree = linkage(vectors, method="average", metric="cosine")
    labels = fcluster(tree, t=1 - _MIN_ALIKE, criterion="distance") - 1
    return np.asarray(labels, np.intp)


def nearest_voice(groups: Sequence[Sequence[int]], vectors: Vectors, wanted: FloatArray) -> int:
    means = np.stack([_unit(vectors[list(group)].mean(axis=0)) for group in groups])
    return int(np.argmax(means @ wanted))


def middle_of(vectors: Vectors) -> Vectors:
    """Return the mean of the closest half, so that mixed clips do not distort it."""
    middle = _unit(vectors.mean(axis=0))
    for _ in range(_TRIMMINGS):
        alike = vectors @ middle
        middle = _unit(vectors[alike >= np.median(alike)].mean(axis=0))
    return middle


def likeness_of_parts(voice: ClipVoice, middle: Vectors) -> float:
    """Return the similarity of a clip's windows to a voice: mean of the lowest and of the mean.

    The lowest drops if another voice speaks briefly, the mean if it speaks throughout.
    """
    alike = voice.windows @ middle
    return float(alike.min() + alike.mean()) / 2
