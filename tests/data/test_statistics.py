import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.charts import as_png
from myxtts.config.config import XTTSConfig
from myxtts.data import statistics
from myxtts.data.histograms import draw_histograms, save_histograms
from myxtts.data.metadata import LJSpeechDataset
from myxtts.data.statistics import CorpusMeasures, corpus_statistics, measure_corpus
from myxtts.errors import DataError
from myxtts.text.tokenizer import Tokenizer, text_symbols

GRAPHEMES = XTTSConfig(tokens="graphemes")
HEADER = "audio_file|text|speaker_name|language"


def write_clip(file: Path, seconds: float, sample_rate_hz: int = 22_050, channels: int = 1) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    samples = np.zeros((round(seconds * sample_rate_hz), channels), np.float32)
    soundfile.write(file, samples, sample_rate_hz)


@pytest.fixture
def small_corpus(tmp_path):
    """Three clips that can be used, and one of each that cannot."""
    rows = [
        "wavs/a.wav|a bad cab|ann|en",
        "wavs/b.flac|abba|bob|en",
        "wavs/c.wav|bad abba|ann|fi",
        "wavs/missing.wav|abba|ann|en",
        "wavs/text.wav|abba|ann|en",
        "wavs/nothing.wav|abba|ann|en",
        "wavs/a.wav|...|bob|en",
    ]
    (tmp_path / "metadata.csv").write_text("\n".join([HEADER, *rows]), encoding="utf-8")
    write_clip(tmp_path / "wavs" / "a.wav", 2.0)
    write_clip(tmp_path / "wavs" / "b.flac", 3.0, 16_000)
    write_clip(tmp_path / "wavs" / "c.wav", 4.0, 44_100, channels=2)
    write_clip(tmp_path / "wavs" / "nothing.wav", 0.0)
    (tmp_path / "wavs" / "text.wav").write_text("not audio")
    return tmp_path


def measures_of(tokens, frames, speakers=("ann",), **changes) -> CorpusMeasures:
    frame_counts = np.array(frames, np.int32)
    clips = np.arange(len(frame_counts), dtype=np.int32)
    content = {
        "rows": clips.size,
        "unreadable": 0,
        "empty_text": 0,
        "seconds": (frame_counts - 1) * 256 / 22_050,
        "token_counts": np.array(tokens, np.int32),
        "frame_counts": frame_counts,
        "speaker_of_clip": clips % len(speakers),
        "speakers": tuple(speakers),
        "language_of_clip": np.zeros(clips.size, np.int32),
        "languages": ("en",),
        "symbols": Counter("abc"),
    }
    return CorpusMeasures(**(content | changes))


def test_the_statistics_of_a_small_corpus(small_corpus):
    stats = LJSpeechDataset(small_corpus, validation_fraction=None).get_statistics(GRAPHEMES)
    assert (stats["rows"], stats["clips"]) == (7, 3)
    assert (stats["unreadable"], stats["empty_text"]) == (3, 1)
    assert stats["hours"] == pytest.approx(9 / 3_600)
    assert stats["clip_seconds"] == {
        "min": 2.0,
        "median": 3.0,
        "mean": 3.0,
        "percentile_95": 4.0,
        "percentile_99": 4.0,
        "max": 4.0,
    }
    # "a bad cab", "abba" and "bad abba", each with its two edges.
    assert stats["text_length"] == {
        "min": 6,
        "median": 10.0,
        "mean": 9.0,
        "percentile_95": 11,
        "percentile_99": 11,
        "max": 11,
    }
    # 44100, 66150 and 88200 samples at 22050 Hz.
    assert stats["mel_length"] == {
        "min": 173,
        "median": 259.0,
        "mean": pytest.approx((173 + 259 + 345) / 3),
        "percentile_95": 345,
        "percentile_99": 345,
        "max": 345,
    }
    assert list(stats["speakers"]) == ["ann", "bob"]
    assert stats["speakers"]["ann"] == {"clips": 2, "hours": pytest.approx(6 / 3_600)}
    assert stats["speakers"]["bob"] == {"clips": 1, "hours": pytest.approx(3 / 3_600)}
    assert stats["languages"]["en"] == {"clips": 2, "hours": pytest.approx(5 / 3_600)}
    assert stats["languages"]["fi"] == {"clips": 1, "hours": pytest.approx(4 / 3_600)}
    assert stats["token_inventory"] == {"a": 8, "b": 7, " ": 3, "d": 2, "c": 1}


def test_lengths_follow_the_configuration(small_corpus):
    config = XTTSConfig(tokens="graphemes", sample_rate_hz=16_000, hop_samples=200)
    stats = LJSpeechDataset(small_corpus, validation_fraction=None).get_statistics(config)
    assert [stats["mel_length"][key] for key in ("min", "median", "max")] == [161, 241, 321]


def test_lengths_are_those_of_the_tokenizer_and_the_features(corpus, demo_corpus):
    """Untrimmed headers give at least the frames of the prepared clips, and the same tokens."""
    dataset = LJSpeechDataset(demo_corpus)
    measures = measure_corpus(dataset, XTTSConfig())
    symbols = [text_symbols(item.text, item.language, "phonemes") for item in dataset]
    tokenizer = Tokenizer.learn("phonemes", (symbol for row in symbols for symbol in row), ())
    assert measures.token_counts.tolist() == [
        len(tokenizer.encode(item.text, item.language)) for item in dataset
    ]
    assert measures.symbols == Counter(symbol for row in symbols for symbol in row)
    rows = corpus.train.cache.index["row"]
    assert (measures.frame_counts[rows] >= corpus.train.cache.frame_counts).all()
    assert measures.token_counts[rows].tolist() == corpus.train.cache.token_counts.tolist()


def test_percentiles_are_lengths_that_enough_clips_keep_to():
    stats = corpus_statistics(measures_of(range(11, 111), range(101, 201)))
    assert [stats["text_length"][key] for key in ("percentile_95", "percentile_99")] == [105, 109]
    assert [stats["mel_length"][key] for key in ("percentile_95", "percentile_99")] == [195, 199]
    assert stats["text_length"]["median"] == 60.5


def test_a_corpus_without_a_clip_to_use(tmp_path):
    (tmp_path / "metadata.csv").write_text("a|one two\nb|three\n")
    with pytest.raises(DataError):
        LJSpeechDataset(tmp_path, validation_fraction=None).get_statistics()


def test_a_language_that_cannot_be_spoken_names_its_row(tmp_path):
    (tmp_path / "metadata.csv").write_text(f"{HEADER}\nwavs/a.wav|abba|ann|xx\n")
    write_clip(tmp_path / "wavs" / "a.wav", 1.0)
    with pytest.raises(DataError, match=r"metadata\.csv:2"):
        LJSpeechDataset(tmp_path).get_statistics()


def test_processes_and_one_process_agree(small_corpus, monkeypatch):
    utterances = [*LJSpeechDataset(small_corpus, validation_fraction=None)] * 90
    monkeypatch.setattr(statistics, "_MIN_ROWS_FOR_PROCESSES", 1)
    calls = []
    two = measure_corpus(
        utterances, GRAPHEMES, processes=2, on_progress=lambda *counts: calls.append(counts)
    )
    one = measure_corpus(utterances, GRAPHEMES)
    assert corpus_statistics(one) == corpus_statistics(two)
    assert one.token_counts.tolist() == two.token_counts.tolist() == [11, 6, 10] * 90
    assert one.speaker_of_clip.tolist() == two.speaker_of_clip.tolist() == [0, 1, 0] * 90
    assert calls == [(256, 630), (512, 630), (630, 630)]


def test_a_script_without_a_guard_can_ask_for_statistics(small_corpus):
    script = small_corpus / "script.py"
    script.write_text(
        "import sys\n"
        "from myxtts.data import statistics\n"
        "from myxtts.data.metadata import LJSpeechDataset\n"
        "statistics._MIN_ROWS_FOR_PROCESSES = 1\n"
        f"print(LJSpeechDataset({str(small_corpus)!r}).get_statistics()['clips'])\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    root = str(Path(__file__).parents[2])
    result = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env={"PYTHONPATH": root}
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "3\n", "")


def test_the_histograms_hold_every_clip_and_both_percentiles(tmp_path):
    lengths = np.linspace(50, 1_500, 500).astype(int)
    measures = measures_of(lengths // 8, lengths, speakers=[f"s{n}" for n in range(20)])
    lengths_panel, texts, speakers = draw_histograms(measures).axes
    counts = [sum(bar.get_height() for bar in panel.patches) for panel in (lengths_panel, texts)]
    assert counts == [500, 500]
    assert sum(bar.get_height() for bar in speakers.patches) == 20
    assert [line.get_xdata()[0] for line in texts.lines] == [
        np.percentile(lengths // 8, percent, method="inverted_cdf") for percent in (95, 99)
    ]
    save_histograms(measures, tmp_path / "plot.png")
    assert [file.name for file in tmp_path.iterdir()] == ["plot.png"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "measures",
    [
        measures_of([40], [300]),
        measures_of([40] * 9, [300] * 9, speakers=["سارا", "a very long name indeed", "$音$"]),
        measures_of([10, 5_000] * 99, [50, 300_000] * 99),
    ],
    ids=["one clip", "names", "outliers"],
)
def test_unusual_corpora_can_be_drawn(measures):
    as_png(draw_histograms(measures))


def test_a_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match=r"plot\.png"):
        save_histograms(measures_of([40], [300]), tmp_path / "none" / "plot.png")
