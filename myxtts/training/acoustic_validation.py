"""Validation: losses on fixed batches, an alignment and a speech sample."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.vocoder import Vocoder
from myxtts.batch import Batch
from myxtts.config.config import XTTSConfig
from myxtts.config.metrics import LossParts
from myxtts.data.feeding.batches import BatchLoader, batch_signature
from myxtts.data.opening import CorpusPart
from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.xtts import XTTS
from myxtts.training.watching.reporting import RunWriter

_log = logging.getLogger(__name__)

_MOST_BATCHES = 4


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
            self._speak(step, writer)
        except tf.errors.OpError as error:
            # A diverging model may predict endless durations.
            reason = error.message.splitlines()[0]
            _log.warning("step %d: no speech sample, synthesis failed (%s)", step, reason)
        return metrics

    def _speak(self, step: int, writer: RunWriter) -> None:
        """Speaks the first validation sentence in the voice of another clip of its speaker."""
        cache = self._part.cache
        planned = self._part.schedule.batch_at(0)
        clip, reference = int(planned.clips[0]), int(planned.references[0])
        [mel] = self._sampler.mels(
            [self._loader.token_ids(clip).tolist()],
            [self._loader.language_id(clip)],
            self._sampler.voice(cache.clip_mel(reference).astype(np.float32)),
            SpeechOptions(),
        )
        waveform = self._vocoder.samples(mel)
        rate = self._config.audio.sample_rate_hz
        writer.write_recording(step, cache.clip_waveform(clip), rate, cache.text(clip))
        writer.write_sample(step, waveform, rate, cache.text(clip))


def compile_losses_and_path(model: XTTS, signature: Batch, seed: int) -> Any:
    """A function Batch -> (LossParts, alignment path), with the same random numbers each time."""

    def losses_and_path(batch: Batch) -> tuple[LossParts, tf.Tensor]:
        size = batch.token_ids.shape[0]
        size = tf.shape(batch.token_ids)[0] if size is None else size
        draws = model.draw(size, tf.constant([seed, -1]))
        return model(batch, draws, model.count(batch))

    return tf.function(losses_and_path, input_signature=[signature], autograph=False)
