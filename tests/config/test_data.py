from myxtts.config.config import DataConfig


def test_pad_to_fixed_length_is_fixed_batching():
    assert DataConfig(pad_to_fixed_length=True).batching_mode == "fixed"
    assert DataConfig(batching="fixed").batching_mode == "fixed"
    assert DataConfig().batching_mode == "bucketed"
