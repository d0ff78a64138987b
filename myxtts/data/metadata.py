"""Read the metadata of a corpus: one utterance per clip, before any audio is read.

`TableLayout` reads a metadata file next to audio files. Its columns are `id|text`,
`id|text|normalised text`, `wav|speaker|text`, `wav|text|speaker`, or any order under a header row
such as `audio_file|text|speaker_name|language`. Ids may have an extension. Audio is in `wavs/`, in
`wav/` or next to the metadata. To read corpora in another layout, implement `CorpusLayout` in a new
file and add it to `LAYOUTS`.

`durations.jsonl` next to the metadata may contain phonemes and their times, one JSON object per
clip: `audio_file` as in the metadata, and `units`, a list of `[phoneme, ..., start, end]` in
seconds without gaps, in the symbols of espeak-ng. Such a clip needs no phonemizer and no alignment
search. `audible`, a start and an end in seconds, is optional.
"""

from __future__ import annotations

import contextlib
import copy
import csv
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from myxtts.audio.ffmpeg import FFMPEG_EXTENSIONS
from myxtts.config.config import XTTSConfig
from myxtts.errors import DataError, plural, quoted
from myxtts.files import is_text
from myxtts.text.languages import other_script, parse_tag, script_name, suggested_language
from myxtts.text.tokenizer import STRESS_MARKS, is_modifier

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
_DELIMITERS = ("|", "\t", ",", ";")
_SAMPLE_ROWS = 200
# A sentence has a few hundred characters; a file with megabyte-long lines is not metadata.
_MAX_ROW_CHARACTERS = 20_000
# File systems allow 255, extension included.
_MAX_NAME_BYTES = 240
DURATIONS_FILE = "durations.jsonl"
_MARKS = ".,;:?!…"
_DASHES = "—–"
# A shorter space belongs to the next sound, usually as the closure of a stop.
_SHORTEST_PAUSE_SECONDS = 0.2


class Pronunciation(NamedTuple):
    """The symbols of a clip and where each of them ends."""

    symbols: tuple[str, ...]
    start: float
    """Seconds of silence before the first symbol."""
    ends: tuple[float, ...]
    """One per symbol, in seconds; a symbol that ends where it starts has no sound of its own."""


@dataclass(frozen=True)
class Utterance:
    """One clip of a corpus."""

    id: str
    audio_path: Path
    text: str
    speaker: str
    language: str
    """Canonical tag, from `text.languages`."""
    source: str
    """Metadata file and line, such as `metadata.csv:12`."""
    pronunciation: Pronunciation | None = None
    """Symbols and their times, if the corpus contains them."""


@dataclass(frozen=True)
class Metadata:
    """The utterances that a metadata file or folder lists."""

    path: Path
    layout: str
    """How `path` was read, for messages."""
    utterances: list[Utterance]
    bad_rows: list[tuple[str, str]]
    """Source and problem of each row that could not be parsed."""

    @property
    def rows(self) -> int:
        return len(self.utterances) + len(self.bad_rows)


class CorpusLayout(Protocol):
    """A way to lay out a corpus in a folder."""

    def find(self, folder: Path) -> Mapping[str, Path]:
        """Return what lists the clips of the subsets "train" and "eval", as far as there are any.

        An empty mapping means that the folder has another layout.
        """

    def read(self, path: Path, default_language: str, columns: str | None) -> Metadata:
        """Read what `find` returned. `columns` is the setting data.layout."""


class LJSpeechDataset(Sequence[Utterance]):
    """The utterances of one subset of a corpus, in the order of its metadata.

    `subset` is "train" or "eval". If the corpus has no evaluation metadata, a fraction of each
    speaker's clips is held out by a hash of their names, so the split is always the same. With a
    `validation_fraction` of None nothing is held out, and either subset is the whole corpus.
    `layout` overrides the detection of columns, like data.layout.
    """

    def __init__(
        self,
        folder: Path | str,
        subset: str = "train",
        *,
        default_language: str = "en",
        validation_fraction: float | None = 0.05,
        layout: str | None = None,
    ) -> None:
        if subset not in ("train", "eval"):
            raise DataError(
                f"subset: found {subset!r:.40}, expected train or eval; pass settings by name, "
                "such as LJSpeechDataset(folder, layout=..., validation_fraction=...)"
            )
        self.folder, self.subset = Path(folder), subset
        corpus_layout, paths = find_metadata(self.folder)
        if subset == "train" and "train" not in paths:
            raise _no_metadata(self.folder)
        default_language = parse_tag(default_language, "text.default_language")
        path = paths.get(subset) or paths["train"]
        self.metadata = corpus_layout.read(path, default_language, layout)
        self.bad_rows = self.metadata.bad_rows
        """Source and problem of each row that could not be parsed; these are left out."""
        self._utterances = self.metadata.utterances
        if not self._utterances:
            source, problem = self.bad_rows[0]
            raise DataError(f"{self.folder / source}: {problem}")
        self._parts: dict[str, list[Utterance]] = {}
        if "eval" not in paths and validation_fraction is not None:
            held_out = _held_out_paths(self._utterances, validation_fraction)
            self._parts = {"train": [], "eval": []}
            for item in self._utterances:
                name = "eval" if item.audio_path in held_out else "train"
                self._parts[name].append(item)
            self._choose(subset)

    def held_out(self) -> LJSpeechDataset | None:
        """Return the clips that were held out of this training subset, or None."""
        if not self._parts:
            return None
        part = copy.copy(self)
        part._choose("eval")
        return part

    def _choose(self, subset: str) -> None:
        self.subset, self._utterances = subset, self._parts[subset]
        if subset == "eval":
            # Bad rows count with the training subset; they would dominate a small one.
            self.bad_rows = []

    def __len__(self) -> int:
        return len(self._utterances)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._utterances[index]

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self._utterances)

    def get_statistics(self, config: XTTSConfig | None = None) -> dict[str, Any]:
        """Return clips, hours, speakers, languages, symbols, and lengths with percentiles.

        `text_length` is in tokens, including the edge tokens. `mel_length` is in frames, from the
        audio headers, so mels in training are a little shorter after silence is trimmed. Clips
        without readable audio are counted as `unreadable`, clips without speakable text as
        `empty_text`. Both are left out of the rest.
        """
        from myxtts.data.statistics import corpus_statistics, measure_corpus

        return corpus_statistics(measure_corpus(self, config or XTTSConfig()))


def require_corpora(config: XTTSConfig) -> None:
    """Raise if a corpus or its metadata is missing, before anything slow begins."""
    parse_tag(config.text.default_language, "text.default_language")
    for folder in (config.data.train_data, config.data.val_data):
        if folder is not None:
            find_metadata(Path(folder))


def find_metadata(folder: Path) -> tuple[CorpusLayout, Mapping[str, Path]]:
    """Return the layout of a corpus and the metadata of its subsets; raise if there is none."""
    if not is_text(folder):
        raise DataError(
            f"{folder}: its name is not UTF-8; rename the folder, or use a UTF-8 locale"
        )
    if folder.is_file():
        raise DataError(f"{folder}: is a file; expected the folder of a corpus")
    if not folder.is_dir():
        raise DataError(f"{folder}: no such folder; expected a corpus with metadata.csv")
    for layout in LAYOUTS:
        if paths := layout.find(folder):
            return layout, paths
    raise _no_metadata(folder)


def _no_metadata(folder: Path) -> DataError:
    return DataError(
        f"{folder}: no metadata found; expected {' or '.join(_TRAIN_FILES)} "
        "with lines such as id|text"
    )


class TableLayout:
    """One row per clip in a metadata file: LJSpeech and its relatives."""

    def find(self, folder: Path) -> Mapping[str, Path]:
        found = {}
        for subset, names in (("train", _TRAIN_FILES), ("eval", _EVAL_FILES)):
            for name in reversed(names):
                if (folder / name).exists():
                    found[subset] = folder / name
        return found

    def read(self, path: Path, default_language: str, columns: str | None) -> Metadata:
        return read_table(path, default_language, columns)


LAYOUTS: list[CorpusLayout] = [TableLayout()]
"""The layouts that corpora are read in; the first that finds metadata is used."""


@dataclass(frozen=True)
class TableColumns:
    """The columns of a metadata file."""

    delimiter: str
    columns: tuple[str, ...]
    has_header: bool

    @property
    def names(self) -> str:
        """Column names joined by the delimiter."""
        return ("<tab>" if self.delimiter == "\t" else self.delimiter).join(self.columns)

    def __str__(self) -> str:
        header = "with" if self.has_header else "without"
        return f"columns {self.names}, {header} a header row"


def read_table(file: Path, default_language: str, columns: str | None = None) -> Metadata:
    """Read every row of a metadata file."""
    rows = _read_lines(file)
    found = detect_columns(file, rows, columns)
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
    utterances: list[Utterance] = []
    bad_rows: list[tuple[str, str]] = []
    for number, line in rows:
        source = f"{file.name}:{number}"
        try:
            row = _parse_row(line, found)
            # A corpus made on Windows may contain wavs\a.wav.
            name = row["audio"].replace("\\", "/")
            audio_path = _audio_path(file.parent, name, folder_audio)
            language = row.get("language")
            # A dot within an id, as in LJ.001, does not start an extension.
            last = name.rpartition("/")[2]
            utterance = Utterance(
                id=last.rpartition(".")[0] if last.lower().endswith(AUDIO_EXTENSIONS) else last,
                audio_path=audio_path,
                text=row.get(_NORMALIZED_TEXT) or row["text"],
                speaker=row.get("speaker") or ONE_SPEAKER,
                language=parse_tag(language) if language else default_language,
                source=source,
                pronunciation=durations.get(audio_path.relative_to(file.parent).as_posix()),
            )
        except DataError as problem:
            bad_rows.append((source, str(problem)))
        else:
            utterances.append(utterance)
    if "language" not in found.columns:
        _require_script(file, utterances[:_SAMPLE_ROWS], default_language)
    return Metadata(file, str(found), utterances, bad_rows)


def _read_lines(file: Path) -> list[tuple[int, str]]:
    """Return the lines that are not blank, each with its number."""
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
    return rows


def _require_script(file: Path, sample: Sequence[Utterance], language: str) -> None:
    """Raise if most texts are in another script than that of the default language."""
    scripts = [(item, other_script(item.text, language)) for item in sample]
    foreign = [(item, script) for item, script in scripts if script is not None]
    if 2 * len(foreign) > len(sample):
        item, script = foreign[0]
        raise DataError(
            f"{file.parent / item.source}: {quoted(item.text)} is written in "
            f"{script_name(script)} letters, but its language is taken to be '{language}'; "
            f"add --language {suggested_language(script)}, or a language column"
        )


def _parse_row(line: str, table: TableColumns) -> dict[str, str]:
    if len(line) > _MAX_ROW_CHARACTERS:
        raise DataError(f"found {len(line)} characters, expected at most {_MAX_ROW_CHARACTERS}")
    cells = _cells(line, table.delimiter)
    if len(cells) != len(table.columns):
        raise DataError(
            f"found {_count_columns(len(cells))}, expected {len(table.columns)} ({table.names})"
        )
    return dict(zip(table.columns, cells, strict=True))


def _audio_path(folder: Path, name: str, folder_audio: dict[str, Path]) -> Path:
    if not name:
        raise DataError("has no audio file name")
    if max(len(part.encode()) for part in name.split("/")) > _MAX_NAME_BYTES:
        raise DataError(f"audio path '{name[:40]}...' is too long for a file name")
    if name.startswith("/") or ".." in name.split("/") or re.match("[A-Za-z]:/", name):
        raise DataError(f"audio path '{name}' leaves the corpus folder; expected a path inside it")
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


def parse_columns(layout: str) -> tuple[tuple[str, ...], str]:
    """Return the columns of a layout such as `audio|text|speaker`, and its delimiter."""
    separator = next((character for character in layout if character in _DELIMITERS), "|")
    columns = tuple(_meaning(name.strip().lower()) for name in layout.split(separator))
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
    return columns, separator


def detect_columns(
    file: Path, rows: Sequence[tuple[int, str]], layout: str | None = None
) -> TableColumns:
    """Detect the columns, unless `layout` names them, and the delimiter."""
    header = _header(rows[0][1])
    lines = [line for _, line in rows[:_SAMPLE_ROWS]]
    if layout is not None:
        columns, separator = parse_columns(layout)
        if header is not None:
            return TableColumns(header.delimiter, columns, True)
        # The delimiter that fits most rows, and in doubt that of the layout.
        delimiter = max(
            (separator, *_DELIMITERS),
            key=lambda it: sum(len(_cells(line, it)) == len(columns) for line in lines),
        )
        return TableColumns(delimiter, columns, False)
    if header is not None:
        missing = {"audio", "text"} - set(header.columns)
        if missing:
            raise DataError(
                f"{file}:{rows[0][0]}: the header row names no {' and no '.join(sorted(missing))} "
                f"column; expected names such as audio_file|text|speaker_name|language"
            )
        return header
    sample = [_cells(line[:_MAX_ROW_CHARACTERS], "|") for line in lines]
    widths = Counter(map(len, sample))
    # Prefer a known number of columns among equally frequent ones.
    width = min(widths, key=lambda width: (-widths[width], width not in (2, 3), width))
    if width == 2:
        return TableColumns("|", ("audio", "text"), False)
    if width != 3:
        raise DataError(
            f"{file}:{rows[0][0]}: found {_count_columns(width)}, expected id|text, "
            "id|text|normalised text, wav|speaker|text, or a header row such as "
            "audio_file|text|speaker_name|language; data.layout names other columns"
        )
    # A column of single, repeating words is a speaker; otherwise the layout is LJSpeech.
    cells = [row for row in sample if len(row) == 3]
    second, third = (_looks_like_names([row[column] for row in cells]) for column in (1, 2))
    names = {
        (True, False): ("audio", "speaker", "text"),
        (False, True): ("audio", "text", "speaker"),
    }
    return TableColumns("|", names.get((second, third), ("audio", "text", _NORMALIZED_TEXT)), False)


def _looks_like_names(values: Sequence[str]) -> bool:
    return all(value and len(value.split()) == 1 for value in values) and (
        len(set(values)) <= max(1, len(values) // 2)
    )


def _header(line: str) -> TableColumns | None:
    for delimiter in _DELIMITERS:
        names = [name.strip().strip('"').lower() for name in line.split(delimiter)]
        columns = tuple(_meaning(name) for name in names)
        known = sum(column in _COLUMN_NAMES for column in columns)
        if known >= 2 and ("audio" in columns or "text" in columns):
            return TableColumns(delimiter, columns, True)
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


def read_durations(folder: Path) -> dict[str, Pronunciation]:
    """Return the pronunciations of a corpus by `audio_file`, none if it has no such file."""
    file = folder / DURATIONS_FILE
    if not file.exists():
        return {}
    content = file.read_text(encoding="utf-8")
    found = {}
    for number, line in enumerate(content.splitlines(), 1):
        try:
            clip = json.loads(line)
            found[str(clip["audio_file"])] = pronunciation(clip)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise DataError(
                f"{file}:{number}: expected audio_file and units [phoneme, ..., start, end] "
                f"({type(error).__name__}: {error})"
            ) from None
    return found


def pronunciation(clip: Mapping[str, Any]) -> Pronunciation:
    """Merge the units of a clip into symbols as `text.phonemes` gives them.

    The time of a stress mark goes to the sound after it. So does that of a space, unless it is a
    pause. A pause after a punctuation mark belongs to the mark.
    """
    symbols: list[str] = []
    ends: list[float] = []
    stress = ""
    start = None
    units = _merged(clip["units"])
    for piece, begin, end in units:
        if start is None:
            start = begin
        if piece in STRESS_MARKS:
            stress = piece
        elif piece.isspace():
            if symbols and symbols[-1] in _MARKS:
                ends[-1] = end
                symbols.append(" ")
                ends.append(end)
            elif symbols:
                is_pause = end - begin >= _SHORTEST_PAUSE_SECONDS
                symbols.append(" ")
                ends.append(end if is_pause else ends[-1])
        elif piece in _MARKS or piece in _DASHES:
            symbols.append("," if piece in _DASHES else piece)
            ends.append(end)
        elif is_modifier(piece) and symbols:
            symbols[-1] += piece
            ends[-1] = end
        elif piece.isalpha():
            symbols.append(stress + piece)
            ends.append(end)
            stress = ""
        elif symbols:  # quotes and brackets
            ends[-1] = end
    audible_end = clip.get("audible", (0.0, float("inf")))[1]
    while_silent = [min(end, max(audible_end, start or 0.0)) for end in ends]
    return Pronunciation(tuple(symbols), float(start or 0.0), tuple(map(float, while_silent)))


def _merged(units: Sequence[Sequence[Any]]) -> list[tuple[str, float, float]]:
    """Split the time of each unit evenly over its characters; modifiers get none."""
    found = []
    for unit in units:
        text, begin, end = str(unit[0]), float(unit[-2]), float(unit[-1])
        letters = sum(not is_modifier(character) for character in text)
        step = (end - begin) / max(letters, 1)
        at = begin
        for character in text:
            after = at if is_modifier(character) else at + step
            found.append((character, at, after))
            at = after
    return found
