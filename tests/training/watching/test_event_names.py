import pytest

from myxtts.training.watching.event_names import event_name


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        ("loss", "train/loss"),
        ("prior_loss", "train/loss_prior"),
        ("validation_loss", "validation/loss"),
        ("validation_prior_loss", "validation/loss_prior"),
        ("validation_mel_distance", "validation/mel_distance"),
        ("learning_rate", "train/optimizer_learning_rate"),
        ("data_wait_share", "time/data_wait_share"),
        ("gpu0_utilisation", "gpu/0_utilisation"),
    ],
)
def test_groups_of_tensorboard(metric, name):
    assert event_name(metric) == name
