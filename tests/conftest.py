"""A small real corpus and a very small real model, shared by the tests that need them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# As programs have it, to the last bit.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# A shell that starts the tests in the background has them ignore Ctrl-C, and so would the programs
# that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]
# What is given a corpus there trains on it, or runs programs that do.
TRAINING_FOLDERS = ("training", "faults", "examples", "contract")


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        trains = folder in TRAINING_FOLDERS and "demo_corpus" in item.fixturenames
        if trains or {"trained_run", "vocoder_run"} & set(item.fixturenames):
            item.add_marker("training")
        if {"user_environment", "browser"} & set(item.fixturenames):
            item.add_marker("program")


def pytest_sessionfinish() -> None:
    """Collects what tests left before pytest does so twice.

    A process of pytest-xdist has five seconds to end once its tests are done; then it interrupts
    itself, in the middle of a destructor. Graphs of TensorFlow may take longer than that.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def user_environment() -> dict[str, str]:
    """For processes of their own: without what the tests set for TensorFlow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return kept | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real Chromium, without a window; pages are opened with `browser.new_page()`.

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


@pytest.fixture(scope="session")
def demo_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from myxtts.data.corpus.demo import make_demo_corpus

    folder = tmp_path_factory.mktemp("demo") / "corpus"
    make_demo_corpus(folder, utterances=18, speakers=2)
    return folder


@pytest.fixture(scope="session")
def miniature(demo_corpus: Path):
    """The built-in miniature, with any setting changed by keyword."""
    from myxtts.config.config import XTTSConfig
    from myxtts.config.loading import read_yaml

    def make(**changes: object) -> XTTSConfig:
        return XTTSConfig(**read_yaml("miniature"), **({"train_data": str(demo_corpus)} | changes))

    return make


@pytest.fixture(scope="session")
def corpus(miniature):
    from myxtts.data.opening import open_corpus

    return open_corpus(miniature())


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory, miniature, corpus) -> Path:
    """The folder of a finished miniature run."""
    from myxtts.training.trainer import XTTSTrainer

    run_dir = tmp_path_factory.mktemp("runs") / "miniature"
    XTTSTrainer(miniature(), corpus, run_dir).fit()
    return run_dir


@pytest.fixture(scope="session")
def vocoder_run(tmp_path_factory: pytest.TempPathFactory, miniature) -> Path:
    """The folder of a finished miniature run of a vocoder."""
    from myxtts.data.opening import open_corpus
    from myxtts.training.trainer import XTTSTrainer

    config = miniature(task="vocoder")
    run_dir = tmp_path_factory.mktemp("runs") / "vocoder"
    XTTSTrainer(config, open_corpus(config), run_dir).fit()
    return run_dir
