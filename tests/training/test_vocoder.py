"""The vocoder as a task: what holds for the acoustic model holds for it."""

import json
import shlex

import numpy as np
import pytest
import soundfile
import soxr
import tensorflow as tf
from safetensors.numpy import load_file

from myxtts.audio.griffin_lim import GriffinLim
from myxtts.cli.main import main
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.config.loading import config_to_start_with
from myxtts.data.corpus import open_corpus
from myxtts.data.segments import ClipMels, write_clip_mels
from myxtts.errors import CheckpointError, ConfigError, DataError
from myxtts.evaluation.measures import MEASURED_RATE_HZ, pitch_hz
from myxtts.models.sampler import Resynthesis
from myxtts.runs.run_dir import RunDir, find_checkpoint, run_or_base
from myxtts.runs.trained_model import find_predicting_checkpoint, find_vocoder, load_model
from myxtts.training.optimizer import FlatAdamW
from myxtts.training.report import Observer
from myxtts.training.step import compile_training_step
from myxtts.training.train import plan_run
from myxtts.training.trainer import XTTSTrainer, require_same_corpus
from myxtts.training.vocoder import VocoderTask


@pytest.fixture(scope="module")
def train(miniature):
    def fit(run_dir, *, steps=None, resume: bool = False, init_from=None, **changes):
        config = miniature(task="vocoder", **changes)
        trainer = XTTSTrainer(config, open_corpus(config), run_dir)
        trainer.total_steps = steps or trainer.total_steps
        if resume:
            trainer.resume()
        if init_from is not None:
            trainer.start_from(find_checkpoint(init_from, for_synthesis=True))
        return trainer.fit()

    return fit


def weights(run_dir) -> dict[str, np.ndarray]:
    return load_file(RunDir(run_dir).newest_checkpoint().folder / "model.safetensors")


def stepped(miniature, *, accumulation=1, xla=False, seed=0):
    """Return the compiled step after a few real batches, its losses and the weights.

    The refiner and the discriminators take part in all but the first.
    """
    config = miniature(
        task="vocoder",
        adversarial_weight=1.0,
        adversarial_start=0.2,
        batch_size=4 // accumulation,
        gradient_accumulation_steps=accumulation,
        seed=seed,
    )
    tf.keras.utils.set_random_seed(1)
    corpus = open_corpus(config)
    task = VocoderTask(config, corpus)
    task.build()
    optimizer = FlatAdamW(task.model.trainable_variables, config.training, 10)
    step = compile_training_step(
        task.objective, optimizer, task.signature(), config.training, xla=xla
    )
    batches = [task.load(corpus.train.schedule.batch_at(index)) for index in range(4)]
    parts = [step(batch, tf.constant(True)).parts for batch in batches]
    return step, np.array(parts), optimizer.weights().numpy()


@pytest.fixture(scope="module")
def plain(miniature):
    return stepped(miniature)


def test_the_refiner_and_the_discriminators_are_trained_from_their_step_on(plain):
    spectral, refining, discriminator = plain[1].T
    assert (spectral > 0).all()
    assert refining[0] == discriminator[0] == 0
    assert (refining[1:] > 0).all()
    assert (discriminator[1:] > 0).all()


def refining_task(miniature, **changes):
    """One that refines from its first step on, and its first batch."""
    config = miniature(task="vocoder", adversarial_start=0.0, **changes)
    tf.keras.utils.set_random_seed(1)
    corpus = open_corpus(config)
    task = VocoderTask(config, corpus)
    task.build()
    return task, task.load(corpus.train.schedule.batch_at(0))


def gradients(task, batch, kernels):
    """Return the results of the first step."""
    objective = task.objective
    draws = objective.draw(4, tf.constant([0, 0]))
    with tf.GradientTape() as tape:
        loss = sum(objective.losses(batch, draws, objective.count(batch)))
    return tape.gradient(loss, [kernel.value for kernel in kernels])


def test_the_refiner_does_not_change_how_magnitudes_are_learned(miniature):
    """Otherwise it could make its own work easier at the expense of the mel."""
    task, batch = refining_task(miniature, adversarial_weight=1.0)
    network = task.model.network
    kernels = network.project.kernel, network.refiner.project.kernel
    of_magnitudes, of_refiner = gradients(task, batch, kernels)
    assert of_magnitudes is None or np.abs(of_magnitudes).max() == 0
    assert np.abs(of_refiner).max() > 0


def test_the_refiner_learns_the_same_in_float16(miniature):
    """Unless they are scaled, many of its gradients are too small for float16."""

    def gradient_in(precision):
        task, batch = refining_task(miniature, precision=precision)
        refiner = task.model.network.refiner
        refiner.project.kernel.assign(0.01 * tf.ones_like(refiner.project.kernel))
        return gradients(task, batch, [refiner.widen.kernel])[0]

    expected, gradient = gradient_in("float32"), gradient_in("float16")
    error = np.linalg.norm(gradient - expected) / np.linalg.norm(expected)
    assert error < 0.002


def test_accumulation_equals_the_large_batch(plain, miniature):
    _, losses, weights = plain
    for accumulation in (2, 4):
        _, split_losses, split_weights = stepped(miniature, accumulation=accumulation)
        np.testing.assert_allclose(split_losses[:, 0], losses[:, 0], rtol=1e-5)
        np.testing.assert_allclose(split_losses, losses, rtol=1e-4)
        # Adam makes much of a rounding error where a gradient is next to nothing, so a few weights
        # of the refiner differ by more.
        differences = np.abs(split_weights - weights)
        assert np.quantile(differences, 0.99) < 1e-4
        assert differences.max() < 5e-3


def test_the_same_seed_gives_the_same_weights(plain, miniature):
    np.testing.assert_array_equal(stepped(miniature)[2], plain[2])
    assert not np.array_equal(stepped(miniature, seed=1)[2], plain[2])


def test_xla_agrees(plain, miniature):
    np.testing.assert_allclose(stepped(miniature, xla=True)[1], plain[1], rtol=2e-3)


def test_a_segment_of_another_length_is_refused(plain, miniature):
    config = miniature(task="vocoder")
    corpus = open_corpus(config)
    batch = VocoderTask(config, corpus).load(corpus.train.schedule.batch_at(0))
    longer = batch._replace(mel=np.pad(batch.mel, [(0, 0), (0, 2), (0, 0)]))
    with pytest.raises((TypeError, ValueError), match=str(config.vocoder.frames_per_segment + 2)):
        plain[0](longer, tf.constant(True))
    assert plain[0].experimental_get_tracing_count() == 1


def test_one_shape_is_compiled_and_none_after(vocoder_run, miniature):
    report = json.loads((vocoder_run / "report.json").read_text())
    config = miniature()
    assert report["shapes"] == [[config.data.batch_size, 0, config.vocoder.frames_per_segment]]
    assert report["traces"] == 1
    assert report["compilations_after_warmup"] == 0
    assert report["state"] == "complete"
    assert 0 < report["useful_utilisation"] < report["steady_utilisation"] < 1
    assert 0 < report["valid_frame_ratio"] <= 1


def test_the_next_command_speaks_with_the_vocoder(miniature, tmp_path):
    config = miniature(task="vocoder", gradient_accumulation_steps=2)
    corpus = open_corpus(config)
    task = VocoderTask(config, corpus)
    command = shlex.split(task.next_command(tmp_path / "run"))
    assert command[:2] == ["myxtts", "synthesize"]
    assert command[command.index("--vocoder") + 1] == str(tmp_path / "run")
    # The run to speak with is an acoustic one.
    assert command[2] != str(tmp_path / "run")


def test_an_evaluation_measures_the_mel_distance_and_copies_a_recording(vocoder_run):
    lines = RunDir(vocoder_run).metric_lines()
    evaluated = [line for line in lines if "validation_loss" in line]
    assert len(evaluated) == 2
    assert all(0 < line["validation_mel_distance"] < 5 for line in evaluated)
    samples = sorted((vocoder_run / "samples").glob("*.wav"))
    assert [file.stem for file in samples] == ["recording", "step_00000003", "step_00000006"]
    copy, _ = soundfile.read(samples[-1])
    assert 0.001 < np.std(copy) < 0.5


def test_a_resumed_run_equals_one_that_never_stopped(vocoder_run, train, tmp_path):
    train(tmp_path / "run", steps=3)
    train(tmp_path / "run", resume=True)
    there, here = weights(vocoder_run), weights(tmp_path / "run")
    assert there.keys() == here.keys()
    for name in there:
        np.testing.assert_array_equal(there[name], here[name])


def test_the_included_vocoder_can_be_trained_further(demo_corpus, tmp_path):
    """The name of the included vocoder sets task, mel and sizes."""
    run = tmp_path / "run"
    command = ["train", demo_corpus, "--init-from", "vocoder", "--run-dir", run, "--max-steps", 1]
    assert main([str(word) for word in [*command, "--batch-size", 2]]) == 0
    assert RunDir(run).newest_checkpoint().config().training.task == "vocoder"
    report = json.loads(RunDir(run).start_report_file.read_text())
    assert report["not_taken"] == {}
    assert sum(part["taken"] for part in report["parts"].values()) > 2e6


def test_chunks_of_a_recording_joined_equal_the_whole(corpus):
    vocoder = find_vocoder(None, XTTSConfig())
    for clip in range(4):
        mel = corpus.train.cache.clip_mel(clip).astype(np.float32)
        joined = np.concatenate(list(vocoder.stream(np.array_split(mel, 7))))
        np.testing.assert_allclose(joined, vocoder.samples(mel), atol=1e-4)


@pytest.mark.slow
def test_training_brings_copies_nearer(train, tmp_path):
    train(tmp_path / "run", max_steps=150, learning_rate=5e-3, evaluate_every=10)
    measured = "validation_mel_distance"
    lines = RunDir(tmp_path / "run").metric_lines()
    distances = [line[measured] for line in lines if measured in line]
    assert distances[-1] < 0.9 * distances[0]


def test_resuming_or_starting_with_another_size_is_refused(vocoder_run, train, tmp_path):
    with pytest.raises(CheckpointError, match=r"vocoder\.width"):
        train(vocoder_run, resume=True, max_steps=8, width=24)
    with pytest.raises(CheckpointError, match=r"vocoder\.width"):
        train(tmp_path / "run", init_from=vocoder_run, width=24)


def test_magnitudes_that_were_not_loaded_are_not_left_untrained(vocoder_run, miniature, tmp_path):
    def start(**changes):
        config = miniature(task="vocoder", width=24, **changes)
        trainer = XTTSTrainer(config, open_corpus(config), tmp_path)
        trainer.start_from(find_checkpoint(vocoder_run), partially=True)

    with pytest.raises(CheckpointError, match=r"training\.adversarial_start=0\.1"):
        start(adversarial_start=0.0)
    start(adversarial_start=0.3)


def test_a_vocoder_that_starts_from_another_trains_its_refiner_at_once():
    for weight in (0.0, 1.0):
        config = XTTSConfig(task="vocoder", adversarial_weight=weight, adversarial_start=0.3)
        assert config_to_start_with(config, XTTSConfig()).training.adversarial_start == 0


@pytest.fixture(scope="module")
def mending_run(train, trained_run, vocoder_run, tmp_path_factory):
    run = tmp_path_factory.mktemp("runs") / "mending"
    train(run, init_from=vocoder_run, mels_from=str(trained_run))
    return run


def pitch_of(mel: np.ndarray) -> np.ndarray:
    waveform = GriffinLim(AudioConfig()).samples(mel)
    return pitch_hz(soxr.resample(waveform, 22_050, MEASURED_RATE_HZ), 160)


def test_predicted_mels_have_the_timing_and_the_pitch_of_the_recordings(corpus):
    model = load_model(run_or_base(None), compiled=False)
    cache = corpus.train.cache
    recorded = cache.clip_mel(3).astype(np.float32)
    token_ids = model.tokenizer.encode(cache.text(3), "en")
    said = token_ids, model.tokenizer.language_id("en")
    too_short = recorded[: len(token_ids)]
    speech = Resynthesis(model.sampler)
    predicted = speech.mel(recorded, *said)
    assert predicted.shape == recorded.shape
    np.testing.assert_array_equal(speech.mel(too_short, *said), too_short)
    distance, *distances_later = (
        np.abs(predicted[:-20] - np.roll(recorded, -shift, axis=0)[:-20]).mean()
        for shift in (0, 6, 12, 20)
    )
    assert 0.1 < distance < 0.5 * min(distances_later)
    ours, theirs = (pitch_of(mel) for mel in (predicted, recorded))
    assert np.nanmedian(np.abs(np.log2(ours / theirs))) < 1 / 24


def test_predicted_mels_are_made_once(mending_run, miniature, trained_run):
    config = miniature(task="vocoder", mels_from=str(trained_run))
    seen = []
    VocoderTask(config, open_corpus(config)).prepare(lambda done, total: seen.append(done))
    assert seen == []


def test_making_predicted_mels_shows_its_progress(miniature, trained_run, tmp_path):
    seen = []

    class Watching(Observer):
        def on_predicted_mels(self, done: int, total: int) -> None:
            seen.append((done, total))

    config = miniature(task="vocoder", mels_from=str(trained_run), cache_dir=str(tmp_path))
    corpus = plan_run(config, Watching()).corpus
    parts = corpus.train, corpus.validation
    clips = [len(part.cache) for part in parts]
    assert seen == [(done, total) for total in clips for done in range(total + 1)]


def test_a_batch_has_predicted_mels_with_the_samples_at_their_place(mending_run, miniature):
    run = find_checkpoint(mending_run).recorded_config().vocoder.mels_from
    batches = []
    for changes in ({}, {"mels_from": run}):
        config = miniature(task="vocoder", pitch_semitones=0, tone_db=0, gain_db=0, **changes)
        corpus = open_corpus(config)
        source = VocoderTask(config, corpus).source(data_device=None, worker=0, workers=1)
        batches.append(source.computed(source.load(5)))
    recorded, predicted = batches
    np.testing.assert_array_equal(recorded.samples, predicted.samples)
    np.testing.assert_array_equal(recorded.mel, predicted.mel)
    assert predicted.predicted_mel.shape == predicted.mel.shape
    assert np.abs(predicted.predicted_mel - predicted.mel).mean() > 0.1
    assert recorded.predicted_mel.shape[1] == 0


def test_every_other_clip_is_refined_by_its_predicted_mel(miniature, trained_run, mending_run):
    task, batch = refining_task(miniature, mels_from=str(trained_run))

    def loss(step, predicted_mel):
        draws = task.objective.draw(4, tf.constant([0, step]))
        draws = draws._replace(noise=tf.ones_like(draws.noise))
        changed = batch._replace(predicted_mel=predicted_mel)
        return float(task.objective.losses(changed, draws, task.objective.count(batch)).refining)

    other_rows = tf.constant([False, True, False, True])[:, None, None]
    mels = batch.mel, batch.predicted_mel, tf.where(other_rows, batch.predicted_mel, batch.mel)
    of_recorded, of_predicted, of_other_rows = (loss(0, mel) for mel in mels)
    assert of_predicted != pytest.approx(of_recorded, rel=1e-3)
    # Rows that get recorded mels in this step, and predicted ones in the next.
    assert of_other_rows == of_recorded
    assert loss(1, mels[2]) != pytest.approx(of_recorded, rel=1e-3)


def test_a_vocoder_for_predicted_mels_speaks(mending_run, miniature):
    mel = np.full((40, miniature().data.n_mels), -5.0, np.float32)
    assert np.isfinite(find_vocoder(mending_run, miniature()).samples(mel)).all()


def test_resuming_with_predicted_mels_equals_never_stopping(
    mending_run, train, trained_run, vocoder_run
):
    run = mending_run.with_name("resumed")
    mels = {"mels_from": str(trained_run)}
    train(run, steps=3, init_from=vocoder_run, **mels)
    train(run, resume=True, **mels)
    there, here = weights(mending_run), weights(run)
    for name in there:
        np.testing.assert_array_equal(there[name], here[name])


def test_resuming_with_the_mels_of_other_weights_is_refused(mending_run, caplog):
    checkpoint = find_checkpoint(mending_run)
    config, saved = checkpoint.recorded_config(), checkpoint.info.corpus
    now = saved | {"predicted mels": "18 clips 0123456789abcdef"}
    require_same_corpus(checkpoint, saved, config, allowed=False)
    with pytest.raises(CheckpointError, match="the predicted mels are not those of the run so far"):
        require_same_corpus(checkpoint, now, config, allowed=False)
    assert caplog.text == ""
    require_same_corpus(checkpoint, now, config.with_(mels_from="base"), allowed=False)
    assert "since vocoder.mels_from has changed" in caplog.text


def test_runs_that_cannot_predict_mels_are_refused(
    miniature, trained_run, vocoder_run, demo_corpus, tmp_path
):
    def refusal(run, **changes):
        config = miniature(task="vocoder", mels_from=str(run), **changes)
        with pytest.raises(CheckpointError) as caught:
            find_predicting_checkpoint(config)
        return str(caught.value)

    assert "expected an acoustic model" in refusal(vocoder_run)
    assert "data.n_mels is 24 in the vocoder" in refusal(trained_run, n_mels=24)
    assert "no such" in refusal(tmp_path / "none").lower()
    with pytest.raises(ConfigError, match="--task vocoder"):
        miniature(mels_from=str(trained_run))


def test_words_that_the_model_does_not_know_are_named(miniature, trained_run, tmp_path):
    rows = ["audio_file|text|speaker_name|language"]
    for index in range(40):
        tone = 0.1 * np.sin(np.arange(30_000) / (8 + index / 10))
        soundfile.write(tmp_path / f"{index}.wav", tone, 22_050)
        rows.append(f"{index}.wav|schön und gut {index}|one|de")
    (tmp_path / "metadata.csv").write_text("\n".join(rows), "utf-8")
    config = miniature(
        task="vocoder", mels_from=str(trained_run), train_data=str(tmp_path), cache_dir=None
    )
    with pytest.raises(CheckpointError, match="language 'de'"):
        VocoderTask(config, open_corpus(config)).prepare(lambda done, total: None)


def test_predicted_mels_are_found_where_clips_were_rejected(tmp_path):
    rows = ["audio_file|text|speaker_name|language"]
    for index, pitch in enumerate([8, 8, 9, 10, 11]):  # the second has the sound of the first
        tone = 0.1 * np.sin(np.arange(30_000 + 512 * pitch) / pitch)
        soundfile.write(tmp_path / f"{index}.wav", tone, 22_050)
        rows.append(f"{index}.wav|Good morning to you {index}|one|en")
    (tmp_path / "metadata.csv").write_text("\n".join(rows), "utf-8")
    config = XTTSConfig(train_data=str(tmp_path), val_data=str(tmp_path), max_rejected_fraction=0.5)
    cache = open_corpus(config).train.cache
    assert len(cache) == 4
    assert cache.index["mels_start"][-1] > cache.frame_counts[:-1].sum()
    own = [cache.clip_mel(clip).astype(np.float32) for clip in range(4)]
    write_clip_mels(tmp_path / "mels.npy", cache, config.data.n_mels, own)
    n_mels = config.data.n_mels
    mels = ClipMels(tmp_path / "mels.npy", cache, n_mels)
    for clip in range(4):
        np.testing.assert_array_equal(mels.of(clip), own[clip])
        np.testing.assert_array_equal(mels.of(clip, 3, 1_000), own[clip][3:])
    write_clip_mels(tmp_path / "short.npy", cache, n_mels, own[:1])
    with pytest.raises(DataError, match="delete it"):
        ClipMels(tmp_path / "short.npy", cache, n_mels)
    with pytest.raises(DataError, match=r"40.*delete it"):
        ClipMels(tmp_path / "mels.npy", cache, 40)
    own[1][5, 3] = np.nan
    write_clip_mels(tmp_path / "damaged.npy", cache, n_mels, own)
    damaged = ClipMels(tmp_path / "damaged.npy", cache, n_mels)
    np.testing.assert_array_equal(damaged.of(1, 6), own[1][6:])
    with pytest.raises(DataError, match="not finite; delete it"):
        damaged.of(1)
