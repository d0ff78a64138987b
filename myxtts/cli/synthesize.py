"""`myxtts synthesize`: speaks texts in the voice of a recording, or in a saved voice."""

from __future__ import annotations

import argparse
import contextlib
import logging
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.audio.formats import AUDIO_ENDINGS
from myxtts.cli.console import Progress, counting_bar, say
from myxtts.cli.help_text import flag_group
from myxtts.cli.options import add_run
from myxtts.cli.playing import player, require_sound_device
from myxtts.cli.speaking_flags import add_speech_flags, add_vocoder_flag, speech_options
from myxtts.cli.speech_sources import SpeechJob, add_source_flags, add_target_flags, read_jobs
from myxtts.errors import MyXTTSError
from myxtts.runs.base import model_name, run_or_base
from myxtts.runs.run_dir import RunDir
from myxtts.text.markup import Lexicon
from myxtts.text.tokenizer import describe_left_out, left_out_symbols
from myxtts.wording import plural

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
        from myxtts.devices.loading import load_tensorflow

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
    from myxtts.synthesis.references import read_reference

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
