from pathlib import Path

import pytest

from myxtts.config.loading import load_config, save_config
from myxtts.errors import ConfigError

CONFIGS = Path(__file__).parents[2] / "configs"


def write(folder: Path, text: str) -> Path:
    file = folder / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_layers_in_their_order(tmp_path):
    file = write(tmp_path, "model:\n  size: small\n  text_blocks: 3\ndata:\n  batch_size: 8\n")
    config = load_config(file, {"data": {"batch_size": 4}}, ["data.batch_size=2"])
    assert config.data.batch_size == 2
    assert config.model.text_blocks == 3  # the file wins over the preset
    assert config.model.decoder_width == 320  # the preset wins over the default


def test_saved_configuration_comes_back_equal(tmp_path):
    config = load_config(
        overrides={"model": {"size": "big"}}, assignments=["text.tokens=graphemes"]
    )
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config


@pytest.mark.parametrize("name", ["config.yaml", "demo.yaml", "persian.yaml"])
def test_shipped_configurations_load(name):
    assert load_config(CONFIGS / name).training.max_steps is not None


def test_assignments_need_no_section():
    config = load_config(assignments=["learning_rate=1e-4", "speed=0.1", "model_start_delay=3"])
    assert config.training.learning_rate == 1e-4
    assert config.augmentation.speed == 0.1
    assert config.data.model_start_delay == 3


@pytest.mark.parametrize(
    ("flags", "assignments", "line"),
    [
        ({"data": {"batch_size": 0}}, [], "--batch-size: found 0, allowed: 1 or more"),
        ({"model": {"size": "smal"}}, [], "--model-size: found 'smal', allowed: "),
        ({"data": {"batch_size": 0}}, ["data.batch_size=-1"], "--set: data.batch_size: found -1"),
        # The width stands in the file and is all right there.
        ({}, ["model.attention_heads=7"], "--set: model.text_width: found 192, expected a multi"),
        ({"data": {"model_gpu": "one"}}, [], "--model-gpu: found 'one', expected GPU ids"),
        ({"training": {"visible_gpus": "0,0"}}, [], "--visible-gpus: found '0,0', expected each"),
        ({"training": {"seed": 1}}, [], "FILE: data.batch_size: found 0, allowed: 1 or more"),
    ],
)
def test_the_one_that_gave_a_setting_is_blamed(tmp_path, flags, assignments, line):
    size = 8 if "FILE" not in line else 0
    file = write(tmp_path, f"model:\n  text_width: 192\ndata:\n  batch_size: {size}\n")
    with pytest.raises(ConfigError) as error:
        load_config(file, flags, assignments, flag_names={"size": "--model-size"})
    assert str(error.value).startswith(line.replace("FILE", str(file)))


def test_assignments_take_yaml_values():
    config = load_config(
        assignments=["training.learning_rate=1e-4", "training.xla=true", "data.max_mel_frames=null"]
    )
    assert config.training.learning_rate == 1e-4
    assert config.training.xla is True
    assert config.data.max_mel_frames is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "trainig:\n  seed: 1\n",
            "unknown section 'trainig', allowed: audio, text, data, model, vocoder, "
            "training, augmentation, evaluation, saving; did you mean 'training'?",
        ),
        (
            "data:\n  bach_size: 1\n",
            "unknown setting 'data.bach_size'; did you mean 'data.batch_size'?",
        ),
        ("data:\n  batch_size: [1]\n", "data.batch_size: found [1] (list), expected int"),
        ("data: 5\n", "data: found 5, expected settings below it"),
        ("- a\n- b\n", "found list, expected sections such as data:"),
    ],
)
def test_errors_in_a_file_name_the_file(tmp_path, text, line):
    file = write(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        load_config(file)
    assert str(error.value) == f"{file}: {line}"


def test_broken_yaml_and_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_config(write(tmp_path, "data: [1\n"))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        ("data=8", "--set data=8: expected section.key=value"),
        ("data.=8", "--set data.=8: expected section.key=value"),
        ("=8", "--set =8: expected section.key=value"),
        ("data.batch_size", "--set data.batch_size: expected section.key=value"),
        (
            "dat.batch_size=8",
            "--set dat.batch_size=8: unknown section 'dat', allowed: audio, text, data, "
            "model, vocoder, training, augmentation, evaluation, saving; did you mean "
            "'data'?",
        ),
        (
            "data.batch=8",
            "--set: unknown setting 'data.batch'; did you mean 'data.batch_size'?",
        ),
        (
            "training.lr=1",
            "--set: unknown setting 'training.lr'; did you mean 'training.learning_rate'?",
        ),
        (
            "data.learning_rate=1",
            "--set: unknown setting 'data.learning_rate'; did you mean 'training.learning_rate'?",
        ),
        ("lr=1", "--set lr=1: unknown setting 'lr'; did you mean 'learning_rate'?"),
        ("seed=x", "--set: training.seed: found 'x' (str), expected int"),
    ],
)
def test_wrong_assignments(assignment, line):
    with pytest.raises(ConfigError) as error:
        load_config(assignments=[assignment])
    assert str(error.value) == line


def test_an_empty_file_is_the_defaults(tmp_path):
    assert load_config(write(tmp_path, "")) == load_config()


DIGITS = "9" * 400


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"training: {{max_steps: {DIGITS[:40]}}}", "training.max_steps: found a number of"),
        (f"training: {{learning_rate: {DIGITS[:60]}}}", "training.learning_rate: found a number"),
        ("training: {learning_rate: .inf}", "learning_rate: found inf, expected a finite number"),
        ("training: {learning_rate: 1e999}", "learning_rate: found inf, expected a finite number"),
        ("training: {learning_rate: -.inf}", "found -inf, expected a finite number"),
        ("training: {learning_rate: 1.0e+300}", "learning_rate: found 1e.300, expected a smaller"),
    ],
)
def test_numbers_that_no_setting_has(tmp_path, text, problem):
    with pytest.raises(ConfigError, match=problem):
        load_config(write(tmp_path, text))


@pytest.mark.parametrize("text", ['"a\\0b"', '"\\ud800"', '"\\udcff"'])
def test_names_that_no_file_can_have(tmp_path, text):
    with pytest.raises(ConfigError, match=r"cache_dir: found '.*', which is not UTF-8 text"):
        load_config(write(tmp_path, f"data: {{cache_dir: {text}}}"))


def test_numbers_of_the_command_line_are_bounded_too():
    for assignment in (f"max_steps={DIGITS}", "learning_rate=.inf", f"learning_rate={DIGITS}"):
        with pytest.raises(ConfigError):
            load_config(None, assignments=[assignment])
    for value in (10**400, float("inf")):
        with pytest.raises(ConfigError, match="learning-rate: found"):
            load_config(None, {"training": {"learning_rate": value}})
