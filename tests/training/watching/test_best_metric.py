import importlib.util

import pytest

from myxtts.config.config import XTTSConfig
from myxtts.training.best import with_best_metric, with_best_metric_of


@pytest.fixture
def recognizer(tmp_path, monkeypatch):
    """Return a package of the recognizer's name, whether or not the extra is installed."""
    package = tmp_path / "moonshine_voice"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("recognizer")
def test_words_choose_where_they_can_be_recognized():
    chosen = with_best_metric(XTTSConfig(), ["fa", "en-gb"]).evaluation
    assert (chosen.best_metric, chosen.measure_every) == ("wer", 1)
    rarely = with_best_metric(XTTSConfig(measure_every=3), ["en"]).evaluation
    assert (rarely.best_metric, rarely.measure_every) == ("wer", 3)


@pytest.mark.usefixtures("recognizer")
def test_other_languages_are_judged_by_the_mel_distance():
    chosen = with_best_metric(XTTSConfig(), ["fa", "de"]).evaluation
    assert (chosen.best_metric, chosen.measure_every) == ("validation_mel_distance", None)


@pytest.mark.skipif(
    importlib.util.find_spec("moonshine_voice") is not None, reason="the extra eval is installed"
)
def test_so_is_english_without_the_recognizer():
    assert (
        with_best_metric(XTTSConfig(), ["en"]).evaluation.best_metric == "validation_mel_distance"
    )


@pytest.mark.usefixtures("recognizer")
def test_what_is_configured_stays():
    config = XTTSConfig(best_metric="validation_loss")
    assert with_best_metric(config, ["en"]) == config


def test_a_resumed_run_continues_by_what_it_began_with():
    began = XTTSConfig(best_metric="wer", measure_every=2)
    assert with_best_metric_of(began, XTTSConfig()) == began
    assert with_best_metric_of(began, XTTSConfig(measure_every=3)).evaluation.measure_every == 3
    asked = XTTSConfig(best_metric="validation_loss")
    assert with_best_metric_of(began, asked) == asked
