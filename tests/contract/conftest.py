"""A terminal in a folder like a clone of the project, with a corpus in it."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Done:
    code: int
    output: str
    errors: str


class Terminal:
    """Commands as they are typed; all of them run in one process."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("one_process.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment,
        )
        self._output, self._errors = folder / "output.txt", folder / "errors.txt"

    def __call__(self, command: str, *more: str) -> Done:
        """What came of it; `more` is what makes it fit the machine that runs the tests."""
        self.start(command, *more)
        return self.wait()

    def python(self, snippet: str) -> Done:
        return self(f"python3 -c {shlex.quote(textwrap.dedent(snippet))}")

    def start(self, command: str, *more: str) -> None:
        for file in (self._output, self._errors):
            file.write_text("")  # what the command before said is not this one's
        request = {
            "words": [*shlex.split(command), *more],
            "output": str(self._output),
            "errors": str(self._errors),
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)

    def wait(self) -> Done:
        answer = self._process.stdout.readline()
        texts = (file.read_text(encoding="utf-8") for file in (self._output, self._errors))
        return Done(json.loads(answer), *texts)

    def send_signal_once(self, is_time: Callable[[], bool], number: int) -> None:
        while not is_time():
            assert self._process.poll() is None, self._errors.read_text(encoding="utf-8")
            time.sleep(0.1)
        self._process.send_signal(number)

    def said(self, text: str) -> bool:
        return text in self._output.read_text(encoding="utf-8")

    def report(self, run: str) -> dict:
        return json.loads((self.folder / run / "report.json").read_text(encoding="utf-8"))

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory, user_environment, demo_corpus):
    folder = tmp_path_factory.mktemp("clone")
    for name in ("configs", "examples", "utilities", "train_main.py"):
        (folder / name).symlink_to(ROOT / name)
    # A copy: under another path the features of the corpus are made anew, and replace the others.
    shutil.copytree(
        demo_corpus, folder / "my-corpus", ignore=shutil.ignore_patterns("myxtts-cache")
    )
    # Where a run without --train-data looks first.
    (folder / "demo").mkdir()
    (folder / "demo" / "corpus").symlink_to(folder / "my-corpus")
    shutil.copy(ROOT / "configs" / "miniature.yaml", folder / "small.yaml")
    terminal = Terminal(folder, user_environment | {"CUDA_VISIBLE_DEVICES": "-1"})
    yield terminal
    terminal.close()
