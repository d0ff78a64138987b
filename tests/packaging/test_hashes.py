"""What make installs is what pyproject.toml asks for, each file of it by its hash."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PYPROJECT["project"]["optional-dependencies"]
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
# What each file is to hold, next to what it includes.
NEEDS = {
    "build": PYPROJECT["build-system"]["requires"],
    "base": PYPROJECT["project"]["dependencies"],
    "serve": EXTRAS["serve"],
    "dev": [need for need in EXTRAS["dev"] if not need.startswith("myxtts")],
    "eval": EXTRAS["eval"],
}


def read_hashed(name):
    """Name to version, of a file and of those that it includes."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("--requirement "):
            found |= read_hashed(line.removeprefix("--requirement ").removesuffix(".txt"))
        elif not line.startswith("#"):
            pin, *hashes = line.split()
            assert hashes, line
            assert all(HASH.fullmatch(each) for each in hashes), line
            package, version = pin.split("==")
            found[canonicalize_name(package)] = version
    return found


def pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}


@pytest.mark.parametrize("name", NEEDS)
def test_each_file_holds_what_is_asked_for_as_pinned(name):
    hashed = read_hashed(name)
    assert {canonicalize_name(Requirement(need).name) for need in NEEDS[name]} <= set(hashed)
    assert hashed.items() <= pinned().items()
    for need in map(Requirement, NEEDS[name]):
        assert need.specifier.contains(hashed[canonicalize_name(need.name)], prereleases=True)


@pytest.mark.parametrize("name", ["base", "serve", "dev"])
def test_each_file_holds_what_its_packages_need_in_turn(name):
    """Else pip refuses it: with hashes everything must be listed."""
    hashed = read_hashed(name)
    for package in hashed:
        for need in map(Requirement, metadata.requires(package) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert canonicalize_name(need.name) in hashed, f"{package} needs {need}"
