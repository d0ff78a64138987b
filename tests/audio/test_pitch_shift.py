"""A voice at another pitch keeps its formants."""

import numpy as np
import pytest

from myxtts.audio.pitch_shift import pitch_factor, with_pitch

RATE = 22_050
FORMANT_HZ = 900.0


def vowel(pitch_hz: float, seconds: float = 1.0) -> np.ndarray:
    """Harmonics under one formant."""
    time = np.arange(int(seconds * RATE)) / RATE
    harmonics = np.arange(1, int(RATE / 2 / pitch_hz)) * pitch_hz
    levels = 1 / (1 + np.square((harmonics - FORMANT_HZ) / 150)) + 1e-3
    wave = levels @ np.sin(2 * np.pi * harmonics[:, None] * time)
    return (0.3 * wave / np.abs(wave).max()).astype(np.float32)


def pitch_of(waveform: np.ndarray) -> float:
    middle = waveform[RATE // 4 : RATE // 2]
    correlation = np.correlate(middle, middle, "full")[middle.size - 1 :]
    shortest = RATE // 400
    return RATE / (shortest + int(correlation[shortest : RATE // 60].argmax()))


def formant_of(waveform: np.ndarray) -> float:
    middle = waveform[RATE // 4 : RATE // 2]
    power = np.abs(np.fft.rfft(middle * np.hanning(middle.size))) ** 2
    frequencies = np.fft.rfftfreq(middle.size, 1 / RATE)
    near = (frequencies > 300) & (frequencies < 3_000)
    return float((power * frequencies)[near].sum() / power[near].sum())


@pytest.mark.parametrize("semitones", [-5, -2, 2, 5])
def test_the_pitch_moves_and_the_formant_does_not(semitones):
    factor = pitch_factor(semitones)
    sound = vowel(110.0)
    shifted = with_pitch(sound, RATE, factor)
    assert shifted.size == pytest.approx(sound.size / factor, abs=2)
    assert pitch_of(shifted) == pytest.approx(110 * factor, rel=0.03)
    moved_with_the_pitch = formant_of(sound) * factor
    error = abs(formant_of(shifted) - formant_of(sound))
    assert error < 0.4 * abs(moved_with_the_pitch - formant_of(sound))


def test_no_shift_changes_nothing():
    sound = vowel(110.0, 0.2)
    assert with_pitch(sound, RATE, pitch_factor(0.0)) is sound


def test_an_octave_is_twelve_semitones():
    assert pitch_factor(12) == pytest.approx(2.0)
    assert pitch_factor(-12) == pytest.approx(0.5)
