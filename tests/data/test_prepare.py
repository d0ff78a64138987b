import shutil

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import clean_recording, read_audio
from myxtts.audio.mel import log_mel
from myxtts.data.corpus import open_corpus
from myxtts.data.ljspeech import LJSpeechDataset
from myxtts.data.prepare import fingerprint, open_cache, prepare
from myxtts.errors import DataError
from myxtts.text.tokenizer import text_symbols


def test_the_cache_holds_what_the_clips_hold(corpus, miniature):
    config, part = miniature(), corpus.train
    for clip in (0, len(part.cache) - 1):
        item = part.dataset[int(part.cache.index[clip]["row"])]
        waveform = clean_recording(read_audio(item.audio_path, 22_050), config.audio)
        expected = log_mel(waveform, config.audio, 80).numpy()
        np.testing.assert_allclose(part.cache.clip_mel(clip), expected, atol=0.01)
        symbols = text_symbols(item.text, item.language, "phonemes")
        ids = part.cache.clip_tokens(clip)[1:-1]
        assert tuple(part.cache.tokenizer.symbols[token] for token in ids) == symbols
        assert part.cache.speakers[part.cache.index[clip]["speaker"]] == item.speaker
    assert part.cache.mel_mean == pytest.approx(float(np.mean(part.cache.mels, dtype=np.float64)))
    assert part.cache.mel_deviation == pytest.approx(
        float(np.std(part.cache.mels.astype(np.float64)))
    )


def test_processes_and_one_process_agree(demo_corpus, miniature, tmp_path):
    utterances = [*LJSpeechDataset(demo_corpus)] * 2
    one = prepare(utterances, miniature(workers=1), tmp_path / "one")
    two = prepare(utterances, miniature(workers=2), tmp_path / "two")
    for name in ("index.npy", "tokens.npy", "mels.npy", "cache.json"):
        assert (one.folder / name).read_bytes() == (two.folder / name).read_bytes()


def test_an_existing_cache_is_opened_not_made(demo_corpus, miniature, tmp_path):
    dataset = LJSpeechDataset(demo_corpus)
    first = prepare(dataset, miniature(), tmp_path)
    stamp = (first.folder / "mels.npy").stat().st_mtime_ns
    calls = []
    again = prepare(dataset, miniature(), tmp_path, lambda done, total: calls.append(done))
    assert (again.folder / "mels.npy").stat().st_mtime_ns == stamp
    assert calls == []


def test_what_changes_features_changes_the_fingerprint(demo_corpus, miniature):
    dataset = list(LJSpeechDataset(demo_corpus))
    base = fingerprint(dataset, miniature())
    assert fingerprint(dataset, miniature(learning_rate=1.0, batch_size=2)) == base
    assert fingerprint(dataset, miniature(n_mels=64)) != base
    assert fingerprint(dataset, miniature(trim_silence_db=None)) != base
    assert fingerprint(dataset, miniature(tokens="graphemes")) != base
    assert fingerprint(dataset[:-1], miniature()) != base


@pytest.fixture
def damaged(demo_corpus, tmp_path):
    """The demo corpus with five clips that cannot be used."""
    folder = tmp_path / "damaged"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    items = list(LJSpeechDataset(folder))
    items[0].audio_path.unlink()
    items[1].audio_path.write_text("not audio")
    soundfile.write(items[2].audio_path, np.ones(100, np.float32) * 0.1, 22_050)
    metadata = folder / "metadata_train.csv"
    text = metadata.read_text(encoding="utf-8")
    text = text.replace(items[3].text, " ".join([items[3].text] * 20))
    metadata.write_text(text.replace(items[4].text, "..."), encoding="utf-8")
    return folder


def test_bad_clips_are_left_out_and_counted(damaged, miniature):
    corpus = open_corpus(miniature(train_data=str(damaged), max_rejected_fraction=0.5))
    assert corpus.train.rejected == {
        "missing audio": 1,
        "unreadable audio": 1,
        "too short": 1,
        "text too long": 1,
        "empty text": 1,
    }
    assert len(corpus.train.cache) == 18 - 5
    assert any(
        "metadata_train.csv:2: missing audio" in line for line in corpus.train.cache.rejections
    )


def test_too_many_bad_clips_stop_the_run(damaged, miniature):
    with pytest.raises(DataError, match=r"5 of 18 clips cannot be used .* = 0.2 allows"):
        open_corpus(miniature(train_data=str(damaged)))


def test_a_damaged_cache_is_named(demo_corpus, miniature, tmp_path):
    cache = prepare(LJSpeechDataset(demo_corpus), miniature(), tmp_path)
    (cache.folder / "cache.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        open_cache(cache.folder)
