"""Speaks mels with a trained vocoder network: whole, or in chunks that join without a seam."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.griffin_lim import overlapping_frames
from myxtts.audio.mel import LOG_FLOOR
from myxtts.models.vocoder import VocoderNetwork

FloatArray = npt.NDArray[np.float32]

_NOISE_SAMPLES = 1 << 18


class NeuralVocoder:
    """Implements Vocoder; one compiled function for all lengths."""

    def __init__(self, network: VocoderNetwork, *, compiled: bool = True) -> None:
        """Without `compiled` the first mel is spoken sooner, and all others later."""
        self.network = network
        # Before and after a mel: as many as a sample is part of, and one to spare.
        self._silent_frames = overlapping_frames(network.audio) + 2
        self._traced = tf.function(
            self._window,
            input_signature=[
                tf.TensorSpec([None, network.n_mels], tf.float32),
                tf.TensorSpec([None], tf.float32),
                tf.TensorSpec([], tf.int32),
                tf.TensorSpec([], tf.int32),
            ],
            autograph=False,
        )
        self._speak = self._traced if compiled else self._traced.python_function

    @property
    def traces(self) -> int:
        """How often TensorFlow traced the function."""
        count: int = self._traced.experimental_get_tracing_count()
        return count

    def samples(self, log_mel: FloatArray, *, seed: int = 0) -> FloatArray:
        chunks = self._samples_of([(log_mel, True)], seed)
        return np.concatenate([np.zeros(0, np.float32), *chunks])

    def stream(self, log_mels: Iterable[FloatArray], *, seed: int = 0) -> Iterator[FloatArray]:
        """The samples of a mel that arrives in chunks, [frames, mels] each.

        Joined, they equal those of the whole mel. The last frames of a chunk wait for the next.
        """
        nothing = np.zeros((0, self.network.n_mels), np.float32)
        chunks = ((chunk, False) for chunk in log_mels)
        yield from self._samples_of(chain(chunks, [(nothing, True)]), seed)

    def _samples_of(
        self, chunks: Iterable[tuple[FloatArray, bool]], seed: int
    ) -> Iterator[FloatArray]:
        """Chunks of a mel, and whether each is the last."""
        hop = self.network.audio.hop_samples
        shape = self._silent_frames, self.network.n_mels
        silence = np.full(shape, np.log(LOG_FLOOR), np.float32)
        window = silence
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        before = self._silent_frames
        for chunk, is_last in chunks:
            window = np.concatenate([window, chunk, *([silence] if is_last else [])])
            after = self._silent_frames if is_last else self.network.context_frames
            spoken = len(window) - 1 - before - after
            if spoken < 1:
                continue
            noise = _noise(noise_start, (len(window) - 1) * hop)
            yield self._speak(window, noise, before, after).numpy()
            left_behind = max(before + spoken - self.network.context_frames, 0)
            window = window[left_behind:]
            noise_start += left_behind * hop
            before += spoken - left_behind

    def _window(
        self, log_mel: tf.Tensor, noise: tf.Tensor, before: tf.Tensor, after: tf.Tensor
    ) -> tf.Tensor:
        """Samples of all frames but some at both ends."""
        hop = self.network.audio.hop_samples
        samples = self.network.waveform(log_mel[None], noise[None])[0]
        return samples[before * hop : tf.size(samples) - after * hop]


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """White noise that does not depend on how it is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")
