"""Cuts waveforms into overlapping frames and adds frames up again, as TensorFlow operations.

Where the hop divides the frame, both are a handful of copies; `tf.signal` has one operation for
every case and takes five times as long to trace.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import tensorflow as tf

FloatArray = npt.NDArray[np.float32]


def cut_frames(samples: tf.Tensor, frame_samples: int, hop_samples: int) -> tf.Tensor:
    """[..., samples] -> [..., frames, frame_samples]; an incomplete frame is left out."""
    if frame_samples % hop_samples:
        return tf.signal.frame(samples, frame_samples, hop_samples)
    overlap = frame_samples // hop_samples
    *before, count = tf.unstack(tf.shape(samples))
    hops = count // hop_samples
    frames = tf.maximum(hops - overlap + 1, 0)
    blocks = tf.reshape(samples[..., : hops * hop_samples], [*before, hops, hop_samples])
    blocks_of_frame = tf.range(frames)[:, None] + tf.range(overlap)
    gathered = tf.gather(blocks, blocks_of_frame, axis=len(before))
    return tf.reshape(gathered, [*before, frames, frame_samples])


def add_frames(frames: tf.Tensor, hop_samples: int) -> tf.Tensor:
    """[batch, frames, frame_samples] -> [batch, samples], overlapping by all but the hop."""
    if frames.shape[-1] % hop_samples:
        return tf.signal.overlap_and_add(frames, hop_samples)
    overlap = frames.shape[-1] // hop_samples
    blocks = [
        tf.pad(part, [[0, 0], [first, overlap - 1 - first], [0, 0]])
        for first, part in enumerate(tf.split(frames, overlap, -1))
    ]
    return tf.reshape(tf.add_n(blocks), [tf.shape(frames)[0], -1])


@functools.cache
def hann_window(samples: int) -> FloatArray:
    return np.hanning(samples + 1)[:-1].astype(np.float32)


@functools.cache
def inverse_window(samples: int, hop_samples: int) -> FloatArray:
    """Frames cut and weighted by the Hann window, weighted by this one and added up, are what they
    were cut from.
    """
    window = hann_window(samples)
    power = np.pad(np.square(window), (0, -samples % hop_samples))
    in_all_frames = power.reshape(-1, hop_samples).sum(0)
    tiled: FloatArray = np.tile(in_all_frames, power.size // hop_samples)[:samples]
    return window / tiled
