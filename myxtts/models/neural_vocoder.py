"""Speaks mels with a trained vocoder network: whole, or in chunks that join without a seam."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.audio.mel import LOG_FLOOR
from myxtts.models.phases import context_frames, waveform_with_magnitudes
from myxtts.models.vocoder import VocoderNetwork

FloatArray = npt.NDArray[np.float32]

_NOISE_SAMPLES = 1 << 18


class NeuralVocoder:
    """Implements Vocoder; one compiled function for all lengths."""

    def __init__(self, network: VocoderNetwork) -> None:
        self.network = network
        self._search_frames = context_frames(network.audio)
        self._context_frames = self._search_frames + network.context_frames
        self._speak = tf.function(
            self._window,
            input_signature=[
                tf.TensorSpec([None, network.n_mels], tf.float32),
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
        nothing = np.zeros((0, self.network.n_mels), np.float32)
        chunks = ((chunk, False) for chunk in log_mels)
        yield from self._samples_of(chain(chunks, [(nothing, True)]), seed)

    def _samples_of(
        self, chunks: Iterable[tuple[FloatArray, bool]], seed: int
    ) -> Iterator[FloatArray]:
        """Chunks of a mel, and whether each is the last."""
        context, hop = self._context_frames, self.network.audio.hop_samples
        silence = np.full((context, self.network.n_mels), np.log(LOG_FLOOR), np.float32)
        noise_start = int(np.random.default_rng(seed).integers(_NOISE_SAMPLES))
        waiting, spoken_frames = silence, 0
        for chunk, is_last in chunks:
            waiting = np.concatenate([waiting, chunk, *([silence] if is_last else [])])
            frames = len(waiting) - 2 * context - 1
            if frames < 1:
                continue
            first = noise_start + spoken_frames * hop
            yield self._speak(waiting, _noise(first, (len(waiting) - 1) * hop)).numpy()
            spoken_frames += frames
            waiting = waiting[frames:]

    def _window(self, log_mel: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
        """Samples of all frames but the context at both ends."""
        network = self.network
        hop, search = network.audio.hop_samples, self._search_frames
        outside = network.context_frames
        magnitudes = network.magnitudes(log_mel[None])[:, outside:-outside]
        noise = noise[None, outside * hop : -outside * hop]
        samples = waveform_with_magnitudes(magnitudes, noise, network.audio)
        return samples[0, search * hop : -search * hop]


@functools.cache
def _noise_table() -> FloatArray:
    return np.random.default_rng(0).standard_normal(_NOISE_SAMPLES, np.float32)


def _noise(first: int, count: int) -> FloatArray:
    """White noise that does not depend on how it is cut into chunks."""
    return np.take(_noise_table(), np.arange(first, first + count), mode="wrap")
