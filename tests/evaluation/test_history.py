import json

import pytest

from myxtts.charts import as_png
from myxtts.errors import CheckpointError
from myxtts.evaluation.history import AXES, read_history
from myxtts.evaluation.results import draw_curves


@pytest.fixture
def run_dir(tmp_path):
    """Twenty steps of two seconds each, a pause of a day, and twenty of four seconds."""
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [
        {"step": 10, "time": 0, "loss": 4.0, "step_seconds": 1.5, "data_wait_seconds": 0.5},
        {"step": 20, "time": 20, "loss": 3.0, "step_seconds": 2.0, "data_wait_seconds": 0.0},
        {"step": 40, "time": 90_000, "loss": 2.0, "step_seconds": 4.0, "data_wait_seconds": 0.0,
         "validation_loss": 2.5},
        {"step": 20, "time": 90_001, "wer": 0.9},
    ]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + '{"step": 50, "lo')
    (folder / "config.yaml").write_text("data: {batch_size: 8}\n")
    return folder


def test_losses_and_measures_over_steps_hours_and_utterances(run_dir):
    history = read_history(run_dir)
    assert (history.steps, history.utterances) == (40, 320)
    assert history.hours == pytest.approx((20 * 2 + 20 * 4) / 3_600)
    assert history.curves["loss"].values == (4.0, 3.0, 2.0)
    assert history.curves["loss"].utterances == (80, 160, 320)
    assert history.curves["wer"].steps == (20,)
    assert history.curves["wer"].hours == pytest.approx((40 / 3_600,))


def test_an_evaluation_is_a_point_and_gives_the_ceiling(run_dir):
    (run_dir / "evaluation").mkdir()
    content = {
        "step": 40,
        "measures": {
            "wer": {
                "means": {"recordings": 0.2, "griffin-lim copies": 0.3, "model": 0.5},
                "intervals": {"model": [0.4, 0.6]},
                "clips": {"model": 20},
            },
            "real_time_factor": {"means": {"recordings": None, "model": 0.1}},
        },
        "sentences": [{"text": "One."}],
    }
    (run_dir / "evaluation" / "evaluation.json").write_text(json.dumps(content))
    history = read_history(run_dir)
    assert history.curves["wer"].values == (0.9, 0.5)
    assert history.intervals == {"wer": (0.4, 0.6, 20)}
    assert history.ceiling == {"wer": 0.2}
    assert history.sentences == ("One.",)


@pytest.mark.parametrize("axis", AXES)
def test_every_panel_has_a_line_per_run(run_dir, axis):
    history = read_history(run_dir)
    figure = draw_curves({"a": history, "$b 音": history}, axis)
    assert len(figure.axes) == len(history.curves)
    curve = next(iter(history.curves.values()))
    for line in figure.axes[0].lines:
        assert tuple(line.get_xdata()) == tuple(curve.along(axis))
        assert tuple(line.get_ydata()) == curve.values
    assert as_png(figure).startswith(b"\x89PNG")


def test_folders_that_are_not_runs(tmp_path):
    with pytest.raises(CheckpointError, match="no such folder"):
        read_history(tmp_path / "none")
    with pytest.raises(CheckpointError, match=r"metrics\.jsonl is missing or empty"):
        read_history(tmp_path)
    (tmp_path / "metrics.jsonl").write_text("nonsense\n")
    with pytest.raises(CheckpointError, match="not a line of a run"):
        read_history(tmp_path)
