"""A checkpoint that was saved with format version 1: every later version must load it."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import myxtts
from myxtts.errors import DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.models.xtts import XTTS
from myxtts.runs.run_dir import RunDir, find_checkpoint
from myxtts.synthesis.tts import TTS
from myxtts.training.optimizer import FlatAdamW

GOLDEN = Path(__file__).parent / "golden"


def test_it_speaks_as_it_did():
    tts = TTS(GOLDEN)
    assert (tts.step, tts.languages) == (3, ("en",))
    assert tts.config.training.default_guidance == (0, 0)
    voice = tts.sampler.voice(np.sin(np.arange(640, dtype=np.float32)).reshape(64, 10) - 5.0)
    token_ids = tts.tokenizer.encode("A small boat.", "en")
    [mel] = tts.sampler.mels([token_ids], [0], voice, SpeechOptions())
    assert mel.shape == (60, 10)
    assert float(mel.mean()) == pytest.approx(-4.95374, rel=1e-3)


def test_it_was_not_trained_for_guidance():
    options = SpeechOptions(text_guidance=0.5)
    with pytest.raises(DataError, match=r"text_guidance: found 0\.5, but this run was"):
        TTS(GOLDEN).tts("A small boat.", "nobody.wav", options=options)


def test_training_continues_from_it():
    checkpoint = find_checkpoint(GOLDEN)
    config = checkpoint.config()
    model = XTTS(
        config,
        symbols=len(checkpoint.tokenizer().symbols),
        languages=1,
        mel_mean=checkpoint.info.mel_mean,
        mel_deviation=checkpoint.info.mel_deviation,
    )
    optimizer = FlatAdamW(model.trainable_variables, config.training, 10)
    optimizer.restore(checkpoint.training_state(), GOLDEN)
    assert int(optimizer.step.numpy()) == checkpoint.info.step == 3
    assert checkpoint.info.seconds["wall"] > 0
    assert np.isfinite(optimizer.weights().numpy()).all()


@pytest.mark.training
def test_a_run_of_its_time_is_resumed_and_speaks(demo_corpus, tmp_path):
    run_dir = RunDir(tmp_path / "run")
    shutil.copytree(GOLDEN, run_dir.checkpoints / "step_00000003")
    # The corpus that it was trained on is gone; this one has no other letters.
    config = find_checkpoint(run_dir).config()
    config = config.with_(train_data=str(demo_corpus), max_steps=5, max_rejected_fraction=1.0)
    report = myxtts.train(config, run_dir.path, resume=True)
    assert (report.state, report.steps) == ("complete", 5)
    assert [line["step"] for line in run_dir.metric_lines()] == [5]
    assert TTS(run_dir.path).step == 5
