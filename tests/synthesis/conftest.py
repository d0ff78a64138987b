import shutil
from pathlib import Path

import pytest

from myxtts.synthesis.tts import TTS


@pytest.fixture(scope="session")
def trained_run(trained_run, tmp_path_factory) -> Path:
    """Return a copy: voices are saved in it."""
    return shutil.copytree(trained_run, tmp_path_factory.mktemp("spoken") / "run")


@pytest.fixture(scope="session")
def tts(trained_run) -> TTS:
    return TTS(trained_run)


@pytest.fixture(scope="session")
def recordings(demo_corpus) -> list[Path]:
    return sorted((demo_corpus / "wavs").glob("*.wav"))[:2]
