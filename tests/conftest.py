"""A small real corpus and a very small real model, shared by the tests that need them."""

from __future__ import annotations

import gc
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Voices that tests save for the base model are not the user's.
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="myxtts-tests-")
# Same setting as for programs, for bit-equal results.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the programs
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
# What is given a corpus there trains on it, or runs programs that do.
TRAINING_FOLDERS = ("training", "faults", "examples")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        trains = folder in TRAINING_FOLDERS and "demo_corpus" in item.fixturenames
        if trains or {"trained_run", "vocoder_run", "terminal"} & set(item.fixturenames):
            item.add_marker("training")
        if {"user_environment", "browser"} & set(item.fixturenames):
            item.add_marker("program")


# Two workers of `make test` fit into the memory of a laptop.
MAX_WORKER_MB = 2_500
_peaks_mb: list[int] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Collect garbage before pytest does so twice, and report the peak memory of this process.

    A process of pytest-xdist has five seconds to end once its tests are done; then it interrupts
    itself, in the middle of a destructor. Graphs of TensorFlow may take longer than that.
    """
    gc.collect()
    gc.freeze()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    _peaks_mb.append(peak_mb)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak_mb"] = peak_mb


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _peaks_mb.append(getattr(node, "workeroutput", {}).get("peak_mb", 0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    peak_mb = max(_peaks_mb, default=0)
    is_too_much = peak_mb > MAX_WORKER_MB
    line = f"peak memory of a test process: {peak_mb} MB, allowed: {MAX_WORKER_MB} MB"
    terminalreporter.write_line(line, red=is_too_much, bold=is_too_much)


@pytest.fixture(scope="module", autouse=True)
def _freed_memory() -> Iterator[None]:
    """Free the memory of a module's trainers and models, which Python would collect late."""
    yield
    if "tensorflow" in sys.modules:
        from myxtts.devices.memory import free_graphs

        free_graphs()


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
        own = f"terminal-{self._process.pid}"
        self._output, self._errors = folder / f"{own}.out", folder / f"{own}.err"

    def __call__(self, command: str, *more: str) -> Done:
        """Return what came of it; `more` is what makes it fit the machine that runs the tests."""
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


@pytest.fixture(scope="session")
def user_environment() -> dict[str, str]:
    """Return an environment for separate processes, without the tests' TensorFlow settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return kept | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a real Chromium, without a window; pages are opened with `browser.new_page()`.

    Playwright keeps an event loop in this thread, so it ends with the module.
    """
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    with sync_api.sync_playwright() as playwright:
        # Its sandbox does not start for root, as in a container.
        opened = playwright.chromium.launch(
            executable_path=program, chromium_sandbox=os.geteuid() != 0
        )
        yield opened
        opened.close()


FOUR_DEVICES = """
    from myxtts.devices.startup import load_tensorflow

    load_tensorflow()
    from myxtts.devices.strategy import find_accelerators

    find_accelerators(virtual_devices=4)
"""


@pytest.fixture(scope="session")
def open_terminal(user_environment):
    """Open terminals in a folder, with an environment of their own; they end with the tests."""
    opened = []

    def open_in(folder, **environment):
        quiet = {"CUDA_VISIBLE_DEVICES": "-1"} | environment
        opened.append(Terminal(folder, user_environment | quiet))
        # A process has one set of devices, so they are made before the first command needs some.
        assert opened[-1].python(FOUR_DEVICES).code == 0
        return opened[-1]

    yield open_in
    for terminal in opened:
        terminal.close()


@pytest.fixture(scope="session")
def terminal(tmp_path_factory, open_terminal, demo_corpus):
    """Open a terminal in a folder like a clone, with a corpus and a small model."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("configs", "examples", "utilities", "train_main.py"):
        (folder / name).symlink_to(ROOT / name)
    # A copy: under another path the features of the corpus are prepared again.
    shutil.copytree(
        demo_corpus, folder / "my-corpus", ignore=shutil.ignore_patterns("myxtts-cache")
    )
    # Where a run without --train-data looks first.
    (folder / "demo").mkdir()
    (folder / "demo" / "corpus").symlink_to(folder / "my-corpus")
    shutil.copy(ROOT / "configs" / "miniature.yaml", folder / "small.yaml")
    return open_terminal(folder)


@pytest.fixture(scope="session")
def demo_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from myxtts.data.demo import make_demo_corpus

    folder = tmp_path_factory.mktemp("demo") / "corpus"
    make_demo_corpus(folder, utterances=18, speakers=2)
    return folder


@pytest.fixture(scope="session")
def miniature(demo_corpus: Path):
    """Return the built-in miniature, with any setting changed by keyword."""
    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml

    def make(**changes: object) -> XTTSConfig:
        return XTTSConfig(**read_yaml("miniature"), **({"train_data": str(demo_corpus)} | changes))

    return make


@pytest.fixture(scope="session")
def corpus(miniature):
    from myxtts.data.corpus import open_corpus

    return open_corpus(miniature())


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory, miniature, corpus) -> Path:
    """Return the folder of a finished miniature run."""
    from myxtts.training.trainer import XTTSTrainer

    run_dir = tmp_path_factory.mktemp("runs") / "miniature"
    XTTSTrainer(miniature(), corpus, run_dir).fit()
    return run_dir


@pytest.fixture(scope="session")
def vocoder_run(tmp_path_factory: pytest.TempPathFactory, miniature) -> Path:
    """Return the folder of a finished miniature run of a vocoder."""
    from myxtts.data.corpus import open_corpus
    from myxtts.training.trainer import XTTSTrainer

    config = miniature(task="vocoder")
    run_dir = tmp_path_factory.mktemp("runs") / "vocoder"
    XTTSTrainer(config, open_corpus(config), run_dir).fit()
    return run_dir


# Devices can be set once in a process, so every snippet has a process of its own: forks of one that
# has loaded TensorFlow and not started it.
FORKING_PROGRAM = """
import json, os, sys, traceback
import keras, tensorflow

for line in sys.stdin:
    code, *files = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files, start=1):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        try:
            exec(code, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
            status = 1
        sys.stdout.flush()
        os._exit(status)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture(scope="session")
def run_snippet(user_environment, tmp_path_factory):
    """Run code on a machine without GPUs; return the JSON of its last line, and its stderr."""
    folder = tmp_path_factory.mktemp("snippets")
    output, errors = folder / "stdout", folder / "stderr"
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=user_environment | quiet,
    ) as process:

        def run(*snippets):
            code = "\n".join(map(textwrap.dedent, snippets))
            print(json.dumps([code, str(output), str(errors)]), file=process.stdin, flush=True)
            status = int(process.stdout.readline())
            assert status == 0, errors.read_text()
            return json.loads(output.read_text().splitlines()[-1]), errors.read_text()

        yield run
