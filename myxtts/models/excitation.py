"""The excitation of a voice: pulses at its pitch and noise, before the vocal tract shapes them.

A convolutional network repeats itself every frame while the mel does not change, so it cannot keep
a phase going by itself. The pulses do that: their phase is the integral of the pitch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from myxtts.audio.mel_geometry import padding_samples
from myxtts.config.config import AudioConfig

LOWEST_HZ, HIGHEST_HZ = 60.0, 520.0
# Closer to the centre of a pulse its closed form divides zero by zero.
_CENTRE = 1e-4
# Autocorrelation at the period, above which a frame is voiced, and how much an octave costs.
_VOICED_ABOVE = 0.5
_COST_OF_AN_OCTAVE = 0.02
_SILENT_POWER = 1e-4
_SILENT_SHARE = 1e-3


class Pitch(NamedTuple):
    hertz: tf.Tensor  # [batch, frames]
    voiced: tf.Tensor  # [batch, frames] bool


def cycles_at_frames(pitch: Pitch, first_cycle: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """[batch, frames] float64: cycles of the pitch up to each frame, without whole ones."""
    before, after = _ends_of_intervals(pitch)
    seconds = audio.hop_samples / audio.sample_rate_hz
    steps = tf.cast((before + after) * (seconds / 2), tf.float64)
    first = tf.cast(first_cycle, tf.float64)[:, None]
    cycles = tf.concat([first, first + tf.cumsum(steps, axis=1)], axis=1)
    return cycles - tf.floor(cycles)


def pulses(pitch: Pitch, first_cycle: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """[batch, samples from the first to the last frame]: all harmonics with an amplitude of one.

    The pitch is interpolated between frames. Pulses fade in and out where voicing changes.
    """
    hop, rate = audio.hop_samples, audio.sample_rate_hz
    before, after = (ends[:, :, None] for ends in _ends_of_intervals(pitch))
    share = tf.range(hop, dtype=tf.float32) / hop
    hertz = before + (after - before) * share
    passed = (hop / rate) * (before * share + (after - before) * tf.square(share) / 2)
    start = tf.cast(cycles_at_frames(pitch, first_cycle, audio)[:, :-1, None], tf.float32)
    level = tf.cast(pitch.voiced, tf.float32)[:, :, None]
    fade = level[:, :-1] + (level[:, 1:] - level[:, :-1]) * share
    cycles = start + passed
    # Sum of cos(h * angle) over all harmonics h below half the sample rate, in closed form.
    half_angle = (cycles - tf.round(cycles)) * math.pi
    harmonics = tf.floor(rate / 2 / hertz)
    sine = tf.sin(half_angle)
    at_centre = tf.abs(sine) < _CENTRE
    ratio = tf.sin((2 * harmonics + 1) * half_angle) / tf.where(at_centre, 1.0, sine)
    train = tf.where(at_centre, harmonics, (ratio - 1) / 2)
    return tf.reshape(train * fade, [tf.shape(train)[0], -1])


def spectrum(waveform: tf.Tensor, audio: AudioConfig) -> tf.Tensor:
    """[batch, samples] -> [batch, frames, bins], frames centred as in a mel."""
    padded = tf.pad(waveform, [[0, 0], padding_samples(audio)])
    return tf.signal.stft(padded, audio.fft_samples, audio.hop_samples, audio.fft_samples)


def measured_pitch(waveform: tf.Tensor, audio: AudioConfig) -> Pitch:
    """Pitch of recordings, by the autocorrelation of a window divided by that of the window itself
    (Boersma, 1993).
    """
    size, rate = audio.fft_samples, audio.sample_rate_hz
    padded = tf.pad(waveform, [[0, 0], padding_samples(audio)])
    frames = tf.signal.frame(padded, size, audio.hop_samples)
    window = tf.signal.hann_window(size)
    frames -= tf.reduce_mean(frames, -1, keepdims=True)
    products = _autocorrelation(frames * window)[..., : size // 2]
    power = products[..., 0]
    of_window = _autocorrelation(window)[: size // 2]
    correlation = products / (power[..., None] + 1e-9) / (of_window / of_window[0])
    shortest, longest = int(rate / HIGHEST_HZ), min(int(rate / LOWEST_HZ) + 1, size // 2 - 1)
    octaves = tf.math.log(tf.range(shortest, longest, dtype=tf.float32) / shortest) / math.log(2)
    score = correlation[..., shortest:longest] - _COST_OF_AN_OCTAVE * octaves
    lag = shortest + tf.argmax(score, -1, output_type=tf.int32)
    left, middle, right = (
        tf.gather(correlation, lag + shift, batch_dims=2) for shift in (-1, 0, 1)
    )
    bend = left - 2 * middle + right
    shift = tf.math.divide_no_nan(left - right, 2 * bend)
    period = tf.cast(lag, tf.float32) + tf.clip_by_value(shift, -1.0, 1.0)
    loudest = tf.reduce_max(power, 1, keepdims=True)
    loud = (power > _SILENT_POWER) & (power > _SILENT_SHARE * loudest)
    return Pitch(rate / period, (middle > _VOICED_ABOVE) & loud)


def _autocorrelation(values: tf.Tensor) -> tf.Tensor:
    size = 2 * values.shape[-1]
    power = tf.square(tf.abs(tf.signal.rfft(values, [size])))
    return tf.signal.irfft(tf.cast(power, tf.complex64), [size])


def _ends_of_intervals(pitch: Pitch) -> tuple[tf.Tensor, tf.Tensor]:
    """Pitch at both ends of the interval after each frame but the last.

    Where only one end is voiced, its pitch holds for the whole interval.
    """
    before, after = pitch.hertz[:, :-1], pitch.hertz[:, 1:]
    is_before, is_after = pitch.voiced[:, :-1], pitch.voiced[:, 1:]
    return (
        tf.where(is_after & ~is_before, after, before),
        tf.where(is_before & ~is_after, before, after),
    )
