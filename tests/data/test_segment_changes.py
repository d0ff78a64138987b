import numpy as np
import pytest

from myxtts.config.config import XTTSConfig
from myxtts.data.segment_changes import SegmentChanges

WIDTH = 8_000


@pytest.mark.parametrize("seed", range(6))
def test_everything_can_be_changed_at_once(seed):
    config = XTTSConfig(pitch_semitones=3.0, tone_db=6.0, gain_db=6.0, noise_dbfs=-40.0)
    changes, generator = SegmentChanges(config), np.random.default_rng(seed)
    tone = np.sin(np.arange(WIDTH) / 10).astype(np.float32)
    change = changes.draw(generator, WIDTH)
    changed = change.applied_to(tone)
    assert WIDTH / changes.most_pitch - 1 <= changed.size <= WIDTH
    assert np.abs(changed).max() > 0.1
    crossings = np.count_nonzero(np.diff(np.signbit(changed))) / changed.size
    assert crossings == pytest.approx(change.pitch / (10 * np.pi), rel=0.05)
