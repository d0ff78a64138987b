from sounds import section

LIST = """
- {file: a.wav, language: en, kind: recording, text: "Good <morning>."}
- {file: b.wav, language: en, kind: clone, text: Good morning.}
- {file: c.wav, language: fa, kind: clone, text: سلام.}
"""


def test_the_sounds_of_a_language_with_what_they_say(tmp_path):
    (tmp_path / "sounds.yaml").write_text(LIST, encoding="utf-8")
    english, persian = section("en", tmp_path), section("fa", tmp_path)
    assert english.startswith("## Listen\n")
    assert english.count("<audio controls") == 2
    assert "Recording: Good &lt;morning&gt;." in english
    assert 'src="audio/b.wav"' in english
    assert "سلام." in persian
    assert 'src="../audio/c.wav"' in persian


def test_without_sounds_there_is_no_section(tmp_path):
    assert section("en", tmp_path) == ""
    (tmp_path / "sounds.yaml").write_text("[]")
    assert section("en", tmp_path) == ""
