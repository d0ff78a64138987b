"""A sentence said well and badly, by espeak-ng and by arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

RATE_HZ = 22_050
TEXT = "The garden hose is leaking near the tap."
SWAPPED = "Tap near the leaking garden is the hose."
OTHER_TEXT = "An empty bottle rolled across the deck."


@pytest.fixture(scope="session")
def sayings():
    """Return altered clips by their kind of damage; the first is the recording."""
    from myxtts.audio.files import set_loudness
    from myxtts.audio.griffin_lim import GriffinLim
    from myxtts.audio.mel import clip_log_mel
    from myxtts.config.config import AudioConfig
    from myxtts.text import espeak

    def say(text: str, voice: str):
        samples = espeak.speak(text, voice, words_per_minute=150)
        return set_loudness(np.asarray(samples, np.float32), RATE_HZ, -23.0)

    audio = AudioConfig()
    recording = say(TEXT, "en-us+m3")
    noise = np.random.default_rng(0).standard_normal(recording.size).astype(np.float32)
    noise = set_loudness(noise, RATE_HZ, -23.0)
    return {
        "recording": recording,
        "copy": GriffinLim(audio).samples(clip_log_mel(audio, 80)(recording)),
        "words swapped": say(SWAPPED, "en-us+m3"),
        "other voice": say(TEXT, "en-us+f2"),
        "noisy": recording + noise,
        "noise": noise,
        "reference": say(OTHER_TEXT, "en-us+m3"),
    }


@pytest.fixture(scope="session")
def speech_of(sayings):
    """Return the speech to evaluate, with one of the altered clips as that of the model."""
    from myxtts.evaluation.measures import Sound, Speech

    def sound(name: str) -> Sound:
        return Sound(waveform=sayings[name], sample_rate_hz=RATE_HZ)

    def make(name: str, **changes: object) -> Speech:
        facts = {
            "waveform": sayings[name],
            "sample_rate_hz": RATE_HZ,
            "text": TEXT,
            "language": "en",
            "reference": sound("reference"),
            "recording": sound("recording"),
        }
        return Speech(**(facts | changes))

    return make
