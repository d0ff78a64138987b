import pytest

from myxtts.config.config import ALIASES, DataConfig, XTTSConfig
from myxtts.config.loading import load_config
from myxtts.errors import ConfigError


def test_every_alias_leads_to_a_setting():
    settings = set(vars(DataConfig()))
    assert settings.issuperset(ALIASES.values())
    assert settings.isdisjoint(ALIASES)


def test_aliases_in_a_file_on_the_command_line_and_from_python(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("data:\n  data_gpu_memory: 4096\n  prefetch_buffer_size: 7\n")
    config = load_config(file)
    assert (config.data.data_gpu_memory_mb, config.data.buffer_size) == (4096, 7)
    assert load_config(file, assignments=["buffer_size=8"]).data.buffer_size == 8
    assert load_config(assignments=["data.enable_static_shapes=true"]).data.pad_to_fixed_length
    assert XTTSConfig(prefetch_buffer_size=7) == XTTSConfig(data={"prefetch_buffer_size": 7})


def test_both_names_at_once():
    with pytest.raises(ConfigError):
        XTTSConfig(data={"prefetch_buffer_size": 1}, buffer_size=2)
