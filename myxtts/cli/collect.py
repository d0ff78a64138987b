"""`myxtts collect SOURCE... --out CORPUS`: makes a corpus from raw recordings."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import Progress, say, say_aside, say_json
from myxtts.cli.parser import add_json, add_workers, flag_group
from myxtts.errors import ConfigError, DataError, plural_count

if TYPE_CHECKING:
    from myxtts.collect.collect import Options, Outcome
    from myxtts.collect.texts import Transcriber
    from myxtts.collect.voices import VoiceEncoder

_MAX_PROBLEMS = 20


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "collect",
        help="make a corpus from raw recordings: cut, check, transcribe",
        description="Find speech in audio and video of any length, cut it into clips at pauses, "
        "drop noisy, clipped, silent and duplicate clips, and transcribe the rest. The "
        "recordings are not changed. An interrupted command resumes, and recordings can be "
        "added later.",
    )
    parser.add_argument(
        "sources",
        nargs="+",
        type=Path,
        metavar="SOURCE",
        help="audio or video files, or folders with such files",
    )
    voices = flag_group(parser, "voices")
    voices.add_argument(
        "--speaker-wav",
        type=Path,
        metavar="FILE",
        help="keep the voice closest to this one (default: the voice with the most speech)",
    )
    voices.add_argument(
        "--all-speakers",
        action="store_true",
        help="keep every voice as a separate speaker (default: one voice)",
    )
    voices.add_argument(
        "--any-voice", action="store_true", help="do not compare voices; keep all as one speaker"
    )
    parser.add_argument(
        "--language", default="en", metavar="TAG", help="language of the speech (default: en)"
    )
    parser.add_argument(
        "--speaker", default="speaker", metavar="NAME", help="name of the voice (default: speaker)"
    )
    texts = flag_group(parser, "transcripts")
    texts.add_argument(
        "--transcriber",
        metavar="CMD",
        help="command that prints the text of a wav; {} in it is the wav, otherwise it comes last "
        "(default: Moonshine, for English)",
    )
    texts.add_argument(
        "--whisper", type=Path, metavar="DIR", help="folder of a Whisper model for faster-whisper"
    )
    texts.add_argument(
        "--script",
        type=Path,
        metavar="FILE",
        help="text that was read, to take the transcripts from (default: ASR)",
    )
    texts.add_argument("--no-transcripts", action="store_true", help="cut and check only")
    cutting = flag_group(parser, "clips")
    cutting.add_argument(
        "--shortest", type=float, default=2.0, metavar="SECONDS", help="shortest clip (default: 2)"
    )
    cutting.add_argument(
        "--longest", type=float, default=12.0, metavar="SECONDS", help="longest clip (default: 12)"
    )
    cutting.add_argument(
        "--least-snr",
        type=float,
        default=10.0,
        metavar="DB",
        help="clips with more noise are dropped (default: 10)",
    )
    flag_group(parser, "output").add_argument(
        "--out", type=Path, required=True, metavar="CORPUS", help="folder of the corpus"
    )
    add_workers(parser, "recordings cut at once (default: one per core)")
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    wanted = _options(options)
    from myxtts.collect.collect import collect, prepare

    sources = prepare(options.sources, options.out, wanted)
    transcriber, note = _transcriber(options, wanted)
    encoder, note_on_voices = _encoder(options)
    started = time.monotonic()
    with Progress(quiet=options.json) as progress:

        def on_progress(stage: str, unit: str, done: int, total: int) -> None:
            progress.begin(stage, unit)
            progress.count(done, total)

        outcome = collect(sources, options.out, wanted, transcriber, encoder, on_progress)
    outcome.notes += [one for one in (note, note_on_voices) if one]
    outcome.write()
    if options.json:
        say_json(outcome.as_json())
        _require_something(outcome)
        return 0
    for problem in outcome.problems[:_MAX_PROBLEMS]:
        say(problem)
    if len(outcome.problems) > _MAX_PROBLEMS:
        say(f"... and {len(outcome.problems) - _MAX_PROBLEMS} more that could not be read")
    _require_something(outcome)
    for line in outcome.summary():
        say(line)
    say(f"Took {time.monotonic() - started:.1f} s. Listen: myxtts review {options.out}")
    _say_next(options.out, outcome)
    return 0


def _options(options: argparse.Namespace) -> Options:
    if not 0.5 <= options.shortest < options.longest <= 60:
        raise ConfigError(
            f"--shortest {options.shortest:g} and --longest {options.longest:g}: expected 0.5 to "
            "60 seconds, and the shortest below the longest"
        )
    require_name(options.speaker)
    if sum((options.speaker_wav is not None, options.all_speakers, options.any_voice)) > 1:
        raise ConfigError("--speaker-wav, --all-speakers and --any-voice: use only one of them")
    if options.script is not None and options.no_transcripts:
        raise ConfigError("--script needs transcripts: leave out --no-transcripts")
    if options.workers is not None and options.workers < 1:
        raise ConfigError(f"--workers: found {options.workers}, expected at least 1")
    from myxtts.collect.activity import Lengths
    from myxtts.collect.collect import Options
    from myxtts.text.languages import parse_tag

    return Options(
        language=parse_tag(options.language, "--language"),
        speaker=options.speaker.strip(),
        lengths=Lengths(options.shortest, options.longest),
        min_snr_db=options.least_snr,
        workers=options.workers,
        speaker_wav=options.speaker_wav,
        all_speakers=options.all_speakers,
        script=options.script,
    )


def require_name(speaker: str) -> None:
    """Raise unless the name fits into a cell of a metadata file."""
    if not speaker.strip() or set(speaker) & set("|\r\n"):
        raise ConfigError(f"--speaker: found {speaker!r}, expected a name without |")


def _transcriber(
    options: argparse.Namespace, wanted: Options
) -> tuple[Transcriber | None, str | None]:
    """Return the transcriber, or a note why there is none, before anything slow."""
    if options.no_transcripts:
        return None, None
    from myxtts.collect.texts import NoTranscriberError, open_transcriber

    try:
        return open_transcriber(wanted.language, options.transcriber, options.whisper), None
    except NoTranscriberError as error:
        say_aside(f"WARNING No transcripts: {error}")
        return None, f"No transcripts: {error}"


def _encoder(options: argparse.Namespace) -> tuple[VoiceEncoder | None, str | None]:
    if options.any_voice:
        return None, None
    from myxtts.collect.voices import open_encoder

    try:
        return open_encoder(), None
    except DataError as error:
        if options.speaker_wav is not None or options.all_speakers:
            raise
        say_aside(f"WARNING Voices are not compared: {error}")
        return None, f"Voices are not compared: {error}"


def _require_something(outcome: Outcome) -> None:
    if outcome.unread == len(outcome.sources) and not outcome.clips:
        recordings = plural_count(outcome.unread, "recording")
        raise DataError(f"{recordings}: nothing could be read, so there is no corpus")


def _say_next(out: Path, outcome: Outcome) -> None:
    from myxtts.collect.folder import KEPT, REVIEW

    if outcome.of(REVIEW):
        say(f"Clips to review, with the reasons: {out / 'review.csv'}")
    if outcome.of(KEPT):
        say(f"Next: myxtts train {out}")
