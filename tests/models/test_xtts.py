import numpy as np
import pytest
import tensorflow as tf

from myxtts.config.config import Guidance, XTTSConfig
from myxtts.data.batch import Batch, BatchLoader, filled_slots
from myxtts.data.shapes import Shape
from myxtts.models.sampler import SpeechSampler
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.text_encoder import EncodedText
from myxtts.models.voice_encoder import Voice
from myxtts.models.xtts import XTTS, duration_error


@pytest.fixture(scope="module")
def model(miniature) -> XTTS:
    return randomized_model(miniature())


def randomized_model(config: XTTSConfig) -> XTTS:
    tf.keras.utils.set_random_seed(0)
    built = XTTS(config, symbols=120, languages=2, mel_mean=-5.0, mel_deviation=2.0)
    # Parts that start at zero would hide a fault behind them.
    generator = np.random.default_rng(0)
    for variable in built.trainable_variables:
        variable.assign_add(generator.normal(0, 0.1, variable.shape))
    return built


@pytest.fixture(scope="module")
def batch(corpus, miniature) -> Batch:
    loader = BatchLoader(corpus.train.cache, corpus.tokenizer, miniature())
    return Batch(*map(tf.constant, loader.load(corpus.train.schedule.batch_at(0))))


@pytest.fixture(scope="module")
def sampler(model) -> SpeechSampler:
    return SpeechSampler(model, Guidance(text=0.7, voice=0.4))


def losses(model: XTTS, batch: Batch) -> list[float]:
    draws = model.draw(batch.token_ids.shape[0], tf.constant([0, 0]))
    parts, _ = model(batch, draws, model.count(batch))
    return [float(part) for part in parts]


def padded(batch: Batch, tokens: int, frames: int) -> Batch:
    size, longest = batch.token_ids.shape
    shape = Shape(size, longest + tokens, batch.mel.shape[1] + frames, batch.slots.shape[1] + 3)
    return batch._replace(
        token_ids=tf.pad(batch.token_ids, [[0, 0], [0, tokens]]),
        token_ends=tf.pad(batch.token_ends, [[0, 0], [0, tokens]]),
        slots=tf.constant(filled_slots(batch.token_lengths.numpy(), shape, shares=1)),
        mel=tf.pad(batch.mel, [[0, 0], [0, frames], [0, 0]], constant_values=7.0),
    )


def test_every_weight_has_a_name_of_its_own(model):
    names = [variable.path for variable in model.trainable_variables]
    assert len(names) == len(set(names))
    assert all(name.startswith("xtts/") for name in names)


def test_padding_changes_no_loss(model, batch):
    np.testing.assert_allclose(losses(model, padded(batch, 8, 32)), losses(model, batch), rtol=1e-5)


def test_a_batch_may_be_shorter_than_the_decoder_s_segment(model, batch):
    tokens, frames = 6, model.sizes.segment_frames // 2
    lengths = tf.fill([batch.token_ids.shape[0]], tokens)
    short = batch._replace(
        token_ids=batch.token_ids[:, :tokens],
        token_ends=batch.token_ends[:, :tokens],
        token_lengths=lengths,
        slots=tf.range(tf.size(lengths) * tokens)[None],
        mel=batch.mel[:, :frames],
        mel_lengths=tf.fill(lengths.shape, frames),
    )
    long_enough = padded(short, 0, model.sizes.segment_frames)
    np.testing.assert_allclose(losses(model, short), losses(model, long_enough), rtol=1e-5)


def test_every_weight_gets_a_gradient(model, batch):
    draws = model.draw(batch.token_ids.shape[0], tf.constant([0, 0]))
    with tf.GradientTape() as tape:
        parts, _ = model(batch, draws, model.count(batch))
        loss = tf.add_n(list(parts))
    gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    without = [
        variable.path
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True)
        if gradient is None or not np.any(np.asarray(tf.convert_to_tensor(gradient)))
    ]
    assert without == []


def with_durations(batch: Batch) -> Batch:
    """Return the same clips with known ends of their tokens: every other token is silent."""
    tokens = batch.token_ids.shape[1]
    is_heard = (np.arange(tokens) % 2 == 0) & (
        np.arange(tokens) < np.asarray(batch.token_lengths)[:, None]
    )
    ends = np.cumsum(is_heard, axis=1) / is_heard.sum(axis=1, keepdims=True)
    return batch._replace(token_ends=tf.constant(ends, tf.float32))


def test_known_durations_are_used_instead_of_the_search(model, batch):
    known = with_durations(batch)
    size = batch.token_ids.shape[0]
    draws = model.draw(size, tf.constant([0, 0]))
    mixed = known._replace(token_ends=tf.where(tf.range(size)[:, None] == 0, 0.0, known.token_ends))
    searched = model(batch, draws, model.count(batch))[1]
    path = model(mixed, draws, model.count(batch))[1]
    np.testing.assert_array_equal(path[0], searched[0])
    for row in range(1, size):
        positions, tokens = int(batch.mel_lengths[row]) // 2, int(batch.token_lengths[row])
        np.testing.assert_allclose(tf.reduce_sum(path[row, :positions], -1), 1.0, atol=1e-4)
        durations = tf.reduce_sum(path[row], 0).numpy()
        heard = -(-tokens // 2)
        np.testing.assert_allclose(durations[:tokens:2], positions / heard, rtol=1e-3)
        np.testing.assert_allclose(durations[1::2], 0.0, atol=1e-4)


def test_the_shares_of_a_batch_sum_to_the_batch(model, batch):
    size, tokens = batch.token_ids.shape
    draws, counts = model.draw(size, tf.constant([0, 0])), model.count(batch)
    shares = []
    for part in (slice(0, 1), slice(1, size)):
        lengths = batch.token_lengths[part]
        shape = Shape(len(lengths), tokens, batch.mel.shape[1], int(sum(lengths)))
        slots = tf.constant(filled_slots(lengths.numpy(), shape, shares=1))
        some = Batch(*(tensor[part] for tensor in batch))._replace(slots=slots)
        shares.append(model(some, type(draws)(*(tensor[part] for tensor in draws)), counts)[0])
    summed = [float(sum(values)) for values in zip(*shares, strict=True)]
    np.testing.assert_allclose(summed, losses(model, batch), rtol=1e-5)


def test_losses_against_their_definitions(model, batch):
    """Compute the prior and duration losses from the path that the model reports."""
    draws = model.draw(batch.token_ids.shape[0], tf.constant([0, 0]))
    parts, path = model(batch, draws, model.count(batch))
    voice = model.voice_encoder(model.normalized(batch.reference), batch.reference_lengths)
    text = model.text_encoder(
        batch.token_ids, batch.token_lengths, batch.slots, batch.language_ids, voice.vector
    )
    prior, duration, positions_seen, tokens_seen = 0.0, 0.0, 0, 0
    for row in range(batch.token_ids.shape[0]):
        positions, tokens = int(batch.mel_lengths[row]) // 2, int(batch.token_lengths[row])
        target = (batch.mel[row].numpy()[: positions * 2] + 5.0) / 2.0
        chosen = path[row].numpy()[:positions].argmax(-1)
        distance = text.mean_mel[row].numpy()[chosen] - target.reshape(positions, -1)
        prior += 0.5 * np.sum(distance**2)
        true_durations = np.maximum(np.bincount(chosen, minlength=tokens), 0.25)
        excess = np.log(true_durations) - text.log_durations[row].numpy()[:tokens]
        ratio = np.where(excess > 2.0, np.exp(2.0) * (excess - 1.0), np.exp(excess))
        duration += np.sum(2.0 * (ratio - 1.0 - excess))
        positions_seen, tokens_seen = positions_seen + positions, tokens_seen + tokens
    assert float(parts.prior) == pytest.approx(prior / positions_seen / 160, rel=1e-4)
    assert float(parts.duration) == pytest.approx(duration / tokens_seen, rel=1e-4)


def test_uncertain_durations_are_learned_as_their_mean(model):
    seen = tf.constant([[2.0, 8.0, 5.0, 5.0]])

    def error(log_duration):
        same = EncodedText(None, None, tf.fill([1, 4], log_duration), tf.ones([1, 4, 1]))
        return float(duration_error(same, seen))

    log_durations = np.log(np.arange(2.0, 9.0, 0.25)).astype(np.float32)
    best = min(log_durations, key=error)
    assert np.exp(best) == pytest.approx(5.0)
    # However long a token lasts, a longer prediction is better.
    assert error(np.float32(-4.0)) > error(np.float32(-3.0)) > error(np.float32(0.0))


def test_noise_on_a_voice_is_relative_to_its_vector_and_off_by_default(model, batch):
    seed = tf.constant([3, 4])
    assert (model.draw(16, seed).voice_noise.numpy() == 0.0).all()
    assert model.draw(4_000, seed, voice_noise=0.5).voice_noise.numpy().std() == pytest.approx(
        0.5, rel=0.02
    )
    size, counts = batch.token_ids.shape[0], model.count(batch)
    noised = model.draw(size, seed, voice_noise=0.5)
    without = noised._replace(voice_noise=tf.zeros_like(noised.voice_noise))
    assert float(model(batch, noised, counts)[0].prior) != float(
        model(batch, without, counts)[0].prior
    )


def test_flow_times_cover_the_way_evenly_but_for_a_quarter_at_the_first_step(model):
    draws = model.draw(16, tf.constant([3, 4]))
    times = np.sort(draws.flow_times.numpy())
    assert (times[:4] == 0.0).all()
    assert ((times[4:] >= 0.0) & (times < 1.0)[4:]).all()
    np.testing.assert_allclose(np.diff(times[4:]), 1 / 12, atol=1e-6)
    # The noise at the start of synthesis.
    sizes = draws.noise.numpy().std(axis=(1, 2))
    np.testing.assert_allclose(sizes, np.where(draws.flow_times == 0.0, 0.1, 1.0), rtol=0.1)


def test_as_many_clips_as_asked_for_lack_the_text_and_the_voice(model):
    seed = tf.constant([3, 4])
    assert (model.draw(16, seed).condition_mask.numpy() == 1.0).all()
    condition_mask = model.draw(4_000, seed, (0.25, 0.1)).condition_mask.numpy()
    assert set(condition_mask.ravel()) == {0.0, 1.0}
    np.testing.assert_allclose(condition_mask.mean(0), [0.75, 0.9], atol=0.03)
    # Apart from each other: some clips lack both.
    assert (condition_mask.sum(1) == 0).mean() == pytest.approx(0.025, abs=0.01)


@pytest.mark.parametrize(
    ("frame_blocks", "condition_mask", "knows_text", "knows_voice"),
    # Encoding the text uses the voice: with text alone it still depends on the voice. The expected
    # mel of a frame encoder, which the flow starts from, is never dropped.
    [
        (0, (1, 1), True, True),
        (0, (1, 0), True, True),
        (0, (0, 1), False, True),
        (0, (0, 0), False, False),
        (1, (1, 1), True, True),
        (1, (0, 0), True, True),
    ],
)
def test_a_decoder_uses_only_the_conditioning_it_gets(
    miniature, batch, frame_blocks, condition_mask, knows_text, knows_voice
):
    model = randomized_model(miniature(frame_blocks=frame_blocks))
    size = batch.token_ids.shape[0]
    draws = model.draw(size, tf.constant([0, 0]))
    draws = draws._replace(
        condition_mask=tf.tile(tf.constant([condition_mask], tf.float32), [size, 1])
    )
    other_text = batch._replace(token_ids=tf.maximum(batch.token_ids, 40))
    other_voice = batch._replace(reference=batch.reference * 0.5)
    flow, of_other_text, of_other_voice = (
        float(model(one, draws, model.count(one))[0].flow)
        for one in (batch, other_text, other_voice)
    )
    assert (of_other_text != flow) == knows_text
    assert (of_other_voice != flow) == knows_voice


@pytest.mark.parametrize(
    ("asked", "guidance"),
    [
        ({}, (0.7, 0.4)),
        ({"text_guidance": 0.0}, (0.0, 0.4)),
        ({"voice_guidance": 0.0}, (0.7, 0.0)),
        ({"text_guidance": 0.0, "voice_guidance": 0.0}, (0.0, 0.0)),
    ],
)
def test_speech_against_eulers_method_by_hand(model, sampler, asked, guidance):
    voice = sampler.voice(np.random.default_rng(1).normal(-5, 2, (75, 80)).astype(np.float32))
    options = SpeechOptions(steps=4, temperature=0.5, seed=9, **asked)
    [spoken] = sampler.mels([[1, 5, 9, 12, 7, 1]], [1], voice, options)

    ids = tf.constant([[1, 5, 9, 12, 7, 1]])
    text = model.text_encoder(
        ids, tf.constant([6]), tf.range(6)[None], tf.constant([1]), voice.vector
    )
    durations = model.plan_positions(text, 1.0).numpy()[0].astype(int)
    mean_and_state = np.concatenate([text.mean_mel[0], text.states[0]], -1)
    rows = []
    for token, positions in enumerate(durations):
        for position in range(positions):
            within = [(position + 0.5) / positions, np.log(positions)]
            rows.append(np.concatenate([mean_and_state[token], within]))
    spread = tf.constant([rows], tf.float32)
    mask = tf.ones([1, len(rows), 1])
    frames = model.frame_encoder(spread, spread[:, :, :160], mask, voice)
    condition = tf.concat([frames.mel, frames.states], -1)
    without_states = tf.concat([frames.mel, tf.zeros_like(frames.states)], -1)
    nobody = type(voice)(*map(tf.zeros_like, voice))
    noise = 0.5 * tf.random.stateless_normal([1, len(rows), 160], [9, 0], alg="philox")
    mel = frames.mel + 0.5 * noise
    for step in range(4):
        time = tf.constant([step / 4])
        told = model.decoder(mel, condition, mask, time, voice)
        of_any_text = model.decoder(mel, without_states, mask, time, voice)
        in_any_voice = model.decoder(mel, condition, mask, time, nobody)
        clean = told + guidance[0] * (told - of_any_text) + guidance[1] * (told - in_any_voice)
        velocity = (clean - mel) / (1 - step / 4)
        mel += velocity / 4
    by_hand = tf.reshape(mel, [-1, 80]) * model.mel_deviation + model.mel_mean
    np.testing.assert_allclose(spoken, by_hand, atol=1e-3)


def test_speech_is_repeatable_and_follows_the_options(sampler):
    voice = sampler.voice(np.random.default_rng(1).normal(-5, 2, (75, 80)).astype(np.float32))
    tokens = [1, 5, 9, 12, 7, 1]

    def speak(**options):
        [mel] = sampler.mels([tokens], [0], voice, SpeechOptions(**options))
        return mel

    first = speak(seed=1)
    assert first.shape[0] % 2 == 0
    assert first.shape[1] == 80
    assert np.isfinite(first).all()
    np.testing.assert_array_equal(first, speak(seed=1))
    assert not np.array_equal(first, speak(seed=2))
    assert len(speak(speed=0.5)) > len(first) >= len(speak(speed=2.0))
    assert len(speak(steps=3)) == len(first)
    for guidance in ("text_guidance", "voice_guidance"):
        guided = speak(seed=1, **{guidance: 0.0})
        assert len(guided) == len(first)
        assert not np.allclose(guided, first, atol=1e-2)


def test_the_voice_and_the_language_are_heard(sampler):
    generator = np.random.default_rng(2)
    voices = [
        sampler.voice(generator.normal(mean, 2, (80, 80)).astype(np.float32)) for mean in (-6, -3)
    ]
    tokens = [1, 5, 9, 1]
    spoken = [
        sampler.mels([tokens], [language], voice, SpeechOptions(steps=2))[0]
        for voice, language in [(voices[0], 0), (voices[1], 0), (voices[0], 1)]
    ]
    frames = min(map(len, spoken))
    assert not np.allclose(spoken[0][:frames], spoken[1][:frames], atol=1e-3)
    assert not np.allclose(spoken[0][:frames], spoken[2][:frames], atol=1e-3)


def test_a_text_sounds_the_same_whatever_it_is_said_with(sampler):
    generator = np.random.default_rng(3)
    voices = [
        sampler.voice(generator.normal(mean, 2, (80, 80)).astype(np.float32)) for mean in (-6, -3)
    ]
    texts = [[1, 5, 9, 1], [1, 5, 9, 12, 7, 3, 30, 8, 2, 1]]
    options = SpeechOptions(steps=3, seed=5)
    alone = [
        sampler.mels([text], [language], voice, options)[0]
        for text, language, voice in zip(texts, (0, 1), voices, strict=True)
    ]
    both = Voice(*(tf.concat(parts, 0) for parts in zip(*voices, strict=True)))
    together = sampler.mels(texts, [0, 1], both, options)
    assert len(alone[0]) != len(alone[1])
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    first_voice = sampler.mels(texts, [0, 0], voices[0], options)
    np.testing.assert_allclose(first_voice[0], alone[0], atol=1e-4)
