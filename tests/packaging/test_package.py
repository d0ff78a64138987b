"""What the package promises to those who install it, as far as a clone can show it."""

import re
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from pages import read_page

import myxtts

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def run(user_environment, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=user_environment,
            check=False,
        )

    return run


def test_the_package_is_the_command(run):
    result = run("-m", "myxtts", "train", "--help")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("usage: myxtts train ")
    assert run("-m", "myxtts", "speak").returncode == 2


def test_it_says_that_it_has_types():
    assert (resources.files("myxtts") / "py.typed").is_file()


def test_names_are_there_and_importing_the_package_is_quick(run):
    program = (
        "import sys, myxtts\n"
        "assert {'TTS', 'XTTSConfig'} <= set(dir(myxtts))\n"
        "assert not {'numpy', 'tensorflow', 'yaml'} & set(sys.modules)\n"
        "from myxtts import TTS, XTTSConfig\n"
        "assert 'tensorflow' in sys.modules\n"
        "print(TTS.__name__, XTTSConfig.__name__)"
    )
    result = run("-c", program)
    assert (result.stdout, result.stderr) == ("TTS XTTSConfig\n", "")


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'myxtts' has no attribute 'Trainer'"):
        _ = myxtts.Trainer


def test_the_page_for_a_package_index_links_to_nothing_in_the_clone():
    links = read_page(ROOT / PROJECT["readme"]).links
    assert [link for link in links if not re.match("https?://", link.text)] == []
