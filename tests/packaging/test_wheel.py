"""The whole way of a release: a source distribution, a wheel of it, and its use without the clone.

Needs a package index, for the environment is empty at first.
"""

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# What make and git leave in the folder of a clone.
LEFT_THERE = {".git", ".venv", "build", "dist", "site", "demo", "runs", "myxtts.egg-info"}
CLIENT = """
from pathlib import Path

import myxtts
from myxtts import TTS, XTTSConfig
from myxtts.config.loading import load_config
from myxtts.errors import MyXTTSError


def speak(run: Path, text: str) -> None:
    config: XTTSConfig = load_config("miniature", {"training": {"max_steps": 2}})
    steps: int | None = config.training.max_steps
    try:
        tts = TTS(run)
        tts.tts_to_file(text=text, speaker_wav="me.wav", language="en", file_path="out.wav")
    except MyXTTSError as error:
        print(myxtts.__version__, steps, error)
"""
MISTAKEN_CLIENT = """
from myxtts import TTS, Trainer, XTTSConfig

TTS("run").tts_to_file(text=3, file_path="out.wav")
XTTSConfig().training.max_step
"""


def run(*command, cwd, **variables):
    # Nothing of the clone, nor of what the tests set for TensorFlow.
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONPATH" and not name.startswith("TF_")
    }
    return subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env=kept | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def succeed(*command, cwd):
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_environment(folder, *packages):
    succeed(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    succeed(*pip, *packages, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("release")


@pytest.fixture(scope="module")
def source_distribution(work):
    source = work / "source"
    shutil.copytree(
        ROOT,
        source,
        symlinks=True,
        ignore=lambda folder, _: LEFT_THERE if Path(folder) == ROOT else (),
    )
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    programs = make_environment(work / "builder", *build["requires"])
    program = f"from setuptools import build_meta; build_meta.build_sdist({str(work)!r})"
    succeed(programs / "python", "-c", program, cwd=source)
    (archive,) = work.glob("*.tar.gz")
    shutil.unpack_archive(archive, work / "unpacked", filter="data")
    (folder,) = (work / "unpacked").iterdir()
    return folder


@pytest.fixture(scope="module")
def wheel(work, source_distribution):
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    succeed(*pip, "--wheel-dir", work, source_distribution, cwd=work)
    (file,) = work.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def programs(work, wheel):
    """Return the programs of an environment with only the wheel and its dependencies."""
    constraints = ROOT / "constraints.txt"
    return make_environment(work / "installed", "--constraint", constraints, wheel)


def test_a_source_distribution_has_what_make_needs(source_distribution):
    names = {file.name for file in ROOT.iterdir() if file.name[0] not in "._"} - LEFT_THERE
    assert [name for name in names if not (source_distribution / name).exists()] == []
    assert (source_distribution / "configs" / "config.yaml").is_file()
    assert (source_distribution / "docs" / "fa" / "index.md").is_file()


def test_the_wheel_holds_the_package_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        described = archive.read(metadata).decode("utf-8")
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"myxtts"}
    needed = "py.typed", "configs/persian.yaml", "data/natural/metadata_train.csv"
    assert {f"myxtts/{name}" for name in needed} <= set(names)
    assert "Classifier: Typing :: Typed\n" in described
    assert "Description-Content-Type: text/markdown\n" in described


def test_from_nothing_to_speech(programs, tmp_path):
    command = programs / "myxtts"
    assert "usage: myxtts" in succeed(command, "--help", cwd=tmp_path)
    assert "usage: myxtts" in succeed(programs / "python", "-m", "myxtts", "--help", cwd=tmp_path)
    succeed(command, "demo-data", "corpus", "--utterances=18", "--speakers=2", cwd=tmp_path)
    for name in ("demo", "miniature"):
        train = ["train", "--config", name, "--train-data=corpus", f"--run-dir={name}"]
        succeed(command, *train, "--max-steps=2", cwd=tmp_path)
        reference = next((tmp_path / "corpus" / "wavs").glob("*.wav"))
        speak = ["synthesize", "--checkpoint", name, "--text=Hello.", "--speaker-wav", reference]
        succeed(command, *speak, "--language=en", f"--out={name}.wav", cwd=tmp_path)
        assert (tmp_path / f"{name}.wav").stat().st_size > 1_000


def type_check(programs, folder, program):
    (folder / "client.py").write_text(program)
    options = ["--strict", "--python-executable", programs / "python", "--cache-dir", folder]
    return run(sys.executable, "-m", "mypy", *options, "client.py", cwd=folder)


def test_a_program_type_checks_against_the_wheel(programs, tmp_path):
    checked = type_check(programs, tmp_path, CLIENT)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_mistaken_program_does_not(programs, tmp_path):
    found = type_check(programs, tmp_path, MISTAKEN_CLIENT).stdout
    assert 'Module "myxtts" has no attribute "Trainer"' in found
    assert 'Argument "text" to "tts_to_file" of "TTS" has incompatible type "int"' in found
    assert '"TrainingConfig" has no attribute "max_step"' in found
