"""Every format, run in its own runtime by its own example, says what the original says."""

import json
import runpy

import numpy as np
import pytest
import soundfile
import tensorflow as tf

from myxtts.errors import ConfigError, DataError
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.export import EXPORTERS, ExportedSpeech, export_model
from myxtts.synthesis.tts import TTS
from myxtts.text.languages import find_language

OPTIONS = SpeechOptions(steps=2)
RUNTIMES = {
    "saved-model": ["tensorflow"],
    "onnx": ["tf2onnx", "onnxruntime"],
    "litert": ["ai_edge_litert"],
    "litert-float16": ["ai_edge_litert"],
}


@pytest.fixture(scope="module")
def speaker(trained_run, recordings) -> TTS:
    tts = TTS(trained_run)
    tts.add_voice("exported", recordings[0], replace=True)
    return tts


@pytest.fixture(scope="module")
def original(speaker):
    """Return the samples of token ids, by the same graph in TensorFlow."""
    module = ExportedSpeech(speaker, OPTIONS)
    function = tf.function(module.speak, input_signature=module.signature(), autograph=False)
    voice = speaker.saved_voice("exported")

    def speak(token_ids):
        return function(tf.constant([token_ids]), tf.constant([0]), *voice, tf.constant(1.0))

    return speak


def test_the_mel_is_that_of_the_sampler(speaker, original):
    for text in find_language("en").demo_sentences()[:5]:
        token_ids = speaker.tokenizer.encode(text, "en")
        [mel] = speaker.sampler.mels([token_ids], [0], speaker.saved_voice("exported"), OPTIONS)
        np.testing.assert_allclose(original(token_ids)["log_mel"], mel, atol=1e-3)


# Converting to the others takes half a minute each.
QUICK = "saved-model"


@pytest.mark.parametrize(
    "kind",
    [it if it == QUICK else pytest.param(it, marks=pytest.mark.slow) for it in EXPORTERS],
)
def test_each_format_agrees_with_the_original(kind, speaker, original, tmp_path):
    for package in RUNTIMES[kind]:
        pytest.importorskip(package)
    folder = export_model(speaker, tmp_path / "exported", kind, options=OPTIONS)
    example = runpy.run_path(str(folder / "example.py"))
    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    words = " ".join(find_language("en").demo_sentences()[:6]).split()
    for count in range(1, 40, 8 if kind == QUICK else 2):
        text = " ".join(words[:count])
        token_ids = speaker.tokenizer.encode(text, "en")
        samples = example["speak"](token_ids, facts["voices"]["exported"])["samples"]
        expected = original(token_ids)["samples"].numpy()
        assert samples.shape == expected.shape
        error = np.sqrt(np.mean((samples - expected) ** 2) / np.mean(expected**2))
        assert error < (0.3 if kind == "litert-float16" else 0.02), text


def test_the_example_writes_a_file(speaker, tmp_path, monkeypatch):
    folder = export_model(speaker, tmp_path / "exported", "saved-model", options=OPTIONS)
    symbols = [speaker.tokenizer.symbols[i] for i in speaker.tokenizer.encode("Good day.", "en")]
    written = " ".join("_" if symbol == " " else symbol for symbol in symbols[1:-1])
    monkeypatch.setattr("sys.argv", ["example.py", "exported", written, str(tmp_path / "out.wav")])
    runpy.run_path(str(folder / "example.py"), run_name="__main__")
    assert soundfile.info(tmp_path / "out.wav").frames > 1_000


@pytest.mark.slow
def test_the_language_of_texts_that_name_none(tmp_path):
    base = TTS(compiled=False)
    folder = export_model(base, tmp_path / "exported", QUICK, options=OPTIONS, language="fa")
    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    assert facts["languages"][facts["language_id"]] == "fa"


def test_what_cannot_be_exported(speaker, tmp_path):
    with pytest.raises(ConfigError, match="expected saved-model, onnx, litert"):
        export_model(speaker, tmp_path / "out", "pickle")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("kept")
    with pytest.raises(DataError, match="expected a new or empty folder"):
        export_model(speaker, tmp_path / "full", "saved-model", options=OPTIONS)
    assert (tmp_path / "full" / "mine").read_text() == "kept"
    assert not (tmp_path / "out").exists()
