"""`myxtts synthesize`: speaks texts in the voice of a recording, or in a saved voice."""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from myxtts.audio.files import AUDIO_ENDINGS, require_writable
from myxtts.cli.console import Progress, counting_bar, say
from myxtts.cli.parser import add_run, flag_group
from myxtts.cli.speaking_flags import add_speech_flags, add_vocoder_flag, speech_options
from myxtts.errors import DataError, DeviceError, MyXTTSError, plural
from myxtts.files import require_creatable
from myxtts.runs.run_dir import RunDir, model_name, run_or_base
from myxtts.synthesis.script import Request, read_batch
from myxtts.text.markup import Lexicon, read_standard_input, read_text
from myxtts.text.tokenizer import describe_left_out, left_out_symbols

if TYPE_CHECKING:
    from myxtts.synthesis.tts import TTS

_log = logging.getLogger(__name__)

# Rows of a table that are asked for at once: what waits together is computed together.
_THREADS = 8
_SHORT_TEXT_CHARACTERS = 200


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "synthesize",
        help="speak a text in the voice of a recording",
        description="Speak a text, a file or a table of texts in the voice of recordings or in a "
        "saved voice, and write audio files.",
    )
    add_run(parser, "folder of a trained run (default: the included base model)")
    add_source_flags(parser)
    parser.add_argument(
        "--language",
        "--language_idx",
        "--language-idx",
        metavar="TAG",
        help="of the text, such as en (default: the run's text.default_language)",
    )
    voice = parser.add_mutually_exclusive_group()
    voice.add_argument(
        "--voice",
        metavar="NAME",
        help="voice saved with myxtts voice add (default: the first saved voice)",
    )
    voice.add_argument(
        "--speaker-wav",
        "--speaker_wav",
        type=Path,
        nargs="+",
        metavar="REF",
        help="recordings of the voice to clone; a few seconds in total are enough",
    )
    add_target_flags(parser)
    output = flag_group(parser, "output")
    output.add_argument("--play", action="store_true", help="play the speech while it is made")
    output.add_argument(
        "--subtitles",
        type=Path,
        metavar="FILE",
        help="write the times of sentences and words: srt, vtt or json, by the ending of its name",
    )
    flag_group(parser, "speech").add_argument(
        "--lexicon",
        type=Path,
        metavar="FILE",
        help="pronunciations: a word, a tab, and IPA between slashes or another spelling per line",
    )
    add_speech_flags(parser)
    add_vocoder_flag(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    speech = speech_options(options)
    jobs = read_jobs(options)
    if options.subtitles is not None:
        from myxtts.synthesis.subtitles import require_subtitle_file

        require_subtitle_file(options.subtitles)
    lexicon = None if options.lexicon is None else Lexicon.read(options.lexicon)
    if options.play:
        require_sound_device()
    folder = run_or_base(options.checkpoint)
    RunDir(folder).require_folder()
    waiting = [job for job in jobs if _is_wanted(job, options)]
    if not waiting:
        say(f"{options.out_dir}: nothing to do; {len(jobs)} were there already")
        return 0
    # For two or three sentences compiling takes longer than it saves.
    compiled = sum(len(job.request.text) for job in waiting) > _SHORT_TEXT_CHARACTERS
    with Progress() as progress:
        progress.begin("loading TensorFlow", is_brief=True)
        from myxtts.devices.startup import load_tensorflow

        load_tensorflow(is_brief=not compiled)
        from myxtts.synthesis.tts import TTS

        progress.begin(f"loading {model_name(folder)}", is_brief=True)
        tts = TTS(folder, vocoder=options.vocoder, compiled=compiled)
        _check(options, tts, waiting)
    spoken_by = f"step {tts.step:,} of {model_name(folder)}"
    started = time.monotonic()
    how = {"lexicon": lexicon, "options": speech}
    if options.out_dir is not None:
        seconds = _speak_batch(tts, waiting, options, how)
        kept = len(jobs) - len(waiting)
        say(
            f"{options.out_dir}: {len(waiting)} {plural(len(waiting), 'file')}, "
            f"{seconds:.1f} s of speech in {time.monotonic() - started:.1f} s, {spoken_by}"
            + (f"; {kept} were there already" if kept else "")
        )
        return 0
    [job] = jobs
    asked = {"text": job.request.text, "language": options.language, **_voice(options, None)}
    seconds = _speak_one(tts, job, options, asked | how)
    where = "played" if job.file is None else str(job.file)
    say(f"{where}: {seconds:.1f} s of speech in {time.monotonic() - started:.1f} s, {spoken_by}")
    return 0


def _check(options: argparse.Namespace, tts: TTS, jobs: list[SpeechJob]) -> None:
    """Check languages and voices of all rows before the first is spoken."""
    from myxtts.synthesis.voices import read_reference

    checked: set[str] = set()
    for job in jobs:
        with _naming_the_row(options, job):
            tag = job.request.language or options.language or tts.languages[0]
            if symbols := left_out_symbols(job.request.text, tts.tokenizer.own_language(tag)):
                _log.warning("%s", describe_left_out(symbols))
            voice = job.request.voice
            if voice is None or voice in checked:
                continue
            checked.add(voice)
            if _is_recording(voice):
                read_reference(Path(voice), tts.config.audio)
            else:
                tts.saved_voice(voice)


@contextlib.contextmanager
def _naming_the_row(options: argparse.Namespace, job: SpeechJob) -> Iterator[None]:
    try:
        yield
    except MyXTTSError as error:
        if options.batch is None:
            raise
        raise type(error)(f"{options.batch}: '{job.request.id}': {error}") from None


def _speak_one(
    tts: TTS, job: SpeechJob, options: argparse.Namespace, asked: dict[str, Any]
) -> float:
    """Seconds of speech."""
    with (
        counting_bar(f"{job.file or 'playing'}: sentence", "sentence") as show,
        contextlib.ExitStack() as stack,
    ):
        play = stack.enter_context(player(tts.sample_rate_hz)) if options.play else None
        if job.file is not None:
            tts.tts_to_file(
                **asked,
                file_path=job.file,
                subtitles=options.subtitles,
                on_progress=show,
                on_samples=play,
            )
            return _seconds_of(job.file)
        assert play is not None
        samples = 0
        for chunk in tts.stream(**asked):
            play(chunk)
            samples += chunk.size
    return samples / tts.sample_rate_hz


def _speak_batch(
    tts: TTS, jobs: list[SpeechJob], options: argparse.Namespace, how: dict[str, Any]
) -> float:
    """Seconds of speech; Ctrl-C waits for what has begun, so that no file is half-written."""
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
        return _seconds_of(job.file)

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
    """The voice of a row, which is a name or a recording, or else that of the flags."""
    if of_row is None:
        return {"voice": options.voice, "speaker_wav": options.speaker_wav}
    return {"speaker_wav": [Path(of_row)]} if _is_recording(of_row) else {"voice": of_row}


def _is_recording(voice: str) -> bool:
    """In a table, where a voice is a name or a file."""
    return Path(voice).suffix.lower().removeprefix(".") in AUDIO_ENDINGS


def _is_wanted(job: SpeechJob, options: argparse.Namespace) -> bool:
    is_kept = options.out_dir is not None and job.file is not None and job.file.exists()
    return options.overwrite or not is_kept


def _seconds_of(file: Path) -> float:
    import soundfile

    return float(soundfile.info(file).duration)


STANDARD_INPUT = "-"


class SpeechJob(NamedTuple):
    request: Request
    file: Path | None
    """None: it is only played."""


def read_jobs(options: argparse.Namespace) -> list[SpeechJob]:
    """Everything that is to be spoken; what is wrong with a source or a target is an error."""
    if options.batch is not None and options.out_dir is None:
        raise DataError("--batch: needs --out-dir DIR, for a file for each row")
    if options.out_dir is None:
        if options.out is None and not options.play:
            raise DataError("where to? Give --out FILE, --out-dir DIR or --play")
        if options.out is not None:
            require_writable(options.out)
        if options.subtitles is not None and (options.out is None or options.play):
            raise DataError("--subtitles: goes with --out FILE, and not with --play")
        name, text = _text(options)
        return [SpeechJob(Request(name, text), options.out)]
    if options.play or options.subtitles is not None:
        flag = "--play" if options.play else "--subtitles"
        raise DataError(f"{flag}: goes with --out FILE, not with --out-dir")
    return _jobs_of_folder(options)


def _jobs_of_folder(options: argparse.Namespace) -> list[SpeechJob]:
    folder: Path = options.out_dir
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: is a file, expected a folder for --out-dir")
    if not folder.is_dir() and not folder.absolute().parent.is_dir():
        raise DataError(f"{folder}: cannot be made (no folder {folder.parent})")
    try:
        require_creatable(folder / "file" if folder.is_dir() else folder.absolute())
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    if options.batch is not None:
        requests = read_batch(options.batch)
    else:
        _, text = _text(options)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        # As within a text: a line of dashes is skipped unless there are no others.
        lines = [line for line in lines if any(map(str.isalnum, line))] or lines
        digits = max(3, len(str(len(lines))))
        requests = [Request(f"{n:0{digits}d}", line) for n, line in enumerate(lines, start=1)]
    return [SpeechJob(one, folder / f"{one.id}.{options.format}") for one in requests]


def _text(options: argparse.Namespace) -> tuple[str, str]:
    """The name of the source, and its text."""
    if STANDARD_INPUT in (options.text, str(options.text_file)):
        name, text = "standard input", read_standard_input()
    elif options.text_file is not None:
        name, text = str(options.text_file), read_text(options.text_file)
    elif options.text is not None:
        name, text = "--text", options.text
    else:
        raise DataError("what to say? Give --text TEXT, --text-file FILE or --batch FILE")
    if not text.strip():
        raise DataError(f"{name}: is empty, expected text to speak")
    return name, text


def add_source_flags(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--text", help="text to speak; - reads standard input")
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


def add_target_flags(parser: argparse.ArgumentParser) -> None:
    group = flag_group(parser, "output")
    target = group.add_mutually_exclusive_group()
    target.add_argument(
        "--out",
        "--out-path",
        "--out_path",
        type=Path,
        metavar="FILE",
        help=f"file to write: {', '.join(AUDIO_ENDINGS)}, by the ending of its name",
    )
    target.add_argument(
        "--out-dir",
        type=Path,
        metavar="DIR",
        help="folder for a file for each row of --batch or each line of the text; files that are "
        "there are kept",
    )
    group.add_argument(
        "--format",
        choices=AUDIO_ENDINGS,
        default="wav",
        help="of the files in --out-dir (default: wav)",
    )
    group.add_argument(
        "--overwrite", action="store_true", help="replace files that are in --out-dir"
    )


def require_sound_device() -> Any:
    """The library; an error says what is missing."""
    try:
        import sounddevice
    except ImportError:
        from myxtts.devices.doctor import install_command

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
    """A function that plays samples and returns when there is room for more."""
    sounddevice = require_sound_device()
    try:
        with sounddevice.OutputStream(sample_rate_hz, channels=1, dtype="float32") as device:
            yield lambda samples: device.write(samples[:, None].copy())
    except sounddevice.PortAudioError as error:
        raise DeviceError(f"--play: the sound device failed ({error})") from None
