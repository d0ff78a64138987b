"""Writes requirements/*.txt: every package that make installs, by its version and its hashes.

    .venv/bin/python tools/packages/write_hashes.py [--index URL]

Run it after changing the dependencies in pyproject.toml or constraints.txt. pip resolves the
packages, constraints.txt pins their versions, and the package index (pip's own `index-url`, or
--index) supplies the hashes of all files of a version, so that the same lines serve every machine.
"""

from __future__ import annotations

import argparse
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements"
OLDEST_PYTHON = (3, 11)


@dataclass(frozen=True)
class PackageSet:
    """One file: its requirements, and the file whose packages it does not repeat."""

    name: str
    needs: tuple[str, ...]
    includes: PackageSet | None = None

    def all_needs(self) -> list[str]:
        return [*(self.includes.all_needs() if self.includes else []), *self.needs]


def package_sets(pyproject: dict[str, dict]) -> list[PackageSet]:
    """Return the sets, build tools first: they build packages without wheels."""
    project = pyproject["project"]
    extras = {
        # An extra of this project in another one is the file that it includes.
        name: tuple(need for need in needs if Requirement(need).name != project["name"])
        for name, needs in project["optional-dependencies"].items()
    }
    build = PackageSet("build", tuple(pyproject["build-system"]["requires"]))
    base = PackageSet("base", tuple(project["dependencies"]), build)
    serve = PackageSet("serve", extras["serve"], base)
    return [
        *(build, base, serve),
        *(PackageSet("dev", extras["dev"], serve), PackageSet("eval", extras["eval"], base)),
    ]


@dataclass(frozen=True)
class Package:
    version: str
    needs: tuple[Requirement, ...]


def resolve(needs: list[str], constraints: Path) -> dict[str, Package]:
    """Return everything that pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        dry = ["--dry-run", "--ignore-installed", "--report", str(report)]
        subprocess.run([*pip, *dry, "--constraint", str(constraints), *needs], check=True)
        chosen = json.loads(report.read_text(encoding="utf-8"))["install"]
    return {
        canonicalize_name(found["name"]): Package(
            found["version"], tuple(map(Requirement, found.get("requires_dist", [])))
        )
        for found in (package["metadata"] for package in chosen)
    }


def names_needed(needs: Iterable[Requirement], packages: dict[str, Package]) -> set[str]:
    """Return the names of direct and transitive dependencies on this machine."""
    waiting = list(needs)
    seen: set[tuple[str, str]] = set()
    while waiting:
        need = waiting.pop()
        name = canonicalize_name(need.name)
        for extra in {"", *need.extras} - {extra for known, extra in seen if known == name}:
            seen.add((name, extra))
            waiting += [
                each
                for each in packages[name].needs
                if each.marker is None or each.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in seen}


@dataclass
class _Links(html.parser.HTMLParser):
    """The files on a project's page of a package index, with their hashes."""

    hashes: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        address, _, fragment = (dict(attributes).get("href") or "").partition("#")
        kind, _, value = fragment.partition("=")
        if tag == "a" and kind == "sha256":
            self.hashes[urllib.request.unquote(address.rpartition("/")[2])] = value


def hashes_of(name: str, version: str, index: str) -> list[str]:
    """Return the hashes of a release's wheels, or of its source if there are none."""
    page = urllib.request.Request(
        f"{index.rstrip('/')}/{name}/", headers={"Accept": "text/html", "User-Agent": "myxtts"}
    )
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = _Links()
        links.feed(answer.read().decode("utf-8"))
    wheels, sources = [], []
    for file, value in links.hashes.items():
        if file.endswith(".whl"):
            if _is_wheel_of(file, version):
                wheels.append(value)
        elif _is_source_of(file, name, version):
            sources.append(value)
    chosen = sorted(set(wheels or sources))
    if not chosen:
        raise SystemExit(f"{name} {version}: no file with a hash on {index}")
    return chosen


def _is_wheel_of(file: str, version: str) -> bool:
    try:
        _, found, _, tags = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return False
    return str(found) == version and any(_may_run(tag) for tag in tags)


def _may_run(tag: Tag) -> bool:
    """Return whether any supported Python can use the file, on any machine."""
    if tag.interpreter.startswith("py3"):
        return True
    number = tag.interpreter.removeprefix("cp3")
    if not number.isdigit():
        return False
    return tag.abi == "abi3" or ((3, int(number)) >= OLDEST_PYTHON and tag.abi == tag.interpreter)


def _is_source_of(file: str, name: str, version: str) -> bool:
    try:
        found_name, found = parse_sdist_filename(file)
    except ValueError:
        return False
    return (found_name, str(found)) == (name, version)


def pip_index() -> str | None:
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    configured = subprocess.run(command, capture_output=True, text=True, check=False)
    return os.environ.get("PIP_INDEX_URL") or configured.stdout.strip() or None


def lines_of(packages: dict[str, str], index: str) -> list[str]:
    names = sorted(packages)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda name: hashes_of(name, packages[name], index), names)
        return [
            " \\\n    ".join([f"{name}=={packages[name]}", *(f"--hash=sha256:{v}" for v in values)])
            for name, values in zip(names, found, strict=True)
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--index", default=pip_index(), help="the simple index, such as pip has")
    options = parser.parse_args()
    if options.index is None:
        parser.error("pip has no index-url of its own: give the address with --index")
    FOLDER.mkdir(exist_ok=True)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    sets = package_sets(pyproject)
    all_needs = [need for each in sets for need in each.needs]
    packages = resolve(all_needs, ROOT / "constraints.txt")
    for each in sets:
        names = names_needed(map(Requirement, each.all_needs()), packages)
        lines = ["# Written by tools/packages/write_hashes.py."]
        if each.includes:
            lines.append(f"--requirement {each.includes.name}.txt")
            names -= names_needed(map(Requirement, each.includes.all_needs()), packages)
        lines += lines_of({name: packages[name].version for name in names}, options.index)
        (FOLDER / f"{each.name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"requirements/{each.name}.txt: {len(names)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
