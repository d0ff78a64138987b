"""The vocoder task: from mels to waveforms, on segments of fixed length.

It trains on the mels of the recordings, or on those that a trained model predicts for the clips.
Predicted mels keep the timing and pitch of the recordings, so each frame matches its samples. They
are kept next to the features, in
CACHE/<fingerprint>-resynthesis-<weights>.npy.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from myxtts.config.config import VocoderLossParts, XTTSConfig
from myxtts.data.batch import BatchLoader
from myxtts.data.cache import FeatureCache
from myxtts.data.corpus import Corpus, CorpusPart
from myxtts.data.schedule import PlannedBatch
from myxtts.data.segments import (
    ClipMels,
    SegmentBatch,
    SegmentLoader,
    SegmentSource,
    segment_signature,
    with_mels,
    write_clip_mels,
)
from myxtts.data.shapes import Shape, ShapePlan
from myxtts.errors import CheckpointError
from myxtts.models.sampler import Resynthesis
from myxtts.models.vocoder import NeuralVocoder, SegmentCounts, SegmentDraws, TrainedVocoder
from myxtts.runs.checkpoint import Checkpoint, Tensors
from myxtts.runs.trained_model import find_predicting_checkpoint, load_model
from myxtts.training.optimizer import FreezeAfter
from myxtts.training.output import RunWriter
from myxtts.training.report import sample_arguments
from myxtts.training.task import BatchWork, Task, relative_time
from myxtts.training.warm_start import WarmStart, matching_weights

PREDICTED_MELS = "predicted mels"
_MAX_VALIDATION_BATCHES = 8
# Time of a step with the refiner and the discriminators over that of one without.
_REFINING_SLOWDOWN = 4.0
_FINGERPRINT_DIGITS = 16


class VocoderObjective:
    """Magnitudes in the first part of a run, the refiner in the rest."""

    def __init__(self, model: TrainedVocoder, first_refining_step: int) -> None:
        self._model = model
        self._first_refining_step = first_refining_step

    def draw(self, batch_size: Any, seed: tf.Tensor) -> SegmentDraws:
        _, step = tf.unstack(seed)
        return self._model.draw(batch_size, seed, is_refined=self.is_refined(step))

    def is_refined(self, step: Any) -> Any:
        """Return whether the refiner is trained in the step after this many."""
        return step >= self._first_refining_step

    def count(self, batch: SegmentBatch) -> SegmentCounts:
        return self._model.count(batch)

    def losses(self, batch: SegmentBatch, draws: SegmentDraws, counts: SegmentCounts) -> Any:
        return self._model.loss_parts(batch, draws, counts)


class VocoderTask(Task):
    """Trains a vocoder on the recordings of a corpus, with their own mels or predicted ones."""

    model: TrainedVocoder

    def __init__(self, config: XTTSConfig, corpus: Corpus) -> None:
        self._config = config
        self._corpus = corpus
        self._predicted_mels = PredictedMels(config) if config.vocoder.mels_from else None
        total_steps = corpus.train.schedule.planned_steps(config.training)
        self._first_refining_step = config.training.first_adversarial_step(total_steps)

    def prepare(self, on_progress: Callable[[int, int], None]) -> None:
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
        network = self.model.network
        magnitudes = {it.path for it in network.trainable_variables}
        magnitudes -= {it.path for it in network.refiner.trainable_variables}
        # The refiner is trained on their predictions.
        self.freeze_after = FreezeAfter(self._first_refining_step, frozenset(magnitudes))

    @property
    def objective(self) -> VocoderObjective:
        return VocoderObjective(self.model, self._first_refining_step)

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

    def relative_time(self, steps: int) -> float:
        return relative_time(steps, self._first_refining_step, _REFINING_SLOWDOWN)

    def compile_validation(self) -> VocoderValidation:
        part = self._corpus.validation
        return VocoderValidation(
            self.model, self.objective, part, self._config, self._mels_of(part)
        )

    def next_command(self, run_dir: Path) -> str:
        trial = sample_arguments(self._corpus)
        return f"myxtts synthesize RUN --vocoder {shlex.quote(str(run_dir))} {trial}"

    def fingerprints(self) -> dict[str, str]:
        found = self._corpus.fingerprints()
        if self._predicted_mels is not None:
            clips = len(self._corpus.train.cache)
            found[PREDICTED_MELS] = f"{clips} clips {self._predicted_mels.fingerprint}"
        return found

    def state(self) -> Mapping[str, Any]:
        """Return placeholders: a vocoder's mels are not normalized."""
        cache = self._corpus.train.cache
        return {"mel_mean": cache.mel_mean, "mel_deviation": cache.mel_deviation}

    def warm_start(self, checkpoint: Checkpoint, own: Tensors, *, partially: bool) -> WarmStart:
        start = matching_weights(checkpoint, own, self._config, partially=partially)
        freezes = self.freeze_after
        if freezes and freezes.first_step == 0 and freezes.paths & start.incomplete:
            raise CheckpointError(
                f"{checkpoint.folder}: its weights that predict magnitudes do not fit, and this "
                "run would not train them; add --set training.adversarial_start=0.1"
            )
        return start


class VocoderValidation:
    """Losses on fixed segments, their mel distance, and copy synthesis of a whole recording."""

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
        # The step just done.
        is_refined = tf.constant(self._objective.is_refined(step - 1))
        for index in range(min(_MAX_VALIDATION_BATCHES, schedule.batches_per_epoch)):
            clips = schedule.batch_at(index).clips
            segments = self._loader.load(clips, clips.astype(np.int64), is_changed=False)
            measured = self._measured(with_mels(segments, self._config), is_refined)
            results.append([float(it) for it in measured])
        *parts, mel_distance = np.mean(results, axis=0).tolist()
        # Copy synthesis of the first validation clip.
        cache, clip = self._part.cache, int(schedule.batch_at(0).clips[0])
        predicted = self._predicted_mels
        mel = cache.clip_mel(clip) if predicted is None else predicted.of(clip)
        waveform = self._vocoder.samples(mel.astype(np.float32))
        rate, text = self._config.audio.sample_rate_hz, cache.text(clip)
        writer.write_recording(step, cache.clip_waveform(clip), rate, text)
        writer.write_sample(step, waveform, rate, f"Copy synthesis of: {text}")
        names = (f"validation_{name}_loss" for name in VocoderLossParts._fields)
        return {
            "validation_loss": sum(parts),
            **dict(zip(names, parts, strict=True)),
            "validation_mel_distance": mel_distance,
        }


def _losses_and_mel_distance(
    model: TrainedVocoder, batch: SegmentBatch, is_refined: tf.Tensor, config: XTTSConfig
) -> list[tf.Tensor]:
    seed = tf.constant([config.training.seed, -1])
    draws = model.draw(batch.mel.shape[0], seed, is_refined=is_refined)
    parts = model.loss_parts(batch, draws, model.count(batch), training=False)
    return [*parts, tf.reduce_mean(model.mel_error(model.copy(batch), batch.mel))]


class PredictedMels:
    """Mels of the clips of a corpus, predicted by the model of one run."""

    def __init__(self, config: XTTSConfig) -> None:
        """Open the run that predicts mels; one that does not fit `config` is a CheckpointError."""
        checkpoint = find_predicting_checkpoint(config)
        self._folder = checkpoint.folder
        self.fingerprint = checkpoint.weights_checksum()[:_FINGERPRINT_DIGITS]
        self._config = config

    def of(self, cache: FeatureCache, on_progress: Callable[[int, int], None]) -> ClipMels:
        """Open the mels of a cache, after predicting them if they are not there yet."""
        file = cache.folder.with_name(f"{cache.folder.name}-resynthesis-{self.fingerprint}.npy")
        if not file.exists():
            mels = self._predicted(cache, on_progress)
            write_clip_mels(file, cache, self._config.data.n_mels, mels)
        return ClipMels(file, cache, self._config.data.n_mels)

    def _predicted(
        self, cache: FeatureCache, on_progress: Callable[[int, int], None]
    ) -> Iterator[npt.NDArray[np.float32]]:
        model = load_model(self._folder, compiled=True)
        for kind, theirs, ours in (
            ("language", model.tokenizer.languages, cache.tokenizer.languages),
            ("symbol", model.tokenizer.symbols, cache.tokenizer.symbols),
        ):
            unknown = sorted(set(ours) - set(theirs))
            if unknown:
                raise CheckpointError(
                    f"vocoder.mels_from: {self._folder} has no {kind} '{unknown[0]}', which the "
                    "corpus has; use a run that was trained on it"
                )
        loader = BatchLoader(cache, model.tokenizer, self._config)
        speech = Resynthesis(model.sampler)
        for clip in range(len(cache)):
            on_progress(clip, len(cache))
            yield speech.mel(
                cache.clip_mel(clip).astype(np.float32),
                loader.token_ids(clip).tolist(),
                loader.language_id(clip),
            )
        on_progress(len(cache), len(cache))
