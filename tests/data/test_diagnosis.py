from collections import Counter

import numpy as np
import pytest

from myxtts.config.config import XTTSConfig
from myxtts.data.diagnosis import (
    advice_on_limits,
    limits_that_keep,
    recommend,
    resume_option,
    weigh_choices,
)
from myxtts.data.statistics import CorpusMeasures


@pytest.fixture
def lengths():
    """Tokens and frames of clips that differ in speaking rate."""
    generator = np.random.default_rng(0)
    seconds = generator.normal(6.9, 2.2, 5_000).clip(1, 11)
    tokens = seconds * generator.normal(14, 1.5, seconds.size)
    return tokens.astype(np.int32), (seconds * 86).astype(np.int32)


@pytest.mark.parametrize("percent", [99, 95, 80])
def test_both_limits_together_keep_what_they_say(lengths, percent):
    tokens, frames = lengths
    config = XTTSConfig(max_text_length=150, max_mel_frames=600)
    limits = limits_that_keep(percent, tokens, frames, config)

    def kept(fewer_tokens=0, fewer_frames=0):
        fits = tokens <= limits["data.max_text_length"] - fewer_tokens
        return 100 * np.mean(fits & (frames <= limits["data.max_mel_frames"] - fewer_frames))

    assert kept() >= percent
    assert kept(fewer_tokens=6, fewer_frames=20) < percent


def test_a_limit_that_comes_from_the_data_needs_no_advice(lengths):
    limits = limits_that_keep(80, *lengths, XTTSConfig(max_text_length=50))
    assert list(limits) == ["data.max_text_length"]


def test_the_advice_names_every_way_out(lengths):
    advice = advice_on_limits(*lengths, XTTSConfig(max_text_length=150, max_mel_frames=600))
    for part in ("data.max_text_length = ", "data.max_mel_frames = ", "99 %", "95 %", "80 %"):
        assert part in advice
    assert resume_option(41, 200) == "--set data.max_rejected_fraction=0.21"


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


def test_what_each_choice_costs():
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


def test_real_work_is_all_work_where_nothing_is_padded():
    for choice in weigh_choices(measures_of([24] * 50, [200] * 50), XTTSConfig(max_text_length=24)):
        assert (choice.valid_frame_ratio, choice.valid_work_ratio) == (1.0, 1.0)


def test_limits_that_nothing_fits_are_shown_as_such():
    measures = measures_of([24] * 50, [160] * 50)
    configured = weigh_choices(measures, XTTSConfig(max_mel_frames=100))[0]
    assert (configured.shapes, configured.clips_left_out) == (0, 50)


def recommended(measures: CorpusMeasures, config: XTTSConfig | None = None):
    config = config or XTTSConfig()
    return recommend(measures, weigh_choices(measures, config), config)


def test_outliers_are_left_out_and_nothing_else():
    lengths = np.linspace(100, 800, 999).astype(int)
    measures = measures_of([*(lengths // 8), 5_000], [*lengths, 40_000])
    advice = recommended(measures)
    # The 99th percentiles are 99 tokens and 792 frames; half as much again, in round numbers.
    assert advice.settings["max_text_length"] == 152
    assert advice.settings["max_mel_frames"] == 1_200
    whole = recommended(measures_of(lengths // 8, lengths))
    assert whole.settings["max_text_length"] == 100
    assert whole.settings["max_mel_frames"] == 800


@pytest.mark.parametrize(
    ("clips", "frames", "config", "expected"),
    [
        (1_000, 400, XTTSConfig(), 16),
        (16, 400, XTTSConfig(), 16),
        (10, 400, XTTSConfig(), 8),
        (3, 400, XTTSConfig(), 4),
        (10, 400, XTTSConfig(batch_size=2), 2),
        (1_000, 400, XTTSConfig(gradient_accumulation_steps=4), 16),
        (40, 400, XTTSConfig(gradient_accumulation_steps=4), 8),
        (1_000, 3_000, XTTSConfig(), 8),
        (10_000, 400, XTTSConfig(batch_size=48), 48),
    ],
)
def test_batches_suit_the_corpus(clips, frames, config, expected):
    assert (
        recommended(measures_of([50] * clips, [frames] * clips), config).settings["batch_size"]
        == expected
    )


def test_the_number_of_shapes_is_left_to_the_planner():
    measures = measures_of([50] * 1_000, [400] * 1_000)
    assert "shape_count" not in recommended(measures).settings
    assert recommended(measures, XTTSConfig(shape_count=3)).settings["shape_count"] is None


def test_recommended_settings_are_a_configuration_that_keeps_its_promise():
    lengths = np.linspace(50, 1_500, 500).astype(int)
    config = XTTSConfig(pad_to_fixed_length=True)
    measures = measures_of(lengths // 4, lengths)
    advice = recommended(measures, config)
    resolved = XTTSConfig(**(config.as_dict() | {"data": dict(advice.settings)}))
    assert resolved.data.batching_mode == "bucketed"
    assert weigh_choices(measures, resolved)[0].clips_left_out == 0


def test_what_is_recommended_beside_what_train_does_by_default():
    """Three clips with texts over the default limit are also the longest ones."""
    measures = measures_of([50] * 97 + [300] * 3, [300] * 96 + [1_100] + [2_100] * 3)
    choices = weigh_choices(measures, XTTSConfig())
    assert (choices[0].max_mel_frames, choices[0].clips_left_out) == (1_104, 3)
    recommendation = recommend(measures, choices, XTTSConfig())
    assert recommendation.settings["batch_size"] == 8
