"""A run folder from a stranger: nothing in it names a folder or turns on a compiler here."""

import logging
import os
import stat
from pathlib import Path

import pytest
import yaml

from myxtts.cli.main import command_parser
from myxtts.cli.train import configuration_of_run
from myxtts.config.loading import merge
from myxtts.devices.startup import program_cache, use_persistent_cache
from myxtts.errors import ConfigError
from myxtts.runs.checkpoint import write_sealed_folder
from myxtts.runs.run_dir import find_checkpoint
from myxtts.synthesis.tts import TTS

GOLDEN = Path(__file__).parents[1] / "runs" / "golden"
FOREIGN = {
    "data": {"train_data": "/theirs", "val_data": "/theirs", "cache_dir": "/theirs"},
    "training": {"xla": True, "xla_cache_dir": "/theirs", "unknown": 1},
}
MELS = {"training": {"task": "vocoder"}, "vocoder": {"mels_from": "/theirs"}}
SETTINGS = ["data.train_data", "data.val_data", "data.cache_dir", "training.xla"]


def resealed(tmp_path, *changes):
    """Return the golden run, sealed again with another configuration."""
    settings = yaml.safe_load((GOLDEN / "config.yaml").read_text())
    for section, values in merge(changes).items():
        settings[section] |= values
    files = {file.name: file.read_bytes() for file in GOLDEN.iterdir()}
    del files["manifest.json"]
    files["config.yaml"] = yaml.safe_dump(settings).encode()
    checkpoints = tmp_path / "run" / "checkpoints"
    checkpoints.mkdir(parents=True)
    write_sealed_folder(checkpoints / "step_00000009", files)
    return tmp_path / "run"


@pytest.fixture
def foreign_run(tmp_path):
    return resealed(tmp_path, FOREIGN)


def configuration_of(*arguments):
    options = command_parser().parse_args(["train", *map(str, arguments)])
    return configuration_of_run(options)


def value(config, setting):
    section, _, name = setting.partition(".")
    return getattr(getattr(config, section), name)


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_path_of_a_run_is_used(foreign_run, setting):
    initialized = configuration_of("mine", "--init-from", foreign_run)
    assert value(initialized, setting) in (None, "mine")
    assert value(find_checkpoint(foreign_run, for_synthesis=True).config(), setting) is None


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_user_gives_the_paths_of_a_resumed_run(foreign_run, setting, tmp_path):
    with pytest.raises(ConfigError, match="--resume"):
        configuration_of("--resume", foreign_run)
    with pytest.raises(ConfigError, match="--val-data"):
        configuration_of("mine", "--resume", foreign_run)
    own = tmp_path / "own.yaml"
    settings = {"data": FOREIGN["data"], "training": {"xla": True}}
    own.write_text(yaml.safe_dump(settings))
    expected = settings[setting.partition(".")[0]][setting.partition(".")[2]]
    assert value(configuration_of("--config", own, "--resume", foreign_run), setting) == expected


def test_the_user_gives_the_run_that_predicts_mels(tmp_path):
    run = resealed(tmp_path, MELS)
    with pytest.raises(ConfigError, match="--mels-from"):
        configuration_of("mine", "--resume", run)
    resumed = configuration_of("mine", "--mels-from", "base", "--resume", run)
    assert resumed.vocoder.mels_from == "base"
    assert configuration_of("mine", "--init-from", run).vocoder.mels_from is None


def test_it_speaks_without_its_paths(foreign_run):
    config = TTS(foreign_run, compiled=False).config
    assert [value(config, setting) for setting in SETTINGS] == [None] * len(SETTINGS)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    return program_cache(xla=True)


def test_compiled_programs_are_their_owners_alone(cache):
    use_persistent_cache(cache)
    assert os.environ["TF_XLA_FLAGS"] == f"--tf_xla_persistent_cache_directory={cache}"
    for folder in (cache, cache.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("level", [0, 1])
def test_programs_that_others_could_have_written_are_not_run(cache, caplog, level):
    cache.mkdir(parents=True)
    cache.parent.chmod(0o700)
    (cache, cache.parent)[level].chmod(0o777)
    use_persistent_cache(cache)
    assert os.environ["TF_XLA_FLAGS"] == ""
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@pytest.mark.parametrize("content", [b"", b"\x0a\x05abc", bytes(range(200, 255))])
def test_a_damaged_program_is_dropped_and_compiled_again(cache, caplog, content):
    """It ended training with an error of TensorFlow."""
    cache.mkdir(parents=True, mode=0o700)
    cache.parent.chmod(0o700)
    (cache / "whole.pb").write_bytes(b"\x0a\x03abc")
    (cache / "damaged.pb").write_bytes(content)
    use_persistent_cache(cache)
    assert [file.name for file in cache.iterdir()] == ["whole.pb"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
