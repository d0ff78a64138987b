"""Speaks mels with a trained vocoder network: whole, or in chunks that join without a seam."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel import LOG_FLOOR
from myxtts.models.excitation import Pitch, cycles_at_frames
from myxtts.models.vocoder import VocoderNetwork

FloatArray = npt.NDArray[np.float32]

_NOISE_SAMPLES = 1 << 18


class NeuralVocoder:
    """Implements Vocoder; one compiled function for all lengths."""

    def __init__(self, network: VocoderNetwork) -> None:
        self._network = network
        self._speak = tf.function(
            self._window,
            input_signature=[
                tf.TensorSpec([None, network.n_mels], tf.float32),
                tf.TensorSpec([], tf.float64),
                tf.TensorSpec([None], tf.float32),
            ],
            autograph=False,
        )

    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        return np.concatenate([np.zeros(0, np.float32), *self.stream([log_mel], seed=seed)])

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """The samples of a mel that arrives in chunks, [frames, mels] each.

        Joined, they equal those of the whole mel. The last frames of a chunk wait for the next.
        """
        context, hop = self._network.context_frames, self._network.audio.hop_samples
        silence = np.full((context, self._network.n_mels), np.log(LOG_FLOOR), np.float32)
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        waiting, spoken_frames, cycle = silence, 0, tf.constant(0.0, tf.float64)
        for chunk, is_last in _with_last(log_mels):
            waiting = np.concatenate([waiting, chunk, *([silence] if is_last else [])])
            frames = len(waiting) - 2 * context - 1
            if frames < 1:
                continue
            noise = _noise(noise_start + spoken_frames * hop, (len(waiting) - 1) * hop)
            samples, cycle = self._speak(waiting, cycle, noise)
            yield samples.numpy()
            spoken_frames += frames
            waiting = waiting[frames:]

    def _window(self, log_mel: tf.Tensor, first_cycle: tf.Tensor, noise: tf.Tensor) -> Any:
        """Samples of all frames but `context_frames` at both ends, and the cycle to go on with.

        Both cycles belong to the first frame whose pitch has its whole context.
        """
        network = self._network
        hop, outside = network.audio.hop_samples, network.pitch_context_frames
        pitch = Pitch(*(part[:, outside:-outside] for part in network.pitch(log_mel[None])))
        samples = network.waveform(
            log_mel[None, outside:-outside],
            pitch,
            first_cycle[None],
            noise[None, outside * hop : -outside * hop],
        )[0]
        ends = (network.context_frames - outside) * hop
        frames = tf.shape(log_mel)[0] - 1 - 2 * network.context_frames
        next_cycle = cycles_at_frames(pitch, first_cycle[None], network.audio)[0, frames]
        return samples[ends:-ends], next_cycle


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """White noise that does not depend on how it is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")


def _with_last(items: Iterable[FloatArray]) -> Iterator[tuple[FloatArray, bool]]:
    iterator = iter(items)
    item = next(iterator, None)
    while item is not None:
        following = next(iterator, None)
        yield item, following is None
        item = following
