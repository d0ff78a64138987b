import numpy as np
import pytest

from myxtts.config.config import XTTSConfig
from myxtts.data.limits import advice_on_limits, go_on_with, limits_that_keep


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
    assert advice.startswith("data.max_text_length = ")
    for part in ("would keep 99 %, ", "would keep 95 %, ", "would keep 80 % of the clips"):
        assert part in advice
    assert go_on_with(41, 200) == "--set data.max_rejected_fraction=0.21"
