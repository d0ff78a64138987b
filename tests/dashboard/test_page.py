"""The page in a real browser: served while a run goes on, and exported."""

import json
import re
import subprocess
import sys
import threading

import pytest

pytest.importorskip("playwright", reason="needs playwright")
from playwright.sync_api import expect

from myxtts.cli.main import main
from myxtts.dashboard.run_reader import RunReader
from myxtts.dashboard.server import DashboardServer

HOSTILE = '</script><img src=x onerror="document.title=1"><b>'


@pytest.fixture
def serve():
    servers = []

    def start(*runs, language=None):
        server = DashboardServer([RunReader(run, run.name) for run in runs], 0, language)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        servers.append(server)
        return server.address

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def open_page(browser):
    contexts = []

    def open_at(address, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda line: line.type == "error" and page.problems.append(line.text))
        page.goto(address)
        page.wait_for_selector(".card")
        return page

    yield open_at
    for context in contexts:
        context.close()


def panels(page, section):
    return page.locator(f"#{section} figure h3").all_inner_texts()


def test_runs_are_drawn_over_each_other(open_page, serve, make_run):
    page = open_page(serve(make_run("one"), make_run("two")))
    assert panels(page, "losses") == ["loss", "prior loss"]
    assert panels(page, "speech") == ["word error rate"]
    assert panels(page, "time") == ["account of time: one", "account of time: two"]
    assert "buffer: batches ready, and its size" in panels(page, "device")
    assert page.locator("#losses figure").first.locator("path.curve").count() == 2
    page.locator(".card input").first.uncheck()
    assert page.locator("#losses figure").first.locator("path.curve").count() == 1
    assert page.problems == []


def test_a_run_that_goes_on_is_followed(open_page, serve, make_run):
    run = make_run()
    page = open_page(serve(run))
    expect(page.locator("dd").first).to_contain_text("40 of")
    with open(run / "metrics.jsonl", "a") as stream:
        stream.write(json.dumps({"step": 50, "loss": 0.01}) + "\n")
    expect(page.locator("dd").first).to_contain_text("50 of", timeout=20_000)
    assert page.problems == []


@pytest.mark.slow
def test_a_training_is_watched_from_its_first_step_to_its_end(
    open_page, serve, miniature, user_environment, tmp_path
):
    run, config = tmp_path / "run", tmp_path / "config.yaml"
    config.write_text(json.dumps(miniature(evaluate_every=20, log_every=5).as_dict()))
    command = [sys.executable, "-m", "myxtts.cli.main", "train", f"--config={config}"]
    process = subprocess.Popen(
        [*command, f"--run-dir={run}", "--max-steps=60"],
        env=user_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert any(line.startswith("... tracing") for line in process.stdout)
    page = open_page(serve(run))
    expect(page.locator(".state")).to_have_text("running")
    expect(page.locator("#status")).to_contain_text("live")
    expect(page.locator("#losses figure").first).to_be_visible(timeout=200_000)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    expect(page.locator(".state")).to_have_text("complete", timeout=60_000)
    expect(page.locator("dd").first).to_have_text("60 of 60")
    assert page.locator("#samples audio").count() == 4
    assert page.locator("#samples img").count() == 3
    assert page.problems == []


def test_samples_play_beside_the_recording(open_page, serve, make_run):
    page = open_page(serve(make_run()))
    heard = page.locator("#samples article h3").all_inner_texts()
    assert heard == ["mine · recording", "mine · sample of step 40", "mine · sample of step 20"]
    for place, seconds in ((0, 0.5), (1, 1.0)):
        page.locator("audio").nth(place).evaluate(
            "one => new Promise((done, fail) => {"
            "one.onloadedmetadata = done; one.onerror = fail; one.preload = 'auto'; one.load(); })"
        )
        assert page.locator("audio").nth(place).evaluate("one => one.duration") == seconds
    picture = page.locator("#samples img").first
    picture.scroll_into_view_if_needed()
    expect(picture).to_have_js_property("naturalWidth", 2)


def test_values_by_keyboard(open_page, serve, make_run):
    page = open_page(serve(make_run()))
    chart = page.locator("#losses svg").first
    assert chart.get_attribute("aria-label") == "loss, step 40: mine 0.05"
    chart.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    readout = page.locator("#losses .readout").first.inner_text()
    assert re.sub(r"\s+", " ", readout) == "step 20 mine 0.1"


def test_persian_light_and_dark_on_a_phone(open_page, serve, make_run):
    page = open_page(serve(make_run()), viewport={"width": 360, "height": 700}, color_scheme="dark")
    page.select_option("#language", "fa")
    root = page.locator("html")
    assert (root.get_attribute("dir"), root.get_attribute("lang")) == ("rtl", "fa")
    assert root.get_attribute("data-theme") == "dark"
    assert page.locator("#runs h2").inner_text() == "اجراها"
    assert "۴۰" in page.locator("dd").first.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.select_option("#theme", "light")
    assert root.get_attribute("data-theme") == "light"
    page.reload()
    page.wait_for_selector(".card")
    assert (root.get_attribute("dir"), root.get_attribute("data-theme")) == ("rtl", "light")
    # Every text of the page is there in both languages.
    missing = page.evaluate("Object.keys(WORDS.en).filter(name => !(name in WORDS.fa))")
    assert missing == []


def test_the_language_that_was_asked_for(open_page, serve, make_run, tmp_path):
    run, file = make_run(), tmp_path / "page.html"
    assert main(["dashboard", str(run), "--language", "fa", "--export", str(file)]) == 0
    for address in (serve(run, language="fa"), file.as_uri()):
        page = open_page(address, locale="en-GB")
        assert page.locator("html").get_attribute("dir") == "rtl"
        page.select_option("#language", "en")
        assert page.locator("#runs h2").inner_text() == "Runs"


def test_what_a_run_says_is_text(open_page, serve, make_run, tmp_path):
    report = {"state": HOSTILE, "mode": HOSTILE, "advice": [HOSTILE], "model_devices": [HOSTILE]}
    report["best"] = {"metric": HOSTILE, "step": 1, "value": 1.0}
    run = make_run("a<b>&'\"", report=report)
    page = open_page(serve(run))
    file = tmp_path / "page.html"
    assert main(["dashboard", str(run), "--export", str(file)]) == 0
    exported = open_page(file.as_uri())
    for one in (page, exported):
        assert one.title() == "MyXTTS dashboard"
        assert HOSTILE in one.locator("#advice").inner_text()
        assert one.locator("#main b img, #main li img").count() == 0
        assert one.problems == []


def test_an_exported_page_needs_nothing_else(open_page, make_run, tmp_path, capsys):
    run = make_run()
    file = tmp_path / "new" / "page.html"
    assert main(["dashboard", str(run), "--export", str(file)]) == 0
    assert f"Written: {file}" in capsys.readouterr().out
    for part in (run / "samples").iterdir():
        part.unlink()
    page = open_page(file.as_uri(), offline=True)
    assert page.locator("#status").inner_text() == "exported; not updated"
    page.locator("audio").first.evaluate(
        "one => new Promise((done, fail) => {"
        "one.onloadedmetadata = done; one.onerror = fail; one.preload = 'auto'; one.load(); })"
    )
    assert panels(page, "losses") == ["loss", "prior loss"]
    assert page.problems == []
