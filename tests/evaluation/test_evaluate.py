"""A whole evaluation of a miniature run, with the measures that need nothing."""

import csv
import json
import sys

import pytest

from myxtts.audio.griffin_lim import GriffinLim
from myxtts.evaluation.evaluate import (
    Evaluation,
    evaluate,
    held_out_sentences,
    mean_of,
    own_voice,
    sentences_of_file,
)
from myxtts.evaluation.measures import Score, open_toolbox
from myxtts.evaluation.results import save_evaluation
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.tts import TTS

OPTIONS = SpeechOptions(steps=2)
COLUMNS = ("recordings", "griffin-lim copies", "hasty copies", "model")


@pytest.fixture(scope="module")
def tts(trained_run) -> TTS:
    return TTS(trained_run)


@pytest.fixture(scope="module")
def toolbox(tts):
    with pytest.MonkeyPatch.context() as patch:
        for module in ("jiwer", "speechmos", "resemblyzer", "distillmos"):
            patch.setitem(sys.modules, module, None)
        return open_toolbox(own_voice=own_voice(tts))


@pytest.fixture(scope="module")
def evaluation(tts, toolbox, miniature) -> Evaluation:
    sentences = held_out_sentences(miniature(), tts.languages, 2)
    vocoders = {
        "griffin-lim": GriffinLim(tts.config.audio),
        "hasty": GriffinLim(tts.config.audio, phase_iterations=0),
    }
    return evaluate(tts, "run", sentences, toolbox, vocoders=vocoders, options=OPTIONS)


def mean(evaluation: Evaluation, column: str, name: str) -> float | None:
    metric = next(metric for metric in evaluation.toolbox.metrics if metric.name == name)
    found = evaluation.mean(column, metric)
    return found and found.value


def test_the_recordings_are_the_ceiling(evaluation):
    assert evaluation.columns == COLUMNS
    for name in ("mel_cepstral_distance", "pitch_error", "voicing_error"):
        recordings, copies, _, model = (mean(evaluation, column, name) for column in COLUMNS)
        assert recordings == pytest.approx(0, abs=1e-6)
        assert recordings < copies
        if model is not None:  # an untrained model may have no voiced frame
            assert copies < model
    assert mean(evaluation, "recordings", "duration_ratio") == 1
    assert mean(evaluation, "recordings", "real_time_factor") is None
    assert mean(evaluation, "model", "real_time_factor") > 0


def test_each_vocoder_has_a_column_of_copies(evaluation):
    good, hasty = (mean(evaluation, column, "voicing_error") for column in COLUMNS[1:3])
    assert 0 < good < hasty
    assert mean(evaluation, "hasty copies", "real_time_factor") > 0


def test_a_mean_is_weighted_by_how_much_each_clip_holds(evaluation):
    clips = [clip for clip in evaluation.clips if clip.column == "recordings"]
    characters = sum(sum(character.isalnum() for character in clip.sentence.text) for clip in clips)
    seconds = sum(clip.scores["characters_per_second"].weight for clip in clips)
    assert mean(evaluation, "recordings", "characters_per_second") == pytest.approx(
        characters / seconds
    )


def test_the_interval_of_a_mean_narrows_with_more_clips():
    few, many = (
        mean_of(Score(error, words) for error, words in [(0.0, 4), (0.5, 8)] * count)
        for count in (4, 64)
    )
    assert few.value == many.value == pytest.approx(4 / 12)
    assert (few.clips, many.clips) == (8, 128)
    assert 0 <= few.low < many.low < few.value < many.high < few.high <= 0.5
    assert mean_of([]) is None


def test_what_is_written(evaluation, tmp_path):
    content = save_evaluation(evaluation, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text()) == content
    measure = content["measures"]["own_similarity"]
    assert measure["independent"] is False
    assert set(measure["means"]) == set(COLUMNS)
    low, high = measure["intervals"]["model"]
    assert low <= measure["means"]["model"] <= high
    assert measure["clips"]["model"] == 2
    assert content["measures"]["pitch_error"]["unit"] == "semitones"
    assert [set(sentence["clips"]) for sentence in content["sentences"]] == [set(COLUMNS)] * 2
    with open(tmp_path / "out" / "evaluation.csv", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert float(rows[0]["duration_ratio"]) == 1
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("data:audio/mpeg;base64,") == 8
    assert "http" not in page.replace("data:", "")
    assert not list((tmp_path / "out").glob(".*"))


def test_text_cannot_write_into_the_page(tts, toolbox, evaluation, tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("<script>alert</script> is here.")
    voices = [("<b>", evaluation.sentences[0].reference)]
    spoken = evaluate(tts, "<i>", sentences_of_file(file, "en", voices), toolbox, options=OPTIONS)
    save_evaluation(spoken, tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<script" not in page
    assert "<i>" not in page
    assert "<b></span>" not in page
    assert spoken.columns == ("model",)
    assert (
        "Left out: mel-cepstral distance, pitch error, voicing errors, duration ratio: "
        "there are no recordings of these sentences"
    ) in map(str, spoken.left_out)
