"""The page in a real Chromium, with a real server."""

import io
import shutil

import numpy as np
import pytest
import soundfile

from myxtts.web import AccessRules

from .conftest import SENTENCES, recording

PERSIAN = "سلام دنیا. Good morning, Sara."
TOKEN = "a-token-of-thirty-two-characters"


@pytest.fixture
def open_page(browser):
    """Open the page of a server; what it must not do fails the test."""
    opened = []

    def open_one(client, **settings):
        page = browser.new_page(**{"locale": "en-US"} | settings)
        opened.append(page)
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        own = str(client.base_url)
        page.on(
            "request",
            lambda request: (
                request.url.startswith((own, "blob:")) or page.problems.append(request.url)
            ),
        )
        page.goto(own)
        return page

    yield open_one
    for page in opened:
        page.close()
        assert page.problems == []


def spoken_in(page) -> bytes:
    """Return the file that a click on the link of the result downloads."""
    link = page.get_by_role("link", name="Download wav")
    link.wait_for(timeout=60_000)
    with page.expect_download() as download:
        link.click()
    return download.value.path().read_bytes()


def test_type_persian_upload_a_voice_hear_and_download(serve_here, open_page, served_tts, tmp_path):
    client = serve_here()
    page = open_page(client)
    (tmp_path / "نگار.flac").write_bytes(recording(3, format_name="FLAC"))
    page.get_by_text("Add a voice").click()
    page.get_by_label("Name of the voice").fill("نگار")
    page.get_by_label("Recording", exact=True).set_input_files(tmp_path / "نگار.flac")
    page.get_by_role("button", name="Save voice").click()
    page.get_by_text("Saved the voice: نگار").wait_for()
    assert page.get_by_label("Voice", exact=True).input_value() == "نگار"

    text = page.get_by_label("Text")
    text.fill(PERSIAN)
    assert text.evaluate("element => getComputedStyle(element).direction") == "rtl"
    text.press("Control+Enter")
    samples, rate_hz = soundfile.read(io.BytesIO(spoken_in(page)))
    expected = served_tts.tts(PERSIAN, voice="نگار")
    seconds = expected.size / served_tts.sample_rate_hz
    assert samples.size / rate_hz == pytest.approx(seconds, abs=0.1)
    assert np.sqrt(np.mean(samples**2)) > 0.01
    page.get_by_text("Done", exact=True).wait_for(timeout=60_000)
    assert page.locator("audio").first.evaluate("sound => sound.duration") == pytest.approx(
        seconds, abs=0.1
    )
    wave = page.get_by_role("img", name="Waveform")
    assert wave.evaluate("canvas => new Set(canvas.getContext('2d').getImageData(0, 0, "
                         "canvas.width, canvas.height).data).size") > 1  # fmt: skip

    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Delete the chosen voice").click()
    page.get_by_text("Deleted the voice: نگار").wait_for()
    assert "نگار" not in client.get("/v1/voices").text


def test_two_voices_are_compared_side_by_side(serve_here, open_page):
    page = open_page(serve_here(), viewport={"width": 1_200, "height": 900})
    page.get_by_label("Text").fill("Hello.")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Compare with").select_option("سارا")
    page.get_by_role("button", name="Speak").click()
    links = page.get_by_role("link", name="Download wav")
    links.nth(1).wait_for(timeout=60_000)
    assert page.locator("#results h2").all_inner_texts() == ["anna", "سارا"]
    first, second = (card.bounding_box() for card in page.locator("#results article").all())
    assert first["y"] == second["y"]
    assert first["x"] < second["x"]


def test_the_page_opens_with_an_example_in_its_own_language(serve_base, open_page):
    page = open_page(serve_base(), viewport={"width": 360, "height": 740}, color_scheme="dark")
    root, text, language = (page.locator(one) for one in ("html", "#text", "#language"))
    page.locator("#voice option", has_text="callie").wait_for(state="attached")
    examples = []
    for tag, direction, button in (("en", "ltr", "فارسی"), ("fa", "rtl", "English")):
        assert (root.get_attribute("lang"), root.get_attribute("dir")) == (tag, direction)
        assert language.input_value() == tag
        examples.append(text.input_value())
        assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
        page.get_by_role("button", name=button).click()
    english, persian = examples
    assert english.isascii()
    assert persian[0] > "\u0600"
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, background.removeprefix("rgb(").removesuffix(")").split(","))) < 150
    text.fill("My own text.")
    page.get_by_role("button", name="فارسی").click()
    assert text.input_value() == "My own text."
    page.reload()
    assert root.get_attribute("dir") == "rtl"


def test_sliders_are_sent_with_the_text(serve_here, open_page):
    page = open_page(serve_here())
    assert page.get_by_label("Speed").is_hidden()
    page.get_by_text("More", exact=True).click()
    for name, value in (("Speed", "1.5"), ("Liveliness", "0"), ("Sampling steps", "4")):
        page.get_by_label(name).fill(value)
    with page.expect_request("**/v1/audio/speech") as asked:
        page.get_by_role("button", name="Speak").click()
    sent = asked.value.post_data_json
    assert (sent["speed"], sent["temperature"], sent["steps"]) == (1.5, 0, 4)
    page.get_by_role("link", name="Download wav").wait_for(timeout=60_000)


def test_errors_are_shown_and_every_control_has_a_name(serve_here, open_page):
    page = open_page(serve_here(text_characters=10))
    page.get_by_label("Text").fill(SENTENCES)
    page.get_by_role("button", name="Speak").click()
    page.get_by_role("alert").get_by_text("expected at most 10").wait_for()
    page.get_by_text("Add a voice").click()
    for control in page.locator("input, select, textarea, button").all():
        if control.is_visible():
            name = control.evaluate(
                "element => (element.labels?.[0] ?? element).textContent.trim()"
            )
            assert name, control.evaluate("element => element.outerHTML")


def test_the_token_is_asked_for(serve_here, open_page):
    page = open_page(serve_here(AccessRules(token=TOKEN)))
    page.get_by_label("Token of this server").fill(TOKEN)
    page.get_by_role("button", name="Use it").click()
    page.locator("#voice option", has_text="anna").wait_for(state="attached")
    assert page.locator("#token-form").is_hidden()


def test_the_interface_is_described_on_a_page(serve_here, open_page):
    client = serve_here()
    page = open_page(client)
    page.get_by_role("link", name="API").click()
    page.get_by_role("heading", name="POST /v1/audio/speech").wait_for()
    page.get_by_text("Speaking rate: 1.2 is 20 % faster.").wait_for()


@pytest.mark.slow
def test_a_voice_is_recorded(serve_here, browser):
    """With Chromium's own test sound as the microphone."""
    client = serve_here()
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
    program = browser.browser_type
    with program.launch(
        executable_path=shutil.which("chromium"), chromium_sandbox=False, args=flags
    ) as other:
        page = other.new_page(locale="en-US")
        page.goto(str(client.base_url))
        page.get_by_text("Add a voice").click()
        page.get_by_role("button", name="Record", exact=True).click()
        page.wait_for_timeout(3_000)
        page.get_by_role("button", name="Stop recording").click()
        page.get_by_label("Name of the voice").fill("recorded")
        page.get_by_role("button", name="Save voice").click()
        page.get_by_text("Saved the voice: recorded").wait_for()
        client.delete("/v1/voices/recorded")
