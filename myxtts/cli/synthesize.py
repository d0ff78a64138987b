"""`myxtts synthesize`: synthesizes texts in the voice of a recording, or in a saved voice."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import soundfile

from myxtts.audio.files import AUDIO_ENDINGS, require_writable
from myxtts.cli.console import Progress, counting_bar, say, say_aside
from myxtts.cli.parser import (
    add_run,
    add_speech_flags,
    add_vocoder_flag,
    flag_group,
    speech_options,
)
from myxtts.devices.doctor import install_command
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import DataError, DeviceError, MyXTTSError, plural_count
from myxtts.files import require_creatable
from myxtts.runs.run_dir import RunDir, model_name, run_or_base
from myxtts.synthesis.script import Request, read_batch
from myxtts.synthesis.ssml import is_ssml
from myxtts.synthesis.subtitles import require_subtitle_file
from myxtts.synthesis.voices import read_reference
from myxtts.text.languages import language_parts
from myxtts.text.markup import Lexicon, read_standard_input, read_text
from myxtts.text.tokenizer import describe_left_out, left_out_symbols

if TYPE_CHECKING:
    from myxtts.synthesis.tts import TTS

_log = logging.getLogger(__name__)

# Rows of a table that are synthesized concurrently, to be batched.
_THREADS = 8
_SHORT_TEXT_CHARACTERS = 200
_STDOUT, _PCM = Path("-"), "pcm"


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "synthesize",
        help="speak a text in the voice of a recording",
        description="Speak a text, a file or a table of texts in the voice of recordings or in a "
        "saved voice, and write audio files.",
    )
    add_run(parser, "folder of a trained run (default: the included base model)")
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--text", help="text to speak; - reads standard input (default: standard input, if piped)"
    )
    source.add_argument(
        "--text-file",
        "--text_file",
        type=Path,
        metavar="FILE",
        help="UTF-8 text file to speak; - is standard input",
    )
    source.add_argument(
        "--batch",
        type=Path,
        metavar="FILE",
        help="CSV or TSV with the columns id, text, voice, language; needs --out-dir",
    )
    parser.add_argument(
        "--ssml",
        action="store_true",
        help="the text is SSML even if it does not begin with <speak>",
    )
    parser.add_argument(
        "--language",
        "--language_idx",
        "--language-idx",
        metavar="TAG",
        help="language of the text, such as en (default: the run's text.default_language)",
    )
    voice = parser.add_mutually_exclusive_group()
    voice.add_argument(
        "--voice",
        metavar="NAME",
        help="one of myxtts voice list (default: the speaker of a run with one, or else the first "
        "voice of the list)",
    )
    voice.add_argument(
        "--speaker-wav",
        "--speaker_wav",
        type=Path,
        nargs="+",
        metavar="REF",
        help="recordings of the voice to clone; a few seconds in total are enough",
    )
    add_speech_flags(parser)
    add_vocoder_flag(parser)
    flag_group(parser, "speech").add_argument(
        "--lexicon",
        type=Path,
        metavar="FILE",
        help="pronunciations: a word, a tab, and IPA between slashes or another spelling per line",
    )
    output = flag_group(parser, "output")
    target = output.add_mutually_exclusive_group()
    target.add_argument(
        "--out",
        "--out-path",
        "--out_path",
        type=Path,
        metavar="FILE",
        help=f"file to write, with one of the extensions {', '.join(AUDIO_ENDINGS)}; - is standard "
        "output, in the format of --format",
    )
    target.add_argument(
        "--out-dir",
        type=Path,
        metavar="DIR",
        help="folder with a file for each row of --batch or each line of the text; existing files "
        "are kept",
    )
    output.add_argument(
        "--format",
        choices=(*AUDIO_ENDINGS, _PCM),
        default="wav",
        help="format of the files in --out-dir and of --out -; pcm, for --out - alone, streams "
        "16-bit samples",
    )
    output.add_argument(
        "--overwrite", action="store_true", help="replace existing files in --out-dir"
    )
    output.add_argument("--play", action="store_true", help="play the speech while it is computed")
    output.add_argument(
        "--subtitles",
        type=Path,
        metavar="FILE",
        help="write the times of sentences and words as .srt, .vtt or .json",
    )
    return parser


class SpeechJob(NamedTuple):
    request: Request
    file: Path | None
    """None plays the speech without writing a file; `-` is standard output."""


def run(options: argparse.Namespace) -> int:
    how: dict[str, Any] = {"options": speech_options(options)}
    jobs = read_jobs(options)
    if options.subtitles is not None:
        require_subtitle_file(options.subtitles)
    how["lexicon"] = None if options.lexicon is None else Lexicon.read(options.lexicon)
    if options.play:
        require_sound_device()
    folder = run_or_base(options.checkpoint)
    RunDir(folder).require_folder()
    keeps_files = options.out_dir is not None and not options.overwrite
    waiting = [job for job in jobs if not (keeps_files and job.file and job.file.exists())]
    kept = len(jobs) - len(waiting)
    if not waiting:
        say(f"{options.out_dir}: nothing to do; all {len(jobs)} files exist")
        return 0
    # Compiling takes longer than it saves for two or three sentences.
    compiled = sum(len(job.request.text) for job in waiting) > _SHORT_TEXT_CHARACTERS
    with Progress() as progress:
        progress.begin("loading TensorFlow", is_brief=True)
        load_tensorflow(is_brief=not compiled)
        from myxtts.synthesis.tts import TTS

        progress.begin(f"loading {model_name(folder)}", is_brief=True)
        tts = TTS(folder, vocoder=options.vocoder, compiled=compiled)
        _check(options, tts, waiting)
    started = time.monotonic()
    if options.out_dir is not None:
        seconds = _speak_batch(tts, waiting, options, how)
        what = f"{options.out_dir}: {plural_count(len(waiting), 'file')}"
    else:
        seconds = _speak_one(tts, waiting[0], options, how)
        what = "standard output" if options.out == _STDOUT else str(options.out or "played")
    aside = f"; kept {kept} existing" if kept else ""
    separator = ", " if options.out_dir else ": "
    (say_aside if options.out == _STDOUT else say)(
        f"{what}{separator}{seconds:.1f} s of speech in {time.monotonic() - started:.1f} s, step "
        f"{tts.step:,} of {model_name(folder)}{aside}"
    )
    return 0


def _check(options: argparse.Namespace, tts: TTS, jobs: list[SpeechJob]) -> None:
    """Check languages and voices of all rows before the first is synthesized."""
    checked: set[str | None] = {None}
    for job in jobs:
        with _naming_the_row(options, job):
            tag = job.request.language or options.language or tts.languages[0]
            _warn_of_text(job.request.text, tts.tokenizer.own_language(tag), tts.languages)
            voice = job.request.voice
            if voice in checked:
                continue
            checked.add(voice)
            given = _voice(options, voice)
            if given.get("voice"):
                tts.saved_voice(given["voice"])
            else:
                read_reference(given["speaker_wav"][0], tts.config.audio)


def _warn_of_text(text: str, language: str, languages: Sequence[str]) -> None:
    if is_ssml(text):
        return
    if symbols := left_out_symbols(text, language):
        _log.warning("%s", describe_left_out(symbols))
    spoken = {part.language for part in language_parts(text, language, languages)}
    if spoken and language not in spoken:
        _log.warning(
            "the text is written in %s, not in %s, and is spoken so", ", ".join(spoken), language
        )


@contextlib.contextmanager
def _naming_the_row(options: argparse.Namespace, job: SpeechJob) -> Iterator[None]:
    try:
        yield
    except MyXTTSError as error:
        if options.batch is None:
            raise
        raise type(error)(f"{options.batch}: '{job.request.id}': {error}") from None


def _speak_one(tts: TTS, job: SpeechJob, options: argparse.Namespace, how: dict[str, Any]) -> float:
    """Speak one text; return the seconds of speech."""
    asked = {"text": job.request.text, "language": options.language, **_voice(options, None), **how}
    with (
        counting_bar(f"{job.file or 'playing'}: sentence", "sentence") as show,
        contextlib.ExitStack() as stack,
    ):
        play = stack.enter_context(player(tts.sample_rate_hz)) if options.play else None
        if job.file == _STDOUT:
            return _write_to_stdout(tts, asked, options, show)
        if job.file is not None:
            tts.tts_to_file(
                **asked,
                file_path=job.file,
                subtitles=options.subtitles,
                on_progress=show,
                on_samples=play,
            )
            return float(soundfile.info(job.file).duration)
        assert play is not None
        samples = 0
        for chunk in tts.stream(**asked):
            play(chunk)
            samples += chunk.size
    return samples / tts.sample_rate_hz


def _write_to_stdout(
    tts: TTS, asked: dict[str, Any], options: argparse.Namespace, show: Callable[[int, int], None]
) -> float:
    """Write speech to standard output; return its seconds."""
    stdout = sys.stdout.buffer
    if options.format == _PCM:
        samples = 0
        for chunk in tts.stream(**asked):
            stdout.write((chunk * 32_767).astype("<i2").tobytes())
            stdout.flush()
            samples += chunk.size
        return samples / tts.sample_rate_hz
    # A header has the length, which a pipe cannot take back.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"speech.{options.format}"
        tts.tts_to_file(**asked, file_path=file, subtitles=options.subtitles, on_progress=show)
        stdout.write(file.read_bytes())
        stdout.flush()
        return float(soundfile.info(file).duration)


def _speak_batch(
    tts: TTS, jobs: list[SpeechJob], options: argparse.Namespace, how: dict[str, Any]
) -> float:
    """Speak all rows and return the seconds of speech; Ctrl-C waits for rows in progress."""
    options.out_dir.mkdir(exist_ok=True)

    def speak(job: SpeechJob) -> float:
        assert job.file is not None
        with _naming_the_row(options, job):
            tts.tts_to_file(
                text=job.request.text,
                language=job.request.language or options.language,
                file_path=job.file,
                **_voice(options, job.request.voice),
                **how,
            )
        return float(soundfile.info(job.file).duration)

    seconds = 0.0
    with (
        counting_bar(f"{options.out_dir}: file", "file") as show,
        ThreadPoolExecutor(_THREADS) as pool,
    ):
        try:
            for done, spoken in enumerate(pool.map(speak, jobs), start=1):
                seconds += spoken
                show(done, len(jobs))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return seconds


def _voice(options: argparse.Namespace, of_row: str | None) -> dict[str, Any]:
    """Return the voice of a row, a name or a recording, by default that of the flags."""
    if of_row is None:
        return {"voice": options.voice, "speaker_wav": options.speaker_wav}
    is_recording = Path(of_row).suffix.lower().removeprefix(".") in AUDIO_ENDINGS
    return {"speaker_wav": [Path(of_row)]} if is_recording else {"voice": of_row}


def read_jobs(options: argparse.Namespace) -> list[SpeechJob]:
    """Read everything to synthesize, and check the output paths."""
    if options.out_dir is None:
        if options.batch is not None:
            raise DataError("--batch: needs --out-dir DIR, for a file for each row")
        if options.out is None and not options.play:
            raise DataError("no output given; use --out FILE, --out-dir DIR or --play")
        if options.out == _STDOUT:
            if options.play:
                raise DataError("--play: cannot be used with --out -")
        elif options.format == _PCM:
            raise DataError("--format pcm: needs --out -")
        elif options.out is not None:
            require_writable(options.out)
        if options.subtitles is not None and (options.out is None or options.play):
            raise DataError("--subtitles: needs --out FILE, and cannot be used with --play")
        name, text = _text(options)
        return [SpeechJob(Request(name, text), options.out)]
    if options.play or options.subtitles is not None:
        flag = "--play" if options.play else "--subtitles"
        raise DataError(f"{flag}: needs --out FILE, and cannot be used with --out-dir")
    if options.format == _PCM:
        raise DataError("--format pcm: needs --out -")
    folder: Path = options.out_dir
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, expected a folder for --out-dir")
    if not folder.absolute().parent.is_dir():
        raise DataError(f"{folder}: cannot be created (no folder {folder.parent})")
    try:
        require_creatable(folder / "file" if folder.is_dir() else folder.absolute())
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    if options.batch is not None:
        requests = read_batch(options.batch)
    else:
        lines = [line.strip() for line in _text(options)[1].splitlines() if line.strip()]
        # Skip lines of dashes, as within a text, unless there are no others.
        lines = [line for line in lines if any(map(str.isalnum, line))] or lines
        digits = max(3, len(str(len(lines))))
        requests = [Request(f"{n:0{digits}d}", line) for n, line in enumerate(lines, start=1)]
        if any(map(is_ssml, lines)):
            raise DataError("SSML: needs --out FILE, or one <speak> element per row of --batch")
    return [SpeechJob(one, folder / f"{one.id}.{options.format}") for one in requests]


def _text(options: argparse.Namespace) -> tuple[str, str]:
    """Return the name of the source, and its text."""
    if "-" in (options.text, str(options.text_file)):
        name, text = "standard input", read_standard_input()
    elif options.text_file is not None:
        name, text = str(options.text_file), read_text(options.text_file)
    elif options.text is not None:
        name, text = "--text", options.text
    elif sys.stdin is not None and not sys.stdin.isatty():
        name, text = "standard input", read_standard_input()
    else:
        raise DataError("no text given; use --text TEXT, --text-file FILE or --batch FILE")
    if not text.strip():
        raise DataError(f"{name}: is empty, expected text to speak")
    return name, text if not options.ssml or is_ssml(text) else f"<speak>{text}</speak>"


def require_sound_device() -> Any:
    """Return the audio library, or raise an error that names what is missing."""
    try:
        import sounddevice
    except ImportError:
        raise DeviceError(
            f"--play: needs the package sounddevice; install it with {install_command('play')}"
        ) from None
    except OSError as error:
        raise DeviceError(
            f"--play: {error}; install PortAudio, or write a file with --out"
        ) from None
    try:
        sounddevice.query_devices(kind="output")
    except (sounddevice.PortAudioError, ValueError) as error:
        raise DeviceError(
            f"--play: no sound device ({error}); write a file with --out instead"
        ) from None
    return sounddevice


@contextlib.contextmanager
def player(sample_rate_hz: int) -> Iterator[Callable[[Any], None]]:
    """Open the sound device; playing blocks while its buffer is full."""
    sounddevice = require_sound_device()
    try:
        with sounddevice.OutputStream(sample_rate_hz, channels=1, dtype="float32") as device:
            yield lambda samples: device.write(samples[:, None].copy())
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"--play: the sound device failed ({error})") from None
