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


def test_without_an_up_to_date_translation_the_page_has_the_english(translations):
    english = {"data.n_mels": "Bands of a mel.", "data.new": "New."}
    shown = settings_page.persian_explanations(english, translations)
    assert all(text in shown[key] for key, text in english.items())


def test_choices_stay_apart_where_text_runs_from_right_to_left():
    assert settings_page.ENGLISH.one_of(("tiny", "big")) == "`tiny`, `big`"
    assert settings_page.PERSIAN.one_of(("tiny", "big")) == (
        '<span dir="ltr">`tiny`</span>، <span dir="ltr">`big`</span>'
    )


def test_a_setting_of_another_section_is_code_as_a_whole():
    (english, _) = settings_page.pages().values()
    assert "`training.gradient_accumulation_steps` batches" in english
    assert ".`" not in english
