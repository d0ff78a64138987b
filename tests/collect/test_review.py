"""Decisions on clips are saved at once, by the page too, and outlive another launch of collect."""

import signal
import subprocess
import sys
import urllib.parse

import httpx2
import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.collect.folder import DROPPED, KEPT, REVIEW, read_rows
from myxtts.collect.review import Review
from myxtts.errors import DataError


@pytest.fixture
def corpus(recording, tmp_path):
    """Collect without transcripts, so that every clip is to be reviewed."""
    out = tmp_path / "corpus"
    assert main(["collect", str(recording), "--out", str(out), *COLLECT]) == 0
    return out


COLLECT = ["--any-voice", "--no-transcripts"]


def ids(file):
    return [row.id for row in read_rows(file)]


def test_a_clip_is_accepted_with_its_text(corpus):
    first, second, *_ = ids(corpus / "review.csv")
    Review(corpus).decide(first, KEPT, " The first | sentence.\n")
    assert read_rows(corpus / "metadata.csv")[0].text == "The first sentence."
    assert first not in ids(corpus / "review.csv")
    assert second in ids(corpus / "review.csv")


def test_a_rejected_clip_can_be_put_back_later(corpus):
    first = ids(corpus / "review.csv")[0]
    Review(corpus).decide(first, DROPPED, "")
    assert first not in ids(corpus / "review.csv")
    again = Review(corpus)
    assert {clip["id"]: clip["status"] for clip in again.clips()}[first] == DROPPED
    again.decide(first, REVIEW, "maybe")
    assert first in ids(corpus / "review.csv")


def test_a_clip_is_split(corpus):
    first = ids(corpus / "review.csv")[0]
    whole = soundfile.info(corpus / "wavs" / f"{first}.wav").duration
    parts = Review(corpus).split(first, 1.0, ("One half", "and the other."))
    lengths = [soundfile.info(corpus / "wavs" / f"{part}.wav").duration for part in parts]
    assert lengths == pytest.approx([1.0, whole - 1.0], abs=0.01)
    rows = {row.id: row.text for row in read_rows(corpus / "review.csv")}
    assert first not in rows
    assert [rows[part] for part in parts] == ["One half", "and the other."]


@pytest.mark.usefixtures("asr_model")
def test_collect_keeps_what_was_decided(corpus, recording):
    review = Review(corpus)
    first, second, third, *_ = ids(corpus / "review.csv")
    review.decide(first, KEPT, "Mine.")
    review.decide(second, DROPPED, "")
    parts = review.split(third, 1.0, ("One half", "and the other."))
    review.decide(parts[0], KEPT, "One half")
    assert main(["collect", str(recording), "--out", str(corpus), "--any-voice"]) == 0
    texts = {row.id: row.text for row in read_rows(corpus / "metadata.csv")}
    assert texts[first] == "Mine."
    assert texts[parts[0]] == "One half"
    assert not {second, third} & set(texts)
    assert len(texts) > 5


@pytest.mark.parametrize(
    "call",
    [
        lambda review, clip: review.decide(clip, KEPT, "  "),
        lambda review, clip: review.decide("../metadata", KEPT, "x"),
        lambda review, clip: review.split(clip, 0.01, ("a", "b")),
    ],
)
def test_impossible_decisions_are_refused(corpus, call):
    before = (corpus / "review.csv").read_bytes()
    with pytest.raises(DataError):
        call(Review(corpus), ids(corpus / "review.csv")[0])
    assert (corpus / "review.csv").read_bytes() == before


def test_another_folder_is_refused(demo_corpus):
    assert main(["review", str(demo_corpus), "--no-browser"]) == 2


@pytest.fixture
def server(corpus, serve_review):
    return serve_review(Review(corpus))


def test_the_page_has_the_language_that_was_asked_for(browser, corpus, serve_review):
    page = browser.new_page(locale="en-GB")
    page.goto(serve_review(Review(corpus, "fa"), "fa"))
    assert page.locator("html").get_attribute("dir") == "rtl"
    page.locator("#language").click()
    assert page.locator("html").get_attribute("lang") == "en"
    page.close()


def test_only_the_right_address_is_answered(server, corpus):
    assert httpx2.get(server).status_code == 200
    assert httpx2.get(f"{server}page/style.css").status_code == 200
    origin, token, _ = server.rsplit("/", 2)
    assert httpx2.get(f"{origin}/{'x' * len(token)}/").status_code == 404
    assert httpx2.get(f"{origin}/clips").status_code == 404
    assert httpx2.get(server, headers={"Host": "evil.example"}).status_code == 421
    assert httpx2.get(f"{server}wavs/..%2Fmetadata").status_code == 404
    assert httpx2.post(f"{server}decide", json={"id": 3}).status_code == 400


def test_a_page_of_another_site_is_refused(server, corpus):
    clip = ids(corpus / "review.csv")[0]
    body = {"id": clip, "status": "kept", "text": "x"}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert httpx2.post(f"{server}decide", json=body, headers=headers).status_code == 403
    too_much = httpx2.post(f"{server}decide", content=b" " * (2 << 20))
    assert too_much.status_code == 413


def test_control_characters_of_a_reviewer_reach_no_file(server, corpus):
    clip = ids(corpus / "review.csv")[0]
    body = {"id": clip, "status": "kept", "text": "a\x1b[31m\u202eb"}
    assert httpx2.post(f"{server}decide", json=body).status_code == 200
    assert read_rows(corpus / "metadata.csv")[0].text == "ab"


def test_clips_of_a_stranger_lead_nowhere_else(corpus, tmp_path, serve_review):
    """Names that climb out, and a link and a device in the place of a clip."""
    first, second, *_ = ids(corpus / "review.csv")
    outside = tmp_path / "outside.wav"
    (corpus / "wavs" / f"{first}.wav").rename(outside)
    (corpus / "wavs" / f"{first}.wav").symlink_to(outside)
    (corpus / "wavs" / f"{second}.wav").unlink()
    (corpus / "wavs" / f"{second}.wav").symlink_to("/dev/zero")
    (corpus / "wavs" / f"{second}-a.wav").symlink_to(tmp_path / "new.wav")
    with open(corpus / "review.csv", "a") as file:
        file.write("wavs/../../outside.wav|x|x|en|x\n")
    review = Review(corpus)
    address = serve_review(review)
    for clip_id in ("../../outside", first, second):
        quoted = urllib.parse.quote(clip_id, safe="")
        assert httpx2.get(f"{address}wavs/{quoted}").status_code == 404
    with pytest.raises(DataError):
        review.split("../../outside", 1.0, ("one", "two"))
    assert {file.name for file in tmp_path.glob("*.wav")} == {"outside.wav"}


def test_an_interrupt_ends_the_command_in_order(corpus, user_environment):
    command = [sys.executable, "-m", "myxtts", "review", str(corpus), "--no-browser"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=user_environment
    ) as process:
        assert "http://127.0.0.1:" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")


def test_a_reviewer_at_the_keyboard(server, corpus, browser, wait_until):
    first, second, *rest = ids(corpus / "review.csv")
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(server)
    wait_until(page, "document.querySelector('#audio').duration > 1")
    assert page.text_content("#name") == first
    # Accepting without a text is an error on the page.
    page.keyboard.press("a")
    page.wait_for_selector("#message.error")
    page.keyboard.press("e")
    page.keyboard.type("The first sentence.")
    page.keyboard.press("Control+Enter")
    wait_until(page, f"document.querySelector('#name').textContent === '{second}'")
    assert {row.id: row.text for row in read_rows(corpus / "metadata.csv")} == {
        first: "The first sentence."
    }
    page.keyboard.press("r")
    wait_until(page, f"document.querySelector('#name').textContent === '{rest[0]}'")
    assert ids(corpus / "review.csv") == rest
    # Split where the line and the cursor are.
    wait_until(page, "document.querySelector('#audio').duration > 1")
    page.keyboard.press("e")
    page.keyboard.type("one two")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    page.keyboard.press("Escape")
    page.evaluate("document.querySelector('#audio').currentTime = 1")
    page.keyboard.press("s")
    wait_until(page, f"document.querySelector('#name').textContent === '{rest[0]}-a'")
    texts = {row.id: row.text for row in read_rows(corpus / "review.csv")}
    assert (texts[f"{rest[0]}-a"], texts[f"{rest[0]}-b"]) == ("one", "two")
    # Persian is written from the right.
    page.click("#language")
    assert page.evaluate("document.documentElement.dir") == "rtl"
    assert page.text_content("#accept") == "پذیرفتن"
    assert page.text_content("#reason") == "دو تکه شده"
    assert page.evaluate("getComputedStyle(document.querySelector('header')).direction") == "rtl"
    page.fill("#text", "سلام")
    assert page.evaluate("getComputedStyle(document.querySelector('#text')).direction") == "rtl"
    assert not errors
    page.close()
