"""Distance of a clip from the recording of the same sentence: spectrum, pitch and duration."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from myxtts.audio.files import FloatArray, trim_silence
from myxtts.audio.time_warping import frame_distances, warp
from myxtts.config.config import AudioConfig
from myxtts.evaluation.measure import MEASURED_RATE_HZ, Measure, Metric, Score, Sound, Speech
from myxtts.evaluation.pitch import pitch_hz

# The same analysis for all runs, whatever mels they are trained on, keeps metrics comparable.
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
        spoken, recorded = _speech_of(speech), _speech_of(speech.recording)
        ours, theirs = _cepstra(spoken), _cepstra(recorded)
        distance_db = _DB_PER_NEPER * frame_distances(ours, theirs)
        rows, columns = warp(distance_db)
        scores = {
            MEL_CEPSTRAL_DISTANCE.name: Score(float(distance_db[rows, columns].mean())),
            DURATION_RATIO.name: Score(spoken.size / recorded.size),
        }
        return scores | _pitch_scores(_pitch(spoken)[rows], _pitch(recorded)[columns])


def _pitch_scores(
    ours: npt.NDArray[np.float64], theirs: npt.NDArray[np.float64]
) -> dict[str, Score]:
    voiced_here, voiced_there = np.isfinite(ours), np.isfinite(theirs)
    scores = {VOICING_ERROR.name: Score(float(np.mean(voiced_here != voiced_there)))}
    both = voiced_here & voiced_there
    if both.any():
        semitones = 12 * np.abs(np.log2(ours[both] / theirs[both]))
        scores[PITCH_ERROR.name] = Score(float(semitones.mean()))
    return scores


def _speech_of(sound: Sound) -> FloatArray:
    return trim_silence(sound.at_measured_rate, MEASURED_RATE_HZ, _TRIM_BELOW_LOUDEST_DB)


def _pitch(waveform: FloatArray) -> npt.NDArray[np.float64]:
    return pitch_hz(waveform, _ANALYSIS.hop_samples)


def _cepstra(waveform: FloatArray) -> npt.NDArray[np.float64]:
    """[frames, coefficients] without the first coefficient, which is loudness.

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
