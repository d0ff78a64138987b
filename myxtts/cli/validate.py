"""`myxtts validate DIR`: checks every row and every file of a corpus."""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from myxtts.cli.console import counting_bar, say, say_json
from myxtts.cli.parser import (
    CHECK_FAILED,
    add_config_options,
    add_corpus,
    add_json,
    add_language,
    add_workers,
    configuration,
    flag_group,
    required_corpus,
)
from myxtts.config.config import XTTSConfig
from myxtts.data.checks import (
    CorpusReport,
    Finding,
    check_corpus,
    write_clean_metadata,
)
from myxtts.data.metadata import Metadata
from myxtts.errors import DataError, plural

_LINES_PER_REASON = 5


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "validate",
        help="check every row and every file of a corpus",
        description="Check every row and every file of a corpus. Training leaves out rows with "
        "errors. Exit code 0: no errors; 1: errors; 2: the corpus cannot be read.",
    )
    add_corpus(parser, "folder of the corpus")
    flag_group(parser, "data").add_argument(
        "--layout",
        metavar="COLUMNS",
        help="columns of the metadata, such as 'audio|text|speaker' (default: detected)",
    )
    flag_group(parser, "data").add_argument(
        "--checksums",
        action="store_true",
        help="also compare the recordings with those that features were prepared from",
    )
    add_language(parser)
    add_config_options(parser)
    add_workers(parser)
    flag_group(parser, "output").add_argument(
        "--fix",
        type=Path,
        metavar="FILE",
        help="write the rows without errors to a new metadata file",
    )
    add_json(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    corpus = required_corpus(options)
    config = configuration(options)
    if options.fix is not None:
        _refuse_to_replace(options.fix)
    with counting_bar("Checking", "clip", quiet=options.json) as on_progress:
        report = check_corpus(corpus, config, on_progress)
    if options.checksums:
        from myxtts.data.corpus import changed_recordings

        changed = changed_recordings(config)
        report = dataclasses.replace(report, findings=(*report.findings, *changed))
    if not options.json:
        _describe(report, config)
    written = _write_clean(report, options.fix) if options.fix is not None else {}
    if options.json:
        say_json(_as_json(report, written))
    else:
        for out, rows in written.items():
            written_rows = f"{rows} {plural(rows, 'row')}"
            say(f"Wrote {written_rows} to {out}; audio paths are relative to {report.folder}")
    return CHECK_FAILED if report.errors else 0


def _refuse_to_replace(out: Path) -> None:
    """Refuse existing output files before an hour of validation, not after it."""
    if out.exists():
        raise DataError(f"{out}: already exists; choose another file with --fix")
    if not out.parent.is_dir():
        raise DataError(f"{out}: cannot be written (no folder {out.parent})")


def _describe(report: CorpusReport, config: XTTSConfig) -> None:
    for file in report.files:
        rows = f"{file.rows} {plural(file.rows, 'row')}"
        say(f"{file.path}: {rows}, read as {file.layout}")
    _list("Errors", report.errors)
    _list("Warnings", report.warnings)
    counts = report.counts()
    if counts:
        say()
        width = max(len(reason) for reason, _, _ in counts)
        say(f"{'reason':<{width}}  severity  clips")
        for reason, severity, clips in counts:
            say(f"{reason:<{width}}  {severity:<8}  {clips:>5}")
    say()
    say(_conclusion(report, config))


def _list(title: str, findings: Iterable[Finding]) -> None:
    """List the first few findings per reason and count the others."""
    by_reason: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_reason[finding.reason].append(finding)
    if by_reason:
        say()
        say(title)
    for reason, same in by_reason.items():
        for finding in same[:_LINES_PER_REASON]:
            say(str(finding))
        if len(same) > _LINES_PER_REASON:
            say(f"... and {len(same) - _LINES_PER_REASON} more: {reason}")


def _conclusion(report: CorpusReport, config: XTTSConfig) -> str:
    rejected, limit = len(report.rejected_sources), config.data.max_rejected_fraction
    usable = (
        f"{report.rows - rejected} of {report.rows} {plural(report.rows, 'row')} usable, "
        f"{report.seconds / 3_600:.2f} hours of audio"
    )
    if rejected > limit * report.rows:
        return (
            f"{usable}; training stops if more than {limit:.0%} are unusable "
            "(data.max_rejected_fraction)"
        )
    return usable


def _write_clean(report: CorpusReport, out: Path) -> dict[Path, int]:
    """Write the training rows and, if the corpus has an evaluation file, its rows to another."""
    targets: list[tuple[Metadata, Path]] = [(report.files[0], out)]
    if len(report.files) > 1:
        eval_out = out.with_name(f"{out.stem}_eval{out.suffix}")
        _refuse_to_replace(eval_out)
        targets.append((report.files[1], eval_out))
    return {path: write_clean_metadata(report, file, path) for file, path in targets}


def _as_json(report: CorpusReport, written: dict[Path, int]) -> dict[str, Any]:
    def finding(it: Finding) -> dict[str, Any]:
        file, _, line = it.source.partition(":")
        facts = {"reason": it.reason, "detail": it.detail, "clips": it.clips}
        return {"file": file, "line": int(line) if line else None, **facts}

    return {
        "folder": str(report.folder),
        "rows": report.rows,
        "usable_rows": report.rows - len(report.rejected_sources),
        "hours": round(report.seconds / 3_600, 4),
        "files": [
            {
                "file": file.path.name,
                "rows": file.rows,
                "layout": file.layout,
            }
            for file in report.files
        ],
        "counts": [
            {"reason": reason, "severity": severity, "clips": clips}
            for reason, severity, clips in report.counts()
        ],
        "errors": list(map(finding, report.errors)),
        "warnings": list(map(finding, report.warnings)),
        "written": {str(path): rows for path, rows in written.items()},
    }
