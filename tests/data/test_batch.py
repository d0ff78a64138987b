import dataclasses
import shutil

import numpy as np
import pytest

from myxtts.audio.mel import LOG_FLOOR
from myxtts.data.batch import (
    Augmentation,
    BatchLoader,
    block_samples,
    compile_features,
    frames_at_speed,
)
from myxtts.data.cache import checksum, open_cache
from myxtts.errors import DataError
from myxtts.text.tokenizer import PADDING_ID


@pytest.fixture(scope="module")
def loader(corpus, miniature):
    return BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())


def planned_batches(corpus):
    """One epoch: every clip, the first and the last of the cache among them."""
    schedule = corpus.train.schedule
    return [schedule.batch_at(step) for step in range(schedule.batches_per_epoch)]


def test_a_batch_holds_its_clips_and_nothing_else(corpus, loader, miniature):
    cache, reference_frames = corpus.train.cache, miniature().model.reference_frames
    for planned in planned_batches(corpus):
        batch = loader.load(planned)
        assert batch.token_ids.shape == (planned.shape.batch, planned.shape.tokens)
        assert batch.mel.shape == (planned.shape.batch, planned.shape.frames, 80)
        for row, clip in enumerate(planned.clips):
            tokens, mel = loader.token_ids(clip), cache.clip_mel(clip).astype(np.float32)
            assert batch.token_lengths[row] == len(tokens)
            np.testing.assert_array_equal(batch.token_ids[row, : len(tokens)], tokens)
            assert (batch.token_ids[row, len(tokens) :] == PADDING_ID).all()
            assert batch.mel_lengths[row] == len(mel)
            np.testing.assert_array_equal(batch.mel[row, : len(mel)], mel)
            assert (batch.mel[row, len(mel) :] == np.float32(cache.mel_mean)).all()
            length = batch.reference_lengths[row]
            other = cache.clip_mel(planned.references[row]).astype(np.float32)
            assert length == min(reference_frames, len(other))
            windows = [other[start : start + length] for start in range(len(other) - length + 1)]
            assert any((batch.reference[row, :length] == window).all() for window in windows)
            assert (batch.reference[row, length:] == np.float32(cache.mel_mean)).all()


def test_mels_computed_from_samples_equal_the_cached_ones(corpus, loader, miniature):
    config = miniature()
    features = compile_features(config, corpus.train.cache.mel_mean)
    for step, planned in enumerate(planned_batches(corpus)):
        cached = loader.load(planned)
        computed = features(loader.load_waveforms(planned, loader.changes(step, planned)))
        for name in cached._fields:
            values, expected = np.asarray(getattr(computed, name)), getattr(cached, name)
            assert values.shape == expected.shape, name
            # float16 values around 8 are 1/128 apart.
            np.testing.assert_allclose(values, expected, atol=1 / 127, err_msg=name)
            assert np.mean(values != expected) < 0.01, name
    assert features.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(("hop", "fft", "block"), [(256, 1024, 64), (200, 800, 50), (221, 884, 17)])
def test_blocks_divide_hops_and_windows(miniature, hop, fft, block):
    audio = dataclasses.replace(miniature().audio, hop_samples=hop, fft_samples=fft)
    assert block_samples(audio) == block


def changed_mels(corpus, miniature, **settings):
    """Return the same batch unchanged and changed, with the changes."""
    config = miniature(**settings)
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
    planned = corpus.train.schedule.batch_at(0)
    changes = loader.changes(0, planned)
    features = compile_features(config, corpus.train.cache.mel_mean)
    return loader.load(planned), features(loader.load_waveforms(planned, changes)), changes


def test_speed_scales_length_and_keeps_the_sound(corpus, miniature):
    plain, changed, changes = changed_mels(corpus, miniature, speed=0.2)
    assert (changes.speed != 1).any()
    expected = frames_at_speed(plain.mel_lengths, changes.speed)
    np.testing.assert_array_equal(changed.mel_lengths, expected)
    for row, speed in enumerate(changes.speed):
        length = int(changed.mel_lengths[row])
        nearest = np.round(np.arange(length) * speed).astype(int)
        # A frame lies between two of the original ones.
        distance = np.abs(changed.mel[row, :length].numpy() - plain.mel[row][nearest]).mean()
        other = np.abs(changed.mel[row, :length].numpy() - plain.mel[row][nearest[::-1]]).mean()
        assert distance < 0.4 * other


def test_pitch_moves_the_sound_and_keeps_the_length(corpus, miniature):
    plain, changed, changes = changed_mels(corpus, miniature, pitch_semitones=6)
    np.testing.assert_array_equal(changed.mel_lengths, plain.mel_lengths)
    factors = np.array(Augmentation(miniature(pitch_semitones=6)).pitches)[changes.pitch]
    bands = np.arange(80)
    for row, factor in enumerate(factors):
        length = plain.mel_lengths[row]

        def center(mel, length=length):
            energy = np.exp(mel[:length]).sum(axis=0)
            return (energy * bands).sum() / energy.sum()

        moved = center(changed.mel[row].numpy()) - center(plain.mel[row])
        assert np.sign(moved) == np.sign(factor - 1) or abs(factor - 1) < 0.02


def test_formants_move_and_the_pitch_stays(corpus, miniature):
    settings = {"formants": 0.2}
    plain, changed, changes = changed_mels(corpus, miniature, **settings)
    np.testing.assert_array_equal(changed.mel_lengths, plain.mel_lengths)
    factors = np.array(Augmentation(miniature(**settings)).formants)[changes.formants]
    assert len(set(factors)) > 1
    waves = np.cos(np.pi * np.arange(80)[:, None] * (np.arange(80) + 0.5) / 80)
    for row, factor in enumerate(factors):
        before, after = (
            np.asarray(mel[row])[: plain.mel_lengths[row]] @ waves.T
            for mel in (plain.mel, changed.mel)
        )
        # The waves of each frame from band to band: the slow ones are the resonances, the fast ones
        # the harmonics of the pitch.
        slow, fast = slice(1, 8), slice(24, 80)
        assert np.abs(after - before)[:, fast].mean() < 0.1 * np.abs(before)[:, fast].mean()
        moved = np.abs(after - before)[:, slow].mean() / np.abs(before)[:, slow].mean()
        assert moved > 0.1 or abs(factor - 1) < 0.06


def test_tone_changes_clip_and_reference_alike(corpus, miniature):
    plain, changed, changes = changed_mels(corpus, miniature, tone_db=12.0)
    largest = np.abs(changes.tone).max(axis=1)
    assert (largest < 12.0 / 20.0 * np.log(10.0)).all()
    assert largest.max() > 0.3
    for row, tone in enumerate(changes.tone):
        assert len(set(np.sign(tone))) == 2
        for kind in ("mel", "reference"):
            length = getattr(plain, f"{kind}_lengths")[row]
            before = getattr(plain, kind)[row, :length]
            after = getattr(changed, kind)[row, :length].numpy()
            expected = np.maximum(before + tone, np.log(LOG_FLOOR))
            # What lies under the floor is not known, so only where there is sound.
            heard = before > np.log(LOG_FLOOR) + 0.1
            np.testing.assert_allclose(after[heard], expected[heard], atol=0.02)


def test_gain_and_noise_change_the_reference_alone(corpus, miniature):
    settings = {"gain_db": 12.0, "noise_dbfs": -40.0}
    plain, changed, changes = changed_mels(corpus, miniature, **settings)
    np.testing.assert_allclose(changed.mel, plain.mel, atol=1 / 127)
    for row in range(len(changes.gain)):
        length = plain.reference_lengths[row]
        before, after = plain.reference[row, :length], changed.reference[row, :length].numpy()
        # Loud places are louder by the gain, silent ones hold the noise.
        loud = before > np.quantile(before, 0.95)
        shift = np.log(changes.gain[row])
        assert np.median((after - before)[loud]) == pytest.approx(shift, abs=0.3)
        assert after.min() > before.min()


def test_changes_follow_from_seed_and_step(corpus, miniature):
    settings = {"speed": 0.1, "pitch_semitones": 1.0, "gain_db": 3.0}
    planned = corpus.train.schedule.batch_at(0)

    def changes(step, **more):
        config = miniature(**settings, **more)
        return BatchLoader(corpus.train.cache, corpus.tokenizer, config).changes(step, planned)

    for once, again in zip(changes(7), changes(7), strict=True):
        np.testing.assert_array_equal(once, again)
    assert (changes(7).speed != changes(8).speed).any()
    assert (changes(7).speed != changes(7, seed=1).speed).any()


def test_changed_clips_fit_their_shape_and_their_text(miniature):
    config = miniature(speed=0.3)
    augmentation = Augmentation(config)
    frames = np.array([100, 61, 40, 97], np.int32)
    tokens = np.array([50, 30, 5, 20], np.int32)
    for step in range(200):
        changes = augmentation.changes(step, tokens, frames, max_frames=100)
        lengths = frames_at_speed(frames, changes.speed)
        assert (lengths <= 100).all()
        assert (lengths // config.model.frames_per_position >= tokens).all()


def test_machines_share_the_changes_of_a_batch(corpus, miniature):
    config = miniature(speed=0.1, noise_dbfs=-50.0)
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, config)
    planned = corpus.train.schedule.batch_at(0)
    whole = loader.changes(0, planned)
    for name, values in whole._asdict().items():
        parts = [getattr(whole.part(worker, 2), name) for worker in range(2)]
        np.testing.assert_array_equal(np.concatenate(parts), values)


@pytest.mark.parametrize(
    ("part", "value"), [("mels", np.nan), ("mels", 0), ("tokens", 30_000), ("tokens", 0)]
)
@pytest.mark.parametrize("checksums_agree", [False, True])
def test_a_damaged_clip_is_named(corpus, miniature, tmp_path, part, value, checksums_agree):
    """Detect impossible values even if the checksum was made to agree."""
    cache = corpus.train.cache
    clip = 3
    folder = tmp_path / cache.folder.name
    shutil.copytree(cache.folder, folder)
    damaged = np.load(folder / f"{part}.npy", mmap_mode="r+")
    damaged[cache.index[clip][f"{part}_start"]] = value
    damaged.flush()
    broken = open_cache(folder)
    if checksums_agree:
        if value == 0:
            pytest.skip("zeros may be right")
        record = broken.index[clip]
        rows = damaged[record[f"{part}_start"] :][: record[f"{part}_count"]]
        index = np.array(broken.index)
        index[f"{part}_checksum"][clip] = checksum(np.array(rows))
        broken = dataclasses.replace(broken, index=index)
    loader = BatchLoader(broken, corpus.tokenizer, miniature())
    planned = next(batch for batch in planned_batches(corpus) if clip in batch.clips)
    with pytest.raises(DataError, match=cache.audio_path(clip).name):
        loader.load(planned)


def test_mels_of_another_width_are_refused(corpus, miniature):
    """A cache from elsewhere may be named like that of these settings."""
    config = miniature(n_mels=miniature().data.n_mels + 1)
    with pytest.raises(DataError):
        BatchLoader(corpus.train.cache, corpus.tokenizer, config)
