"""The acoustic task: predicts a mel from text and a voice."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.config.config import LossParts, TrainingConfig, XTTSConfig
from myxtts.data.batch import Batch, BatchLoader, batch_signature, blank_batch
from myxtts.data.corpus import Corpus
from myxtts.data.pipeline import AcousticSource
from myxtts.data.schedule import PlannedBatch
from myxtts.data.shapes import (
    Shape,
    ShapePlan,
    computed_multiplications,
    describe_plan,
    real_multiplications,
)
from myxtts.errors import CheckpointError
from myxtts.models.sampler import SpeechSampler
from myxtts.models.xtts import XTTS, Counts, Draws
from myxtts.runs.checkpoint import Checkpoint, CheckpointInfo, Tensors
from myxtts.runs.trained_model import find_vocoder, require_model
from myxtts.training.acoustic_validation import AcousticValidation
from myxtts.training.describing import trial_of_voice
from myxtts.training.first_alignment import set_symbol_means
from myxtts.training.model_memory import require_memory
from myxtts.training.starting_weights import StartingWeights, starting_weights
from myxtts.training.task import BatchWork, LaterPart

# A step with the discriminator, by a step without.
_ADVERSARIAL_STEP_TIME = 1.4


class AcousticObjective:
    """The losses of `XTTS` on a batch, with conditioning dropout for classifier-free guidance, and
    adversarial training in the later part of a run.
    """

    def __init__(self, model: XTTS, training: TrainingConfig, total_steps: int) -> None:
        self._model = model
        self._training = training
        self._first_adversarial_step = training.first_adversarial_step(total_steps)

    def draw(self, batch_size: Any, seed: tf.Tensor) -> Draws:
        _, step = tf.unstack(seed)
        training = self._training
        weights = {name: getattr(training, f"{name}_weight", 1.0) for name in LossParts._fields}
        weights["adversarial"] *= tf.cast(step >= self._first_adversarial_step, tf.float32)
        draws = self._model.draw(
            batch_size,
            seed,
            (training.text_drop_rate, training.voice_drop_rate),
            training.voice_noise,
        )
        of_clip = tf.stack([weights[name] for name in LossParts._fields])
        return draws._replace(loss_weights=tf.repeat(of_clip[None], batch_size, 0))

    def count(self, batch: Batch) -> Counts:
        return self._model.count(batch)

    def losses(self, batch: Batch, draws: Draws, counts: Counts) -> LossParts:
        parts, _ = self._model(batch, draws, counts)
        return parts


class AcousticTask:
    """Trains `XTTS` on the clips of a corpus."""

    model: XTTS

    def __init__(self, config: XTTSConfig, corpus: Corpus) -> None:
        self._config = config
        self._corpus = corpus
        self._loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
        # Ids of the symbols whose mean mel and duration are still to be estimated.
        self._unknown_symbols: Sequence[int] = range(len(corpus.tokenizer.symbols))

    def prepare_mels(self, on_progress: Callable[[int, int], None]) -> None: ...

    def build(self) -> None:
        self.model = self._made()

    def _made(self) -> XTTS:
        cache, tokenizer = self._corpus.train.cache, self._corpus.tokenizer
        return XTTS(
            self._config,
            symbols=len(tokenizer.symbols),
            languages=len(tokenizer.languages),
            mel_mean=cache.mel_mean,
            mel_deviation=cache.mel_deviation,
            precision=self._config.training.precision,
            adversarial=self._config.training.adversarial_weight > 0.0,
            classifies_phonemes=self._config.training.phoneme_weight > 0.0,
        )

    @property
    def objective(self) -> AcousticObjective:
        training = self._config.training
        steps = self._corpus.train.schedule.planned_steps(training)
        return AcousticObjective(self.model, training, steps)

    rest = None

    def source(self, *, data_device: str | None, worker: int, workers: int) -> AcousticSource:
        return AcousticSource(
            self._corpus.train,
            self._corpus.tokenizer,
            self._config,
            data_device=data_device,
            worker=worker,
            workers=workers,
        )

    def signature(self, plan: ShapePlan | None = None) -> Batch:
        return batch_signature(self._config, plan)

    def shape_of(self, batch: Batch) -> Shape:
        size, tokens = batch.token_ids.shape
        return Shape(int(size), int(tokens), int(batch.mel.shape[1]), int(batch.slots.shape[1]))

    def blank_batch(self, shape: Shape, shares: int) -> Batch:
        return Batch(*map(tf.convert_to_tensor, blank_batch(shape, shares, self._config)))

    def load(self, planned: PlannedBatch) -> Batch:
        return Batch(*map(tf.convert_to_tensor, self._loader.load(planned)))

    def work_of(self, batch: Batch) -> BatchWork:
        mel_lengths = np.asarray(batch.mel_lengths)
        shape = self.shape_of(batch)
        slots = np.prod(batch.slots.shape) / shape.batch
        computed = computed_multiplications(
            np.array([shape.tokens]), np.array([shape.frames]), slots, self._config
        )
        real = real_multiplications(
            np.asarray(batch.token_lengths),
            mel_lengths,
            np.asarray(batch.reference_lengths),
            self._config,
        )
        return BatchWork(
            real_frames=mel_lengths.sum(),
            computed_frames=shape.batch * shape.frames,
            real_multiplications=real.sum(),
            computed_multiplications=shape.batch * computed.sum(),
        )

    def find_first_weights(self, on_phase: Callable[[str], None]) -> bool:
        if not self._unknown_symbols:
            return False
        on_phase("estimating an initial alignment")
        schedule = self._corpus.train.schedule
        set_symbol_means(self.model, self._loader, schedule, self._config, self._unknown_symbols)
        self._unknown_symbols = ()
        return True

    def time_of_steps(self, count: int) -> float:
        training = self._config.training
        steps = self._corpus.train.schedule.planned_steps(training)
        ratio = _ADVERSARIAL_STEP_TIME if training.adversarial_weight else 1.0
        return LaterPart(training.first_adversarial_step(steps), ratio).time_of_steps(count)

    def compile_validation(self) -> AcousticValidation:
        config, part = self._config, self._corpus.validation
        return AcousticValidation(
            self.model,
            part,
            BatchLoader(part.cache, self._corpus.tokenizer, config),
            SpeechSampler(self.model, config.training.default_guidance),
            find_vocoder(None, config),
            config,
        )

    def describe_shapes(self) -> str:
        part = self._corpus.train
        return describe_plan(part.plan, self._config)

    def next_command(self, run_dir: Path) -> str:
        return f"myxtts synthesize {shlex.quote(str(run_dir))} {trial_of_voice(self._corpus)}"

    def data_fingerprints(self) -> dict[str, str]:
        return self._corpus.fingerprints()

    def checkpoint_facts(self) -> Mapping[str, Any]:
        return {"mel_mean": self.model.mel_mean, "mel_deviation": self.model.mel_deviation}

    def take_facts(self, info: CheckpointInfo) -> None:
        """Weights need mels normalised as they were in their training."""
        self.model.mel_mean = info.mel_mean
        self.model.mel_deviation = info.mel_deviation

    def require_memory(self) -> None:
        require_memory(self._config, self._made)

    def require_model(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer() != self._corpus.tokenizer:
            raise CheckpointError(
                f"{checkpoint.folder}: was trained with a different vocabulary from this corpus; "
                "resume it with its own corpus, or start a new run with --init-from"
            )
        require_model(checkpoint, self._made)

    def require_fit(self, checkpoint: Checkpoint) -> None:
        self.require_model(checkpoint)
        self._unknown_symbols = ()

    def starting_weights(
        self, checkpoint: Checkpoint, own: Tensors, *, partially: bool
    ) -> StartingWeights:
        start = starting_weights(checkpoint, own, self._corpus, self._config, partially=partially)
        self._unknown_symbols = start.unknown_symbols
        return start
