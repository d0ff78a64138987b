"""NOTICE.md names what is installed under licenses that ask for more than a name."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOTICE = (ROOT / "NOTICE.md").read_text(encoding="utf-8")
SHARE_ALIKE = re.compile(
    r"(Mozilla|GNU (Lesser |Library )?General) Public License|^said: .*\b([AL]?GPL|MPL)",
    re.IGNORECASE,
)
LICENSE_FILE = re.compile(r"COPYING|LICEN[CS]E", re.IGNORECASE)
TITLE_CHARACTERS = 300


def installed(needs):
    """Names of the packages of these requirements and of theirs, as far as they are here."""
    found, waiting = set(), [Requirement(need) for need in needs]
    while waiting:
        need = waiting.pop()
        name = canonicalize_name(need.name)
        if name in found or not is_installed(name):
            continue
        found.add(name)
        for inner in map(Requirement, metadata.requires(name) or []):
            extras = ("", *need.extras)
            if inner.marker is None or any(inner.marker.evaluate({"extra": it}) for it in extras):
                waiting.append(inner)
    return found


def is_installed(name):
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def licenses(name):
    """Return what a package says of itself, and the titles of the licenses that it comes with."""
    distribution = metadata.distribution(name)
    about = distribution.metadata
    # A long one is a whole license, whose text may speak of others.
    for field in ("License-Expression", "License"):
        yield f"said: {(about.get(field) or '')[:80]}"
    yield from (f"said: {line}" for line in about.get_all("Classifier") or [])
    for file in distribution.files or []:
        if LICENSE_FILE.match(file.name) and not file.name.endswith((".py", ".pyc", ".h")):
            text = Path(file.locate()).read_text(encoding="utf-8", errors="replace")
            yield text[:TITLE_CHARACTERS]


def needs_of(extra):
    needs = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return [need for need in needs if not need.startswith("myxtts")]


@pytest.mark.parametrize("extra", [None, "serve", "dev", "eval", "eval-torch"])
def test_what_is_not_permissive_is_named(extra):
    packages = installed(needs_of(extra))
    if extra is None:
        assert {"soxr", "certifi", "num2words", "soundfile"} <= packages
    needed = {name for name in packages if any(map(SHARE_ALIKE.search, licenses(name)))}
    assert {name for name in needed if name not in NOTICE.replace("_", "-")} == set()
