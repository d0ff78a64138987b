"""Measures, each of which computes one or more metrics of a clip.

A measure is independent of models, runs and tables. It is applied only to clips that have what it
requires, such as a recording of the same sentence or a supported language. To add one, write a
class and add it to `MEASURES`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray, trim_silence, window_levels
from myxtts.audio.mel import frame_distances, warp
from myxtts.audio.pretrained import MEASURED_RATE_HZ as MEASURED_RATE_HZ
from myxtts.audio.pretrained import ASRModel, Moonshine, Whisper, bare_words
from myxtts.audio.pretrained import ResemblyzerVectors as ResemblyzerVectors
from myxtts.audio.pretrained import Sound as Sound
from myxtts.audio.pretrained import Tool as Tool
from myxtts.config.config import LOWER_IS_BETTER, AudioConfig
from myxtts.config.schema import did_you_mean
from myxtts.devices.doctor import install_command
from myxtts.errors import ConfigError

BUILT_IN = Tool(name="computed here", license="Apache-2.0")


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    title: str
    unit: str = ""
    decimals: int = 2
    needs_recording: bool = False
    """Compares with a recording of the same sentence."""
    needs_reference: bool = False
    """Compares with another clip of the voice."""
    shows_interval: bool = False
    """Tables show the 95 % interval of the mean and the number of sentences."""

    @property
    def better(self) -> str:
        """lower, higher, or as close as possible to the recordings."""
        if self.name not in LOWER_IS_BETTER:
            return "as recorded"
        return "lower" if LOWER_IS_BETTER[self.name] else "higher"


@dataclass(frozen=True)
class Score:
    value: float
    weight: float = 1.0
    """Weight of the clip in the mean, such as its number of words for the word error rate."""
    note: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Speech(Sound):
    """A clip to evaluate, with the context that measures use."""

    text: str
    language: str
    reference: Sound | None
    """Another clip of the target voice. None for saved voices."""
    recording: Sound | None = None
    """The speaker's own recording of the same sentence."""
    making_seconds: float | None = None
    """Seconds that synthesis took; None for recordings."""


class Measure(ABC):
    tool: Tool = BUILT_IN
    metrics: tuple[Metric, ...]

    @abstractmethod
    def scores(self, speech: Speech) -> Mapping[str, Score]:
        """Return scores by metric name; metrics that do not apply to this clip are left out."""


_SILENT_BELOW_LOUDEST_DB = 40.0
_FULL_SCALE = 0.999

CHARACTERS_PER_SECOND = Metric(
    name="characters_per_second", title="characters per second", unit="1/s", decimals=1
)
CLIPPING = Metric(name="clipping", title="clipped samples", unit="fraction", decimals=4)
SILENCE = Metric(name="silence", title="silence", unit="fraction")
REAL_TIME_FACTOR = Metric(
    name="real_time_factor", title="real-time factor", unit="s per s", decimals=3
)


class Levels(Measure):
    metrics = (CHARACTERS_PER_SECOND, CLIPPING, SILENCE, REAL_TIME_FACTOR)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        rate, waveform = speech.sample_rate_hz, speech.waveform
        spoken_seconds = trim_silence(waveform, rate, _SILENT_BELOW_LOUDEST_DB).size / rate
        levels = window_levels(waveform, rate)
        silent = levels <= levels.max() * 10 ** (-_SILENT_BELOW_LOUDEST_DB / 20)
        characters = sum(character.isalnum() for character in speech.text)
        scores = {
            CHARACTERS_PER_SECOND.name: Score(characters / spoken_seconds, spoken_seconds),
            CLIPPING.name: Score(float(np.mean(np.abs(waveform) >= _FULL_SCALE)), speech.seconds),
            SILENCE.name: Score(float(silent.mean()), speech.seconds),
        }
        if speech.making_seconds is not None:
            scores[REAL_TIME_FACTOR.name] = Score(
                speech.making_seconds / speech.seconds, speech.seconds
            )
        return scores


# Computed here because librosa.pyin needs an extra, takes 20 times as long, and compiles for 20 s
# at its first call. Both agree within 0.06 semitones in the median.
LOWEST_HZ, HIGHEST_HZ = 60.0, 500.0
_WINDOW_SAMPLES = 640
_SHORTEST_LAG = int(MEASURED_RATE_HZ / HIGHEST_HZ)
_LONGEST_LAG = int(np.ceil(MEASURED_RATE_HZ / LOWEST_HZ))
# The first lag with a difference below the first threshold is the period; above the second the
# frame is unvoiced.
_CLEAR_PERIOD, _VOICED_BELOW = 0.15, 0.5
_SMALL = 1e-12


def pitch_hz(waveform: FloatArray, hop_samples: int) -> npt.NDArray[np.float64]:
    """Return a value per frame by YIN, frame n centered on sample n * hop; NaN if unvoiced."""
    length = _WINDOW_SAMPLES + _LONGEST_LAG
    padded = np.pad(waveform.astype(np.float64), (length // 2, length - length // 2))
    frames = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop_samples]
    difference = _normalized_difference(frames)
    # The first clear dip of each frame, or the deepest one.
    allowed = difference[:, _SHORTEST_LAG:-1]
    clear_dips = (allowed < _CLEAR_PERIOD) & (allowed <= difference[:, _SHORTEST_LAG + 1 :])
    lags = np.where(clear_dips.any(axis=1), clear_dips.argmax(axis=1), allowed.argmin(axis=1))
    lags += _SHORTEST_LAG
    # Parabolic interpolation of the lag of a dip.
    rows = np.arange(len(lags))
    left, middle, right = (difference[rows, lags + shift] for shift in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(bend > _SMALL, (left - right) / (2 * np.maximum(bend, _SMALL)), 0.0)
    level_db = 10 * np.log10(np.mean(frames**2, axis=1) + _SMALL)
    voiced = (middle < _VOICED_BELOW) & (level_db > level_db.max() - _SILENT_BELOW_LOUDEST_DB)
    return np.where(voiced, MEASURED_RATE_HZ / (lags + np.clip(shift, -1.0, 1.0)), np.nan)


def _normalized_difference(frames: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the cumulative mean normalized difference, by lag."""
    size = 1 << (frames.shape[1] + _WINDOW_SAMPLES).bit_length()
    spectrum = np.fft.rfft(frames, size)
    window = np.fft.rfft(frames[:, :_WINDOW_SAMPLES], size)
    products = np.fft.irfft(spectrum * window.conj(), size)[:, : _LONGEST_LAG + 1]
    sums = np.cumsum(np.pad(frames**2, ((0, 0), (1, 0))), axis=1)
    energy = sums[:, _WINDOW_SAMPLES:] - sums[:, :-_WINDOW_SAMPLES]  # [frames, lags]
    difference = np.maximum(energy[:, :1] + energy - 2 * products, 0.0)
    lags = np.arange(1, _LONGEST_LAG + 1)
    normalized = np.ones_like(difference)
    normalized[:, 1:] = difference[:, 1:] * lags / (np.cumsum(difference[:, 1:], axis=1) + _SMALL)
    # Silence is periodic at every lag, but unvoiced.
    normalized[energy[:, 0] < _SMALL] = 1.0
    return normalized


# The analysis does not depend on a run's mel settings, so metrics stay comparable.
_ANALYSIS = AudioConfig(
    sample_rate_hz=MEASURED_RATE_HZ, fft_samples=512, hop_samples=200, highest_hz=8_000.0
)
_MELS = 40
_COEFFICIENTS = 13
# Anything quieter is room noise, not voice.
_DYNAMIC_RANGE_DB = 50.0
_TRIM_BELOW_LOUDEST_DB = 40.0
_DB_PER_NEPER = 20 / np.log(10)

MEL_CEPSTRAL_DISTANCE = Metric(
    name="mel_cepstral_distance",
    title="mel-cepstral distance",
    unit="dB",
    needs_recording=True,
)
PITCH_ERROR = Metric(
    name="pitch_error", title="pitch error", unit="semitones", needs_recording=True
)
VOICING_ERROR = Metric(
    name="voicing_error", title="voicing errors", unit="fraction", needs_recording=True
)
DURATION_RATIO = Metric(
    name="duration_ratio", title="duration ratio", unit="", needs_recording=True
)


class AgainstRecording(Measure):
    metrics = (MEL_CEPSTRAL_DISTANCE, PITCH_ERROR, VOICING_ERROR, DURATION_RATIO)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        assert speech.recording is not None
        spoken, recorded = (
            trim_silence(sound.at_measured_rate, MEASURED_RATE_HZ, _TRIM_BELOW_LOUDEST_DB)
            for sound in (speech, speech.recording)
        )
        distance_db = _DB_PER_NEPER * frame_distances(_cepstra(spoken), _cepstra(recorded))
        rows, columns = warp(distance_db)
        ours = pitch_hz(spoken, _ANALYSIS.hop_samples)[rows]
        theirs = pitch_hz(recorded, _ANALYSIS.hop_samples)[columns]
        voiced_here, voiced_there = np.isfinite(ours), np.isfinite(theirs)
        scores = {
            MEL_CEPSTRAL_DISTANCE.name: Score(float(distance_db[rows, columns].mean())),
            DURATION_RATIO.name: Score(spoken.size / recorded.size),
            VOICING_ERROR.name: Score(float(np.mean(voiced_here != voiced_there))),
        }
        both = voiced_here & voiced_there
        if both.any():
            semitones = 12 * np.abs(np.log2(ours[both] / theirs[both]))
            scores[PITCH_ERROR.name] = Score(float(semitones.mean()))
        return scores


def _cepstra(waveform: FloatArray) -> npt.NDArray[np.float64]:
    """Return cepstra [frames, coefficients] without the first coefficient, which is loudness.

    Scaled so that the distance between two frames is the RMS difference of their smoothed log
    spectra.
    """
    from myxtts.audio.mel import clip_log_mel  # loads TensorFlow

    log_mel = clip_log_mel(_ANALYSIS, _MELS)(waveform).astype(np.float64)
    log_mel = np.maximum(log_mel, log_mel.max() - _DYNAMIC_RANGE_DB / _DB_PER_NEPER)
    band = np.arange(_MELS) + 0.5
    order = np.arange(1, _COEFFICIENTS + 1)
    cosines = np.cos(np.pi / _MELS * np.outer(band, order))  # [mels, coefficients]
    return log_mel @ cosines * np.sqrt(2) / _MELS


DNSMOS = Metric(name="dnsmos", title="quality by DNSMOS", unit="1 to 5")
DISTILLMOS = Metric(name="distillmos", title="quality by DistillMOS", unit="1 to 5")


class Dnsmos(Measure):
    """Rates noise and distortion, not speech: DNSMOS was trained for noise suppression."""

    tool = Tool(name="DNSMOS (speechmos)", license="MIT", extra="eval")
    metrics = (DNSMOS,)

    def __init__(self) -> None:
        from speechmos import dnsmos

        self._dnsmos: Any = dnsmos

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        opinion = self._dnsmos.run(speech.at_measured_rate, MEASURED_RATE_HZ)
        return {DNSMOS.name: Score(float(opinion["ovrl_mos"]))}


class Distillmos(Measure):
    """Rates naturalness; DistillMOS was trained on degraded and synthetic speech."""

    tool = Tool(name="DistillMOS", license="MIT", extra="eval-torch")
    metrics = (DISTILLMOS,)

    def __init__(self) -> None:
        with torchaudio_or_blank():
            import distillmos
        import torch

        self._torch: Any = torch
        # The package prints the location of its weights.
        with contextlib.redirect_stdout(io.StringIO()):
            self._model: Any = distillmos.ConvTransformerSQAModel().eval()

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        with self._torch.no_grad():
            opinion = self._model(self._torch.from_numpy(speech.at_measured_rate[None]))
        return {DISTILLMOS.name: Score(float(opinion.mean()))}


@contextlib.contextmanager
def torchaudio_or_blank() -> Iterator[None]:
    """Allow imports of packages that use torchaudio only to read and resample files.

    PyPI's torchaudio is built for CUDA and cannot be loaded with a CPU build of PyTorch. A blank
    module then takes its place during the import.
    """
    try:
        import torchaudio  # noqa: F401
    except (ImportError, OSError):
        sys.modules["torchaudio"] = types.ModuleType("torchaudio")
        try:
            yield
        finally:
            del sys.modules["torchaudio"]
    else:
        yield


VOICE_SIMILARITY = Metric(
    name="similarity", title="voice similarity", unit="cosine", needs_reference=True
)
OWN_SIMILARITY = Metric(
    name="own_similarity",
    title="voice similarity, own encoder",
    unit="cosine",
    needs_reference=True,
)


class Resemblyzer(Measure):
    tool = Tool(name="Resemblyzer", license="Apache-2.0", extra="eval-torch")
    metrics = (VOICE_SIMILARITY,)

    def __init__(self) -> None:
        # The clips of all columns share a reference.
        self._vector = functools.lru_cache(maxsize=4)(ResemblyzerVectors().of)

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        assert speech.reference is not None
        ours, theirs = self._vector(speech), self._vector(speech.reference)
        if ours is None or theirs is None:
            return {}
        return {VOICE_SIMILARITY.name: Score(cosine(ours, theirs))}


class OwnVoiceEncoder(Measure):
    """Uses the model's own voice encoder: not independent, but always available."""

    tool = Tool(name="the run's own voice encoder", license="that of the run", independent=False)
    metrics = (OWN_SIMILARITY,)

    def __init__(self, vector_of: Callable[[FloatArray], npt.NDArray[np.float32]]) -> None:
        """Take `vector_of`, which embeds samples at the run's sample rate."""
        self._vector_of = vector_of

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        assert speech.reference is not None
        ours = self._vector_of(speech.waveform)
        theirs = self._vector_of(speech.reference.waveform)
        return {OWN_SIMILARITY.name: Score(cosine(ours, theirs))}


def cosine(ours: FloatArray, theirs: FloatArray) -> float:
    return float(ours @ theirs / (np.linalg.norm(ours) * np.linalg.norm(theirs) + 1e-9))


# ASR models expect some silence before and after the speech.
_SILENCE_SECONDS = 0.5

WORD_ERROR_RATE = Metric(
    name="wer", title="word error rate", unit="fraction", decimals=3, shows_interval=True
)
CHARACTER_ERROR_RATE = Metric(name="cer", title="character error rate", unit="fraction", decimals=3)


class WordErrors(Measure):
    """Word and character error rates of an ASR model."""

    tool = Tool(name="ASR model", license="MIT", extra="eval")
    metrics = (WORD_ERROR_RATE, CHARACTER_ERROR_RATE)

    def __init__(self, model: ASRModel) -> None:
        import jiwer

        self._jiwer: Any = jiwer
        self._model = model
        self.tool = model.tool

    def scores(self, speech: Speech) -> Mapping[str, Score]:
        expected = bare_words(speech.text, speech.language)
        if not expected:
            return {}
        silence = np.zeros(int(_SILENCE_SECONDS * MEASURED_RATE_HZ), np.float32)
        padded = np.concatenate([silence, speech.at_measured_rate, silence])
        transcript = self._model.transcribe(padded, speech.language)
        words = bare_words(transcript, speech.language)
        return {
            "wer": Score(
                float(self._jiwer.wer(expected, words)), len(expected.split()), transcript
            ),
            "cer": Score(float(self._jiwer.cer(expected, words)), len(expected)),
        }


MEASURES: tuple[type[Measure], ...] = (
    WordErrors,
    Resemblyzer,
    OwnVoiceEncoder,
    Dnsmos,
    Distillmos,
    AgainstRecording,
    Levels,
)
"""Measures in the order of the table."""
SPEECH_METRICS = tuple(metric for measure in MEASURES for metric in measure.metrics)


@dataclass(frozen=True)
class LeftOut:
    """Metrics that are missing from the table, with the reason."""

    titles: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"Left out: {', '.join(self.titles)}: {self.reason}"


@dataclass(frozen=True)
class Toolbox:
    measures: tuple[Measure, ...]
    metrics: tuple[Metric, ...]
    """The requested metrics, in the order of the table."""
    left_out: tuple[LeftOut, ...]


def open_toolbox(
    *,
    own_voice: OwnVoiceEncoder | None = None,
    whisper: Path | None = None,
    only: Collection[str] = (),
) -> Toolbox:
    """Load every installed measure; `only` limits them to these metrics."""
    require_metrics(only)
    makers: dict[type[Measure], Callable[[], Measure]] = {kind: kind for kind in MEASURES}
    makers[WordErrors] = lambda: WordErrors(Whisper(whisper) if whisper else Moonshine())
    if own_voice is None:
        del makers[OwnVoiceEncoder]
    else:
        makers[OwnVoiceEncoder] = lambda: own_voice
    measures: list[Measure] = []
    missing: dict[str, list[Metric]] = {}
    for kind, make in makers.items():
        if only and not any(metric.name in only for metric in kind.metrics):
            continue
        try:
            measures.append(make())
        except ModuleNotFoundError:
            extra = "eval-whisper" if kind is WordErrors and whisper else kind.tool.extra
            missing.setdefault(install_command(str(extra)), []).extend(kind.metrics)
        except (ImportError, OSError) as error:
            # Installed but broken, such as a library built for another version.
            reason = " ".join(str(error).split())
            missing.setdefault(f"cannot be loaded ({reason})", []).extend(kind.metrics)
    left_out = [
        LeftOut(tuple(metric.title for metric in metrics), reason)
        for reason, metrics in missing.items()
    ]
    metrics = (metric for measure in measures for metric in measure.metrics)
    wanted = tuple(metric for metric in metrics if not only or metric.name in only)
    return Toolbox(tuple(measures), wanted, tuple(left_out))


def require_metrics(names: Collection[str]) -> None:
    """Raise an error for a name that no measure has."""
    known: Sequence[str] = [metric.name for metric in SPEECH_METRICS]
    for name in names:
        if name not in known:
            raise ConfigError(
                f"unknown metric '{name}', allowed: {', '.join(known)}{did_you_mean(name, known)}"
            )
