import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.config.config import XTTSConfig
from myxtts.data import statistics
from myxtts.data.metadata import LJSpeechDataset
from myxtts.data.shapes import Clips
from myxtts.data.statistics import (
    CorpusMeasures,
    advise,
    corpus_statistics,
    diagnose,
    measure_corpus,
    recommend,
    save_histograms,
    typical_lengths,
    weigh_choices,
)
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


def measures_of(tokens, frames, speakers=("ann",)) -> CorpusMeasures:
    token_counts, frame_counts = np.array(tokens, np.int32), np.array(frames, np.int32)
    rows = np.arange(token_counts.size, dtype=np.int32)
    return CorpusMeasures(
        rows=rows.size,
        unreadable=0,
        empty_text=0,
        seconds=(frame_counts - 1) * 256 / 22_050,
        clips=Clips(token_counts, frame_counts, rows % len(speakers), np.zeros_like(rows)),
        speakers=tuple(speakers),
        languages=("en",),
        symbols=Counter("abc"),
    )


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
    assert measures.clips.token_counts.tolist() == [
        len(tokenizer.encode(item.text, item.language)) for item in dataset
    ]
    assert measures.symbols == Counter(symbol for row in symbols for symbol in row)
    rows = corpus.train.cache.index["row"]
    assert (measures.clips.frame_counts[rows] >= corpus.train.cache.frame_counts).all()
    assert measures.clips.token_counts[rows].tolist() == corpus.train.cache.token_counts.tolist()


def test_a_corpus_without_usable_clips(tmp_path):
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
    assert one.clips.token_counts.tolist() == [11, 6, 10] * 90
    assert one.clips.speakers.tolist() == [0, 1, 0] * 90
    for ours, theirs in zip(one.clips, two.clips, strict=True):
        assert ours.tolist() == theirs.tolist()
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


@pytest.mark.parametrize(
    "measures",
    [
        measures_of([40], [300]),
        measures_of([40] * 9, [300] * 9, speakers=["سارا", "a very long name indeed", "$音$"]),
        measures_of([10, 5_000] * 99, [50, 300_000] * 99, speakers=[f"s{n}" for n in range(20)]),
    ],
    ids=["one clip", "names", "outliers"],
)
def test_histograms_are_drawn(measures, tmp_path):
    save_histograms(measures, tmp_path / "plot.png")
    assert [file.name for file in tmp_path.iterdir()] == ["plot.png"]
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match=r"plot\.png"):
        save_histograms(measures_of([40], [300]), tmp_path / "none" / "plot.png")


def test_the_cost_of_each_choice():
    # Ninety clips of 160 frames, nine of 320 and one of 480, with 20, 40 and 60 tokens.
    measures = measures_of([20] * 90 + [40] * 9 + [60], [160] * 90 + [320] * 9 + [480])
    costs = {
        choice.name: (
            choice.shapes,
            choice.max_text_length,
            choice.max_mel_frames,
            choice.clips_left_out,
            round(choice.valid_frame_ratio, 4),
        )
        for choice in weigh_choices(measures, XTTSConfig(max_text_length=30))
    }
    real = 90 * 160 + 9 * 320
    assert costs == {
        "as configured": (1, 30, 160, 10, 1.0),
        "fixed, p95": (1, 40, 320, 1, round(real / (99 * 320), 4)),
        "fixed, p99": (1, 40, 320, 1, round(real / (99 * 320), 4)),
        "fixed, longest": (1, 60, 480, 0, round((real + 480) / (100 * 480), 4)),
        "bucketed, 2": (2, 60, 480, 0, round((real + 480) / (90 * 160 + 10 * 480), 4)),
        "bucketed, 4": (3, 60, 480, 0, 1.0),
        "bucketed, 8": (3, 60, 480, 0, 1.0),
        "bucketed, 16": (3, 60, 480, 0, 1.0),
    }


def test_limits_that_no_clip_fits():
    measures = measures_of([24] * 50, [160] * 50)
    configured = weigh_choices(measures, XTTSConfig(max_mel_frames=100))[0]
    assert (configured.shapes, configured.clips_left_out) == (0, 50)


def recommended(measures, config=None):
    config = config or XTTSConfig()
    return recommend(measures, weigh_choices(measures, config), config).settings


def test_recommended_limits_exclude_only_outliers():
    lengths = np.linspace(100, 800, 999).astype(int)
    settings = recommended(measures_of([*(lengths // 8), 5_000], [*lengths, 40_000]))
    # The 99th percentiles are 99 tokens and 792 frames; half as much again, in round numbers.
    assert (settings["max_text_length"], settings["max_mel_frames"]) == (152, 1_200)
    settings = recommended(measures_of(lengths // 8, lengths))
    assert (settings["max_text_length"], settings["max_mel_frames"]) == (100, 800)


def test_the_number_of_shapes_is_left_to_the_planner():
    measures = measures_of([50] * 1_000, [400] * 1_000)
    assert "shape_count" not in recommended(measures)
    assert recommended(measures, XTTSConfig(shape_count=3))["shape_count"] is None


def test_recommended_settings_keep_every_clip():
    lengths = np.linspace(50, 1_500, 500).astype(int)
    config = XTTSConfig(pad_to_fixed_length=True)
    measures = measures_of(lengths // 4, lengths)
    settings = recommended(measures, config)
    resolved = XTTSConfig(**(config.as_dict() | {"data": dict(settings)}))
    assert resolved.data.batching_mode == "bucketed"
    assert weigh_choices(measures, resolved)[0].clips_left_out == 0


@pytest.mark.parametrize(
    ("batching", "xla", "compilations", "again"),
    [("bucketed", True, 1, 0), ("fixed", True, 1, 0), ("dynamic", False, 0, 0)],
)
def test_static_shapes_are_compiled_once(batching, xla, compilations, again):
    config = XTTSConfig(batching=batching, shape_count=1)
    predicted = diagnose(typical_lengths(300), config, xla=xla).prediction
    assert (predicted.compilations, predicted.compilations_after_warmup) == (compilations, again)
    assert predicted.traces == 1


def test_dynamic_shapes_compile_again_with_xla():
    config = XTTSConfig(batching="dynamic")
    diagnosis = diagnose(typical_lengths(300), config, xla=True, replicas=2)
    assert diagnosis.would_compile_again
    assert diagnosis.prediction.compilations == 2 * diagnosis.prediction.shapes
    assert any("bucketed" in sentence for sentence in advise(diagnosis, config))


def test_too_many_rejected_clips_would_stop_training():
    config = XTTSConfig(max_text_length=80)
    diagnosis = diagnose(typical_lengths(300), config, xla=False, unusable=10)
    assert diagnosis.would_stop
    assert any("max_rejected_fraction=" in sentence for sentence in advise(diagnosis, config))
