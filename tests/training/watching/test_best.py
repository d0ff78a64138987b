import math

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.errors import CheckpointError, ConfigError
from myxtts.runs.run_dir import find_checkpoint, take_snapshot
from myxtts.synthesis.tts import TTS
from myxtts.training.best import BestCheckpoint


@pytest.mark.parametrize(
    ("metric", "values", "best_step"),
    [
        ("wer", [0.9, 0.4, 0.5], 2),
        ("similarity", [0.3, 0.8, 0.7], 2),
        ("mel_cepstral_distance", [0.9, 0.9], 1),
    ],
)
def test_each_metric_knows_which_way_is_better(metric, values, best_step):
    best = BestCheckpoint(metric)
    told = [best.update(step, {metric: value}) for step, value in enumerate(values, 1)]
    assert best.step == best_step
    assert best.value == values[best_step - 1]
    assert max(step for step, is_best in enumerate(told, 1) if is_best) == best_step


def test_of_checkpoints_whose_mels_are_as_near_the_newest_is_best():
    best = BestCheckpoint("validation_mel_distance", patience_evaluations=3)
    told = [
        best.update(step, {"validation_mel_distance": distance})
        for step, distance in enumerate([0.7, 0.61, 0.62, 0.65], 1)
    ]
    assert told == [True, True, True, False]
    assert (best.step, best.value) == (3, 0.62)
    # Compared with the lowest, so that it cannot creep away from it.
    assert not best.update(5, {"validation_mel_distance": 0.635})
    # An equal one is no improvement.
    assert best.should_stop


def test_stops_after_so_many_evaluations_without_a_better_one():
    best = BestCheckpoint("validation_loss", patience_evaluations=2)
    stops = []
    for step, loss in enumerate([3.0, 2.0, 2.5, 1.9, 2.0, math.nan], 1):
        best.update(step, {"validation_loss": loss})
        stops.append(best.should_stop)
    assert stops == [False, False, False, False, False, True]
    assert best.step == 4


def test_lines_without_the_metric_are_no_evaluations():
    best = BestCheckpoint("wer", patience_evaluations=1)
    best.update(1, {"wer": 0.5})
    for step in range(2, 6):
        assert not best.update(step, {"validation_loss": 1.0, "wer": None})
    assert not best.should_stop


def test_an_unknown_metric_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"found 'war', allowed: validation_loss.*wer"):
        BestCheckpoint("war")
    with pytest.raises(ConfigError, match=r"evaluation\.best_metric: found 'war', allowed:.*wer"):
        XTTSConfig(best_metric="war")


def test_a_measure_cannot_choose_where_nothing_is_measured():
    with pytest.raises(ConfigError, match=r"best_metric: found wer.*needs evaluation\.measure"):
        XTTSConfig(best_metric="wer")
    assert XTTSConfig(best_metric="wer", measure_every=1).evaluation.best_metric == "wer"


def test_a_snapshot_speaks_like_its_run_and_outlives_its_checkpoint(trained_run, tmp_path):
    checkpoint = find_checkpoint(trained_run).folder
    snapshot = take_snapshot(checkpoint, tmp_path / "best")
    take_snapshot(checkpoint, tmp_path / "best")
    assert [folder.name for folder in tmp_path.iterdir()] == ["best"]
    assert TTS(snapshot).step == TTS(trained_run).step
    inode = (checkpoint / "model.safetensors").stat().st_ino
    weights = snapshot / "model.safetensors"
    assert weights.stat().st_ino == inode or weights.stat().st_dev != checkpoint.stat().st_dev


def test_a_snapshot_of_a_checkpoint_that_is_gone(trained_run, tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written"):
        take_snapshot(trained_run / "checkpoints" / "step_1", tmp_path / "best")
    assert list(tmp_path.iterdir()) == []
