import numpy as np
import pytest

from myxtts.config.config import XTTSConfig
from myxtts.data.segments import changed_segment

WIDTH = 8_000


@pytest.mark.parametrize("seed", range(6))
def test_everything_can_be_changed_at_once(seed):
    config = XTTSConfig(pitch_semitones=3.0, tone_db=6.0, gain_db=6.0, noise_dbfs=-40.0)
    tone = np.sin(np.arange(WIDTH) / 10).astype(np.float32)
    changed = changed_segment(tone, np.random.default_rng(seed), config.augmentation)
    pitch = 2 ** (3.0 * np.random.default_rng(seed).uniform(-1, 1) / 12)
    assert changed.size == pytest.approx(min(WIDTH, WIDTH / pitch), abs=2)
    assert np.abs(changed).max() > 0.1
    crossings = np.count_nonzero(np.diff(np.signbit(changed))) / changed.size
    assert crossings == pytest.approx(pitch / (10 * np.pi), rel=0.05)
