"""Lists wording that docs/ and the code avoid: fragments, British spelling, translated idiom.

    python tools/docs/wording.py [FILE ...]    # exits with 1 if it finds something

Checks English pages, and the docstrings, comments, messages and names in Python files.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    "*.md",
    "docs/*.md",
    "docs/en/*.md",
    "benchmarks/*.md",
    "examples/*.md",
    "myxtts/weights/*/*.md",
)
CODE = ("*.py", *(f"{name}/**/*.py" for name in ("myxtts", "tests", "tools", "benchmarks")))
CODE += ("examples/*.py", "utilities/*.py", "examples/*.sh", "myxtts/configs/*.yaml", "Makefile")
# Names of the contract and of other programs, and files that are not checked.
ALLOWED = (
    *("normalised text", "steady_utilisation", "useful_utilisation"),
    "README.fa.md",
    "wording.py",
    "licence_files",
    "NormalisedLevenshtein",
)

FRAGMENT = re.compile(r"(?:Of|As|By|For)\s(?!example)")
# First words of a function's docstring that ruff's D401 accepts although they are not verbs.
NOT_A_VERB = re.compile(
    r"[^A-Z]|(?:An?|The|Those|All|Every|None|Only|Not|What|Whether|How|Where|Why|When|While|If|In|"
    r"From|After|Before|With|Without)\s"
)
_ISE = (
    *("character", "computer", "custom", "emphas", "equal", "final", "general", "initial", "local"),
    *("maxim", "memor", "minim", "neutral", "normal", "optim", "organ", "parallel", "personal"),
    *("prior", "quant", "random", "real", "recogn", "regular", "serial", "special", "standard"),
    *("summar", "synchron", "token", "util", "vectoriz", "visual", "vocal", "penal", "harmon"),
)
_SPELLING = {
    rf"(?:{'|'.join(_ISE)})is(?:e[drs]?|ing|ation|ations|able)": "-ize",
    r"synthesis(?:e[drs]?|ing)": "synthesize",
    r"analys(?:e[drs]?|ing)": "analyze",
    r"(?:behavi|col|fav|flav|hon|neighb|harb|lab)our\w*": "-or",
    r"licences?|licenced": "license",
    r"(?:cent|lit|kilomet|millimet|centimet)re[sd]?": "-er",
    r"(?:label|level|model|cancel|travel|channel|signal)l(?:ed|ing)": "one l",
    r"artefacts?": "artifact",
    r"judgements?": "judgment",
    r"catalogues?": "catalog",
    r"grey": "gray",
    r"whilst|amongst": "while, among",
    r"learnt|spelt": "learned, spelled",
}
_IDIOM = {
    r"hears?|heard": "is trained on, encodes",
    r"tells|told": "condition on, report, show",
    r"go(?:es)? on|went on": "continue",
    r"verdicts?|keepers?": "best-checkpoint tracker, checkpoint manager",
    r"beside": "next to, alongside",
    r"anew": "again",
    r"but for": "except",
    r"also where": "even when",
    r"by hand": "manual, explicit",
    r"says? so": "name what is reported",
    r"(?:is|are) no (?!longer|more|less|other|such)(?=\w+(?:[.,;]|$))": "is not a",
    r"not un\w+ed": "say the positive",
    r"makes of": "name the result",
}
_WORDS = [
    (re.compile(rf"(?<![\w`.-])(?:{pattern})(?![\w`])", re.IGNORECASE), hint)
    for pattern, hint in {**_SPELLING, **_IDIOM}.items()
]
_IN_NAMES = [
    (re.compile(rf"(?:^|_)(?:{pattern})(?:_|$)", re.IGNORECASE), hint)
    for pattern, hint in _SPELLING.items()
]
_IN_NAMES.append((re.compile(r"^_?(?:least|most|fewest)_", re.IGNORECASE), "min, max"))


def problems(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8")
    if file.suffix not in (".py", ".md"):  # only comments
        text = "\n".join(
            line if line.lstrip().startswith("#") else "" for line in text.splitlines()
        )
    found = sorted(_in_code(text, file)) if file.suffix == ".py" else _in_page(text)
    name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
    for line, problem in found:
        yield f"{name}:{line}: {problem}"


def _in_page(text: str) -> Iterator[tuple[int, str]]:
    hidden = re.compile(r"```.*?```|<!--.*?-->", re.DOTALL)
    text = hidden.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        if not re.match(r" {4}(?! *#)", line):
            prose = re.sub(r"`[^`]*`|\]\([^)]*\)|<code>.*?</code>", "", line)
            yield from ((number, problem) for problem in _in_prose(prose))


def _in_prose(text: str) -> Iterator[str]:
    for word, hint in _WORDS:
        for match in word.finditer(text):
            if not any(allowed in text for allowed in ALLOWED):
                yield f"'{match[0]}': {hint}"


def _in_code(text: str, file: Path) -> Iterator[tuple[int, str]]:
    has_messages = "tests" not in file.parts  # they contain text to synthesize
    tree = ast.parse(text)
    documented = {id(node.value) for node in ast.walk(tree) if _is_docstring(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not _is_exempt(node):
            docstring = ast.get_docstring(node)
            if docstring and NOT_A_VERB.match(docstring):
                yield node.lineno, f"docstring without a verb: '{docstring[:30]}'"
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documented and FRAGMENT.match(node.value):
                yield node.lineno, f"fragment: '{node.value[:30]}'"
            if id(node) in documented or (has_messages and " " in node.value):
                # Setting names, keys and data are not prose.
                yield from ((node.lineno, problem) for problem in _in_prose(node.value))
        for name in _names(node):
            for word, hint in _IN_NAMES:
                if (match := word.search(name)) and name not in ALLOWED:
                    yield node.lineno, f"name '{name}': '{match[0].strip('_')}': {hint}"
    yield from _in_comments(text)


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_exempt(node: ast.FunctionDef) -> bool:
    """Return whether ruff's D401 does not apply either: to properties and tests."""
    decorators = map(ast.unparse, node.decorator_list)
    return node.name.startswith("test_") or any("property" in one for one in decorators)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return [node.arg] if isinstance(node, ast.arg) else []


def _in_comments(text: str) -> Iterator[tuple[int, str]]:
    before = -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment = token.string.lstrip("#! ")
            if token.start[0] != before + 1 and FRAGMENT.match(comment):
                yield token.start[0], f"fragment: '{comment[:30]}'"
            yield from ((token.start[0], problem) for problem in _in_prose(comment))
            before = token.start[0]


def main(arguments: list[str]) -> int:
    files = [Path(name).resolve() for name in arguments] or sorted(
        {file for pattern in (*PAGES, *CODE) for file in ROOT.glob(pattern)}
    )
    found = [problem for file in files if file.name not in ALLOWED for problem in problems(file)]
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
