"""The acoustic task: predicts a mel from text and a voice."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from myxtts.audio.griffin_lim import Vocoder
from myxtts.audio.mel import FloatArray, frame_distances, warp
from myxtts.config.config import TrainingConfig, XTTSConfig
from myxtts.data.batch import Batch, BatchLoader, batch_signature, blank_batch
from myxtts.data.cache import FeatureCache
from myxtts.data.corpus import Corpus, CorpusPart
from myxtts.data.pipeline import AcousticSource
from myxtts.data.schedule import PlannedBatch, Schedule
from myxtts.data.shapes import Shape, ShapePlan, computed_multiplications, real_multiplications
from myxtts.errors import CheckpointError
from myxtts.models.alignment import align
from myxtts.models.layers import stack_frames
from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import (
    LOSSES,
    SHORTEST_DURATION,
    XTTS,
    Counts,
    Draws,
    alignment_scores,
    spread_path,
    token_ends,
)
from myxtts.runs.checkpoint import Checkpoint, Tensors
from myxtts.runs.trained_model import find_vocoder
from myxtts.training.output import RunWriter
from myxtts.training.report import sample_arguments
from myxtts.training.task import BatchWork, Task, relative_time
from myxtts.training.warm_start import WarmStart, warm_start

_log = logging.getLogger(__name__)

# Time of a step with the discriminator over that of one without.
_ADVERSARIAL_SLOWDOWN = 1.4
_MAX_VALIDATION_BATCHES = 4
# Few enough to take a second or two, enough for the mean to distinguish checkpoints.
_SPOKEN_SENTENCES = 8
_ALIGNMENT_ROUNDS = 8
_MAX_ALIGNMENT_CLIPS = 1_000


class AcousticObjective:
    """The losses of `XTTS`, with conditioning dropout for classifier-free guidance.

    Adversarial training starts at a later step of the run.
    """

    def __init__(self, model: XTTS, training: TrainingConfig, total_steps: int) -> None:
        self._model = model
        self._training = training
        self._first_adversarial_step = training.first_adversarial_step(total_steps)

    def draw(self, batch_size: Any, seed: tf.Tensor) -> Draws:
        _, step = tf.unstack(seed)
        training = self._training
        weights = {name: getattr(training, f"{name}_weight", 1.0) for name in LOSSES}
        weights["adversarial"] *= tf.cast(step >= self._first_adversarial_step, tf.float32)
        draws = self._model.draw(
            batch_size,
            seed,
            (training.text_drop_rate, training.voice_drop_rate),
            training.voice_noise,
        )
        of_clip = tf.stack([weights[name] for name in LOSSES])
        return draws._replace(loss_weights=tf.repeat(of_clip[None], batch_size, 0))

    def count(self, batch: Batch) -> Counts:
        return self._model.count(batch)

    def losses(self, batch: Batch, draws: Draws, counts: Counts) -> Any:
        parts, _ = self._model(batch, draws, counts)
        return parts


class AcousticTask(Task):
    """Trains `XTTS` on the clips of a corpus."""

    model: XTTS

    def __init__(self, config: XTTSConfig, corpus: Corpus) -> None:
        self._config = config
        self._corpus = corpus
        self._loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
        self._total_steps = corpus.train.schedule.planned_steps(config.training)
        # Ids of the symbols whose mean mel and duration are still to be estimated.
        self._unknown_symbols: Sequence[int] = range(len(corpus.tokenizer.symbols))

    def build(self) -> None:
        cache, tokenizer = self._corpus.train.cache, self._corpus.tokenizer
        self.model = XTTS(
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
        return AcousticObjective(self.model, training, self._total_steps)

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

    def initialize(self, on_phase: Callable[[str], None]) -> bool:
        if not self._unknown_symbols:
            return False
        on_phase("estimating an initial alignment")
        schedule = self._corpus.train.schedule
        set_symbol_means(self.model, self._loader, schedule, self._config, self._unknown_symbols)
        self._unknown_symbols = ()
        return True

    def relative_time(self, steps: int) -> float:
        training = self._config.training
        slowdown = _ADVERSARIAL_SLOWDOWN if training.adversarial_weight else 1.0
        return relative_time(steps, training.first_adversarial_step(self._total_steps), slowdown)

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

    def next_command(self, run_dir: Path) -> str:
        return f"myxtts synthesize {shlex.quote(str(run_dir))} {sample_arguments(self._corpus)}"

    def fingerprints(self) -> dict[str, str]:
        return self._corpus.fingerprints()

    def state(self) -> Mapping[str, Any]:
        return {"mel_mean": self.model.mel_mean, "mel_deviation": self.model.mel_deviation}

    def restore(self, checkpoint: Checkpoint) -> None:
        if checkpoint.tokenizer() != self._corpus.tokenizer:
            raise CheckpointError(
                f"{checkpoint.folder}: was trained with a different vocabulary from this corpus; "
                "resume it with its own corpus, or start a new run with --init-from"
            )
        self._unknown_symbols = ()
        self._take_normalization(checkpoint)

    def warm_start(self, checkpoint: Checkpoint, own: Tensors, *, partially: bool) -> WarmStart:
        start = warm_start(checkpoint, own, self._corpus, self._config, partially=partially)
        self._unknown_symbols = start.unknown_symbols
        self._take_normalization(checkpoint)
        return start

    def _take_normalization(self, checkpoint: Checkpoint) -> None:
        """Normalize mels as in the training of the weights."""
        self.model.mel_mean = checkpoint.info.mel_mean
        self.model.mel_deviation = checkpoint.info.mel_deviation


class AcousticValidation:
    """Losses on fixed batches, an alignment, and sentences that are spoken."""

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
        for index in range(min(_MAX_VALIDATION_BATCHES, schedule.batches_per_epoch)):
            batch = self._loader.load(schedule.batch_at(index))
            parts, path = self._losses_and_path(batch)
            losses.append([float(part) for part in parts])
            if index == 0:
                positions = batch.mel_lengths[0] // self._config.model.frames_per_position
                tokens = batch.token_lengths[0]
                writer.write_alignment(step, path[0, :positions, :tokens].numpy())
        means = np.mean(losses, axis=0)
        metrics = {"validation_loss": float(means.sum())}
        for name, value in zip(LOSSES, means, strict=True):
            metrics[f"validation_{name}_loss"] = float(value)
        try:
            metrics["validation_mel_distance"] = self._speak(step, writer)
        except tf.errors.OpError as error:
            # A diverging model may predict endless durations.
            reason = error.message.splitlines()[0]
            _log.warning("step %d: no speech sample, synthesis failed (%s)", step, reason)
        return metrics

    def _speak(self, step: int, writer: RunWriter) -> float:
        """Speak validation sentences; return the mel distance from their recordings.

        Each uses another clip of its speaker as the reference.
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
    """Return the RMS difference of log-mels [frames, mels] over the best alignment in time."""
    distances = frame_distances(ours, theirs) / np.sqrt(ours.shape[1])
    rows, columns = warp(distances)
    return float(distances[rows, columns].mean())


def compile_losses_and_path(model: XTTS, signature: Batch, seed: int) -> Any:
    """Return a function Batch -> (losses, alignment path) with fixed random numbers."""

    def losses_and_path(batch: Batch) -> tuple[Any, tf.Tensor]:
        size = batch.token_ids.shape[0]
        size = tf.shape(batch.token_ids)[0] if size is None else size
        draws = model.draw(size, tf.constant([seed, -1]))
        return model(batch, draws, model.count(batch), training=False)

    return tf.function(losses_and_path, input_signature=[signature], autograph=False)


def set_symbol_means(
    model: XTTS,
    loader: BatchLoader,
    schedule: Schedule,
    config: XTTSConfig,
    symbols: Sequence[int],
) -> None:
    """Estimate the mean mel and duration of these symbols before the first step.

    Trained from scratch, a model takes many steps to find where symbols begin and end. Hard EM
    finds most of that in seconds: it alternates between aligning the clips to one mean mel per
    symbol and averaging the aligned frames. It starts from equal durations, or from the other
    symbols, which keep their values, as do symbols that do not occur.
    """
    count = min(schedule.batches_per_epoch, -(-_MAX_ALIGNMENT_CLIPS // config.clips_per_step))
    batches = [loader.load(schedule.batch_at(index)) for index in range(count)]
    text = model.text_encoder
    means, log_durations = text.symbol_mean_mel.embeddings, text.symbol_log_duration.embeddings
    collect = _compile_collection(model, batch_signature(config))
    wanted = np.isin(np.arange(means.shape[0]), symbols)
    for round_number in range(_ALIGNMENT_ROUNDS):
        mel_sums = np.zeros(means.shape)
        log_duration_sums = np.zeros(means.shape[0])
        position_counts = np.zeros(means.shape[0])
        token_counts = np.zeros(means.shape[0])
        for batch in batches:
            parts = collect(batch, tf.constant(round_number == 0 and wanted.all()))
            mel_sum, position_count, log_duration_sum, token_count = (
                part.numpy() for part in parts
            )
            mel_sums += mel_sum
            position_counts += position_count
            log_duration_sums += log_duration_sum
            token_counts += token_count
        found = wanted & (position_counts > 0)
        for table, sums, counts in (
            (means, mel_sums, position_counts),
            (log_durations, log_duration_sums[:, None], token_counts),
        ):
            rows = table.numpy().copy()
            rows[found] = (sums[found] / counts[found, None]).astype(np.float32)
            table.assign(rows)


def _compile_collection(model: XTTS, signature: Batch) -> Any:
    symbols = model.text_encoder.symbol_mean_mel.input_dim
    per_position = model.sizes.frames_per_position

    def collect(batch: Batch, evenly: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return sums per symbol of mels, positions, log-durations and occurrences."""
        target = stack_frames(model.normalized(batch.mel), per_position)
        lengths = batch.mel_lengths // per_position
        mean_mel = model.text_encoder.symbol_mean_mel(batch.token_ids)
        scores = tf.where(
            evenly,
            _closeness_to_diagonal(target, batch.token_ids, lengths, batch.token_lengths),
            alignment_scores(mean_mel, target),
        )
        path = align(scores, batch.token_lengths, lengths)
        ends = token_ends(batch, lengths, tf.cumsum(tf.reduce_sum(path, 1), axis=1))
        path = spread_path(ends, tf.shape(target)[1])
        durations = tf.reduce_sum(path, 1)  # [batch, tokens]
        per_token = tf.matmul(path, target, transpose_a=True)  # [batch, tokens, channels]
        is_token = tf.sequence_mask(batch.token_lengths, tf.shape(durations)[1])
        present = tf.cast(is_token, tf.float32)
        log_durations = tf.math.log(tf.maximum(durations, SHORTEST_DURATION)) * present
        ids = tf.reshape(batch.token_ids, [-1])

        def by_symbol(values: tf.Tensor) -> tf.Tensor:
            flat = tf.reshape(values, [tf.size(ids), *values.shape[2:]])
            return tf.math.unsorted_segment_sum(flat, ids, symbols)

        return (
            by_symbol(per_token),
            by_symbol(durations),
            by_symbol(log_durations),
            by_symbol(present),
        )

    return tf.function(
        collect, input_signature=[signature, tf.TensorSpec([], tf.bool)], autograph=False
    )


def _closeness_to_diagonal(
    target: tf.Tensor, token_ids: tf.Tensor, lengths: tf.Tensor, token_lengths: tf.Tensor
) -> tf.Tensor:
    """Return scores [batch, positions, tokens] whose best path gives all tokens equal durations."""
    positions = tf.range(tf.shape(target)[1], dtype=tf.float32)[None, :, None] + 0.5
    tokens = tf.range(tf.shape(token_ids)[1], dtype=tf.float32)[None, None] + 0.5
    share_of_time = positions / tf.cast(lengths, tf.float32)[:, None, None]
    share_of_tokens = tokens / tf.cast(token_lengths, tf.float32)[:, None, None]
    return -tf.abs(share_of_time - share_of_tokens)
