"""What users import, assign and write into a file, by the names that were promised."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from myxtts.config.loading import load_config
from myxtts.errors import ConfigError

ROOT = Path(__file__).parents[2]


def test_settings_by_their_promised_names_and_defaults():
    from myxtts.config.config import DataConfig, ModelConfig, TrainingConfig, XTTSConfig

    data = DataConfig()
    assert data.pad_to_fixed_length is False
    assert data.max_text_length == 200
    assert data.max_mel_frames is None
    assert data.n_mels == 80
    assert data.batch_size > 0
    config = XTTSConfig(
        data=DataConfig(pad_to_fixed_length=True, max_text_length=150, max_mel_frames=600),
        model=ModelConfig(size="tiny"),
        training=TrainingConfig(multi_gpu=False),
    )
    assert config.data.batching_mode == "fixed"
    config = XTTSConfig(multi_gpu=False, visible_gpus="0,1")
    assert (config.training.multi_gpu, config.training.visible_gpus) == (False, "0,1")


def test_a_configuration_is_changed_by_a_copy():
    from myxtts.config.config import XTTSConfig

    config = XTTSConfig()
    with pytest.raises(ConfigError, match=r"config\.with_\(pad_to_fixed_length=True\)"):
        config.data.pad_to_fixed_length = True
    with pytest.raises(ConfigError, match=r"^multi_gpu: .* config\.with_\(multi_gpu=True\)"):
        config.multi_gpu = True
    with pytest.raises(ConfigError, match=r"^data: .* config\.with_\(data=\.\.\.\)"):
        config.data = config.data
    config = config.with_(pad_to_fixed_length=True)
    assert config.data.pad_to_fixed_length is True


def test_functions_have_their_promised_arguments():
    from myxtts.utils.commons import setup_gpu_strategy
    from myxtts.utils.gpu_memory import setup_gpu_memory_isolation

    limits = inspect.signature(setup_gpu_memory_isolation).parameters
    assert {name: limits[name].default for name in list(limits)[:4]} == {
        "data_gpu_id": 0,
        "model_gpu_id": 1,
        "data_gpu_memory_limit": 8192,
        "model_gpu_memory_limit": 16384,
    }
    assert inspect.signature(setup_gpu_strategy).parameters["enable_multi_gpu"].default is False


FIXED = """
data:
  pad_to_fixed_length: true
  max_text_length: 200
  max_mel_frames: 800
  n_mels: 80
  batch_size: 28

training:
  gradient_accumulation_steps: 4
"""
MIRRORED = """
training:
  multi_gpu: true
  visible_gpus: "0,1"
"""
PIPELINE = """
data:
  data_gpu: 0
  model_gpu: 1
  prefetch_buffer_size: 50
  model_start_delay: 2.0
  enable_memory_isolation: true
  data_gpu_memory: 8192
  model_gpu_memory: 16384
"""


@pytest.fixture
def read(tmp_path):
    def read(text):
        file = tmp_path / "config.yaml"
        file.write_text(text, encoding="utf-8")
        return load_config(file)

    return read


def test_static_shapes_in_yaml(read):
    assert read(FIXED.replace("pad_to_fixed_length", "enable_static_shapes")) == read(FIXED)
    config = read(FIXED)
    assert config.data.batching_mode == "fixed"
    assert (config.data.max_text_length, config.data.max_mel_frames) == (200, 800)
    assert (config.data.batch_size, config.training.gradient_accumulation_steps) == (28, 4)


def test_the_strategy_in_yaml(read):
    training = read(MIRRORED).training
    assert (training.multi_gpu, training.visible_gpus) == (True, "0,1")


def test_the_pipeline_in_yaml(read):
    config = read(PIPELINE)
    assert (config.data.data_gpu, config.data.model_gpu) == (0, "1")
    assert config.data.buffer_size == 50
    assert config.data.model_start_delay == 2.0
    assert config.data.enable_memory_isolation
    assert (config.data.data_gpu_memory_mb, config.data.model_gpu_memory_mb) == (8192, 16384)


def test_files_are_where_they_were_promised():
    for file in (
        "train_main.py",
        "configs/config.yaml",
        "utilities/diagnose_retracing.py",
        "examples/gpu_pipeline_example.sh",
        "examples/gpu_strategy_demo.py",
    ):
        assert (ROOT / file).is_file(), file
    for page in ("gpu-pipeline.md", "static-shapes.md", "devices.md", "gpu-memory.md"):
        for language in ("en", "fa"):
            assert (ROOT / "docs" / language / page).is_file(), (language, page)
