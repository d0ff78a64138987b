from pathlib import Path

import pytest

from myxtts.synthesis.tts import TTS


@pytest.fixture(scope="session")
def tts(trained_run) -> TTS:
    return TTS(trained_run)


@pytest.fixture(scope="session")
def recordings(demo_corpus) -> list[Path]:
    return sorted((demo_corpus / "wavs").glob("*.wav"))[:2]
