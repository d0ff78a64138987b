"""Which vocoder speaks, and which is refused."""

import numpy as np
import pytest

from myxtts.audio.griffin_lim import GriffinLim
from myxtts.errors import CheckpointError
from myxtts.models.vocoder import NeuralVocoder
from myxtts.runs.trained_model import find_vocoder
from myxtts.synthesis.tts import TTS


def test_a_trained_run_is_a_vocoder(vocoder_run, miniature):
    vocoder = find_vocoder(vocoder_run, miniature())
    assert isinstance(vocoder, NeuralVocoder)
    mel = np.full((30, miniature().data.n_mels), -6.0, np.float32)
    assert vocoder.samples(mel).shape == (29 * miniature().audio.hop_samples,)


def test_griffin_lim_by_name(miniature):
    assert isinstance(find_vocoder("griffin-lim", miniature()), GriffinLim)


def test_a_vocoder_for_another_mel_is_refused_with_the_difference(vocoder_run, miniature):
    for change, found in (
        ({"n_mels": 100}, "data.n_mels is 80"),
        (
            {"highest_hz": 11_025},
            "audio.highest_hz is 8000.0",
        ),
    ):
        with pytest.raises(CheckpointError, match=f"another mel: {found}"):
            find_vocoder(vocoder_run, miniature(**change))


def test_a_model_that_speaks_is_no_vocoder(trained_run, miniature):
    with pytest.raises(CheckpointError, match="expected a vocoder"):
        find_vocoder(trained_run, miniature())


def test_a_vocoder_does_not_speak_by_itself(vocoder_run):
    with pytest.raises(CheckpointError, match="expected an acoustic model"):
        TTS(vocoder_run)


def test_speech_through_a_trained_vocoder(trained_run, vocoder_run, demo_corpus):
    reference = next((demo_corpus / "wavs").glob("*.wav"))
    spoken = [
        TTS(trained_run, vocoder=name).tts("Good morning.", reference)
        for name in (vocoder_run, "griffin-lim")
    ]
    assert spoken[0].size == spoken[1].size
    assert np.abs(spoken[0] - spoken[1]).max() > 0.01
