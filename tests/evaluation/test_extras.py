"""The measures of the extras, for real, where they are installed."""

import sys
from dataclasses import replace

import pytest

from myxtts.devices.doctor import install_command
from myxtts.errors import ConfigError, DataError
from myxtts.evaluation.measures import open_toolbox, torchaudio_or_blank


def scores_of(metric: str, speech_of, *names: str) -> list[float]:
    toolbox = open_toolbox(only=[metric])
    if not toolbox.measures:
        pytest.skip(str(toolbox.left_out[0]))
    return [toolbox.measures[0].scores(speech_of(name))[metric].value for name in names]


def test_a_recognizer_follows_speech_and_not_noise(speech_of):
    recording, copy, swapped, noise = scores_of(
        "wer", speech_of, "recording", "copy", "words swapped", "noise"
    )
    assert max(recording, copy) < min(swapped, noise)


def test_a_clip_always_has_the_same_transcript(speech_of):
    toolbox = open_toolbox(only=["wer"])
    if not toolbox.measures:
        pytest.skip(str(toolbox.left_out[0]))
    names = ("recording", "noisy", "other voice", "copy", "words swapped")
    first, second, third = (
        {name: toolbox.measures[0].scores(speech_of(name))["wer"].note for name in order}
        for order in (names, names[::-1], names)
    )
    assert first == second == third


@pytest.mark.slow
def test_another_voice_is_less_similar(speech_of):
    recording, copy, other = scores_of("similarity", speech_of, "recording", "copy", "other voice")
    assert min(recording, copy) > other


def test_the_level_is_no_part_of_a_voice(speech_of):
    recording = speech_of("recording")
    toolbox = open_toolbox(only=["similarity"])
    if not toolbox.measures:
        pytest.skip(str(toolbox.left_out[0]))
    as_loud, softer = (
        toolbox.measures[0].scores(replace(recording, waveform=recording.waveform * factor))
        for factor in (1.0, 0.1)
    )
    assert softer["similarity"].value == pytest.approx(as_loud["similarity"].value, abs=1e-3)


@pytest.mark.parametrize("metric", ["dnsmos", "distillmos"])
def test_noise_lowers_the_quality(speech_of, metric):
    recording, noisy = scores_of(metric, speech_of, "recording", "noisy")
    assert recording > noisy + 0.3


def test_without_an_extra_the_command_that_installs_it_is_named(monkeypatch):
    for module in ("jiwer", "moonshine_voice", "speechmos", "resemblyzer", "distillmos"):
        monkeypatch.setitem(sys.modules, module, None)
    toolbox = open_toolbox()
    assert [str(left_out) for left_out in toolbox.left_out] == [
        "Left out: word error rate, character error rate, quality by DNSMOS: "
        + install_command("eval"),
        "Left out: voice similarity, quality by DistillMOS: " + install_command("eval-torch"),
    ]
    assert {"mel_cepstral_distance", "pitch_error", "silence"} <= {
        metric.name for metric in toolbox.metrics
    }


def test_a_torchaudio_that_cannot_be_loaded_is_not_needed(tmp_path, monkeypatch):
    (tmp_path / "torchaudio.py").write_text("raise OSError('undefined symbol')")
    (tmp_path / "reader_of_audio.py").write_text("import torchaudio")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    with torchaudio_or_blank():
        import reader_of_audio
    assert reader_of_audio.torchaudio
    with pytest.raises(OSError, match="undefined symbol"):
        import torchaudio  # noqa: F401


def test_an_unknown_measure_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"unknown metric 'were', allowed: wer.*did you mean"):
        open_toolbox(only=["were"])


def test_a_folder_without_a_whisper_model(tmp_path):
    with pytest.raises(DataError, match="contains no Whisper model"):
        open_toolbox(whisper=tmp_path)
    pytest.importorskip("faster_whisper")
    for name in ("model.bin", "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(DataError, match="the Whisper model cannot be read"):
        open_toolbox(whisper=tmp_path)
