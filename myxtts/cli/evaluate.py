"""`myxtts evaluate`: metrics of a run's speech next to those of the recordings."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import Progress, say, say_json, terminal_width
from myxtts.cli.parser import add_json, add_run, add_vocoder_flag, flag_group, required_run
from myxtts.errors import ConfigError, DataError, plural
from myxtts.runs.run_dir import (
    BASE_EVALUATION,
    RunDir,
    find_checkpoint,
    is_included,
    model_name,
    require_no_link,
)
from myxtts.text.languages import find_language

if TYPE_CHECKING:
    from myxtts.config.config import XTTSConfig
    from myxtts.evaluation.evaluate import Evaluation, Sentence
    from myxtts.synthesis.tts import TTS

_DEFAULT_COUNT = 20


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "evaluate",
        help="measure the speech of a run and compare it with the recordings",
        description="Synthesize held-out sentences with a run and compare them with the "
        "recordings, and with the recordings resynthesized from their mels by each vocoder. "
        "Writes a page with all clips.",
    )
    add_run(parser)
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="corpus (default: the one the run trained on)"
    )
    parser.add_argument(
        "--sentences",
        type=Path,
        metavar="FILE",
        help="sentences to synthesize, one per line (default: those of held-out clips; for base "
        "without --data, sentences of the package in the included voices)",
    )
    parser.add_argument(
        "--language",
        metavar="TAG",
        help="language of --sentences (default: the run's text.default_language)",
    )
    parser.add_argument(
        "--speaker-wav",
        type=Path,
        nargs="+",
        metavar="REF",
        help="recordings of the voices for --sentences (default: the speakers of the corpus, or "
        "the voices of base)",
    )
    add_vocoder_flag(parser)
    parser.add_argument(
        "--count",
        type=int,
        default=_DEFAULT_COUNT,
        metavar="N",
        help=f"number of held-out clips to synthesize (default: {_DEFAULT_COUNT})",
    )
    parser.add_argument(
        "--only",
        metavar="NAMES",
        help="compute only these metrics, such as wer,pitch_error (default: all)",
    )
    parser.add_argument(
        "--whisper",
        type=Path,
        metavar="DIR",
        help="folder of a Whisper model, for languages other than English",
    )
    flag_group(parser, "output").add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="output folder (default: RUN/evaluation, or base-evaluation for base)",
    )
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    run_dir = required_run(options)
    options.is_base = is_included(run_dir)
    with Progress(quiet=options.json) as progress:
        progress.begin(f"checking {run_dir}", is_brief=True)
        only = _check(options)
        progress.begin("loading TensorFlow")
        from myxtts.devices.startup import load_tensorflow

        load_tensorflow()
        from myxtts.evaluation.evaluate import evaluate, own_voice
        from myxtts.evaluation.measures import open_toolbox
        from myxtts.evaluation.results import save_evaluation
        from myxtts.synthesis.tts import TTS

        progress.begin(f"loading the model of {run_dir}")
        tts = TTS(run_dir, vocoder=options.vocoder)
        progress.begin("choosing sentences", is_brief=True)
        sentences = _sentences(options, tts)
        progress.begin("loading the measures")
        toolbox = open_toolbox(own_voice=own_voice(tts), whisper=options.whisper, only=only)
        if not toolbox.metrics:
            missing = "; ".join(f"{', '.join(it.titles)}: {it.reason}" for it in toolbox.left_out)
            raise ConfigError(f"none of the metrics of --only can be measured here: {missing}")
        out = options.out or (BASE_EVALUATION if options.is_base else RunDir(run_dir).evaluation)
        if options.out is None:
            require_no_link(out)
        progress.begin("synthesizing and measuring, clip", "clip")
        evaluation = evaluate(
            tts, model_name(run_dir), sentences, toolbox, on_progress=progress.count
        )
        progress.begin("drawing")
        content = save_evaluation(evaluation, out)
    if options.json:
        say_json(content)
        return 0
    say("\n".join(_describe(evaluation, terminal_width())))
    say(f"\nListen: {out / 'index.html'}; numbers: evaluation.json and .csv next to it")
    return 0


def _check(options: argparse.Namespace) -> list[str]:
    """Check the options before TensorFlow is loaded; return the names of --only."""
    if options.count < 1:
        raise DataError(f"--count: found {options.count}, allowed: 1 or more")
    if options.sentences is None:
        if options.speaker_wav is not None:
            raise ConfigError("--speaker-wav: needs --sentences FILE")
        if options.language is not None and not _speaks_examples(options):
            raise ConfigError("--language: needs --sentences FILE")
    elif not options.sentences.is_file():
        raise DataError(f"{options.sentences}: no such file; expected one sentence per line")
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        raise DataError(f"{options.out}: is a file, expected a folder to write to")
    from myxtts.audio.pretrained import require_whisper
    from myxtts.evaluation.measures import require_metrics

    if options.whisper is not None:
        require_whisper(options.whisper)
    only = options.only.split(",") if options.only else []
    require_metrics(only)
    return only


def _sentences(options: argparse.Namespace, tts: TTS) -> Sequence[Sentence]:
    from myxtts.evaluation.evaluate import (
        held_out_sentences,
        sentences_in_turn,
        sentences_of_file,
    )

    languages = tts.tokenizer.languages
    language = tts.tokenizer.own_language(options.language or tts.languages[0])
    saved = [(name, None) for name in tts.voices]
    if _speaks_examples(options):
        texts = find_language(language).demo_sentences()[: options.count]
        return sentences_in_turn(texts, language, saved)
    if options.sentences is None:
        return held_out_sentences(_configuration(options, tts), languages, options.count)
    voices: Sequence[tuple[str, Path | None]] = saved
    if options.speaker_wav is not None:
        voices = [(file.stem, file) for file in options.speaker_wav]
    elif options.data is not None or not options.is_base:
        clips = held_out_sentences(_configuration(options, tts), languages, options.count)
        voices = list({clip.speaker: (clip.speaker, clip.reference) for clip in clips}.values())
    sentences = sentences_of_file(options.sentences, language, voices)
    for sentence in sentences:
        tts.tokenizer.encode(sentence.text, sentence.language)
    return sentences


def _speaks_examples(options: argparse.Namespace) -> bool:
    """Return whether the base speaks sentences of the package, because no corpus is given."""
    return options.is_base and options.data is None and options.sentences is None


def _configuration(options: argparse.Namespace, tts: TTS) -> XTTSConfig:
    """Return the run's configuration with the requested corpus."""
    from myxtts.evaluation.evaluate import with_corpus

    if options.data is not None:
        return with_corpus(tts.config, options.data)
    data = find_checkpoint(options.checkpoint, for_synthesis=True).recorded_config().data
    corpus = data.val_data or data.train_data
    if corpus is None or not Path(corpus).is_dir():
        raise DataError(
            f"{options.checkpoint}: was trained on {corpus}, which does not exist; pass the corpus "
            "with --data DIR"
        )
    return tts.config.with_(train_data=data.train_data, val_data=data.val_data)


def _describe(evaluation: Evaluation, terminal_columns: int | None) -> list[str]:
    count = len(evaluation.sentences)
    voices = len({sentence.speaker for sentence in evaluation.sentences})
    lines = [
        f"{evaluation.run}, step {evaluation.step:,}: {count} "
        f"{plural(count, 'sentence')}, {voices} {plural(voices, 'voice')}",
        "",
        *_table(evaluation, terminal_columns),
    ]
    if any(not measure.tool.independent for measure in evaluation.toolbox.measures):
        lines += ["", "* not independent: computed with the model's own voice encoder"]
    return [*lines, *map(str, evaluation.left_out)]


def _table(evaluation: Evaluation, terminal_columns: int | None) -> list[str]:
    """Build a table with one row per metric; narrow terminals get it without units."""
    from myxtts.evaluation.results import interval

    columns = evaluation.columns
    rows = []
    for measure in evaluation.toolbox.measures:
        for metric in measure.metrics:
            means = [evaluation.mean(column, metric) for column in columns]
            if metric not in evaluation.toolbox.metrics or not any(means):
                continue
            title = metric.title + ("" if measure.tool.independent else " *")
            values = [f"{mean.value:.{metric.decimals}f}" if mean else "" for mean in means]
            rows.append((title, metric.unit, metric.better, values))
            if metric.shows_interval:
                count = max(mean.clips for mean in means if mean)
                title = f"  95 % interval, {count} {plural(count, 'sentence')}"
                values = [interval(mean.low, mean.high) if mean else "" for mean in means]
                rows.append((title, "", "", values))
    width = max(map(len, columns)) + 2
    head = f"{'':<38}{'unit':>11}{'better':>13}" + _cells(columns, width)
    if terminal_columns is None or len(head) < terminal_columns:
        return [
            head,
            *(
                f"{title:<38}{unit:>11}{better:>13}" + _cells(values, width)
                for title, unit, better, values in rows
            ),
        ]
    title_width = max(len(title) for title, *_ in rows)
    words = [column.split() for column in columns]
    texts = [word for column in words for word in column]
    width = max(map(len, itertools.chain(texts, *(values for *_, values in rows)))) + 1
    depth = max(map(len, words))
    heads = [[""] * (depth - len(column)) + column for column in words]
    return [
        *(" " * title_width + _cells(level, width) for level in zip(*heads, strict=True)),
        *(f"{title:<{title_width}}" + _cells(values, width) for title, *_, values in rows),
    ]


def _cells(values: Sequence[str], width: int) -> str:
    return "".join(f"{value:>{width}}" for value in values)
