"""Reads corpora in LJSpeech and similar layouts.

A corpus is a folder with a metadata file and audio files. Supported columns: `id|text`,
`id|text|normalised text`, `wav|speaker|text`, `wav|text|speaker`, and any order of columns under
a header row such as `audio_file|text|speaker_name|language`; ids with or without extension; audio
in `wavs/`, in `wav/` or next to the metadata. This module looks at file names only;
`data.corpus.checks` looks at the audio.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.audio.ffmpeg import FFMPEG_EXTENSIONS
from myxtts.config.config import XTTSConfig
from myxtts.data.layout import (
    LONGEST_ROW,
    NORMALISED_TEXT,
    Layout,
    cells_of,
    count_columns,
    parse_columns,
    parse_delimiter,
    recognise_layout,
)
from myxtts.data.script_check import require_script
from myxtts.errors import DataError
from myxtts.text.languages import parse_tag
from myxtts.wording import is_text

AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".opus", ".mp3", *FFMPEG_EXTENSIONS)
_AUDIO_FOLDERS = ("wavs", "wav", "")
_TRAIN_FILES = ("metadata_train.csv", "metadata.csv")
_EVAL_FILES = ("metadata_eval.csv", "metadata_val.csv")

# File systems allow 255, extension included.
_LONGEST_NAME_BYTES = 240
ONE_SPEAKER = "speaker"


@dataclass(frozen=True)
class Utterance:
    """One row of a corpus."""

    id: str
    audio_path: Path
    text: str
    speaker: str
    language: str
    """Canonical tag, from `text.languages`."""
    source: str
    """Metadata file and line, such as `metadata.csv:12`."""


class LJSpeechDataset(Sequence[Utterance]):
    """The utterances of one subset of a corpus, in the order of its metadata file.

    `subset` is "train" or "eval". If the corpus has no eval file, a fraction of each speaker's
    clips is held out by a hash of their names, so the split is always the same. With a
    `validation_fraction` of None nothing is held out: either subset is then the whole file.
    `layout` and `delimiter` override detection, like data.layout and data.delimiter.
    """

    def __init__(
        self,
        folder: Path | str,
        subset: str = "train",
        *,
        default_language: str = "en",
        validation_fraction: float | None = 0.05,
        layout: str | None = None,
        delimiter: str | None = None,
    ) -> None:
        self.folder = Path(folder)
        if not isinstance(subset, str):
            raise DataError(
                f"subset: found {type(subset).__name__}, expected train or eval; pass settings by "
                "name, such as LJSpeechDataset(folder, layout=..., validation_fraction=...)"
            )
        if subset not in ("train", "eval"):
            raise DataError(f"subset: found '{subset}', expected train or eval")
        train_file, eval_file = metadata_files(self.folder, subset)
        if subset == "eval" and eval_file is not None:
            self.metadata_file = eval_file
        else:
            assert train_file is not None
            self.metadata_file = train_file
        self.bad_rows: list[tuple[str, str]] = []
        """Location and problem of each row that could not be parsed; these are left out."""
        self.layout, self._utterances = read_metadata(
            self.metadata_file,
            default_language,
            layout=layout,
            delimiter=delimiter,
            on_bad_row=lambda source, problem: self.bad_rows.append((source, problem)),
        )
        if not self._utterances:
            source, problem = self.bad_rows[0]
            raise DataError(f"{self.folder / source}: {problem}")
        if eval_file is None and validation_fraction is not None:
            chosen = _validation_paths(self._utterances, validation_fraction)
            keep_chosen = subset == "eval"
            self._utterances = [
                item for item in self._utterances if (item.audio_path in chosen) == keep_chosen
            ]
            if keep_chosen:
                # Counted with the training subset; they would dominate a small validation
                # subset.
                self.bad_rows.clear()

    def __len__(self) -> int:
        return len(self._utterances)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._utterances[index]

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)

    def get_statistics(self, config: XTTSConfig | None = None) -> dict[str, Any]:
        """Clips, hours, speakers, languages, symbols, and lengths with percentiles.

        `text_length` is in tokens, including the edge tokens; `mel_length` is in frames, from the
        audio headers, so mels in training are a little shorter after silence is trimmed. Clips
        without readable audio are counted as `unreadable`, clips without speakable text as
        `empty_text`; both are left out of the rest.
        """
        from myxtts.data.statistics import corpus_statistics, measure_corpus

        return corpus_statistics(measure_corpus(self, config or XTTSConfig()))


def metadata_files(folder: Path, subset: str = "train") -> tuple[Path | None, Path | None]:
    """The training and evaluation metadata files; raises if there is none for `subset`."""
    if not is_text(folder):
        raise DataError(
            f"{folder}: its name is not UTF-8; rename the folder, or use a UTF-8 locale"
        )
    if folder.is_file():
        raise DataError(f"{folder}: is a file; expected the folder of a corpus")
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a corpus with metadata.csv")
    train_file = _first_existing(folder, _TRAIN_FILES)
    eval_file = _first_existing(folder, _EVAL_FILES)
    if train_file is None and (subset == "train" or eval_file is None):
        raise DataError(
            f"{folder}: no metadata found; expected {' or '.join(_TRAIN_FILES)} "
            "with lines such as id|text"
        )
    return train_file, eval_file


def read_metadata(
    file: Path,
    default_language: str,
    *,
    layout: str | None = None,
    delimiter: str | None = None,
    on_bad_row: Callable[[str, str], None] | None = None,
) -> tuple[Layout, list[Utterance]]:
    """Every row of a metadata file.

    A row that cannot be parsed raises an error with its line number, or is passed to `on_bad_row`
    as source and problem.
    """
    default_language = parse_tag(default_language, "text.default_language")
    forced_columns = None if layout is None else parse_columns(layout)
    forced_delimiter = None if delimiter is None else parse_delimiter(delimiter)
    rows = _rows(file)
    if not rows:
        raise DataError(f"{file}: is empty; expected lines such as id|text")
    found = recognise_layout(file, rows, forced_columns, forced_delimiter)
    first = 1 if found.has_header else 0
    if len(rows) == first:
        raise DataError(f"{file}: has a header row but no rows; expected one row per clip")
    folder_audio = _audio_files(file.parent)
    utterances = []
    for line_number, line in rows[first:]:
        source = f"{file.name}:{line_number}"
        try:
            utterances.append(_utterance(file, source, line, found, folder_audio, default_language))
        except _BadRowError as problem:
            if on_bad_row is None:
                raise DataError(f"{file}:{line_number}: {problem}") from None
            on_bad_row(source, str(problem))
    if "language" not in found.columns:
        require_script(file, utterances, default_language)
    return found, utterances


class _BadRowError(Exception):
    """A row that cannot be parsed."""


def _utterance(
    file: Path,
    source: str,
    line: str,
    layout: Layout,
    folder_audio: dict[str, Path],
    default_language: str,
) -> Utterance:
    if len(line) > LONGEST_ROW:
        raise _BadRowError(f"found {len(line)} characters, expected at most {LONGEST_ROW}")
    cells = cells_of(line, layout.delimiter)
    if len(cells) != len(layout.columns):
        raise _BadRowError(
            f"found {count_columns(len(cells))}, expected {len(layout.columns)} ({layout.names})"
        )
    row = dict(zip(layout.columns, cells, strict=True))
    # A corpus made on Windows may write wavs\a.wav.
    audio_name = row["audio"].replace("\\", "/")
    audio_path = _audio_path(file.parent, audio_name, folder_audio)
    return Utterance(
        id=_without_extension(audio_name),
        audio_path=audio_path,
        text=row.get(NORMALISED_TEXT) or row["text"],
        speaker=row.get("speaker") or ONE_SPEAKER,
        language=_language(row.get("language")) or default_language,
        source=source,
    )


def _language(tag: str | None) -> str | None:
    try:
        return parse_tag(tag) if tag else None
    except DataError as problem:
        raise _BadRowError(problem) from None


def _rows(file: Path) -> list[tuple[int, str]]:
    """Non-blank lines with their numbers."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise DataError(f"{file}:{line}: not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{file}: not UTF-8, possibly UTF-16; save the file as UTF-8")
    lines = re.split(r"\r\n|\n|\r", text)
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _audio_files(folder: Path) -> dict[str, Path]:
    """Audio files by name with and without extension, listed once instead of per row."""
    found: dict[str, Path] = {}
    for name in reversed(_AUDIO_FOLDERS):
        for path in sorted((folder / name).glob("*")):
            if path.suffix.lower() in AUDIO_EXTENSIONS:
                found[path.stem] = found[path.name] = path
    return found


def _audio_path(folder: Path, name: str, audio_files: dict[str, Path]) -> Path:
    if not name:
        raise _BadRowError("has no audio file name")
    if max(len(part.encode()) for part in name.split("/")) > _LONGEST_NAME_BYTES:
        raise _BadRowError(f"audio path '{name[:40]}...' is too long for a file name")
    if name.startswith("/") or ".." in name.split("/") or re.match("[A-Za-z]:/", name):
        raise _BadRowError(
            f"audio path '{name}' leaves the corpus folder; expected a path inside it"
        )
    has_extension = name.lower().endswith(AUDIO_EXTENSIONS)
    if "/" in name:
        return folder / name if has_extension else _find_extension(folder / name)
    found = audio_files.get(name)
    return found or folder / "wavs" / (name if has_extension else f"{name}.wav")


def _without_extension(name: str) -> str:
    """The id of a clip. A dot within an id, as in LJ.001, does not start an extension."""
    last = name.rpartition("/")[2]
    return last.rpartition(".")[0] if last.lower().endswith(AUDIO_EXTENSIONS) else last


def _find_extension(path: Path) -> Path:
    candidates = (path.with_name(path.name + extension) for extension in AUDIO_EXTENSIONS)
    return next((file for file in candidates if file.is_file()), path)


def _first_existing(folder: Path, names: Sequence[str]) -> Path | None:
    return next((folder / name for name in names if (folder / name).exists()), None)


def _validation_paths(utterances: Sequence[Utterance], fraction: float) -> set[Path]:
    """The clips with the lowest hashes of each speaker; every speaker keeps at least one.

    If no speaker has enough clips for that, the lowest hashes of the whole corpus.
    """
    by_speaker: dict[str, list[Path]] = defaultdict(list)
    for item in utterances:
        by_speaker[item.speaker].append(item.audio_path)
    ordered = [
        sorted(set(paths), key=lambda path: _hash(path.name + path.parent.name))
        for paths in by_speaker.values()
    ]
    chosen = {
        path
        for paths in ordered
        for path in paths[: min(round(len(paths) * fraction), len(paths) - 1)]
    }
    if not chosen and fraction > 0:
        firsts = [paths[0] for paths in ordered if len(paths) > 1]
        firsts.sort(key=lambda path: _hash(path.name + path.parent.name))
        chosen = set(firsts[: max(1, round(len(utterances) * fraction))])
    return chosen


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8).digest()
