"""CONTRIBUTING says in which files to change what: few, and ones that exist."""

import re

import pytest
from pages import ROOT

TOPICS = {
    *("a language", "a loss", "a task", "a corpus layout", "a flag", "a setting"),
    *("the mel", "a measure", "a page of the docs"),
}


def files_by_topic():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    _, _, table = page.partition("## Where do I change ...")
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")]
    # Below the head of the table and the line under it.
    return {row[1].strip(): re.findall(r"`([^`]+)`", row[2]) for row in rows[2:]}


def test_says_where_to_change_what_is_changed_most():
    assert files_by_topic().keys() >= TOPICS


@pytest.mark.parametrize(("topic", "files"), files_by_topic().items(), ids=files_by_topic())
def test_a_change_is_made_in_at_most_three_files_that_exist(topic, files):
    assert 1 <= len(files) <= 3
    assert [file for file in files if not (ROOT / file).is_file()] == []
