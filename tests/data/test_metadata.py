import json
from pathlib import Path

import pytest
import soundfile

from myxtts.data.metadata import (
    DURATIONS_FILE,
    LAYOUTS,
    LJSpeechDataset,
    Metadata,
    Utterance,
    pronunciation,
    read_durations,
    read_table,
)
from myxtts.errors import DataError


def corpus(folder: Path, text: str, *audio: str, name: str = "metadata.csv") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(text.encode())
    for file in audio:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


def read(folder: Path):
    return read_table(folder / "metadata.csv", "en").utterances


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
    dataset = LJSpeechDataset(folder, default_language="de_DE", validation_fraction=None)
    languages = [item.language for item in dataset]
    assert languages == ["en", "en", "en", "fa", "fa", "en-gb", "zh", "de"]


def test_a_row_whose_language_is_not_a_tag_says_so(tmp_path):
    rows = "audio|text|speaker|language\na|hello|ann|english\nb|hello|ann|en\n"
    dataset = LJSpeechDataset(corpus(tmp_path / "c", rows), validation_fraction=None)
    assert [item.id for item in dataset] == ["b"]
    assert [source for source, _ in dataset.bad_rows] == ["metadata.csv:2"]


def test_a_default_language_that_is_not_a_tag(tmp_path):
    folder = corpus(tmp_path / "c", "a|hello there\n")
    with pytest.raises(DataError, match=r"text\.default_language"):
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
    ("content", "settings"),
    [
        (b"\n \n", {}),
        (b"audio_file|text\n", {}),
        (b"audio_file|speaker_name\na|b\n", {}),
        (b"a The first.\nb The second.\n", {}),
        (b"a|b|c|d|e\n", {}),
        (b"../../etc/passwd|hello\n", {}),
        (b"/etc/passwd|hello\n", {}),
        (b"|hello\n", {}),
        ("a|ok\nb|caf\xe9\n".encode("latin-1"), {}),
        ("a|one\n".encode("utf-16-le"), {}),
        (b"a|one\n", {"layout": "audio|speaker"}),
        (b"a|one\n", {"layout": "audio|text|mood"}),
    ],
)
def test_broken_metadata(tmp_path, content, settings):
    (tmp_path / "metadata.csv").write_bytes(content)
    with pytest.raises(DataError):
        LJSpeechDataset(tmp_path, **settings)


def test_a_row_that_is_not_utf8_is_named_by_its_line(tmp_path):
    (tmp_path / "metadata.csv").write_bytes("a|ok\ncaf\xe9|two\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"metadata\.csv:2"):
        read(tmp_path)


def test_an_empty_evaluation_file(tmp_path):
    corpus(tmp_path, "a|one\n")
    corpus(tmp_path, "", name="metadata_eval.csv")
    with pytest.raises(DataError, match=r"metadata_eval\.csv"):
        LJSpeechDataset(tmp_path, "eval")


def test_missing_folder_and_missing_metadata(tmp_path):
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError):
            LJSpeechDataset(folder)


def test_evaluation_metadata_alone_cannot_be_trained_on(tmp_path, miniature):
    from myxtts.data.corpus import open_corpus

    corpus(tmp_path, "a|one\n", name="metadata_eval.csv")
    with pytest.raises(DataError, match=r"metadata_train\.csv"):
        open_corpus(miniature(train_data=str(tmp_path)))


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
    ("rows", "language", "option"),
    [
        (["می‌خواهم بروم.", "او گفت OK است."], "en", "--language fa"),
        (["Hello there.", "Good morning."], "fa", "--language en"),
        (["Привет.", "Да."], "en", "--language TAG"),
    ],
)
def test_a_corpus_in_another_script_is_one_error_with_the_option(tmp_path, rows, language, option):
    text = "".join(f"{number}|{row}\n" for number, row in enumerate(rows))
    (tmp_path / "metadata.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=f"metadata.csv:1: .*{option}"):
        LJSpeechDataset(tmp_path, default_language=language, validation_fraction=None)


def test_a_language_column_is_believed(tmp_path):
    (tmp_path / "metadata.csv").write_text(
        "audio_file|text|language\na|سلام.|fa\nb|درود.|fa\n", encoding="utf-8"
    )
    assert len(LJSpeechDataset(tmp_path, validation_fraction=None)) == 2


@pytest.mark.parametrize(
    ("row", "layout"),
    [
        ("ann;hello there;a", "speaker|text|audio"),
        ("a,hello there", "audio,text"),
        ("a\thello there", "audio|text"),
    ],
)
def test_a_layout_names_columns_and_delimiter(tmp_path, row, layout):
    folder = corpus(tmp_path / "c", row + "\n")
    (item,) = LJSpeechDataset(folder, layout=layout, validation_fraction=None)
    assert (item.id, item.text) == ("a", "hello there")


class VctkLayout:
    """What somebody would write to read VCTK: txt/SPEAKER/*.txt and wav48/SPEAKER/*.flac."""

    def find(self, folder):
        return {"train": folder / "txt"} if (folder / "txt").is_dir() else {}

    def read(self, path, default_language, columns):
        utterances = [
            Utterance(
                id=file.stem,
                audio_path=path.parent / "wav48" / file.parent.name / f"{file.stem}.flac",
                text=file.read_text(encoding="utf-8").strip(),
                speaker=file.parent.name,
                language=default_language,
                source=str(file.relative_to(path.parent)),
            )
            for file in sorted(path.glob("*/*.txt"))
        ]
        return Metadata(path, "VCTK", utterances, [])


def test_another_layout_is_one_class_and_one_line(demo_corpus, tmp_path, miniature, monkeypatch):
    """Check and prepare a corpus like VCTK without a change of anything else."""
    from myxtts.data.checks import check_corpus
    from myxtts.data.corpus import open_corpus

    for item in LJSpeechDataset(demo_corpus):
        names = item.speaker, item.id
        for kind in ("txt", "wav48"):
            (tmp_path / kind / names[0]).mkdir(parents=True, exist_ok=True)
        (tmp_path / "txt" / names[0] / f"{names[1]}.txt").write_text(item.text, encoding="utf-8")
        samples, rate_hz = soundfile.read(item.audio_path)
        soundfile.write(tmp_path / "wav48" / names[0] / f"{names[1]}.flac", samples, rate_hz)
    config = miniature(train_data=str(tmp_path), validation_fraction=0.2)
    with pytest.raises(DataError):
        open_corpus(config)
    monkeypatch.setattr("myxtts.data.metadata.LAYOUTS", [*LAYOUTS, VctkLayout()])
    report = check_corpus(tmp_path, config)
    assert (report.rows, report.errors) == (18, [])
    corpus = open_corpus(config)
    assert len(corpus.train.cache) + len(corpus.validation.cache) == 18
    assert set(corpus.train.cache.speakers) == {
        item.speaker for item in LJSpeechDataset(demo_corpus)
    }


def clip(units, **more):
    return {"audio_file": "wavs/a.wav", "units": units, **more}


def test_stress_and_short_spaces_belong_to_the_next_sound():
    found = pronunciation(
        clip(
            [
                ["d", "d", 0.1, 0.2],
                [" ", " ", 0.2, 0.3],
                ["s", "s", 0.3, 0.4],
                ["ˈ", "ˈ", 0.4, 0.45],
                ["ɛ", "ɛ", 0.45, 0.6],
            ]
        )
    )
    assert found.symbols == ("d", " ", "s", "ˈɛ")
    assert found.start == 0.1
    assert found.ends == pytest.approx((0.2, 0.2, 0.4, 0.6))


def test_pauses_belong_to_their_mark_or_their_space():
    units = [
        ["a", 0.0, 0.1],
        [",", 0.1, 0.3],
        [" ", 0.3, 0.4],
        ["b", 0.4, 0.5],
        [" ", 0.5, 0.9],
        ["c", 0.9, 1.0],
    ]
    found = pronunciation(clip(units))
    assert found.symbols == ("a", ",", " ", "b", " ", "c")
    assert found.ends == pytest.approx((0.1, 0.4, 0.4, 0.5, 0.9, 1.0))


def test_letters_of_a_unit_share_its_time_and_modifiers_have_none():
    found = pronunciation(clip([["ˈ", 0.0, 0.1], ["oʊ", 0.1, 0.3], ["iː", 0.3, 0.5]]))
    assert found.symbols == ("ˈo", "ʊ", "iː")
    assert found.ends == pytest.approx((0.2, 0.3, 0.5))


def test_what_is_inaudible_at_the_end_is_no_sound():
    found = pronunciation(clip([["l", 0.0, 0.5], [".", 0.5, 0.5]], audible=[0.0, 0.4]))
    assert found.ends == pytest.approx((0.4, 0.4))


def test_a_corpus_brings_them_along(demo_corpus, tmp_path):
    first = LJSpeechDataset(demo_corpus)[0]
    assert first.pronunciation is None
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "metadata.csv").write_text("audio_file|text\nwavs/a.wav|ab\n", encoding="utf-8")
    units = [["a", 0.0, 0.1], ["b", 0.1, 0.2]]
    (folder / DURATIONS_FILE).write_text(json.dumps(clip(units)) + "\n", encoding="utf-8")
    [item] = LJSpeechDataset(folder, validation_fraction=None)
    assert item.pronunciation.symbols == ("a", "b")


def test_a_broken_line_is_an_error(tmp_path):
    (tmp_path / DURATIONS_FILE).write_text('{"audio_file": "a.wav"}\n', encoding="utf-8")
    with pytest.raises(DataError):
        read_durations(tmp_path)
