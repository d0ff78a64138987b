"""Validation: losses on fixed batches, an alignment, and sentences that are spoken."""

from __future__ import annotations

import logging
from itertools import chain, islice
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.griffin_lim import Vocoder
from myxtts.audio.mel import FloatArray, frame_distances, warp
from myxtts.config.config import LossParts, XTTSConfig
from myxtts.data.batch import Batch, BatchLoader, batch_signature
from myxtts.data.cache import FeatureCache
from myxtts.data.corpus import CorpusPart
from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS
from myxtts.training.watching.reporting import RunWriter

_log = logging.getLogger(__name__)

_MOST_BATCHES = 4
# Few enough to cost a second or two, enough that their mean tells checkpoints apart.
_SPOKEN_SENTENCES = 8


class AcousticValidation:
    """Uses whatever weights the model holds; knows neither the trainer nor the optimizer."""

    def __init__(
        self,
        model: XTTS,
        part: CorpusPart,
        loader: BatchLoader,
        sampler: SpeechSampler,
        vocoder: Vocoder,
        config: XTTSConfig,
    ) -> None:
        self._part = part
        self._loader = loader
        self._losses_and_path = compile_losses_and_path(
            model, batch_signature(config, part.plan), config.training.seed
        )
        self._sampler = sampler
        self._vocoder = vocoder
        self._config = config

    def run(self, step: int, writer: RunWriter) -> dict[str, float]:
        schedule = self._part.schedule
        losses = []
        for index in range(min(_MOST_BATCHES, schedule.batches_per_epoch)):
            batch = self._loader.load(schedule.batch_at(index))
            parts, path = self._losses_and_path(batch)
            losses.append([float(part) for part in parts])
            if index == 0:
                positions = batch.mel_lengths[0] // self._config.model.frames_per_position
                tokens = batch.token_lengths[0]
                writer.write_alignment(step, path[0, :positions, :tokens].numpy())
        means = np.mean(losses, axis=0)
        metrics = {"validation_loss": float(means.sum())}
        for name, value in zip(LossParts._fields, means, strict=True):
            metrics[f"validation_{name}_loss"] = float(value)
        try:
            metrics["validation_mel_distance"] = self._speak(step, writer)
        except tf.errors.OpError as error:
            # A diverging model may predict endless durations.
            reason = error.message.splitlines()[0]
            _log.warning("step %d: no speech sample, synthesis failed (%s)", step, reason)
        return metrics

    def _speak(self, step: int, writer: RunWriter) -> float:
        """Speaks validation sentences, each in the voice of another clip of its speaker; how far
        their mels are from those of the recordings.
        """
        cache, schedule = self._part.cache, self._part.schedule
        batches = (schedule.batch_at(index) for index in range(schedule.batches_per_epoch))
        pairs = (zip(batch.clips, batch.references, strict=True) for batch in batches)
        spoken = [
            (int(clip), int(reference))
            for clip, reference in islice(chain.from_iterable(pairs), _SPOKEN_SENTENCES)
        ]
        voices = [self._sampler.voice(_mel(cache, reference)) for _, reference in spoken]
        mels = self._sampler.mels(
            [self._loader.token_ids(clip).tolist() for clip, _ in spoken],
            [self._loader.language_id(clip) for clip, _ in spoken],
            Voice(*(tf.concat(parts, 0) for parts in zip(*voices, strict=True))),
            SpeechOptions(),
        )
        first, _ = spoken[0]
        rate = self._config.audio.sample_rate_hz
        writer.write_recording(step, cache.clip_waveform(first), rate, cache.text(first))
        writer.write_sample(step, self._vocoder.samples(mels[0]), rate, cache.text(first))
        distances = [
            warped_distance(mel, _mel(cache, clip))
            for mel, (clip, _) in zip(mels, spoken, strict=True)
        ]
        return float(np.mean(distances))


def _mel(cache: FeatureCache, clip: int) -> FloatArray:
    return cache.clip_mel(clip).astype(np.float32)


def warped_distance(ours: FloatArray, theirs: FloatArray) -> float:
    """Root mean square difference of log-mels [frames, mels], over the best alignment in time."""
    distances = frame_distances(ours, theirs) / np.sqrt(ours.shape[1])
    rows, columns = warp(distances)
    return float(distances[rows, columns].mean())


def compile_losses_and_path(model: XTTS, signature: Batch, seed: int) -> Any:
    """A function Batch -> (LossParts, alignment path), with the same random numbers each time."""

    def losses_and_path(batch: Batch) -> tuple[LossParts, tf.Tensor]:
        size = batch.token_ids.shape[0]
        size = tf.shape(batch.token_ids)[0] if size is None else size
        draws = model.draw(size, tf.constant([seed, -1]))
        return model(batch, draws, model.count(batch), training=False)

    return tf.function(losses_and_path, input_signature=[signature], autograph=False)
