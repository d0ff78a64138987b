"""Speaks mels with a trained vocoder network: whole, or in chunks that join without a seam."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel import LOG_FLOOR
from myxtts.models.excitation import Pitch, cycles_at_frames
from myxtts.models.vocoder import STFT_CONTEXT_FRAMES, Filters, VocoderNetwork

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
        chunks = self._samples_of([(log_mel, True)], seed)
        return np.concatenate([np.zeros(0, np.float32), *chunks])

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """The samples of a mel that arrives in chunks, [frames, mels] each.

        Joined, they equal those of the whole mel. The last frames of a chunk wait for the next.
        """
        nothing = np.zeros((0, self._network.n_mels), np.float32)
        chunks = ((chunk, False) for chunk in log_mels)
        yield from self._samples_of(chain(chunks, [(nothing, True)]), seed)

    def _samples_of(
        self, chunks: Iterable[tuple[FloatArray, bool]], seed: int
    ) -> Iterator[FloatArray]:
        """Chunks of a mel, and whether each is the last."""
        context, hop = self._network.context_frames, self._network.audio.hop_samples
        silence = np.full((context, self._network.n_mels), np.log(LOG_FLOOR), np.float32)
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        waiting, spoken_frames, cycle = silence, 0, tf.constant(0.0, tf.float64)
        for chunk, is_last in chunks:
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

        The cycles are those of the first frame of the excitation.
        """
        network = self._network
        excited = 2 * STFT_CONTEXT_FRAMES
        outside = network.context_frames - excited
        inside, hop = slice(outside, -outside), network.audio.hop_samples
        pitch = Pitch(*(part[:, inside] for part in network.pitch(log_mel[None])))
        filters = Filters(*(part[:, inside] for part in network.filters(log_mel[None])))
        samples = network.waveform(
            filters, pitch, first_cycle[None], noise[None, outside * hop : -outside * hop]
        )
        frames = tf.shape(log_mel)[0] - 1 - 2 * network.context_frames
        next_cycle = cycles_at_frames(pitch, first_cycle[None], network.audio)[0, frames]
        return samples[0, excited * hop : -excited * hop], next_cycle


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """White noise that does not depend on how it is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")
