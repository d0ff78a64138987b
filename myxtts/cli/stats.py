"""`myxtts stats`: statistics of a corpus, and the limits, shapes and batch size that suit it."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from myxtts.cli.console import counting_bar, say, say_json
from myxtts.cli.parser import (
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    add_val_data,
    configuration,
    flag_group,
    required_corpus,
)
from myxtts.config.config import XTTSConfig
from myxtts.data.corpus import read_subset
from myxtts.data.metadata import LJSpeechDataset
from myxtts.data.statistics import (
    Choice,
    CorpusMeasures,
    DataRecommendation,
    corpus_statistics,
    measure_corpus,
    recommend,
    save_histograms,
    weigh_choices,
)
from myxtts.devices.machine import describe_machine
from myxtts.devices.placement import expects_xla
from myxtts.errors import DataError, plural_count
from myxtts.files import require_creatable

_SPEAKERS_SHOWN = 10
_RAREST_SHOWN = 12


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "stats",
        help="show statistics of a corpus and recommend settings",
        description="Show how much speech a corpus contains, how long its clips are and which "
        "symbols it uses, and recommend limits, shapes and a batch size.",
    )
    add_corpus(parser, "folder of the corpus")
    flag_group(parser, "data").add_argument(
        "--subset",
        choices=("train", "eval"),
        help="only the training clips or only the validation clips (default: both)",
    )
    add_val_data(parser)
    add_language(parser)
    add_config_options(parser)
    flag_group(parser, "output").add_argument(
        "--plot", type=Path, metavar="FILE.png", help="save histograms to a file"
    )
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    required_corpus(options)
    config = configuration(options)
    if options.plot is not None:
        if options.plot.suffix.lower() != ".png":
            raise DataError(f"--plot: found '{options.plot}', expected a file name ending in .png")
        try:
            require_creatable(options.plot)
        except OSError as error:
            raise DataError(f"{options.plot}: cannot be written ({error.strerror})") from None
    parts = _parts(options.subset, config)
    measures = _measure(parts, config, show_progress=not options.json)
    statistics = corpus_statistics(measures)
    xla = expects_xla(config, describe_machine().gpus_to_be_expected)
    choices = weigh_choices(measures, config, xla=xla)
    recommendation = recommend(measures, choices, config)
    if options.plot is not None:
        save_histograms(measures, options.plot)
    if options.json:
        say_json(_as_dict(options, config, statistics, choices, recommendation))
        return 0
    for file, layout in {part.metadata.path: part.metadata.layout for part in parts}.items():
        say(f"{file}: read as {layout}")
    say("\n".join(["", *_describe(parts, options.subset, statistics, config)]))
    say("\n".join(["", *_choice_table(choices), "", *_yaml_lines(recommendation)]))
    if options.plot is not None:
        say(f"\nHistograms: {options.plot}")
    return 0


def _parts(subset: str | None, config: XTTSConfig) -> list[LJSpeechDataset]:
    """Return one subset of the corpus, or both, as `myxtts train` opens them."""
    train, validation = config.data.train_data, config.data.val_data
    names = ("train", "eval") if subset is None else (subset,)
    # If this is the validation corpus itself, count its clips only once.
    if not subset and train and validation and Path(train).resolve() == Path(validation).resolve():
        names = ("eval",)
    parts: list[LJSpeechDataset] = []
    for name in names:
        parts.append(read_subset(config, name, parts[0] if parts else None))
    if not any(map(len, parts)):
        raise DataError(f"{parts[0].folder}: has no clips in its {subset} subset")
    return parts


def measure_part(subset: str, config: XTTSConfig, *, show_progress: bool) -> CorpusMeasures:
    return _measure(_parts(subset, config), config, show_progress=show_progress)


def _measure(
    parts: Sequence[LJSpeechDataset], config: XTTSConfig, *, show_progress: bool
) -> CorpusMeasures:
    utterances = [item for part in parts for item in part]
    processes = config.data.workers or os.cpu_count() or 1
    with counting_bar("Measuring", "clip", quiet=not show_progress) as on_progress:
        return measure_corpus(utterances, config, processes=processes, on_progress=on_progress)


def _as_dict(
    options: argparse.Namespace,
    config: XTTSConfig,
    statistics: Mapping[str, Any],
    choices: Sequence[Choice],
    recommendation: DataRecommendation,
) -> dict[str, Any]:
    return {
        "corpus": options.train_data,
        "validation_corpus": config.data.val_data,
        "subset": options.subset,
        **statistics,
        "choices": [dataclasses.asdict(choice) for choice in choices],
        "recommended": {"data": dict(recommendation.settings)},
        "reasons": dict(recommendation.reasons),
        "plot": str(options.plot) if options.plot is not None else None,
    }


def _describe(
    parts: Sequence[LJSpeechDataset],
    subset: str | None,
    statistics: Mapping[str, Any],
    config: XTTSConfig,
) -> list[str]:
    corpus = " and ".join(dict.fromkeys(str(part.folder) for part in parts))
    part = f", {subset} subset" if subset else ""
    languages = ", ".join(
        f"{name} ({plural_count(share['clips'], 'clip')})"
        for name, share in statistics["languages"].items()
    )
    return [
        f"{'Corpus':<12}{corpus}{part}",
        f"{'Clips':<12}{statistics['clips']:,}{_left_out(statistics)}",
        f"{'Hours':<12}{statistics['hours']:.2f}",
        f"{'Speakers':<12}{len(statistics['speakers']):,}",
        f"{'Languages':<12}{languages}",
        f"{'Symbols':<12}{_symbols(statistics['token_inventory'], config.text.tokens)}",
        "",
        *_length_table(statistics),
        "",
        *_speaker_table(statistics["speakers"]),
    ]


def _left_out(statistics: Mapping[str, Any]) -> str:
    reasons = {
        "missing or unreadable audio": statistics["unreadable"],
        "no speakable text": statistics["empty_text"],
    }
    found = [f"{count:,} with {reason}" for reason, count in reasons.items() if count]
    return f" (left out: {', '.join(found)})" if found else ""


def _symbols(inventory: Mapping[str, int], kind: str) -> str:
    """Summarize the symbols: their number, and the rarest, which may be too rare to learn."""
    rarest = sorted(inventory.items(), key=lambda item: (item[1], item[0]))[:_RAREST_SHOWN]
    shown = "  ".join(f"{_visible(symbol)} {count:,}" for symbol, count in rarest)
    return f"{len(inventory)} {kind}; the rarest: {shown}"


def _visible(symbol: str) -> str:
    return symbol if symbol.strip() else f"'{symbol}'"


def _length_table(statistics: Mapping[str, Any]) -> list[str]:
    columns = {
        "min": "min",
        "median": "median",
        "mean": "mean",
        "95%": "percentile_95",
        "99%": "percentile_99",
        "max": "max",
    }
    rows = {
        "clip in seconds": ("clip_seconds", 2),
        "text in tokens": ("text_length", 0),
        "mel in frames": ("mel_length", 0),
    }
    lines = [f"{'Lengths':<18}" + "".join(f"{name:>10}" for name in columns)]
    for title, (key, decimals) in rows.items():
        numbers = (statistics[key][column] for column in columns.values())
        lines.append(f"  {title:<16}" + "".join(f"{number:>10,.{decimals}f}" for number in numbers))
    return lines


def _speaker_table(speakers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Tabulate the speakers with the most speech, and the one with the least."""
    width = max(16, *(len(name) for name in list(speakers)[:_SPEAKERS_SHOWN]))
    lines = [f"{'Speakers':<{width + 2}}{'clips':>10}{'hours':>10}"]
    for name, share in list(speakers.items())[:_SPEAKERS_SHOWN]:
        lines.append(f"  {name:<{width}}{share['clips']:>10,}{share['hours']:>10.3f}")
    if len(speakers) > _SPEAKERS_SHOWN:
        name, least = list(speakers.items())[-1]
        lines.append(
            f"  and {len(speakers) - _SPEAKERS_SHOWN:,} more, down to {name} with "
            f"{least['hours'] * 3_600:.1f} seconds"
        )
    return lines


def _choice_table(choices: Sequence[Choice]) -> list[str]:
    lines = [
        f"{'Batching':<18}{'shapes':>8}{'tokens':>8}{'frames':>8}{'left out':>10}"
        f"{'real frames':>13}{'real work':>11}"
    ]
    for choice in choices:
        lines.append(
            f"  {choice.name:<16}{choice.shapes:>8}{choice.max_text_length:>8}"
            f"{choice.max_mel_frames:>8}{choice.clips_left_out:>10,}"
            f"{choice.valid_frame_ratio:>13.1%}{choice.valid_work_ratio:>11.1%}"
        )
    return lines


def _yaml_lines(recommendation: DataRecommendation) -> list[str]:
    lines = ["Recommended settings, to paste into the configuration:", "data:"]
    for name, value in recommendation.settings.items():
        as_yaml = json.dumps(value) if value is None or isinstance(value, bool) else value
        setting = f"  {name}: {as_yaml}"
        reason = recommendation.reasons.get(name)
        lines.append(f"{setting:<26}# {reason}" if reason else setting)
    return lines
