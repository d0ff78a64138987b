"""The built site: both languages, rendered, complete in itself."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest
from pages import ENGLISH_PAGES, ROOT


class Html(HTMLParser):
    """What a page loads, its direction, its other languages, its text and its code."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.alternates, self.text, self.code = [], {}, "", ""
        self.direction = self.language = None
        self._inside = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "html":
            self.language = given["lang"]
        elif tag == "body":
            self.direction = given["dir"]
        elif tag in ("img", "script") and "src" in given:
            self.loaded.append(given["src"])
        elif tag == "link" and given["rel"] not in ("alternate", "prev", "next", "canonical"):
            self.loaded.append(given["href"])
        elif tag == "a" and "hreflang" in given:
            self.alternates[given["hreflang"]] = given["href"]
        if tag in ("code", "script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if tag in self._inside:
            self._inside.remove(tag)

    def handle_data(self, text):
        if not self._inside:
            self.text += text
        elif self._inside == ["code"]:
            self.code += text


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.parametrize("name", [file.stem for file in ENGLISH_PAGES])
@pytest.mark.parametrize(
    ("folder", "language", "direction"), [("", "en", "ltr"), ("fa", "fa", "rtl")]
)
def test_pages_are_rendered_and_need_nothing_from_elsewhere(
    site, name, folder, language, direction
):
    file = site / folder / f"{name}.html"
    html = Html(file.read_text(encoding="utf-8"))
    assert (html.language, html.direction) == (language, direction)
    other = "en" if language == "fa" else "fa"
    assert (file.parent / html.alternates[other]).resolve().name == file.name
    for source in html.loaded:
        assert (file.parent / unquote(source)).exists(), source
    for mark in ("```", "](", "<div", "**", "|---"):
        assert mark not in html.text
    assert r"\|" not in html.code


def test_the_menu_has_each_page_once(site):
    for folder in ("", "fa"):
        text = (site / folder / "index.html").read_text(encoding="utf-8")
        menu = text[text.index("md-nav--primary") : text.index("md-content")]
        links = [name for name in re.findall(r'href="([\w-]+)\.html"', menu) if name != "index"]
        assert sorted(links) == sorted(it.stem for it in ENGLISH_PAGES if it.stem != "index")


@pytest.mark.parametrize("width", [390, 1_100, 1_400])
def test_no_page_is_wider_than_the_window(site, browser, width):
    page = browser.new_page(viewport={"width": width, "height": 800})
    for name in ("index.html", "fa/index.html", "fa/speaking.html"):
        page.goto((site / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, name
    page.close()


def test_a_reader_can_choose_a_dark_page(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert 'data-md-color-scheme="slate"' in text
    assert 'aria-label="Dark mode"' in text


def test_styles_load_nothing_from_elsewhere(site):
    for file in site.rglob("*.css"):
        text = file.read_text(encoding="utf-8")
        assert "url(http" not in text
        assert "url(//" not in text
        assert "@import" not in text
