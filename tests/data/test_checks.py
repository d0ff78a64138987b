import io
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
from myxtts.data import checks
from myxtts.data.cache import prepare
from myxtts.data.checks import (
    check_clip,
    check_corpus,
    clip_cautions,
    clipped_share,
    missing_band_hz,
)
from myxtts.data.metadata import LJSpeechDataset
from myxtts.text.tokenizer import unsayable

RATE_HZ = 22_050


@pytest.fixture
def damaged(demo_corpus, tmp_path):
    """Return the demo corpus with a clip of each of six kinds of damage."""
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


@pytest.fixture(autouse=True)
def _speakers_may_have_seconds(monkeypatch):
    monkeypatch.setattr(checks, "MIN_SPEAKER_SECONDS", 0)


def test_a_good_corpus_has_nothing_to_show(demo_corpus):
    report = check_corpus(demo_corpus, XTTSConfig(workers=1))
    assert report.findings == ()
    assert report.rows == 20
    assert 20 < report.seconds < 120


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


def test_checks_need_no_tensorflow():
    program = "import sys, myxtts.data.checks; assert 'tensorflow' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_clip_with_errors_in_sound_and_text_shows_both(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], text="...", audio_path=demo_corpus / "none.wav")
    clip = check_clip(item, XTTSConfig())
    assert [problem.reason for problem in clip.rejections] == ["missing audio", "empty text"]
    assert clip.waveform.size == 0


@pytest.mark.parametrize(
    ("text", "language", "kind"),
    [
        ("می‌خواهم", "en", "phonemes"),
        ("سلام OK 12", "en", "phonemes"),
        ("你好", "en", "graphemes"),
        ("Hello", "fa", "graphemes"),
    ],
)
def test_text_in_another_script_than_its_language(demo_corpus, text, language, kind):
    item = replace(LJSpeechDataset(demo_corpus)[0], text=text, language=language)
    (rejection,) = check_clip(item, XTTSConfig(tokens=kind)).rejections
    assert rejection.reason == "another script"


def test_text_without_letters_has_no_script(demo_corpus):
    item = replace(LJSpeechDataset(demo_corpus)[0], text="...", language="fa")
    (rejection,) = check_clip(item, XTTSConfig()).rejections
    assert rejection.reason == "empty text"


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


GOOD_ROWS = "a|The first of the good rows.\nb|And here is the second one.\n"
SENTENCE = "This one is not like the others."
HEADER = "audio_file|text|speaker_name|language\n"
SPEAKERS = HEADER + "a|The first good row.|ann|en\nb|And the second one.|ann|en\n"


def voice(seconds: float = 2.0, *, seed: int = 7, rate_hz: int = RATE_HZ) -> np.ndarray:
    """Something with the spectrum and the pauses of speech, different for every seed."""
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal(int(seconds * rate_hz))
    colored = noise + 0.9 * np.roll(noise, 1) + 0.8 * np.roll(noise, 2)
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * np.arange(noise.size) / rate_hz)
    return (0.06 * colored * syllables).astype(np.float32)


def encoded(samples: np.ndarray, rate_hz: int = RATE_HZ, **how: str) -> bytes:
    stream = io.BytesIO()
    soundfile.write(stream, samples, rate_hz, **({"format": "WAV"} | how))
    return stream.getvalue()


def decoded(content: bytes) -> np.ndarray:
    return soundfile.read(io.BytesIO(content), dtype="int16")[0]


def cut(content: bytes, share: float = 0.5) -> bytes:
    return content[: int(len(content) * share)]


def upsampled(from_hz: int) -> np.ndarray:
    return soxr.resample(voice(rate_hz=from_hz), from_hz, RATE_HZ)


def with_not_a_number() -> np.ndarray:
    samples = voice()
    samples[100] = np.nan
    return samples


def with_wrong_header() -> bytes:
    """Return a WAV whose declared format does not exist."""
    content = bytearray(encoded(voice(0.5)))
    content[20:22] = b"\xee\xee"
    return bytes(content)


# What replaces the sound of the clip in line 3, and the reasons that are found for it.
SOUNDS = {
    "text": (lambda: b"this is not audio", ["unreadable audio"]),
    "header of an unknown format": (with_wrong_header, ["unreadable audio"]),
    "not a number": (
        lambda: encoded(with_not_a_number(), subtype="FLOAT"),
        ["unreadable audio"],
    ),
    "no bytes": (lambda: b"", ["empty audio"]),
    "no samples": (lambda: encoded(np.zeros(0, np.float32)), ["empty audio"]),
    "wav that breaks off": (lambda: cut(encoded(voice(3.0))), ["truncated audio"]),
    "too short": (lambda: encoded(voice(0.1)), ["too short"]),
    "a click in silence": (lambda: encoded(np.pad(voice(0.02), RATE_HZ)), ["too short"]),
    "digital silence": (lambda: encoded(np.zeros(2 * RATE_HZ, np.float32)), ["silent audio"]),
    "a constant offset": (
        lambda: encoded(np.full(2 * RATE_HZ, 0.25, np.float32)),
        ["silent audio"],
    ),
    "an unplugged microphone": (lambda: encoded(voice() * 0.006), ["silent audio"]),
    "longer than data.max_mel_frames": (lambda: encoded(voice(8.0)), ["clip too long"]),
    "clipped": (lambda: encoded(np.clip(voice() * 8, -1, 1)), ["clipped audio"]),
    "clipped, then turned down": (
        lambda: encoded(np.clip(voice() * 8, -1, 1) * 0.6),
        ["clipped audio"],
    ),
    "telephone quality": (lambda: encoded(upsampled(8_000)), ["band-limited audio"]),
    "upsampled and quiet": (lambda: encoded(upsampled(11_025) * 0.1), ["band-limited audio"]),
    "as it should be": (lambda: encoded(voice()), []),
}

# Metadata after two good rows, with settings, and the findings: line and reason.
ROWS = {
    "missing file": (f"d|{SENTENCE}\n", {}, ["3 missing audio"]),
    "missing file with an extension": (f"d.flac|{SENTENCE}\n", {}, ["3 missing audio"]),
    "missing file in a folder": (f"ann/c.wav|{SENTENCE}\n", {}, ["3 missing audio"]),
    "text where the name should be": (f"{SENTENCE * 9}|c\n", {}, ["3 bad row"]),
    "only punctuation": ("c|... !\n", {}, ["3 empty text"]),
    "no text": ("c|\n", {}, ["3 empty text"]),
    "text too long": (f"c|{f'{SENTENCE} ' * 9}\n", {}, ["3 text too long"]),
    "too much text": (f"c|{f'{SENTENCE} ' * 7}\n", {}, ["3 too short for its text"]),
    "faster than speech": (
        f"c|{f'{SENTENCE} ' * 3}\n",
        {"tokens": "graphemes"},
        ["3 text does not fit"],
    ),
    "foreign script": ("c|He wrote 漢字 on the wall.\n", {}, ["3 unknown symbols"]),
    "another script": ("c|سلام دنیا\n", {}, ["3 another script"]),
    "a column too many": (f"c|{SENTENCE}|c|d\n", {}, ["3 bad row"]),
    "a column too few": (f"c {SENTENCE}\n", {}, ["3 bad row"]),
    "no audio name": (f"|{SENTENCE}\n", {}, ["3 bad row"]),
    "a path upwards": (f"../c.wav|{SENTENCE}\n", {}, ["3 bad row"]),
    "an absolute path": (f"/etc/passwd|{SENTENCE}\n", {}, ["3 bad row"]),
    "an absolute path from Windows": (f"C:\\data\\c.wav|{SENTENCE}\n", {}, ["3 bad row"]),
    "several problems": (
        "|x\n/x|x\nx\nd|...\n",
        {},
        ["3 bad row", "4 bad row", "5 bad row", "6 missing audio", "6 empty text"],
    ),
    "the wrong layout": (
        "",
        {"layout": "audio|text|speaker"},
        ["1 bad row", "2 bad row"],
    ),
    "a row twice": ("a|The first of the good rows.\n", {}, ["3 duplicate audio"]),
    "one sound with two texts": ("a|It says something else here.\n", {}, ["3 duplicate audio"]),
    "one sound in two formats": (f"a.flac|{SENTENCE}\n", {}, ["3 duplicate audio"]),
    "a text twice": ("c|the first of the  good rows.\n", {}, ["3 duplicate text"]),
}


def broken_corpus(folder, metadata, **files):
    wavs = folder / "wavs"
    wavs.mkdir(parents=True)
    sounds = {"a.wav": encoded(voice(seed=0)), "b.wav": encoded(voice(seed=1))}
    sounds |= {"a.flac": encoded(decoded(sounds["a.wav"]), format="FLAC")}
    sounds |= {"c.wav": encoded(voice(2.4))}
    for name, content in (sounds | files).items():
        (wavs / name).write_bytes(content)
    (folder / "metadata.csv").write_text(metadata, encoding="utf-8")
    return folder


def found(folder, **settings):
    config = XTTSConfig(**({"workers": 1} | settings))
    findings = check_corpus(folder, config).findings
    return [f"{finding.source.partition(':')[2]} {finding.reason}".strip() for finding in findings]


@pytest.mark.parametrize("name", SOUNDS)
def test_broken_sounds(tmp_path, name):
    content, reasons = SOUNDS[name]
    folder = broken_corpus(tmp_path / "c", f"{GOOD_ROWS}c|{SENTENCE}\n", **{"c.wav": content()})
    assert found(folder, max_mel_frames=600) == [f"3 {reason}" for reason in reasons]


def test_a_flac_that_breaks_off(tmp_path):
    content = cut(encoded(voice(), format="FLAC"))
    folder = broken_corpus(tmp_path / "c", f"{GOOD_ROWS}d|{SENTENCE}\n", **{"d.flac": content})
    assert found(folder) == ["3 truncated audio"]


@pytest.mark.parametrize("name", ROWS)
def test_broken_rows(tmp_path, name):
    rows, settings, findings = ROWS[name]
    assert found(broken_corpus(tmp_path / "c", GOOD_ROWS + rows), **settings) == findings


def test_a_language_without_a_voice(tmp_path):
    folder = broken_corpus(tmp_path / "c", SPEAKERS + "c|This one has a language.|ann|xx-none\n")
    assert found(folder) == ["4 no pronunciation"]


def test_one_letter_in_a_long_recording(tmp_path):
    folder = broken_corpus(tmp_path / "c", GOOD_ROWS + "c|I.\n", **{"c.wav": encoded(voice(6.0))})
    assert found(folder) == ["3 text does not fit"]


def test_other_sample_rates_are_found_once_each(tmp_path):
    rates = {"c": 48_000, "d": 8_000, "e": 8_000}
    rows = "".join(f"{name}|This is a sentence of {name}.\n" for name in rates)
    files = {
        f"{name}.wav": encoded(voice(seed=ord(name), rate_hz=rate_hz), rate_hz)
        for name, rate_hz in rates.items()
    }
    folder = broken_corpus(tmp_path / "c", GOOD_ROWS + rows, **files)
    report = check_corpus(folder, XTTSConfig(workers=1))
    assert [(it.reason, it.clips) for it in report.findings] == [
        ("other sample rate", 2),
        ("other sample rate", 1),
    ]


def test_a_speaker_with_too_little_whose_duplicates_do_not_count(tmp_path, monkeypatch):
    row = "c|It is said by another one.|bob|en\n"
    folder = broken_corpus(tmp_path / "c", SPEAKERS + 2 * row)
    monkeypatch.setattr(checks, "MIN_SPEAKER_SECONDS", 3)
    assert found(folder) == ["5 duplicate audio", "small speaker"]


def test_a_text_of_another_clip(tmp_path):
    names = [*(f"c{number}" for number in range(20)), "d"]
    rows = "".join(f"{name}|This is the sentence of {name[1:]}.\n" for name in names[:-1])
    files = {f"{name}.wav": encoded(voice(2.5, seed=seed)) for seed, name in enumerate(names, 50)}
    folder = broken_corpus(tmp_path / "c", f"{GOOD_ROWS}{rows}d|No.\n", **files)
    assert found(folder) == ["23 unusual speaking rate"]
