"""Layers of a configuration, and which of them is named in an error."""

from pathlib import Path

import pytest

from myxtts.cli.main import main
from myxtts.config.loading import builtin_names, find_config, load_config, save_config
from myxtts.errors import ConfigError

ROOT = Path(__file__).parents[2]


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


def test_a_saved_configuration_is_loaded_unchanged(tmp_path):
    config = load_config(
        overrides={"model": {"size": "big"}}, assignments=["text.tokens=graphemes"]
    )
    save_config(config, tmp_path / "config.yaml")
    assert load_config(tmp_path / "config.yaml") == config
    assert load_config(write(tmp_path, "")) == load_config()


def test_assignments_take_yaml_values_and_need_no_section():
    config = load_config(
        assignments=["training.learning_rate=1e-4", "xla=true", "data.max_mel_frames=null"]
    )
    assert config.training.learning_rate == 1e-4
    assert config.training.xla is True
    assert config.data.max_mel_frames is None


def test_aliases_in_a_file_and_on_the_command_line(tmp_path):
    file = write(tmp_path, "data:\n  data_gpu_memory: 4096\n  prefetch_buffer_size: 7\n")
    config = load_config(file)
    assert (config.data.data_gpu_memory_mb, config.data.buffer_size) == (4096, 7)
    assert load_config(file, assignments=["buffer_size=8"]).data.buffer_size == 8
    assert load_config(assignments=["data.enable_static_shapes=true"]).data.pad_to_fixed_length


@pytest.mark.parametrize(
    ("flags", "assignments", "blamed"),
    [
        ({"data": {"batch_size": 0}}, [], "--batch-size: "),
        ({"model": {"size": "smal"}}, [], "--model-size: "),
        ({"data": {"batch_size": 0}}, ["data.batch_size=-1"], "--set: "),
        # The width is in the file and is correct there.
        ({}, ["model.attention_heads=7"], "--set: "),
        ({"data": {"model_gpu": "one"}}, [], "--model-gpu: "),
        ({"training": {"visible_gpus": "0,0"}}, [], "--visible-gpus: "),
        ({"training": {"learning_rate": 10**400}}, [], "--learning-rate: "),
        ({"training": {"learning_rate": float("inf")}}, [], "--learning-rate: "),
        ({"training": {"seed": 1}}, [], "FILE: "),
    ],
)
def test_the_layer_that_has_the_wrong_value_is_blamed(tmp_path, flags, assignments, blamed):
    size = 8 if "FILE" not in blamed else 0
    file = write(tmp_path, f"model:\n  text_width: 192\ndata:\n  batch_size: {size}\n")
    with pytest.raises(ConfigError) as error:
        load_config(file, flags, assignments, flag_names={"size": "--model-size"})
    assert str(error.value).startswith(blamed.replace("FILE", str(file)))


DIGITS = "9" * 400


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("trainig:\n  seed: 1\n", "'training'"),
        ("data:\n  bach_size: 1\n", "'data.batch_size'"),
        ("data:\n  batch_size: [1]\n", "data.batch_size"),
        ("data: 5\n", "data"),
        ("- a\n- b\n", "list"),
        ("data: [1\n", "YAML"),
        (f"training: {{max_steps: {DIGITS[:40]}}}", "training.max_steps"),
        ("training: {learning_rate: .inf}", "training.learning_rate"),
        ("training: {learning_rate: 1e999}", "training.learning_rate"),
        ("training: {learning_rate: 1.0e+300}", "training.learning_rate"),
        ('data: {cache_dir: "a\\0b"}', "data.cache_dir"),
        ('data: {cache_dir: "\\udcff"}', "data.cache_dir"),
        ("data:\n  workers: 1\nmodel:\n  size: tiny\ndata:\n  workers: 2\n", "line 1 .*line 5"),
        ("data:\n  workers: 1\n  batch_size: 4\n  'workers': 2\n", "line 2 .*line 4"),
        ("data: {workers: 1, workers: 2}\n", "line 1 .*line 1"),
    ],
)
def test_an_error_in_a_file_names_the_file_and_the_setting(tmp_path, text, named):
    file = write(tmp_path, text)
    with pytest.raises(ConfigError, match=f"{file}: .*{named}"):
        load_config(file)


@pytest.mark.parametrize(
    ("assignment", "named"),
    [
        ("data=8", "section.key=value"),
        ("data.=8", "section.key=value"),
        ("=8", "section.key=value"),
        ("data.batch_size", "section.key=value"),
        ("dat.batch_size=8", "'data'"),
        ("data.batch=8", "'data.batch_size'"),
        ("training.lr=1", "'training.learning_rate'"),
        ("data.learning_rate=1", "'training.learning_rate'"),
        ("lr=1", "'learning_rate'"),
        ("seed=x", "training.seed"),
        (f"max_steps={DIGITS}", "training.max_steps"),
        ("learning_rate=.inf", "training.learning_rate"),
    ],
)
def test_a_wrong_assignment_names_what_was_meant(assignment, named):
    with pytest.raises(ConfigError, match=f"--set.*{named}"):
        load_config(assignments=[assignment])


@pytest.mark.parametrize("name", builtin_names())
def test_each_included_configuration_loads_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_config(name).training.max_steps is not None


def test_the_path_in_the_clone_is_the_same_file():
    assert (ROOT / "configs" / "config.yaml").samefile(find_config("config"))


def test_a_file_wins_over_a_name_and_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert load_config("demo") == load_config(find_config("demo"))
    with pytest.raises(ConfigError, match="persian"):
        load_config(Path("persian"))
    Path("persian").write_text("training: {max_steps: 7}\n")
    assert load_config("persian").training.max_steps == 7


@pytest.mark.parametrize("command", ["train", "diagnose", "tune", "prepare", "stats", "validate"])
def test_every_command_names_the_nearest_configuration(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for wrong in ("persan", "configs/persian.yaml"):
        assert main([command, "--train-data", "corpus", "--config", wrong]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert wrong in line
        assert "'persian'" in line
