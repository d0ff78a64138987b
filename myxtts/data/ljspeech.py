"""Reads corpora in the layouts of the field: LJSpeech and its relatives.

A corpus is a folder with a metadata file and audio files. Understood are `id|text`,
`id|text|normalised text`, `wav|speaker|text`, `wav|text|speaker`, and any order of columns under
a header row such as `audio_file|text|speaker_name|language`; ids with or without extension; audio
in `wavs/`, in `wav/` or beside the metadata. This module looks at names only; whether the audio
can be used is for `data.checks` to say.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from myxtts.errors import DataError

AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".mp3")
_AUDIO_FOLDERS = ("wavs", "wav", "")
_TRAIN_FILES = ("metadata_train.csv", "metadata.csv")
_EVAL_FILES = ("metadata_eval.csv", "metadata_val.csv")
_COLUMN_NAMES = {
    "audio": {"audio_file", "audio", "wav", "wav_file", "file", "filename", "path", "id"},
    "text": {"text", "transcript", "transcription", "sentence", "normalized_text"},
    "speaker": {"speaker_name", "speaker", "speaker_id"},
    "language": {"language", "lang", "locale"},
}
_ONE_SPEAKER = "speaker"


@dataclass(frozen=True)
class Utterance:
    """One row of a corpus."""

    id: str
    audio_path: Path
    text: str
    speaker: str
    language: str
    source: str
    """Metadata file and line, as in messages: `metadata.csv:12`."""


@dataclass(frozen=True)
class Layout:
    """What the columns of a metadata file mean."""

    delimiter: str
    columns: tuple[str, ...]
    has_header: bool

    def describe(self) -> str:
        header = "with" if self.has_header else "without"
        delimiter = "tab" if self.delimiter == "\t" else self.delimiter
        return f"columns {delimiter.join(self.columns)}, {header} a header row"


class LJSpeechDataset(Sequence[Utterance]):
    """The utterances of one part of a corpus, in the order of its metadata file.

    `subset` is "train" or "eval". Where the corpus has no eval file, a share of the clips of
    each speaker is split off by a hash of their ids: the same ones every time. A
    `validation_fraction` of None splits nothing off: either subset is then the whole file.
    """

    def __init__(
        self,
        folder: Path | str,
        subset: str = "train",
        *,
        default_language: str = "en",
        validation_fraction: float | None = 0.05,
    ) -> None:
        self.folder = Path(folder)
        if subset not in ("train", "eval"):
            raise DataError(f"subset: found '{subset}', expected train or eval")
        if not self.folder.is_dir():
            raise DataError(f"{self.folder}: no such folder; expected a corpus with metadata.csv")
        train_file = _first_existing(self.folder, _TRAIN_FILES)
        eval_file = _first_existing(self.folder, _EVAL_FILES)
        if subset == "eval" and eval_file is not None:
            self.metadata_file = eval_file
        elif train_file is not None:
            self.metadata_file = train_file
        else:
            raise DataError(
                f"{self.folder}: no metadata found; expected {' or '.join(_TRAIN_FILES)} "
                "with lines such as id|text"
            )
        self.layout, self._utterances = read_metadata(self.metadata_file, default_language)
        if eval_file is None and validation_fraction is not None:
            chosen = _validation_ids(self._utterances, validation_fraction)
            keep_chosen = subset == "eval"
            self._utterances = [
                item for item in self._utterances if (item.id in chosen) == keep_chosen
            ]

    def __len__(self) -> int:
        return len(self._utterances)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._utterances[index]

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)


def read_metadata(file: Path, default_language: str) -> tuple[Layout, list[Utterance]]:
    """Every row of a metadata file; a row that cannot be understood is an error with its line."""
    rows = _rows(file)
    if not rows:
        raise DataError(f"{file}: is empty; expected lines such as id|text")
    layout = recognise_layout(file, rows)
    first = 1 if layout.has_header else 0
    if len(rows) == first:
        raise DataError(f"{file}: has a header row and nothing below it; expected a row per clip")
    folder_audio = _audio_files(file.parent)
    utterances = []
    for line_number, line in rows[first:]:
        cells = [cell.strip() for cell in line.split(layout.delimiter)]
        source = f"{file.name}:{line_number}"
        if len(cells) != len(layout.columns):
            raise DataError(
                f"{file}:{line_number}: found {len(cells)} columns, expected "
                f"{len(layout.columns)} ({layout.delimiter.join(layout.columns)})"
            )
        row = dict(zip(layout.columns, cells, strict=True))
        utterances.append(
            Utterance(
                id=Path(row["audio"]).stem,
                audio_path=_audio_path(file, source, row["audio"], folder_audio),
                text=row.get("normalised text") or row["text"],
                speaker=row.get("speaker") or _ONE_SPEAKER,
                language=row.get("language") or default_language,
                source=source,
            )
        )
    return layout, utterances


def recognise_layout(file: Path, rows: Sequence[tuple[int, str]]) -> Layout:
    header = _header(rows[0][1])
    if header is not None:
        missing = {"audio", "text"} - set(header.columns)
        if missing:
            raise DataError(
                f"{file}:{rows[0][0]}: the header row names no {' and no '.join(sorted(missing))} "
                f"column; expected names such as audio_file|text|speaker_name|language"
            )
        return header
    widths = {line.count("|") + 1 for _, line in rows[:100]}
    width = min(widths)
    if width == 2:
        return Layout("|", ("audio", "text"), False)
    if width == 3:
        sample = [line.split("|")[:3] for _, line in rows[:200]]
        return Layout("|", _three_columns(sample), False)
    raise DataError(
        f"{file}:{rows[0][0]}: found {width} column{'s' if width > 1 else ''}, expected id|text, "
        "id|text|normalised text, wav|speaker|text, or a header row such as "
        "audio_file|text|speaker_name|language"
    )


def _three_columns(sample: Sequence[Sequence[str]]) -> tuple[str, str, str]:
    """A column of single words that repeat is a speaker; otherwise it is LJSpeech."""
    second = [cells[1].strip() for cells in sample]
    third = [cells[2].strip() for cells in sample]
    if _looks_like_names(second) and not _looks_like_names(third):
        return ("audio", "speaker", "text")
    if _looks_like_names(third) and not _looks_like_names(second):
        return ("audio", "text", "speaker")
    return ("audio", "text", "normalised text")


def _looks_like_names(values: Sequence[str]) -> bool:
    return all(value and len(value.split()) == 1 for value in values) and (
        len(set(values)) <= max(1, len(values) // 2)
    )


def _header(line: str) -> Layout | None:
    for delimiter in ("|", "\t", ","):
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        meanings = [
            next((key for key, known in _COLUMN_NAMES.items() if name in known), name)
            for name in names
        ]
        if len(names) > 1 and len({"audio", "text"} & set(meanings)) >= 1:
            known = sum(meaning in _COLUMN_NAMES for meaning in meanings)
            if known >= 2:
                return Layout(delimiter, tuple(meanings), True)
    return None


def _rows(file: Path) -> list[tuple[int, str]]:
    """Numbered lines that are not blank."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        line = file.read_bytes()[: error.start].count(b"\n") + 1
        raise DataError(f"{file}:{line}: not UTF-8; save the file as UTF-8") from None
    lines = re.split(r"\r\n|\n|\r", text)
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _audio_files(folder: Path) -> dict[str, Path]:
    """Audio by its name with and without extension, found once instead of row by row."""
    found: dict[str, Path] = {}
    for name in reversed(_AUDIO_FOLDERS):
        for path in sorted((folder / name).glob("*")):
            if path.suffix.lower() in AUDIO_EXTENSIONS:
                found[path.stem] = found[path.name] = path
    return found


def _audio_path(file: Path, source: str, name: str, audio_files: dict[str, Path]) -> Path:
    if not name:
        raise DataError(f"{file.parent / source}: names no audio file")
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(
            f"{file.parent / source}: audio path '{name}' leaves the corpus folder; "
            "expected a path inside it"
        )
    if len(path.parts) > 1:
        return file.parent / path
    return audio_files.get(name, file.parent / "wavs" / (name if path.suffix else f"{name}.wav"))


def _first_existing(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _validation_ids(utterances: Sequence[Utterance], fraction: float) -> set[str]:
    """The clips with the lowest hashes of each speaker; at least one clip of it stays behind."""
    by_speaker: dict[str, list[str]] = defaultdict(list)
    for item in utterances:
        by_speaker[item.speaker].append(item.id)
    chosen: set[str] = set()
    for ids in by_speaker.values():
        count = min(round(len(ids) * fraction), len(ids) - 1)
        chosen.update(sorted(ids, key=_hash)[:count])
    return chosen


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
