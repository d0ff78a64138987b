"""Decisions on clips are saved at once, by the page too, and outlive another launch of collect."""

import http.client
import json
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.collecting.judging import DROPPED, KEPT, REVIEW
from myxtts.collecting.manifest import read_rows
from myxtts.collecting.review_server import ReviewServer
from myxtts.collecting.reviewing import Review
from myxtts.errors import DataError

TRANSCRIBER = f"{sys.executable} -IS {Path(__file__).parent / 'transcriber_program.py'}"


@pytest.fixture
def corpus(recording, tmp_path):
    """Collected without transcripts: every clip is to be reviewed."""
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


def test_collect_keeps_what_was_decided(corpus, recording):
    review = Review(corpus)
    first, second, third, *_ = ids(corpus / "review.csv")
    review.decide(first, KEPT, "Mine.")
    review.decide(second, DROPPED, "")
    parts = review.split(third, 1.0, ("One half", "and the other."))
    review.decide(parts[0], KEPT, "One half")
    again = ["--any-voice", "--transcriber", TRANSCRIBER]
    assert main(["collect", str(recording), "--out", str(corpus), *again]) == 0
    texts = {row.id: row.text for row in read_rows(corpus / "metadata.csv")}
    assert texts[first] == "Mine."
    assert texts[parts[0]] == "One half"
    assert not {second, third} & set(texts)
    assert len(texts) > 5


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda review, clip: review.decide(clip, KEPT, "  "), "has no text"),
        (lambda review, clip: review.decide(clip, "great", "x"), "found 'great'"),
        (lambda review, clip: review.decide("../metadata", KEPT, "x"), "no clip"),
        (lambda review, clip: review.split(clip, 0.01, ("a", "b")), "cannot be split at 0.01"),
    ],
)
def test_what_cannot_be_is_refused(corpus, call, problem):
    before = (corpus / "review.csv").read_bytes()
    with pytest.raises(DataError, match=problem):
        call(Review(corpus), ids(corpus / "review.csv")[0])
    assert (corpus / "review.csv").read_bytes() == before


def test_another_folder_is_refused(demo_corpus, capsys):
    assert main(["review", str(demo_corpus), "--no-browser"]) == 2
    assert "was not made by collect" in capsys.readouterr().err


@pytest.fixture
def server(corpus):
    with ReviewServer(Review(corpus)) as opened:
        thread = threading.Thread(target=opened.serve_forever)
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


def asked(address, body=None, **headers):
    """Status and content."""
    content = None if body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if body is not None else {}
    request = urllib.request.Request(address, content, kind | headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_the_page_is_in_the_language_that_was_asked_for(browser, corpus):
    with ReviewServer(Review(corpus, "fa"), language="fa") as opened:
        threading.Thread(target=opened.serve_forever, args=(0.02,), daemon=True).start()
        page = browser.new_page(locale="en-GB")
        page.goto(opened.address)
        assert page.locator("html").get_attribute("dir") == "rtl"
        page.locator("#language").click()
        assert page.locator("html").get_attribute("lang") == "en"
        page.close()
        opened.shutdown()


def test_only_the_right_address_is_answered(server):
    status, page = asked(server.address)
    assert status == 200
    assert b"<title>" in page
    wrong = server.address.replace(server.token, "x" * len(server.token))
    assert asked(wrong)[0] == 403
    assert asked(server.address, Host="evil.example")[0] == 403
    assert asked(server.address + "wavs/..%2Fmetadata")[0] == 404
    assert asked(server.address + "decide", {"id": 3})[0] == 400


def test_clips_of_a_stranger_lead_nowhere_else(corpus, tmp_path):
    """Names that climb out, a link and a device in the place of a clip."""
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
    for clip_id in ("../../outside", first, second):
        with ReviewServer(review) as opened:
            thread = threading.Thread(target=opened.handle_request)
            thread.start()
            address = f"{opened.address}wavs/{urllib.parse.quote(clip_id, safe='')}"
            assert asked(address)[0] == 404
            thread.join()
    with pytest.raises(DataError, match="expected a plain name"):
        review.split("../../outside", 1.0, ("one", "two"))
    assert {file.name for file in tmp_path.glob("*.wav")} == {"outside.wav"}


def test_a_form_of_another_site_is_refused(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    body = b'{"id": "x", "status": "kept", "text": "x"}'
    connection.request("POST", f"/{server.token}/decide", body, {"Content-Type": "text/plain"})
    assert connection.getresponse().status == 415
    connection.close()


def test_a_reviewer_at_the_keyboard(server, corpus, browser, wait_until):
    first, second, *rest = ids(corpus / "review.csv")
    page = browser.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(server.address)
    wait_until(page, "document.querySelector('#audio').duration > 1")
    assert page.text_content("#name") == first
    # Accepting needs a text, and says so.
    page.keyboard.press("a")
    page.wait_for_selector("#message.error")
    assert "has no text" in page.text_content("#message")
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
