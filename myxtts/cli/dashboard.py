"""`myxtts dashboard`: shows runs in the browser, while they go on and afterwards."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from myxtts.cli.console import say
from myxtts.cli.help_text import flag_group

_DEFAULT_PORT = 6007


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "dashboard",
        help="show the curves, samples and advice of runs in the browser",
        description="Show one or more runs in the browser: losses, time, utilisation, word error "
        "rate and similarity, samples and alignments, advice. The page is updated while a run "
        "goes on. Only this machine can open it.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    parser.add_argument(
        "--language",
        choices=("en", "fa"),
        help="language of the page (default: the one chosen on it last, or the browser's)",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=_DEFAULT_PORT,
        metavar="N",
        help=f"port to listen on; 0 takes a free one (default: {_DEFAULT_PORT})",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    flag_group(parser, "output").add_argument(
        "--export",
        type=Path,
        metavar="FILE.html",
        help="write the page with everything in it to one file instead of serving it",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    from myxtts.dashboard.run_reader import RunReader, names_of

    names = names_of(options.runs)
    readers = [RunReader(folder, name) for folder, name in zip(options.runs, names, strict=True)]
    for reader in readers:
        reader.require_run()
    if options.export is not None:
        return _export(readers, options.export, options.language)
    return _serve(readers, options)


def _export(readers: list[Any], file: Path, language: str | None) -> int:
    from myxtts.dashboard.page import exported_page
    from myxtts.errors import DataError
    from myxtts.whole_files import write_whole_file

    content = exported_page(readers, language)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole_file(file, content)
    except OSError as error:
        raise DataError(f"{file}: cannot be written ({error.strerror or error})") from None
    say(f"Written: {file} ({len(content) / 1e6:.1f} MB), for any browser")
    return 0


def _serve(readers: list[Any], options: argparse.Namespace) -> int:
    from myxtts.dashboard.server import DashboardServer

    with DashboardServer(readers, options.port, options.language) as server:
        say(f"Dashboard: {server.address} (Ctrl-C to stop)")
        if options.open:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("Stopped")
    return 0
