import dataclasses
import json

import numpy as np
import pytest

from myxtts.data.corpus import open_corpus
from myxtts.data.demo import make_demo_corpus
from myxtts.errors import CheckpointError
from myxtts.runs.run_dir import find_checkpoint
from myxtts.text.tokenizer import Tokenizer
from myxtts.training.report import Observer
from myxtts.training.trainer import XTTSTrainer
from myxtts.training.warm_start import warm_start

SYMBOLS, MEAN_MELS, LOG_DURATIONS = (
    f"xtts/text_encoder/{table}/embeddings"
    for table in ("symbols", "symbol_mean_mel", "symbol_log_duration")
)
LANGUAGES = "xtts/text_encoder/languages/embeddings"
CLASSIFIER_KERNEL = "xtts/phoneme_classifier/symbols/kernel"
CLASSIFIER_BIAS = "xtts/phoneme_classifier/symbols/bias"


@pytest.fixture(scope="module")
def origin(trained_run):
    return find_checkpoint(trained_run)


def start(origin, corpus, config, *, partially=False, **others):
    """Return shapes of the model, with those of `others` by path."""
    own = {path: np.zeros_like(value) for path, value in origin.ema_weights().items()}
    own |= {path: np.zeros(shape, np.float32) for path, shape in others.items()}
    return warm_start(origin, own, corpus, config, partially=partially)


def with_words(corpus, kind, symbols, languages):
    return dataclasses.replace(corpus, tokenizer=Tokenizer(kind, symbols, languages))


def test_rows_are_found_by_symbol_and_language(origin, corpus, miniature):
    theirs = corpus.tokenizer
    # Some are gone, the others in another order, and two more among them.
    symbols = ("<padding>", "<edge>", "ç", *theirs.symbols[:6:-1], "ɣ")
    mixed = with_words(corpus, "phonemes", symbols, ("fa", "en"))
    shapes = {path: (len(symbols), 16) for path in (SYMBOLS, MEAN_MELS, LOG_DURATIONS)}
    shapes[MEAN_MELS], shapes[LOG_DURATIONS] = (len(symbols), 160), (len(symbols), 1)
    shapes[CLASSIFIER_KERNEL], shapes[CLASSIFIER_BIAS] = (192, len(symbols)), (len(symbols),)
    found = start(origin, mixed, miniature(), **shapes, **{LANGUAGES: (2, 16)})
    saved = origin.ema_weights()
    for path in (SYMBOLS, MEAN_MELS, LOG_DURATIONS):
        for row, symbol in enumerate(symbols):
            if symbol in theirs.symbols:
                expected = saved[path][theirs.symbols.index(symbol)]
                np.testing.assert_array_equal(found.tensors[path][row], expected)
                there = theirs.symbols.index(symbol)
                np.testing.assert_array_equal(
                    found.tensors[CLASSIFIER_KERNEL][:, row], saved[CLASSIFIER_KERNEL][:, there]
                )
    np.testing.assert_array_equal(found.tensors[LANGUAGES], saved[LANGUAGES][[0, 0]])
    assert [symbols[row] for row in found.unknown_symbols] == ["ç", "ɣ"]
    assert found.report.symbols.not_there == ("ç", "ɣ")
    assert found.report.languages.not_there == ("fa",)
    assert found.report.not_taken == {}
    kept = {SYMBOLS, MEAN_MELS, LOG_DURATIONS, LANGUAGES, CLASSIFIER_KERNEL, CLASSIFIER_BIAS}
    for path in saved.keys() - kept:
        np.testing.assert_array_equal(found.tensors[path], saved[path])


@pytest.mark.parametrize(
    ("settings", "others", "line"),
    [
        (
            {"decoder_width": 24},
            {"xtts/decoder/time/bias": (24,)},
            "model.decoder_width: 16 in the checkpoint, 24 here; "
            "decoder/time/bias: [16] in the checkpoint, [24] here;",
        ),
        (
            {"decoder_blocks": 3},
            {"xtts/decoder/x": (2,)},
            "3 here; decoder/x: not in the checkpoint; use",
        ),
        (
            {"sample_rate_hz": 24_000},
            {},
            "does not fit this model: audio.sample_rate_hz: 22050 in the checkpoint, 24000 here;",
        ),
        ({"attention_heads": 1}, {}, "model.attention_heads: 2 in the checkpoint, 1 here;"),
    ],
)
def test_what_cannot_be_taken_whole_is_an_error(origin, corpus, miniature, settings, others, line):
    with pytest.raises(CheckpointError) as error:
        start(origin, corpus, miniature(**settings), **others)
    assert line in str(error.value)
    assert "load the weights that fit with --init-partially" in str(error.value)
    found = start(origin, corpus, miniature(**settings), partially=True, **others)
    for path in others:
        assert not found.tensors[path].any()
    assert found.tensors[SYMBOLS].any()
    assert set(found.report.not_taken) == {path.removeprefix("xtts/") for path in others}
    decoder = found.report.parts["decoder"]
    assert (decoder["taken"] < decoder["of"]) == bool(others)


def test_a_start_without_a_discriminator_gets_a_new_one(origin, corpus, miniature):
    found = start(origin, corpus, miniature(), **{"xtts/discriminator/kernel_9": (5, 5, 3, 16)})
    assert found.report.not_taken.keys() == {
        name for name in found.report.not_taken if name.startswith("discriminator/")
    }
    assert "discriminator/kernel_9" in found.report.not_taken
    lines = "\n".join(found.report.lines())
    assert "not loaded" not in lines
    assert found.tensors[SYMBOLS].any()


def test_settings_that_leave_the_weights_their_meaning_may_differ(origin, corpus, miniature):
    config = miniature(segment_frames=64, default_language="fa")
    report = start(origin, corpus, config).report
    assert set(report.settings) == {"model.segment_frames"}


def test_letters_are_no_phonemes(origin, corpus, miniature):
    letters = with_words(corpus, "graphemes", corpus.tokenizer.symbols, ("en",))
    config = miniature(tokens="graphemes")
    with pytest.raises(
        CheckpointError, match=r"text\.tokens: phonemes in the checkpoint, graphemes"
    ):
        start(origin, letters, config)
    found = start(origin, letters, config, partially=True)
    for path in (SYMBOLS, MEAN_MELS, LOG_DURATIONS):
        assert not found.tensors[path].any()
    assert len(found.unknown_symbols) == len(corpus.tokenizer.symbols)


def test_a_start_of_which_nothing_fits_is_none(origin, corpus, miniature):
    shapes = dict.fromkeys(origin.ema_weights(), (3, 3, 3))
    with pytest.raises(CheckpointError, match="none of its weights fit"):
        start(origin, corpus, miniature(), partially=True, **shapes)


class Notices(Observer):
    def __init__(self):
        self.lines = []

    def on_notice(self, message):
        self.lines.append(message)


@pytest.fixture(scope="module")
def persian(origin, miniature, tmp_path_factory):
    """Return a Persian run that starts from the English one, with its voice encoder frozen."""
    folder = tmp_path_factory.mktemp("persian")
    make_demo_corpus(folder / "corpus", utterances=8, languages=("fa",), speakers=2)
    config = miniature(
        train_data=str(folder / "corpus"), max_steps=3, freeze="voice_encoder, decoder.block_*"
    )
    corpus = open_corpus(config, vocabulary=origin.tokenizer())
    notices = Notices()
    trainer = XTTSTrainer(config, corpus, folder / "run", observer=notices)
    trainer.start_from(origin)
    before = trainer.optimizer.weights_by_name()
    trainer.prepare()
    prepared = trainer.optimizer.weights_by_name()
    trainer.fit()
    return config, corpus, folder / "run", notices.lines, before, prepared


def test_a_language_is_added_to_what_is_known(origin, persian):
    _, corpus, run_dir, lines, _, _ = persian
    english, both = origin.tokenizer(), find_checkpoint(run_dir).tokenizer()
    assert both.languages == ("en", "fa")
    assert both.symbols[: len(english.symbols)] == english.symbols
    assert corpus.own_tokenizer.languages == ("fa",)
    added = both.symbols[len(english.symbols) :]
    assert "x" in added
    report = json.loads((run_dir / "init_from.json").read_text(encoding="utf-8"))
    assert report["step"] == 6
    assert report["checkpoint"] == str(origin.folder)
    assert report["symbols"]["not_there"] == list(added)
    assert report["languages"] == {
        "total": 2, "not_there": ["fa"], "not_in_this_corpus": ["en"]
    }  # fmt: skip
    assert report["parts"]["decoder"]["taken"] == report["parts"]["decoder"]["of"]
    assert report["not_taken"] == {}
    shown = "\n".join(lines)
    assert f"symbols: {len(english.symbols)} of {len(both.symbols)}; new: " in shown
    assert "languages: 1 of 2; new: fa" in shown


def test_mels_keep_the_level_that_the_weights_know(origin, persian):
    _, corpus, run_dir, _, _, _ = persian
    assert corpus.train.cache.mel_mean != origin.info.mel_mean
    info = find_checkpoint(run_dir).info
    assert (info.mel_mean, info.mel_deviation) == (origin.info.mel_mean, origin.info.mel_deviation)


def test_the_sound_of_unknown_symbols_is_found_and_that_of_the_others_kept(origin, persian):
    _, corpus, _, _, before, prepared = persian
    known = len(origin.tokenizer().symbols)
    unknown = [
        row
        for row, symbol in enumerate(corpus.tokenizer.symbols)
        if row >= known and symbol in corpus.train.cache.tokenizer.symbols
    ]
    for path in (MEAN_MELS, LOG_DURATIONS):
        np.testing.assert_array_equal(prepared[path][:known], before[path][:known])
    # Before it is found, one sounds like the other.
    assert not np.ptp(before[MEAN_MELS][unknown], axis=0).any()
    assert len(np.unique(prepared[MEAN_MELS][unknown], axis=0)) == len(unknown)


def test_frozen_parts_are_the_same_to_the_bit_and_the_others_are_not(persian):
    _, _, run_dir, lines, _, prepared = persian
    checkpoint = find_checkpoint(run_dir)
    state = checkpoint.training_state()
    frozen = 0
    for path, value in prepared.items():
        is_frozen = path.startswith(("xtts/voice_encoder/", "xtts/decoder/block_"))
        for kind in ("weights", "average"):
            assert np.array_equal(state[f"{kind}/{path}"], value) == is_frozen, path
        frozen += is_frozen * value.size
    total = sum(value.size for value in prepared.values())
    assert lines[0] == (f"Frozen: {frozen:,} of {total:,} weights (voice_encoder, decoder.block_*)")


def test_such_a_run_continues_with_another_freeze(persian, miniature, tmp_path):
    config, _, run_dir, _, _, _ = persian
    saved = find_checkpoint(run_dir)
    config = miniature(train_data=config.data.train_data, max_steps=4, freeze="text_encoder")
    corpus = open_corpus(config, vocabulary=saved.tokenizer())
    trainer = XTTSTrainer(config, corpus, tmp_path / "run")
    assert trainer.resume(saved) == 3
    for path, value in trainer.optimizer.weights_by_name().items():
        kind = "average" if path.startswith("xtts/text_encoder/") else "weights"
        np.testing.assert_array_equal(value, saved.training_state()[f"{kind}/{path}"])


def test_freezing_what_is_still_to_be_learned_is_warned_of(persian, origin, miniature, caplog):
    config, corpus, run_dir, _, _, _ = persian
    config = miniature(train_data=config.data.train_data, freeze="text_encoder.symbols")
    XTTSTrainer(config, corpus, run_dir).start_from(origin)
    assert "they stay untrained: text_encoder/symbols/embeddings" in caplog.text
