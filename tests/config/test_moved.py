import logging
from pathlib import Path

import pytest

from myxtts.config.config import SECTIONS, XTTSConfig
from myxtts.config.loading import accumulation_split_batches, load_config, save_config
from myxtts.config.moved import CONSTANT, MOVED
from myxtts.errors import ConfigError
from myxtts.runs.run_dir import find_checkpoint

GOLDEN = Path(__file__).parents[1] / "runs" / "golden"


@pytest.fixture
def notices(caplog):
    caplog.set_level(logging.INFO, logger="myxtts.config")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def file(tmp_path):
    return tmp_path / "settings.yaml"


def test_every_old_name_leads_to_a_setting():
    settings = {f"{name}.{key}" for name in SECTIONS for key in vars(SECTIONS[name]())}
    assert settings.issuperset(MOVED.values())
    assert settings.isdisjoint([*MOVED, *CONSTANT])


def test_old_names_in_a_file_load_with_one_line(file, notices):
    file.write_text("training:\n  augment_speed: 0.1\n  save_every: 5\n  seed: 3\n")
    config = load_config(file)
    assert (config.augmentation.speed, config.saving.save_every) == (0.1, 5)
    assert config.training.seed == 3
    (line,) = notices()
    assert "training.augment_speed is now augmentation.speed" in line
    assert "training.save_every is now saving.save_every" in line


def test_old_names_with_set_load_and_join_the_line_of_the_file(file, notices):
    file.write_text("training:\n  augment_speed: 0.1\n")
    config = load_config(file, assignments=["training.evaluate_every=7"])
    assert (config.augmentation.speed, config.evaluation.evaluate_every) == (0.1, 7)
    (line,) = notices()
    assert "training.evaluate_every is now evaluation.evaluate_every" in line


def test_the_pipeline_in_the_section_of_the_data(file, notices):
    file.write_text(
        "data:\n  data_gpu: 0\n  model_gpu: 1\n  model_start_delay: 3\n  prefetch_buffer_size: 8\n"
        "  enable_memory_isolation: true\n  data_gpu_memory: 4096\n  model_gpu_memory_limit: 8192\n"
        "  num_workers: 2\n  enable_xla: true\n"
    )
    config = load_config(file)
    data = config.data
    assert (data.data_gpu, data.model_gpu) == (0, "1")
    assert data.model_start_delay == 3
    assert data.enable_memory_isolation
    assert (data.data_gpu_memory_mb, data.model_gpu_memory_mb) == (4096, 8192)
    assert (config.data.buffer_size, config.data.workers) == (8, 2)
    assert config.training.xla is True
    assert len(notices()) == 1


def test_new_names_are_no_news(file, notices):
    file.write_text("augmentation:\n  speed: 0.1\n")
    load_config(file, assignments=["saving.save_every=7"])
    XTTSConfig(save_every=5, evaluate_every=6)
    assert not notices()


def test_the_command_line_wins_over_the_file_by_either_name(file):
    file.write_text("training:\n  save_every: 5\n")
    assert load_config(file, assignments=["saving.save_every=7"]).saving.save_every == 7
    file.write_text("saving:\n  save_every: 5\n")
    assert load_config(file, assignments=["training.save_every=7"]).saving.save_every == 7


def test_old_names_from_python(notices):
    config = XTTSConfig(augment_speed=0.1, training={"save_every": 5, "seed": 3})
    assert (config.augmentation.speed, config.saving.save_every) == (0.1, 5)
    assert config.training.seed == 3
    assert len(notices()) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"training": {"save_every": 5}, "saving": {"save_every": 6}},
        {"training": {"save_every": 5}, "save_every": 6},
    ],
)
def test_both_names_at_once_from_python(settings):
    with pytest.raises(ConfigError) as error:
        XTTSConfig(**settings)
    assert str(error.value) == (
        "training.save_every is the old name of saving.save_every; both are given, keep one"
    )


def test_both_names_at_once_in_a_file_or_with_set(file):
    file.write_text("training:\n  save_every: 5\nsaving:\n  save_every: 5\n")
    line = "training.save_every is the old name of saving.save_every; both are given, keep one"
    with pytest.raises(ConfigError) as error:
        load_config(file)
    assert str(error.value) == f"{file}: {line}"
    with pytest.raises(ConfigError) as error:
        load_config(assignments=["training.save_every=5", "saving.save_every=5"])
    assert str(error.value) == f"--set: {line}"


def test_a_run_saved_under_old_names_loads_without_a_word(notices):
    config = find_checkpoint(GOLDEN).config()
    assert (config.evaluation.evaluate_every, config.saving.save_every) == (100, 3)
    assert not notices()


def test_a_run_saved_before_there_was_a_discriminator_has_none():
    of_saved, of_new = find_checkpoint(GOLDEN).config().training, load_config(None).training
    assert of_saved.adversarial_weight == of_saved.phoneme_weight == 0.0
    assert of_new.adversarial_weight > 0.0 < of_new.phoneme_weight


def test_a_vocoder_saved_before_there_was_a_refiner_has_none():
    of_saved, of_new = find_checkpoint(GOLDEN).config().vocoder, load_config(None).vocoder
    assert of_saved.refining_blocks == 0 < of_new.refining_blocks


def test_old_names_with_set_are_announced_on_a_saved_run_too(notices):
    config = load_config(
        GOLDEN / "config.yaml", assignments=["training.save_every=7"], is_saved_run=True
    )
    assert config.saving.save_every == 7
    (line,) = notices()
    assert "evaluate_every" not in line


ACCUMULATING = (
    "data: {batch_size: 28, frame_budget: 4003}\ntraining: {gradient_accumulation_steps: 4}"
)


@pytest.mark.parametrize(
    ("text", "is_saved_run", "batch_size", "frame_budget"),
    [
        (ACCUMULATING, True, 7, 1_000),
        (ACCUMULATING, False, 28, 4_003),
        (f"version: 2\n{ACCUMULATING}", True, 28, 4_003),
        (f"version: 1\n{ACCUMULATING}", False, 7, 1_000),
    ],
)
def test_a_run_from_when_accumulation_split_batches_keeps_its_steps(
    file, text, is_saved_run, batch_size, frame_budget
):
    file.write_text(text)
    config = load_config(file, is_saved_run=is_saved_run)
    assert config.data.batch_size == batch_size
    assert config.data.frame_budget == frame_budget
    assert config.clips_per_step == 4 * batch_size
    assert accumulation_split_batches(file) == ("version: 2" not in text)


def test_a_saved_configuration_means_the_same_when_it_is_loaded(file):
    config = XTTSConfig(batch_size=28, gradient_accumulation_steps=4)
    save_config(config, file)
    assert load_config(file) == load_config(file, is_saved_run=True) == config
    assert not accumulation_split_batches(file)
    assert not accumulation_split_batches(GOLDEN / "config.yaml")


def test_a_file_of_a_newer_version_is_refused(file):
    file.write_text("version: 3\n")
    with pytest.raises(ConfigError, match="version: found 3, expected at most 2; it was written"):
        load_config(file)


def test_what_became_a_constant_loads_with_its_value(file, notices):
    file.write_text("training:\n  beta_1: 0.9\n  final_learning_rate_fraction: 0.02\n")
    assert load_config(file) == XTTSConfig(beta_1=0.9) == XTTSConfig()
    assert not notices()


def test_another_value_of_a_constant_is_refused(file):
    file.write_text("training:\n  beta_1: 0.8\n")
    line = "training.beta_1: found 0.8, but it is no longer a setting and always 0.9"
    with pytest.raises(ConfigError) as error:
        load_config(file)
    assert str(error.value) == f"{file}: {line}; remove it"
    with pytest.raises(ConfigError) as error:
        XTTSConfig(beta_1=0.8)
    assert str(error.value) == f"{line}; remove it"


def test_a_saved_run_with_another_value_of_a_constant_loads_with_a_line(file, notices):
    file.write_text("training:\n  beta_1: 0.8\n  seed: 3\n")
    assert load_config(file, is_saved_run=True).training.seed == 3
    (line,) = notices()
    assert line.endswith("training.beta_1: found 0.8, but it is no longer a setting and always 0.9")
