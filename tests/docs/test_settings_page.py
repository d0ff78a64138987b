"""The page of the settings says what the settings say, in both languages."""

import pytest
import settings_page


def test_the_pages_are_up_to_date():
    for file, text in settings_page.pages().items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name}: run make docs"


@pytest.fixture
def translations(tmp_path):
    file = tmp_path / "settings.yaml"
    of = settings_page.digest_of("Mel bands.")
    file.write_text(f"data.n_mels: {{of: {of}, fa: شمار نوارها}}\n", encoding="utf-8")
    return file


def test_a_translation_of_the_same_english_is_taken(translations):
    explanations = settings_page.persian_explanations({"data.n_mels": "Mel bands."}, translations)
    assert explanations == {"data.n_mels": "شمار نوارها"}


@pytest.mark.parametrize(
    ("english", "line"),
    [
        ({"data.n_mels": "Bands of a mel."}, "data.n_mels: the English has changed"),
        ({"data.n_mels": "Mel bands.", "data.new": "New."}, "data.new: add it"),
        ({}, "data.n_mels: no such setting"),
    ],
)
def test_what_is_missing_stale_or_left_over_is_named(translations, english, line):
    with pytest.raises(settings_page.StaleTranslationsError, match=line):
        settings_page.persian_explanations(english, translations)


def test_choices_stay_apart_where_text_runs_from_right_to_left():
    assert settings_page.ENGLISH.one_of(("tiny", "big")) == "`tiny`, `big`"
    assert settings_page.PERSIAN.one_of(("tiny", "big")) == (
        '<span dir="ltr">`tiny`</span>، <span dir="ltr">`big`</span>'
    )


def test_a_setting_of_another_section_is_code_as_a_whole():
    (english, _) = settings_page.pages().values()
    assert "as `training.gradient_accumulation_steps` says" in english
    assert ".`" not in english
