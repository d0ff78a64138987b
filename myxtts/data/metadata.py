"""Read the metadata of corpora in LJSpeech and similar layouts.

A corpus is a folder with a metadata file and audio files. Supported columns: `id|text`,
`id|text|normalised text`, `wav|speaker|text`, `wav|text|speaker`, and any order of columns under
a header row such as `audio_file|text|speaker_name|language`. Ids may have an extension. Audio is
in `wavs/`, in `wav/` or next to the metadata. Only file names are read here; `data.checks` reads
the audio.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from myxtts.audio.ffmpeg import FFMPEG_EXTENSIONS
from myxtts.config.config import XTTSConfig
from myxtts.data.durations import Pronunciation, read_durations
from myxtts.errors import DataError, plural, quoted
from myxtts.files import is_text
from myxtts.text.languages import other_script, parse_tag, script_name, suggested_language

AUDIO_EXTENSIONS = (".wav", ".flac", ".ogg", ".opus", ".mp3", *FFMPEG_EXTENSIONS)
ONE_SPEAKER = "speaker"

_TRAIN_FILES = ("metadata_train.csv", "metadata.csv")
_EVAL_FILES = ("metadata_eval.csv", "metadata_val.csv")
_COLUMN_NAMES = {
    "audio": {"audio_file", "audio", "wav", "wav_file", "file", "filename", "path", "id"},
    "text": {"text", "transcript", "transcription", "sentence", "normalized_text"},
    "speaker": {"speaker_name", "speaker", "speaker_id"},
    "language": {"language", "lang", "locale"},
}
_NORMALIZED_TEXT = "normalised text"
_IGNORED_COLUMN = "-"
_DELIMITERS = ("|", "\t", ",")
_DELIMITER_NAMES = {"tab": "\t", "\\t": "\t"}
_SAMPLE_ROWS = 200
# A sentence has a few hundred characters; a file with megabyte-long lines is not metadata.
_MAX_ROW_CHARACTERS = 20_000
# File systems allow 255, extension included.
_MAX_NAME_BYTES = 240
# About ten thousand rows; larger files are read only once.
_QUICKLY_READ_BYTES = 1_000_000


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
    pronunciation: Pronunciation | None = None
    """Known symbols and durations, if the corpus has them."""


@dataclass(frozen=True)
class Layout:
    """The columns of a metadata file."""

    delimiter: str
    columns: tuple[str, ...]
    has_header: bool

    @property
    def names(self) -> str:
        """Column names joined by the delimiter."""
        return ("<tab>" if self.delimiter == "\t" else self.delimiter).join(self.columns)

    def describe(self) -> str:
        header = "with" if self.has_header else "without"
        return f"columns {self.names}, {header} a header row"


class LJSpeechDataset(Sequence[Utterance]):
    """The utterances of one subset of a corpus, in the order of its metadata file.

    `subset` is "train" or "eval". Without an eval file, a fraction of each speaker's clips is held
    out by a hash of their names, so the split is always the same. With a
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
        if subset not in ("train", "eval"):
            raise DataError(
                f"subset: found {subset!r:.40}, expected train or eval; pass settings by name, "
                "such as LJSpeechDataset(folder, layout=..., validation_fraction=...)"
            )
        self.folder = Path(folder)
        train_file, eval_file = metadata_files(self.folder, subset)
        chosen = eval_file if subset == "eval" and eval_file is not None else train_file
        assert chosen is not None
        self.metadata_file = chosen
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
            held_out = _held_out_paths(self._utterances, validation_fraction)
            self._utterances = [
                item
                for item in self._utterances
                if (item.audio_path in held_out) == (subset == "eval")
            ]
            if subset == "eval":
                # Bad rows count with the training subset; they would dominate a small one.
                self.bad_rows.clear()

    def __len__(self) -> int:
        return len(self._utterances)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._utterances[index]

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)

    def get_statistics(self, config: XTTSConfig | None = None) -> dict[str, Any]:
        """Return clips, hours, speakers, languages, symbols, and lengths with percentiles.

        `text_length` is in tokens, including the edge tokens; `mel_length` is in frames, from the
        audio headers, so mels in training are a little shorter after silence is trimmed. Clips
        without readable audio are counted as `unreadable`, clips without speakable text as
        `empty_text`; both are left out of the rest.
        """
        from myxtts.data.statistics import corpus_statistics, measure_corpus

        return corpus_statistics(measure_corpus(self, config or XTTSConfig()))


def require_corpora(config: XTTSConfig) -> None:
    """Raise if a corpus, its metadata or its language is wrong, before anything slow begins."""
    parse_tag(config.text.default_language, "text.default_language")
    for folder, subset in ((config.data.train_data, "train"), (config.data.val_data, "eval")):
        if folder is None:
            continue
        files = [file for file in metadata_files(Path(folder), subset) if file is not None]
        if max(file.stat().st_size for file in files) <= _QUICKLY_READ_BYTES:
            LJSpeechDataset(
                folder,
                subset,
                default_language=config.text.default_language,
                validation_fraction=None,
                layout=config.data.layout,
                delimiter=config.data.delimiter,
            )


def metadata_files(folder: Path, subset: str = "train") -> tuple[Path | None, Path | None]:
    """Return the training and evaluation metadata files; raise if `subset` has none."""
    if not is_text(folder):
        raise DataError(
            f"{folder}: its name is not UTF-8; rename the folder, or use a UTF-8 locale"
        )
    if folder.is_file():
        raise DataError(f"{folder}: is a file; expected the folder of a corpus")
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a corpus with metadata.csv")
    train_file, eval_file = (
        next((folder / name for name in names if (folder / name).exists()), None)
        for names in (_TRAIN_FILES, _EVAL_FILES)
    )
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
    """Read every row of a metadata file.

    A row that cannot be parsed raises an error with its line number, or is passed to `on_bad_row`
    as source and problem.
    """
    default_language = parse_tag(default_language, "text.default_language")
    columns = None if layout is None else parse_columns(layout)
    if delimiter is not None:
        delimiter = parse_delimiter(delimiter)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line_number = content[: error.start].count(b"\n") + 1
        raise DataError(f"{file}:{line_number}: not UTF-8; save the file as UTF-8") from None
    if "\0" in text:
        raise DataError(f"{file}: not UTF-8, possibly UTF-16; save the file as UTF-8")
    lines = enumerate(re.split(r"\r\n|\n|\r", text), 1)
    rows = [(number, line) for number, line in lines if line.strip()]
    if not rows:
        raise DataError(f"{file}: is empty; expected lines such as id|text")
    found = detect_layout(file, rows, columns, delimiter)
    if found.has_header:
        rows = rows[1:]
    if not rows:
        raise DataError(f"{file}: has a header row but no rows; expected one row per clip")

    # Audio files by name with and without extension, listed once instead of per row.
    folder_audio: dict[str, Path] = {}
    for name in ("", "wav", "wavs"):
        for path in sorted((file.parent / name).glob("*")):
            if path.suffix.lower() in AUDIO_EXTENSIONS:
                folder_audio[path.stem] = folder_audio[path.name] = path
    durations = read_durations(file.parent)
    utterances = []
    for number, line in rows:
        source = f"{file.name}:{number}"
        try:
            item = _utterance(file, source, line, found, folder_audio, default_language)
            name = item.audio_path.relative_to(file.parent).as_posix()
            utterances.append(dataclasses.replace(item, pronunciation=durations.get(name)))
        except _BadRowError as problem:
            if on_bad_row is None:
                raise DataError(f"{file}:{number}: {problem}") from None
            on_bad_row(source, str(problem))

    if "language" not in found.columns:
        # If most rows are in another script, the default language is wrong.
        sample = utterances[:_SAMPLE_ROWS]
        scripts = [(item, other_script(item.text, default_language)) for item in sample]
        foreign = [(item, script) for item, script in scripts if script is not None]
        if 2 * len(foreign) > len(sample):
            item, script = foreign[0]
            raise DataError(
                f"{file.parent / item.source}: {quoted(item.text)} is written in "
                f"{script_name(script)} letters, but its language is taken to be "
                f"'{default_language}'; add --language {suggested_language(script)}, or a "
                "language column"
            )
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
    if len(line) > _MAX_ROW_CHARACTERS:
        raise _BadRowError(f"found {len(line)} characters, expected at most {_MAX_ROW_CHARACTERS}")
    cells = _cells(line, layout.delimiter)
    if len(cells) != len(layout.columns):
        raise _BadRowError(
            f"found {_count_columns(len(cells))}, expected {len(layout.columns)} ({layout.names})"
        )
    row = dict(zip(layout.columns, cells, strict=True))
    # A corpus made on Windows may write wavs\a.wav.
    name = row["audio"].replace("\\", "/")
    audio_path = _audio_path(file.parent, name, folder_audio)
    language = default_language
    if row.get("language"):
        try:
            language = parse_tag(row["language"])
        except DataError as problem:
            raise _BadRowError(problem) from None
    # A dot within an id, as in LJ.001, does not start an extension.
    last = name.rpartition("/")[2]
    return Utterance(
        id=last.rpartition(".")[0] if last.lower().endswith(AUDIO_EXTENSIONS) else last,
        audio_path=audio_path,
        text=row.get(_NORMALIZED_TEXT) or row["text"],
        speaker=row.get("speaker") or ONE_SPEAKER,
        language=language,
        source=source,
    )


def _audio_path(folder: Path, name: str, folder_audio: dict[str, Path]) -> Path:
    if not name:
        raise _BadRowError("has no audio file name")
    if max(len(part.encode()) for part in name.split("/")) > _MAX_NAME_BYTES:
        raise _BadRowError(f"audio path '{name[:40]}...' is too long for a file name")
    if name.startswith("/") or ".." in name.split("/") or re.match("[A-Za-z]:/", name):
        raise _BadRowError(
            f"audio path '{name}' leaves the corpus folder; expected a path inside it"
        )
    has_extension = name.lower().endswith(AUDIO_EXTENSIONS)
    if "/" not in name:
        found = folder_audio.get(name)
        return found or folder / "wavs" / (name if has_extension else f"{name}.wav")
    path = folder / name
    if has_extension:
        return path
    candidates = (path.with_name(path.name + extension) for extension in AUDIO_EXTENSIONS)
    return next((file for file in candidates if file.is_file()), path)


def _held_out_paths(utterances: Sequence[Utterance], fraction: float) -> set[Path]:
    """Choose the clips with the lowest hashes of each speaker; every speaker keeps at least one.

    If no speaker has enough clips for that, take the lowest hashes of the whole corpus.
    """

    def name_hash(path: Path) -> bytes:
        return hashlib.blake2b((path.name + path.parent.name).encode(), digest_size=8).digest()

    by_speaker: dict[str, list[Path]] = defaultdict(list)
    for item in utterances:
        by_speaker[item.speaker].append(item.audio_path)
    ordered = [sorted(set(paths), key=name_hash) for paths in by_speaker.values()]
    chosen = {
        path
        for paths in ordered
        for path in paths[: min(round(len(paths) * fraction), len(paths) - 1)]
    }
    if not chosen and fraction > 0:
        firsts = sorted((paths[0] for paths in ordered if len(paths) > 1), key=name_hash)
        chosen = set(firsts[: max(1, round(len(utterances) * fraction))])
    return chosen


def parse_columns(layout: str) -> tuple[str, ...]:
    """Parse a layout given by the user, such as `audio|text|speaker`."""
    columns = tuple(_meaning(name.strip().lower()) for name in re.split(r"[|,\t]", layout))
    allowed = [*_COLUMN_NAMES, _NORMALIZED_TEXT, _IGNORED_COLUMN]
    unknown = [name for name in columns if name not in allowed]
    if unknown:
        raise DataError(
            f"layout '{layout}': unknown column '{unknown[0]}', allowed: "
            f"{', '.join(allowed[:-1])}, or {_IGNORED_COLUMN} for an unused column"
        )
    for needed in ("audio", "text"):
        if columns.count(needed) != 1:
            raise DataError(f"layout '{layout}': expected one {needed} column")
    return columns


def parse_delimiter(delimiter: str) -> str:
    character = _DELIMITER_NAMES.get(delimiter, delimiter)
    if len(character) != 1 or character in "\r\n":
        raise DataError(f"delimiter {delimiter!r}: expected one character, such as | or , or tab")
    return character


def detect_layout(
    file: Path,
    rows: Sequence[tuple[int, str]],
    columns: tuple[str, ...] | None = None,
    delimiter: str | None = None,
) -> Layout:
    """Detect the columns and the delimiter, except where they are given."""
    header = _header(rows[0][1], _DELIMITERS if delimiter is None else (delimiter,))
    lines = [line for _, line in rows[:_SAMPLE_ROWS]]
    if columns is not None:
        if delimiter is None and header:
            delimiter = header.delimiter
        elif delimiter is None:
            width = len(columns)
            delimiter = max(
                _DELIMITERS,
                key=lambda character: sum(len(_cells(line, character)) == width for line in lines),
            )
        return Layout(delimiter, columns, header is not None)
    if header is not None:
        missing = {"audio", "text"} - set(header.columns)
        if missing:
            raise DataError(
                f"{file}:{rows[0][0]}: the header row names no {' and no '.join(sorted(missing))} "
                f"column; expected names such as audio_file|text|speaker_name|language"
            )
        return header
    delimiter = delimiter or "|"
    sample = [_cells(line[:_MAX_ROW_CHARACTERS], delimiter) for line in lines]
    widths = Counter(map(len, sample))
    # Prefer a known number of columns among equally frequent ones.
    width = min(widths, key=lambda width: (-widths[width], width not in (2, 3), width))
    if width == 2:
        return Layout(delimiter, ("audio", "text"), False)
    if width != 3:
        raise DataError(
            f"{file}:{rows[0][0]}: found {_count_columns(width)}, expected id|text, "
            "id|text|normalised text, wav|speaker|text, or a header row such as "
            "audio_file|text|speaker_name|language"
        )
    # A column of single, repeating words is a speaker; otherwise the layout is LJSpeech.
    cells = [row for row in sample if len(row) == 3]
    second, third = (_looks_like_names([row[column] for row in cells]) for column in (1, 2))
    names = {
        (True, False): ("audio", "speaker", "text"),
        (False, True): ("audio", "text", "speaker"),
    }
    return Layout(delimiter, names.get((second, third), ("audio", "text", _NORMALIZED_TEXT)), False)


def _looks_like_names(values: Sequence[str]) -> bool:
    return all(value and len(value.split()) == 1 for value in values) and (
        len(set(values)) <= max(1, len(values) // 2)
    )


def _header(line: str, delimiters: Sequence[str]) -> Layout | None:
    for delimiter in delimiters:
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        columns = tuple(_meaning(name) for name in names)
        known = sum(column in _COLUMN_NAMES for column in columns)
        if known >= 2 and ("audio" in columns or "text" in columns):
            return Layout(delimiter, columns, True)
    return None


def _meaning(name: str) -> str:
    return next((key for key, known in _COLUMN_NAMES.items() if name in known), name)


def _cells(line: str, delimiter: str) -> list[str]:
    """Split a row. Only comma-separated files use quoting; elsewhere quotes are text."""
    cells = line.split(delimiter)
    if delimiter == "," and '"' in line:
        with contextlib.suppress(csv.Error):
            cells = next(csv.reader([line], skipinitialspace=True))
    return [cell.strip() for cell in cells]


def _count_columns(count: int) -> str:
    return f"{count} {plural(count, 'column')}"
