"""Weights of a run, as the package includes them."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from myxtts.runs.trained_model import find_vocoder

TOOL = Path(__file__).parents[2] / "tools" / "weights" / "include.py"


def test_a_vocoder_in_half_the_bytes_speaks_alike(vocoder_run, miniature, tmp_path):
    included = tmp_path / "vocoder"
    command = [sys.executable, str(TOOL), str(vocoder_run), str(included)]
    subprocess.run(command, check=True, capture_output=True)
    weights = load_file(included / "model.safetensors")
    assert {value.dtype for value in weights.values()} == {np.dtype(np.float16)}
    mel = np.full((1, 40, miniature().data.n_mels), -6.0, np.float32)
    here, there = (
        find_vocoder(it, miniature()).network.predict_magnitudes(mel).magnitudes
        for it in (vocoder_run, included)
    )
    np.testing.assert_allclose(here, there, rtol=0.01)
    config = (included / "config.yaml").read_text()
    assert str(miniature().data.train_data) not in config
