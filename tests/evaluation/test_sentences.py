import pytest
import soundfile

from myxtts.errors import DataError
from myxtts.evaluation.evaluate import (
    held_out_sentences,
    load_sentences,
    save_sentences,
    sentences_of_file,
)


def clips_of(folder, part: str) -> set:
    lines = (folder / f"metadata_{part}.csv").read_text().splitlines()[1:]
    return {folder / line.partition("|")[0] for line in lines}


def test_held_out_clips_in_the_voice_of_another_clip(miniature, demo_corpus):
    sentences = held_out_sentences(miniature(), ("en",), 10)
    assert {sentence.recording for sentence in sentences} == clips_of(demo_corpus, "eval")
    for sentence in sentences:
        assert sentence.reference != sentence.recording
        assert sentence.reference.stem.endswith(f"-{sentence.speaker}")
    assert held_out_sentences(miniature(), ("en",), 1) == sentences[:1]


def test_speakers_come_in_turn_and_bad_clips_are_passed_over(miniature, demo_corpus, tmp_path):
    clip = next(iter(sorted((demo_corpus / "wavs").glob("*.wav"))))
    samples, rate = soundfile.read(clip)
    (tmp_path / "wavs").mkdir()
    rows = []
    for number, speaker in enumerate(["ann", "ann", "ann", "bob", "bob", "bob", "eve", "eve"]):
        soundfile.write(tmp_path / "wavs" / f"{number}.wav", samples, rate)
        rows.append(f"{number}|{speaker}|Sentence number {number} is here.")
    rows[6] = "6|eve|..."
    (tmp_path / "wavs" / "0.wav").write_text("not audio")
    (tmp_path / "metadata_eval.csv").write_text("\n".join(rows))
    (tmp_path / "metadata_train.csv").write_text("\n".join(rows))
    sentences = held_out_sentences(miniature(train_data=str(tmp_path)), ("en",), 4)
    assert [sentence.recording.stem for sentence in sentences] == ["3", "1", "4", "7"]
    assert [sentence.reference.stem for sentence in sentences] == ["4", "2", "5", "6"]


def test_a_corpus_in_another_language(miniature):
    with pytest.raises(DataError, match="held-out clips are in en, but the run speaks fa"):
        held_out_sentences(miniature(), ("fa",), 4)


def test_lines_of_a_file_are_said_by_the_voices_in_turn(tmp_path):
    file = tmp_path / "lines.txt"
    file.write_text("One.\n\n  Two. \nThree.\n", encoding="utf-8")
    voices = [("ann", tmp_path / "ann.wav"), ("bob", tmp_path / "bob.wav")]
    sentences = sentences_of_file(file, "en", voices)
    assert [(one.text, one.speaker, one.recording) for one in sentences] == [
        ("One.", "ann", None),
        ("Two.", "bob", None),
        ("Three.", "ann", None),
    ]


def test_files_without_sentences(tmp_path):
    file = tmp_path / "lines.txt"
    with pytest.raises(DataError, match="cannot be read"):
        sentences_of_file(file, "en", [("ann", file)])
    file.write_text("\n \n")
    with pytest.raises(DataError, match="contains no sentences; expected one per line"):
        sentences_of_file(file, "en", [("ann", file)])
    file.write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(DataError, match="not UTF-8"):
        sentences_of_file(file, "en", [("ann", file)])


def test_what_is_saved_is_loaded(miniature, tmp_path):
    sentences = held_out_sentences(miniature(), ("en",), 10)
    save_sentences(sentences, tmp_path / "sentences.json")
    assert load_sentences(tmp_path / "sentences.json") == sentences
