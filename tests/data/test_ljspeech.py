from pathlib import Path

import pytest

from myxtts.data.metadata import LJSpeechDataset, read_metadata
from myxtts.errors import DataError


def corpus(folder: Path, text: str, *audio: str, name: str = "metadata.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode())
    for file in audio:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


def read(folder: Path):
    return read_metadata(folder / "metadata.csv", "en")[1]


def test_ljspeech_itself(tmp_path):
    folder = corpus(
        tmp_path / "c", "LJ-1|Dr. No, 1|Doctor No, one\nLJ-2|Two words|\n", "wavs/LJ-1.wav"
    )
    first, second = read(folder)
    assert (first.id, first.text) == ("LJ-1", "Doctor No, one")
    assert first.audio_path == folder / "wavs" / "LJ-1.wav"
    assert second.text == "Two words"
    assert second.source == "metadata.csv:2"
    assert (first.speaker, first.language) == ("speaker", "en")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a|ann|hello there\nb|bob|good day\nc|ann|one more\nd|bob|two more\n", "ann"),
        ("a|hello there|ann\nb|good day|bob\nc|one more|ann\nd|two more|bob\n", "ann"),
        ("audio_file|text|speaker_name|language\nwavs/a.wav|hello there|ann|fa\n", "ann"),
        ("speaker,text,path\nann,hello there,a\n", "ann"),
        ("path\ttext\tspeaker_id\na.flac\thello there\tann\n", "ann"),
    ],
)
def test_columns_are_found(tmp_path, rows, expected):
    folder = corpus(tmp_path / "c", rows, "wavs/a.wav")
    first = read(folder)[0]
    assert (first.id, first.text, first.speaker) == ("a", "hello there", expected)


def test_languages_are_canonical_however_they_are_written(tmp_path):
    tags = ["EN", "en_US", "en-us", "fa-IR", "fa_IR", "en-GB", "zh-Hant-TW", ""]
    rows = [f"{number}|hello|ann|{tag}" for number, tag in enumerate(tags)]
    folder = corpus(tmp_path / "c", "\n".join(["audio|text|speaker|language", *rows]))
    _, items = read_metadata(folder / "metadata.csv", "de_DE")
    languages = [item.language for item in items]
    assert languages == ["en", "en", "en", "fa", "fa", "en-gb", "zh", "de"]


def test_a_row_whose_language_is_not_a_tag_says_so(tmp_path):
    rows = "audio|text|speaker|language\na|hello|ann|english\nb|hello|ann|en\n"
    dataset = LJSpeechDataset(corpus(tmp_path / "c", rows), validation_fraction=None)
    assert [item.id for item in dataset] == ["b"]
    assert dataset.bad_rows == [
        (
            "metadata.csv:2",
            "language: found 'english', expected a language tag such as en, fa or pt-BR; did you "
            "mean 'en'?",
        )
    ]


def test_a_default_language_that_is_not_a_tag(tmp_path):
    folder = corpus(tmp_path / "c", "a|hello there\n")
    with pytest.raises(DataError, match=r"^text.default_language: found 'persian', .* 'fa'\?$"):
        LJSpeechDataset(folder, default_language="persian")


def test_byte_order_mark_windows_lines_and_blank_lines(tmp_path):
    folder = corpus(
        tmp_path / "c", "\ufeffa|one two\r\n\r\n  \r\nb|سلام دنیا\r\n", "wav/a.wav", "b.flac"
    )
    first, second = read(folder)
    assert (first.id, second.text) == ("a", "سلام دنیا")
    assert first.audio_path == folder / "wav" / "a.wav"
    assert second.audio_path == folder / "b.flac"
    assert second.source == "metadata.csv:4"


def test_names_with_spaces_and_dots(tmp_path):
    folder = corpus(tmp_path / "my corpus", "my clip 1.2|hello there\n", "wavs/my clip 1.2.ogg")
    assert read(folder)[0].audio_path.exists()


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ("", "{file}: is empty; expected lines such as id|text"),
        (
            "just a line\n",
            "{file}:1: found 1 column, expected id|text, id|text|normalised text, "
            "wav|speaker|text, or a header row such as audio_file|text|speaker_name|language",
        ),
        ("a|one\nb|two|2|3\n", "{file}:2: found 4 columns, expected 2 (audio|text)"),
        (
            "../../etc/passwd|hello\n",
            "{file}:1: audio path '../../etc/passwd' leaves the corpus folder; expected a path "
            "inside it",
        ),
        (
            "/etc/passwd|hello\n",
            "{file}:1: audio path '/etc/passwd' leaves the corpus folder; expected a path "
            "inside it",
        ),
        ("|hello\n", "{file}:1: has no audio file name"),
        (
            "audio_file|speaker_name\na|b\n",
            "{file}:1: the header row names no text column; expected names such as "
            "audio_file|text|speaker_name|language",
        ),
        (
            "audio_file|text\n",
            "{file}: has a header row but no rows; expected one row per clip",
        ),
    ],
)
def test_broken_metadata(tmp_path, rows, line):
    folder = corpus(tmp_path / "c", rows)
    with pytest.raises(DataError) as error:
        read(folder)
    assert str(error.value) == line.format(file=folder / "metadata.csv")


def test_not_utf8_names_the_line(tmp_path):
    (tmp_path / "metadata.csv").write_bytes("a|ok\nb|caf\xe9\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"metadata\.csv:2: not UTF-8"):
        read(tmp_path)


def test_missing_folder_and_missing_metadata(tmp_path):
    with pytest.raises(DataError, match="no such folder"):
        LJSpeechDataset(tmp_path / "none")
    with pytest.raises(DataError, match="no metadata found"):
        LJSpeechDataset(tmp_path)


def test_train_and_eval_files_are_used_as_they_are(tmp_path):
    folder = corpus(tmp_path / "c", "a|one\nb|two\n", name="metadata_train.csv")
    corpus(folder, "z|three\n", name="metadata_eval.csv")
    assert [item.id for item in LJSpeechDataset(folder)] == ["a", "b"]
    assert [item.id for item in LJSpeechDataset(folder, "eval")] == ["z"]


def test_bad_rows_of_a_split_file_count_once(tmp_path):
    rows = [f"clip{number}|some words here" for number in range(40)] + ["one|two|three|four"]
    folder = corpus(tmp_path / "c", "\n".join(rows))
    train, held_out = (LJSpeechDataset(folder, subset) for subset in ("train", "eval"))
    assert [source for source, _ in train.bad_rows] == ["metadata.csv:41"]
    assert held_out.bad_rows == []
    assert len(held_out) == 2


def test_equal_names_in_other_folders_are_other_clips(tmp_path):
    rows = [f"{speaker}/001.wav|{speaker}|some words" for speaker in map(str, range(100, 400))]
    folder = corpus(tmp_path / "c", "audio|speaker|text\n" + "\n".join(rows))
    train = LJSpeechDataset(folder, validation_fraction=0.1)
    assert len(train) == 300  # the only clip of a speaker is never split off


def test_many_speakers_with_few_clips_still_have_a_validation_set(tmp_path):
    rows = [f"{speaker}-{clip}|{speaker}|some words" for speaker in range(100) for clip in range(4)]
    folder = corpus(tmp_path / "c", "audio|speaker|text\n" + "\n".join(rows))
    parts = [LJSpeechDataset(folder, subset) for subset in ("train", "eval")]
    assert [len(part) for part in parts] == [380, 20]


def test_a_validation_set_is_split_off_by_speaker_the_same_every_time(tmp_path):
    rows = [
        f"{speaker}{number}|{speaker}|some text {number}"
        for speaker in ("ann", "bob")
        for number in range(40)
    ]
    folder = corpus(tmp_path / "c", "\n".join(rows))
    train, held_out = (
        LJSpeechDataset(folder, subset, validation_fraction=0.1) for subset in ("train", "eval")
    )
    ids = {item.id for item in held_out}
    assert len(train) == 72
    assert [sum(name in item.id for item in held_out) for name in ("ann", "bob")] == [4, 4]
    assert not ids & {item.id for item in train}
    corpus(folder, "\n".join(reversed(rows)))
    assert {item.id for item in LJSpeechDataset(folder, "eval", validation_fraction=0.1)} == ids


@pytest.mark.parametrize(
    ("rows", "language", "problem"),
    [
        (["می‌خواهم بروم.", "او گفت OK است."], "en", "'می‌خواهم بروم.' is written in Arabic letters"),
        (["Hello there.", "Good morning."], "fa", "'Hello there.' is written in Latin letters"),
        (
            ["Привет.", "Да."],
            "en",
            "add --language TAG (be, bg, ky, mk, mn, ru, tg, uk, kk, sr, uz)",
        ),
    ],
)
def test_a_corpus_in_another_script_is_told_once_with_the_option(tmp_path, rows, language, problem):
    text = "".join(f"{number}|{row}\n" for number, row in enumerate(rows))
    (tmp_path / "metadata.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as error:
        LJSpeechDataset(tmp_path, default_language=language, validation_fraction=None)
    assert problem in str(error.value)
    assert "metadata.csv:1: " in str(error.value)


def test_a_language_column_is_believed(tmp_path):
    (tmp_path / "metadata.csv").write_text(
        "audio_file|text|language\na|سلام.|fa\nb|درود.|fa\n", encoding="utf-8"
    )
    assert len(LJSpeechDataset(tmp_path, validation_fraction=None)) == 2
