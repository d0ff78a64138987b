import importlib.util
from pathlib import Path

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.data import corpus as subset
from myxtts.data.corpus import open_corpus
from myxtts.data.diagnosis import typical_lengths

FILE = Path(__file__).parents[2] / "benchmarks" / "drawn_corpus.py"


@pytest.fixture(scope="module")
def drawn_corpus():
    spec = importlib.util.spec_from_file_location("drawn_corpus", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_corpus_of_drawn_lengths_is_opened_and_read(drawn_corpus, tmp_path, monkeypatch):
    drawn_corpus.write_corpus(tmp_path / "corpus", 40, speakers=2)
    monkeypatch.setattr(subset, "LARGE_METADATA_BYTES", 0)
    corpus = open_corpus(XTTSConfig(train_data=str(tmp_path / "corpus")))
    lengths = typical_lengths(40)
    assert corpus.train.clips.frame_counts.tolist() == lengths.frame_counts.tolist()
    assert corpus.train.clips.token_counts.tolist() == lengths.token_counts.tolist()
    assert corpus.train.cache.speakers == ("speaker0", "speaker1")
    for clip in (0, 39):
        assert len(corpus.train.cache.clip_mel(clip)) == lengths.frame_counts[clip]
        assert len(corpus.train.cache.clip_tokens(clip)) == lengths.token_counts[clip]
    assert len(corpus.validation.cache) == 16
