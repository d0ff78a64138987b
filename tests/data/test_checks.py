import io
import pickle
import shutil
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import soxr

from myxtts.audio.files import Recording, read_recording
from myxtts.config.config import AudioConfig, XTTSConfig
from myxtts.data import features as prepare
from myxtts.data.checks import (
    Caution,
    Rejection,
    check_clip,
    clip_cautions,
    clipped_share,
    missing_band_hz,
)
from myxtts.data.corpus_checks import check_corpus
from myxtts.data.demo import make_demo_corpus
from myxtts.data.metadata import LJSpeechDataset
from myxtts.text.tokenizer import unsayable

RATE_HZ = 22_050


@pytest.fixture
def damaged(demo_corpus, tmp_path):
    """The demo corpus with a clip of each of six kinds of damage."""
    folder = tmp_path / "damaged"
    shutil.copytree(demo_corpus, folder, ignore=shutil.ignore_patterns("myxtts-cache"))
    items = list(LJSpeechDataset(folder))
    items[0].audio_path.unlink()
    items[1].audio_path.write_text("not audio")
    items[2].audio_path.write_bytes(items[2].audio_path.read_bytes()[:30_000])
    soundfile.write(items[3].audio_path, np.zeros(30_000, np.float32), RATE_HZ)
    samples, _ = soundfile.read(items[4].audio_path)
    soundfile.write(items[4].audio_path, samples[:6_000], RATE_HZ)
    metadata = folder / "metadata_train.csv"
    text = metadata.read_text(encoding="utf-8")
    metadata.write_text(text.replace(items[5].text, "?!"), encoding="utf-8")
    return folder


def test_a_good_corpus_has_nothing_to_show(demo_corpus):
    report = check_corpus(demo_corpus, XTTSConfig(workers=1, min_speaker_seconds=0))
    assert report.findings == ()
    assert report.rows == 20
    assert 20 < report.seconds < 120


@pytest.mark.parametrize("tags", [("EN", "fa-IR"), ("en_US", "fa_IR"), ("en-us", "FA")])
def test_a_good_corpus_is_good_whatever_the_spelling_of_its_languages(tmp_path, tags):
    folder = tmp_path / "corpus"
    make_demo_corpus(folder, utterances=8, speakers=1, languages=("en", "fa"))
    config = XTTSConfig(workers=1, min_speaker_seconds=0)
    expected = [check_clip(item, config).symbols for item in LJSpeechDataset(folder)]
    for metadata in folder.glob("*.csv"):
        text = metadata.read_text(encoding="utf-8")
        for code, tag in zip(("en", "fa"), tags, strict=True):
            text = text.replace(f"|{code}\n", f"|{tag}\n")
        metadata.write_text(text, encoding="utf-8")
    assert check_corpus(folder, config).findings == ()
    items = LJSpeechDataset(folder)
    assert {item.language for item in items} == {"en", "fa"}
    assert [check_clip(item, config).symbols for item in items] == expected


def test_training_leaves_out_what_validation_calls_an_error(damaged, miniature, tmp_path):
    config = miniature(max_rejected_fraction=0.5)
    cache = prepare(LJSpeechDataset(damaged), config, tmp_path / "cache")
    report = check_corpus(damaged, config)
    assert cache.rejected == Counter(finding.reason for finding in report.errors)
    assert sorted(cache.rejections) == sorted(map(str, report.errors))
    assert set(cache.rejected) == {
        "missing audio",
        "unreadable audio",
        "truncated audio",
        "silent audio",
        "too short for its text",
        "empty text",
    }


def test_processes_and_one_process_agree(damaged):
    seen = []
    one = check_corpus(damaged, XTTSConfig(workers=1))
    two = check_corpus(damaged, XTTSConfig(workers=2), lambda done, total: seen.append(done))
    assert one == two
    assert seen == list(range(1, 21))


def test_findings_cross_processes_and_carry_no_sound(damaged):
    report = check_corpus(damaged, XTTSConfig(workers=1))
    assert pickle.loads(pickle.dumps(report.findings)) == report.findings
    assert len(pickle.dumps(report)) < 500 * report.rows


def test_checks_need_no_tensorflow():
    program = "import sys, myxtts.data.corpus_checks; assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_severities():
    assert str(Rejection("metadata.csv:2", "too short", "0.1 s")) == (
        "metadata.csv:2: too short: 0.1 s"
    )
    assert (Rejection("", "", "").severity, Caution("", "", "").severity) == ("error", "warning")


def test_a_clip_with_errors_in_sound_and_text_shows_both(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], text="...", audio_path=demo_corpus / "none.wav")
    clip = check_clip(item, XTTSConfig())
    assert [problem.reason for problem in clip.rejections] == ["missing audio", "empty text"]
    assert clip.waveform.size == 0


@pytest.mark.parametrize(
    ("text", "language", "kind", "script", "suggested"),
    [
        ("می‌خواهم", "en", "phonemes", "Arabic", "fa"),
        ("سلام OK 12", "en", "phonemes", "Arabic", "fa"),
        ("你好", "en", "graphemes", "CJK", "TAG (ja, cmn, hak, yue, zh)"),
        ("Hello", "fa", "graphemes", "Latin", "en"),
    ],
)
def test_text_in_another_script_than_its_language(
    demo_corpus, text, language, kind, script, suggested
):
    item = replace(LJSpeechDataset(demo_corpus)[0], text=text, language=language)
    (rejection,) = check_clip(item, XTTSConfig(tokens=kind)).rejections
    assert rejection.reason == "another script"
    assert rejection.detail == (
        f"'{text}' is written in {script} letters, but its language is '{language}'; add "
        f"--language {suggested} or a language column"
    )


def test_text_without_letters_has_no_script(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], text="...", language="fa")
    (rejection,) = check_clip(item, XTTSConfig()).rejections
    assert (rejection.reason, rejection.detail) == ("empty text", "nothing to say in '...'")


def test_latin_words_are_read_in_every_language(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], text="YouTube and Wikipedia", language="fa")
    assert not check_clip(item, XTTSConfig()).rejections


def test_an_unknown_language_is_not_blamed_on_the_audio(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], language="xx-none", text="Room 7 ★")
    config = XTTSConfig()
    clip = check_clip(item, config)
    assert [problem.reason for problem in clip.rejections] == ["no pronunciation"]
    assert list(clip_cautions(item, clip, config)) == []


def wav(samples: np.ndarray) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, RATE_HZ, format="WAV")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("declared_bytes", "missing_seconds"),
    [
        (44_100, 0.0),
        (44_000, 0.0),
        (44_102, 1 / 22_050),
        (66_150, 0.5),
        (0xFFFF_FFFF, 0.0),
        (0x7FFF_FFFF, 0.0),
    ],
)
def test_what_a_header_declares(tmp_path, declared_bytes, missing_seconds):
    """A program that writes to a pipe declares the largest size there is: nothing is missing."""
    content = bytearray(wav(np.full(22_050, 0.1, np.float32)))
    content[40:44] = struct.pack("<I", declared_bytes)
    (tmp_path / "a.wav").write_bytes(content)
    recording = read_recording(tmp_path / "a.wav")
    assert recording.missing_seconds == pytest.approx(missing_seconds)


def test_declared_sizes_behind_other_chunks(tmp_path):
    content = wav(np.full(22_050, 0.1, np.float32))
    note = b"LIST" + struct.pack("<I", 5) + b"hello\0"
    (tmp_path / "a.wav").write_bytes((content[:36] + note + content[36:])[:-22_050])
    assert read_recording(tmp_path / "a.wav").missing_seconds == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("gain", "clipped"), [(0.9, False), (1.0, False), (1.1, True), (2.0, True), (8.0, True)]
)
@pytest.mark.parametrize("tone_hz", [60, 200, 800])
def test_clipping_is_flat_and_a_peak_is_not(gain, clipped, tone_hz):
    time_seconds = np.arange(RATE_HZ) / RATE_HZ
    tone = np.clip(gain * np.sin(2 * np.pi * tone_hz * time_seconds), -1, 1).astype(np.float32)
    assert (clipped_share(np.round(tone * 32_767) / np.float32(32_767)) > 0.0005) == clipped


@pytest.mark.parametrize("level", [1.0, 0.05])
@pytest.mark.parametrize(
    ("from_hz", "found_hz"), [(8_000, 4_000), (11_025, 5_500), (16_000, None), (22_050, None)]
)
def test_band_limited_speech(demo_corpus, from_hz, found_hz, level):
    samples = read_recording(LJSpeechDataset(demo_corpus)[0].audio_path).samples
    low = soxr.resample(soxr.resample(samples, RATE_HZ, from_hz), from_hz, RATE_HZ) * level
    stored = (np.round(low * 32_767) / 32_767).astype(np.float32)
    bandwidth_hz = missing_band_hz(Recording(stored, RATE_HZ, 0.0), AudioConfig())
    assert bandwidth_hz == (None if found_hz is None else pytest.approx(found_hz, rel=0.04))


def test_a_low_rate_is_not_called_upsampled(demo_corpus):
    samples = read_recording(LJSpeechDataset(demo_corpus)[0].audio_path).samples
    low = soxr.resample(samples, RATE_HZ, 8_000).astype(np.float32)
    assert missing_band_hz(Recording(low, 8_000, 0.0), AudioConfig()) is None


@pytest.mark.parametrize(
    ("words", "language", "kind", "expected"),
    [
        ("naïve café, isn't it?", "en", "phonemes", []),
        ("naïve café", "en-us", "graphemes", []),
        ("سلام، دنیا می‌شود", "fa", "graphemes", []),
        ("سلام hello", "fa", "phonemes", []),
        ("سلام hi", "fa", "graphemes", ["h", "i"]),
        ("привет", "ru", "graphemes", []),
        ("привет", "en", "phonemes", list("веипрт")),
        ("漢字かなカナー", "ja", "graphemes", []),
        ("मैं", "hi", "graphemes", []),
        ("room 47", "xx", "graphemes", ["4", "7"]),
        ("zimmer 47", "de", "phonemes", []),
        ("ein ★ hier", "de", "phonemes", ["★"]),
    ],
)
def test_characters_that_cannot_be_said(words, language, kind, expected):
    assert unsayable(words, language, kind) == expected
