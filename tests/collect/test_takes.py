"""Sentences are chosen for their sounds, read into a microphone, checked and kept."""

import io
import json
import os
import shutil

import numpy as np
import pytest
import soundfile

from myxtts.audio.files import read_audio
from myxtts.cli.main import main
from myxtts.collect.collect import Options
from myxtts.collect.folder import CorpusFolder, read_rows
from myxtts.collect.review import Review, check_take, prompts
from myxtts.data.metadata import LJSpeechDataset
from myxtts.errors import DataError

RATE_HZ = 22_050


@pytest.fixture
def spoken(demo_corpus):
    """Return a clip with half a second of silence around it, and its text."""
    row = LJSpeechDataset(demo_corpus, validation_fraction=None)[0]
    samples = read_audio(row.audio_path, RATE_HZ)
    silence = np.zeros(RATE_HZ // 2, np.float32)
    return np.concatenate([silence, 0.4 * samples / np.abs(samples).max(), silence]), row.text


def wav(samples):
    buffer = io.BytesIO()
    soundfile.write(buffer, samples, RATE_HZ, format="WAV")
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    Options().prepare(CorpusFolder(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.mark.parametrize("language", ["en", "fa"])
def test_few_sentences_have_every_sound(language):
    found = prompts(language)
    shares = [prompt.pairs_covered for prompt in found]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    # A minute or two of reading has most of what there is.
    assert shares[60] > 0.6
    assert len({prompt.text for prompt in found}) == len(found) < 300


def test_a_language_without_sentences():
    with pytest.raises(DataError):
        prompts("de")


def test_a_good_take_is_cut_to_its_speech(spoken):
    samples, text = spoken
    take = check_take(wav(samples), text, "en")
    assert take.problems == ()
    assert 0.5 < (samples.size - take.samples.size) / RATE_HZ < 1.0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda samples: samples * 0.01, "too_quiet"),
        (lambda samples: np.clip(samples * 6, -0.98, 0.98), "clipped"),
        (lambda samples: samples[: RATE_HZ // 4], "no_speech"),
        (lambda samples: samples[: int(0.9 * RATE_HZ) + RATE_HZ // 4], "other_length"),
        (
            lambda samples: (
                samples
                + 0.02 * np.random.default_rng(0).standard_normal(samples.size).astype(np.float32)
            ),
            "noisy",
        ),
    ],
)
def test_what_is_wrong_is_told(spoken, change, problem):
    samples, text = spoken
    assert problem in check_take(wav(change(samples)), text, "en").problems


def test_no_audio_is_refused():
    with pytest.raises(DataError):
        check_take(b"RIFF of nothing", "Hello.", "en")


def test_a_take_is_kept_as_a_row(folder, spoken):
    samples, _ = spoken
    review = Review(folder, speaker="anna")
    first = review.prompts()[0]
    bad = review.record(first["id"], wav(samples * 0.01))
    assert not bad["saved"]
    assert "too_quiet" in bad["problems"]
    assert not (folder / "metadata.csv").exists()
    assert review.record(first["id"], wav(samples * 0.01), even_so=True)["saved"]
    row = read_rows(folder / "metadata.csv")[0]
    assert (row.text, row.speaker, row.language) == (first["text"], "anna", "en")
    assert review.prompts()[0]["done"]
    with pytest.raises(DataError):
        review.record("../x", wav(samples))


def test_collect_keeps_what_was_recorded(folder, spoken, recording):
    review = Review(folder)
    first = review.prompts()[0]
    review.record(first["id"], wav(spoken[0]), even_so=True)
    arguments = ["--out", str(folder), "--any-voice", "--no-transcripts"]
    assert main(["collect", str(recording), *arguments]) == 0
    assert [row.id for row in read_rows(folder / "metadata.csv")] == [first["id"]]
    assert len(read_rows(folder / "review.csv")) > 5


@pytest.mark.program
def test_a_page_with_a_microphone(folder, spoken, tmp_path, wait_until, serve_review):
    """Chromium plays a file as its microphone, again and again."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("needs chromium (apt-get install chromium)")
    heard = tmp_path / "heard.wav"
    soundfile.write(heard, spoken[0], RATE_HZ)
    address = serve_review(Review(folder))
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    flags.append(f"--use-file-for-fake-audio-capture={heard}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=flags, chromium_sandbox=os.geteuid() != 0
        )
        page = browser.new_page()
        page.goto(address + "#record")
        wait_until(page, "document.querySelector('#sentence').textContent.length > 5")
        first = page.text_content("#sentence")
        page.keyboard.press(" ")
        wait_until(page, "document.querySelector('#level').value > -40")
        page.wait_for_timeout(3_500)
        page.keyboard.press(" ")
        wait_until(page, "document.querySelector('#verdict').textContent.length > 3")
        # What the file says is another sentence, perhaps of another length.
        if page.is_visible("#anyway"):
            page.keyboard.press("k")
        wait_until(page, f"document.querySelector('#sentence').textContent !== {json.dumps(first)}")
        browser.close()
    row = read_rows(folder / "metadata.csv")[0]
    assert row.text == first
    assert soundfile.info(folder / "wavs" / f"{row.id}.wav").duration > 1
