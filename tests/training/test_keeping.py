"""What a run says of its checkpoints is what lies on the disk."""

import pytest

from myxtts.data.pipeline import AcousticSource
from myxtts.errors import DataError
from myxtts.runs.run_dir import RunDir
from myxtts.training.output import describe_saved
from myxtts.training.trainer import XTTSTrainer


@pytest.fixture
def train_on_a_failing_disk(corpus, miniature, tmp_path, monkeypatch):
    """Train until the features cannot be read; return the run and its messages."""

    def train(**settings):
        load = AcousticSource.load

        def load_until_it_fails(self, step):
            if step >= 4:
                raise OSError(5, "Input/output error")
            return load(self, step)

        run = RunDir(tmp_path / "run")
        trainer = XTTSTrainer(miniature(**settings), corpus, run)
        monkeypatch.setattr(AcousticSource, "load", load_until_it_fails)
        with pytest.raises(DataError, match=r"features cannot be read .*Input/output") as caught:
            trainer.fit()
        return run, str(caught.value)

    return train


def test_a_run_without_data_is_saved_before_it_says_so(train_on_a_failing_disk):
    run, message = train_on_a_failing_disk(save_every=100)
    step = run.newest_checkpoint().info.step
    assert f"the run is saved up to step {step}:" in message


def test_a_run_that_cannot_be_saved_does_not_say_that_it_is(
    train_on_a_failing_disk, tmp_path, monkeypatch
):
    run = RunDir(tmp_path / "run")
    run.make()
    run.checkpoints.write_text("a file in the way of the folder")
    _, message = train_on_a_failing_disk(save_every=100)
    assert "saved up to" not in message
    assert "could not be saved, and there is no earlier checkpoint" in message


def test_the_newest_checkpoint_is_named_where_a_later_step_is_missing(trained_run):
    assert describe_saved(RunDir(trained_run), 6) == "the run is saved up to step 6"
    assert describe_saved(RunDir(trained_run), 9) == (
        "step 9 could not be saved; the newest checkpoint is step 6"
    )
