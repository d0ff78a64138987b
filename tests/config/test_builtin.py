"""`--config` takes a file or the name of a configuration that comes with the package."""

from pathlib import Path

import pytest

from myxtts.cli.main import main
from myxtts.config.loading import builtin_names, find_config, load_config
from myxtts.errors import ConfigError

ROOT = Path(__file__).parents[2]


def test_the_names():
    assert builtin_names() == ["base", "config", "demo", "miniature", "persian", "vocoder"]


@pytest.mark.parametrize("name", builtin_names())
def test_each_loads_by_its_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert load_config(name).training.max_steps is not None


def test_the_path_in_the_clone_is_the_same_file():
    assert (ROOT / "configs" / "config.yaml").samefile(find_config("config"))


def test_a_file_wins_and_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()
    assert load_config("demo").training.max_steps == 1_200
    Path("persian").write_text("training: {max_steps: 7}\n")
    assert load_config("persian").training.max_steps == 7
    assert load_config("miniature").training.max_steps == 6


def test_a_path_is_only_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="persian: cannot be read"):
        load_config(Path("persian"))


@pytest.mark.parametrize(
    "command",
    [
        ["train"],
        ["diagnose"],
        ["tune", "--train-data", "corpus"],
        ["prepare", "corpus"],
        ["stats", "corpus"],
        ["validate", "corpus"],
    ],
    ids=lambda command: command[0],
)
def test_every_command_names_the_nearest_in_one_line(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for wrong in ("persan", "configs/persian.yaml"):
        assert main([*command, "--config", wrong]) == 2
        assert capsys.readouterr().err == (
            f"myxtts {command[0]}: {wrong}: found neither a file nor a built-in configuration of "
            "this name; built in are base, config, demo, miniature, persian, vocoder; did you mean "
            "'persian'?\n"
        )
