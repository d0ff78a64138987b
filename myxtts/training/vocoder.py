"""The vocoder task: from mels to waveforms, on segments of fixed length."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import VocoderLossParts, XTTSConfig
from myxtts.data.corpus import Corpus, CorpusPart
from myxtts.data.schedule import PlannedBatch
from myxtts.data.segments import (
    ClipMels,
    SegmentBatch,
    SegmentLoader,
    SegmentSource,
    segment_signature,
    with_mels,
)
from myxtts.data.shapes import Shape, ShapePlan, describe_plan
from myxtts.errors import CheckpointError
from myxtts.models.vocoder import NeuralVocoder, SegmentCounts, SegmentDraws, TrainedVocoder
from myxtts.runs.checkpoint import Checkpoint, CheckpointInfo, Tensors
from myxtts.runs.trained_model import require_model
from myxtts.training.describing import trial_of_voice
from myxtts.training.model_memory import require_memory
from myxtts.training.optimizer import Rest
from myxtts.training.predicted_mels import PredictedMels
from myxtts.training.same_corpus import PREDICTED_MELS
from myxtts.training.starting_weights import StartingWeights, matching_weights
from myxtts.training.task import BatchWork, LaterPart
from myxtts.training.watching.reporting import RunWriter

_MOST_BATCHES = 8
# A step with the refiner and the discriminators, by a step without.
_REFINING_STEP_TIME = 4.0


class VocoderObjective:
    """Magnitudes in the first part of a run, the refiner in the rest."""

    def __init__(self, model: TrainedVocoder, first_refining_step: int) -> None:
        self._model = model
        self._first_refining_step = first_refining_step

    def draw(self, batch_size: Any, seed: tf.Tensor) -> SegmentDraws:
        _, step = tf.unstack(seed)
        return self._model.draw(batch_size, seed, is_refined=self.is_refined(step))

    def is_refined(self, step: Any) -> Any:
        """Whether the refiner takes part in the step that follows so many others."""
        return step >= self._first_refining_step

    def count(self, batch: SegmentBatch) -> SegmentCounts:
        return self._model.count(batch)

    def losses(self, batch: SegmentBatch, draws: SegmentDraws, counts: SegmentCounts) -> Any:
        return self._model.loss_parts(batch, draws, counts)


class VocoderTask:
    """Trains a vocoder on the recordings of a corpus, with their own mels or predicted ones."""

    model: TrainedVocoder

    def __init__(self, config: XTTSConfig, corpus: Corpus) -> None:
        self._config = config
        self._corpus = corpus
        self._predicted_mels = PredictedMels(config) if config.vocoder.mels_from else None

    def prepare_mels(self, on_progress: Callable[[int, int], None]) -> None:
        for part in (self._corpus.train, self._corpus.validation):
            self._mels_of(part, on_progress)

    def _mels_of(
        self, part: CorpusPart, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> ClipMels | None:
        if self._predicted_mels is None:
            return None
        return self._predicted_mels.of(part.cache, on_progress)

    @functools.cached_property
    def _loader(self) -> SegmentLoader:
        train = self._corpus.train
        return SegmentLoader(train, self._config, self._mels_of(train))

    def build(self) -> None:
        self.model = TrainedVocoder(self._config)

    @property
    def objective(self) -> VocoderObjective:
        return VocoderObjective(self.model, self._first_refining_step)

    @functools.cached_property
    def _first_refining_step(self) -> int:
        training = self._config.training
        steps = self._corpus.train.schedule.planned_steps(training)
        return training.first_adversarial_step(steps)

    @property
    def rest(self) -> Rest | None:
        """Magnitudes, once the refiner is trained on them."""
        network = self.model.network
        paths = {it.path for it in network.trainable_variables}
        paths -= {it.path for it in network.refiner.trainable_variables}
        return Rest(self._first_refining_step, frozenset(paths))

    def source(self, *, data_device: str | None, worker: int, workers: int) -> SegmentSource:
        return SegmentSource(
            self._corpus.train,
            self._config,
            self._mels_of(self._corpus.train),
            data_device=data_device,
            worker=worker,
            workers=workers,
        )

    def signature(self, plan: ShapePlan | None = None) -> SegmentBatch:
        return segment_signature(self._config, plan)

    def shape_of(self, batch: SegmentBatch) -> Shape:
        size, frames, _ = batch.mel.shape
        return Shape(int(size), 0, int(frames), 0)

    def blank_batch(self, shape: Shape, shares: int) -> SegmentBatch:
        specs = segment_signature(self._config)
        return SegmentBatch(
            *(tf.zeros([shape.batch, *spec.shape[1:]], spec.dtype) for spec in specs)
        )

    def load(self, planned: PlannedBatch) -> SegmentBatch:
        seeds = np.arange(planned.clips.size)
        return with_mels(self._loader.load(planned.clips, seeds, is_changed=False), self._config)

    def work_of(self, batch: SegmentBatch) -> BatchWork:
        real, computed = int(np.sum(batch.frame_counts)), int(np.prod(batch.mel.shape[:2]))
        return BatchWork(real, computed, real, computed)

    def find_first_weights(self, on_phase: Callable[[str], None]) -> bool:
        return False

    def time_of_steps(self, count: int) -> float:
        return LaterPart(self._first_refining_step, _REFINING_STEP_TIME).time_of_steps(count)

    def compile_validation(self) -> VocoderValidation:
        part = self._corpus.validation
        return VocoderValidation(
            self.model, self.objective, part, self._config, self._mels_of(part)
        )

    def describe_shapes(self) -> str:
        return describe_plan(self._corpus.train.plan, self._config)

    def next_command(self, run_dir: Path) -> str:
        trial = trial_of_voice(self._corpus)
        return f"myxtts synthesize RUN --vocoder {shlex.quote(str(run_dir))} {trial}"

    def data_fingerprints(self) -> dict[str, str]:
        found = self._corpus.fingerprints()
        if self._predicted_mels is not None:
            clips = len(self._corpus.train.cache)
            found[PREDICTED_MELS] = f"{clips} clips {self._predicted_mels.fingerprint}"
        return found

    def checkpoint_facts(self) -> Mapping[str, Any]:
        """Not used by a vocoder, whose mels are not normalised."""
        cache = self._corpus.train.cache
        return {"mel_mean": cache.mel_mean, "mel_deviation": cache.mel_deviation}

    def take_facts(self, info: CheckpointInfo) -> None: ...

    def require_memory(self) -> None:
        require_memory(self._config, lambda: TrainedVocoder(self._config))

    def require_model(self, checkpoint: Checkpoint) -> None:
        require_model(checkpoint, lambda: TrainedVocoder(self._config))

    def require_fit(self, checkpoint: Checkpoint) -> None: ...

    def starting_weights(
        self, checkpoint: Checkpoint, own: Tensors, *, partially: bool
    ) -> StartingWeights:
        start = matching_weights(checkpoint, own, self._config, partially=partially)
        rest = self.rest
        if rest is not None and rest.first_step == 0 and rest.paths & start.incomplete:
            raise CheckpointError(
                f"{checkpoint.folder}: its weights that predict magnitudes do not fit, and this "
                "run would not train them; add --set training.adversarial_start=0.1"
            )
        return start


class VocoderValidation:
    """Losses on fixed segments, their mel distance, and a copy of a whole recording."""

    def __init__(
        self,
        model: TrainedVocoder,
        objective: VocoderObjective,
        part: CorpusPart,
        config: XTTSConfig,
        predicted_mels: ClipMels | None,
    ) -> None:
        self._part = part
        self._objective = objective
        self._predicted_mels = predicted_mels
        self._loader = SegmentLoader(part, config, predicted_mels)
        self._config = config
        self._vocoder = NeuralVocoder(model.network)
        self._measured = tf.function(
            lambda batch, is_refined: _losses_and_mel_distance(model, batch, is_refined, config),
            input_signature=[segment_signature(config, part.plan), tf.TensorSpec([], tf.bool)],
            autograph=False,
        )

    def run(self, step: int, writer: RunWriter) -> dict[str, float]:
        schedule, results = self._part.schedule, []
        # Of the step just done.
        is_refined = tf.constant(self._objective.is_refined(step - 1))
        for index in range(min(_MOST_BATCHES, schedule.batches_per_epoch)):
            clips = schedule.batch_at(index).clips
            segments = self._loader.load(clips, clips.astype(np.int64), is_changed=False)
            measured = self._measured(with_mels(segments, self._config), is_refined)
            results.append([float(it) for it in measured])
        *parts, mel_distance = np.mean(results, axis=0).tolist()
        self._copy(step, writer)
        names = (f"validation_{name}_loss" for name in VocoderLossParts._fields)
        return {
            "validation_loss": sum(parts),
            **dict(zip(names, parts, strict=True)),
            "validation_mel_distance": mel_distance,
        }

    def _copy(self, step: int, writer: RunWriter) -> None:
        """A copy of the first validation clip."""
        cache, clip = self._part.cache, int(self._part.schedule.batch_at(0).clips[0])
        predicted = self._predicted_mels
        mel = cache.clip_mel(clip) if predicted is None else predicted.of(clip)
        waveform = self._vocoder.samples(mel.astype(np.float32))
        rate, text = self._config.audio.sample_rate_hz, cache.text(clip)
        writer.write_recording(step, cache.clip_waveform(clip), rate, text)
        writer.write_sample(step, waveform, rate, f"A copy of: {text}")


def _losses_and_mel_distance(
    model: TrainedVocoder, batch: SegmentBatch, is_refined: tf.Tensor, config: XTTSConfig
) -> list[tf.Tensor]:
    seed = tf.constant([config.training.seed, -1])
    draws = model.draw(batch.mel.shape[0], seed, is_refined=is_refined)
    parts = model.loss_parts(batch, draws, model.count(batch), training=False)
    return [*parts, tf.reduce_mean(model.mel_error(model.copy(batch), batch.mel))]
