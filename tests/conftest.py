"""A small real corpus and a very small real model, shared by the tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# As programs have it, to the last bit.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def user_environment() -> dict[str, str]:
    """For processes of their own: without what the tests set for TensorFlow."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return kept | {"PYTHONPATH": str(ROOT)}


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
