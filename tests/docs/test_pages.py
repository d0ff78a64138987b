"""What the pages name exists: links, pictures, commands, flags, files, settings, modules."""

import ast
import fnmatch
import functools
import re
from pathlib import Path
from urllib.parse import unquote

import commands
import pytest
import yaml
from pages import ENGLISH_PAGES, OTHER_PAGES, PERSIAN_PAGES, ROOT, read_page
from running import steps_of

from myxtts.config.config import SECTIONS, XTTSConfig

ALL_PAGES = [*ENGLISH_PAGES, *PERSIAN_PAGES, *OTHER_PAGES]
SETTINGS = {
    f"{section}.{field}"
    for section, section_class in SECTIONS.items()
    for field in section_class.__dataclass_fields__
}
PACKAGE = ROOT / "myxtts"
ROOMS = {file.stem for file in PACKAGE.iterdir() if file.suffix == ".py" or file.is_dir()}
# A setting or a module, with what is in it: `data.batch_size`, `models.sampler.SpeechSampler`.
DOTTED_NAME = re.compile(rf"(?:{'|'.join(sorted(ROOMS | set(SECTIONS)))})(?:\.(?:\w+|\*))+")
FILE_NAME = re.compile(r"\w+\.(csv|html|json|jsonl|md|png|py|safetensors|svg|yaml)")


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


each_page = pytest.mark.parametrize("file", ALL_PAGES, ids=name_of)


def shown(problems):
    return "\n" + "\n".join(problems)


def test_every_page_is_in_both_languages():
    assert [file.name for file in ENGLISH_PAGES] == [file.name for file in PERSIAN_PAGES]


@each_page
def test_links_and_pictures_lead_somewhere(file):
    problems = []
    for link in read_page(file).links:
        path, _, anchor = unquote(link.text).partition("#")
        target = (file.parent / path).resolve() if path else file
        if re.match(r"[a-z]+:", path):
            continue
        if not target.exists():
            problems.append(f"{link.place}: {link.text} leads nowhere")
        elif anchor and anchor not in read_page(target).anchors:
            problems.append(f"{link.place}: {path or file.name} has no heading #{anchor}")
    assert not problems, shown(problems)


def deliberately_wrong(page):
    """Places of blocks that a test runs and expects to be refused."""
    return {step.place for step in steps_of(page) if step.exit_code == 2}


@pytest.mark.parametrize("file", [*ENGLISH_PAGES, *OTHER_PAGES], ids=name_of)
def test_commands_in_blocks_are_what_the_programs_understand(file):
    page = read_page(file)
    wrong = deliberately_wrong(page)
    problems = [
        f"{block.place}: {problem}"
        for block in page.blocks
        if block.place not in wrong
        for words in commands.commands_of(block)
        for problem in [
            *commands.problems_of(words, complete=True),
            *commands.missing_files(" ".join(words)),
        ]
    ]
    assert not problems, shown(problems)


def commands_shown(file):
    """Return commands without texts and languages, which are Persian on Persian pages."""
    page = read_page(file)
    found = [words for block in page.blocks for words in commands.commands_of(block)]
    return [
        re.sub(r" --language \w+", "", " ".join(_without_text(words))).strip() for words in found
    ]


def _without_text(words):
    return [
        "TEXT" if before == "--text" else word
        for before, word in zip(["", *words], words, strict=False)
    ]


@pytest.mark.parametrize("english", [*ENGLISH_PAGES, ROOT / "README.md"], ids=name_of)
def test_the_persian_page_has_the_commands_of_the_english_one(english):
    persian = ROOT / "docs" / "fa" / english.name
    if english.parent == ROOT:
        persian = ROOT / "README.fa.md"
    assert commands_shown(persian) == commands_shown(english)


def is_known(dotted_name):
    return bool(fnmatch.filter(SETTINGS, dotted_name)) or is_in_package(dotted_name.split("."))


def is_in_package(parts):
    """Return a room, a module, or what a module defines: a class, a function, a method."""
    path = PACKAGE
    for place, part in enumerate(parts):
        path = path / part
        if path.with_suffix(".py").is_file():
            inside = parts[place + 1 :]
            return not inside or ".".join(inside) in names_defined_in(path.with_suffix(".py"))
        if not path.is_dir():
            return False
    return True


@functools.cache
def names_defined_in(module):
    """Read from its source: loading it would load TensorFlow."""
    return set(defined_names(ast.parse(module.read_text(encoding="utf-8")).body))


def defined_names(statements, prefix=""):
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            yield prefix + statement.name
        if isinstance(statement, ast.ClassDef):
            yield from defined_names(statement.body, f"{prefix}{statement.name}.")
        for target in getattr(statement, "targets", [getattr(statement, "target", None)]):
            if isinstance(target, ast.Name):
                yield prefix + target.id


@pytest.mark.parametrize(
    "name",
    ["data.batch_size", "augmentation.*", "data.corpus", "models.sampler.SpeechSampler.mels"],
)
def test_settings_and_what_the_package_has_are_known(name):
    assert is_known(name)


@pytest.mark.parametrize(
    "name", ["data.bach_size", "models.samplers", "models.sampler.Speech", "batch.Batch.loss"]
)
def test_what_is_neither_is_not_known(name):
    assert not is_known(name)


@each_page
def test_what_is_named_in_code_exists(file):
    flags = commands.known_flags()
    problems = []
    for code in read_page(file).inline_code:
        words = commands.words_of(code.text)
        found = [
            *commands.problems_of(words, complete=False),
            *commands.missing_files(code.text),
        ]
        if words and words[0].startswith("--"):
            found += [f"no {flag}" for flag in commands.flags_in(words) if flag not in flags]
        named = DOTTED_NAME.match(code.text)
        if named and not FILE_NAME.fullmatch(code.text) and not is_known(named[0]):
            found.append(f"{named[0]} is no setting and nothing in myxtts")
        problems += [f"{code.place}: {problem}" for problem in found]
    assert not problems, shown(problems)


@each_page
def test_settings_in_yaml_are_settings(file):
    for block in read_page(file).blocks:
        try:
            settings = yaml.safe_load(block.text)
        except yaml.YAMLError:
            continue
        if isinstance(settings, dict) and set(settings) <= set(SECTIONS):
            XTTSConfig(**settings)


def test_the_list_of_benchmarks_names_benchmarks():
    folder = ROOT / "benchmarks"
    named = [code.text for code in read_page(folder / "README.md").inline_code]
    scripts = [name for name in named if name.endswith(".py")]
    assert scripts
    assert [name for name in scripts if not (folder / name).exists()] == []
