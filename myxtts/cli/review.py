"""`myxtts review CORPUS`: a page to listen to collected clips and correct their texts."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path
from typing import Any

from myxtts.cli.collect import require_name
from myxtts.cli.console import say
from myxtts.cli.parser import require_in_range
from myxtts.cli.serve import require_web_packages
from myxtts.text.languages import parse_tag


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "review",
        help="listen to collected clips in the browser, correct and accept them",
        description="Open a page in the browser for a corpus that `myxtts collect` made: listen, "
        "correct the text, accept, reject, split. Each decision is saved at once. The page is "
        "served to this machine only; Ctrl-C ends it. Needs the extra serve.",
    )
    parser.add_argument("corpus", type=Path, metavar="CORPUS", help="folder of the corpus")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record sentences from the microphone; creates the corpus if needed",
    )
    parser.add_argument(
        "--language",
        metavar="TAG",
        help="language of the sentences to record, and of the page if available (default: en)",
    )
    parser.add_argument(
        "--speaker",
        default="speaker",
        metavar="NAME",
        help="name of the recorded speaker (default: speaker)",
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port of the page (default: a free one)"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address without opening the browser"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    require_name(options.speaker)
    require_in_range("--port", options.port, 0, 65_535)
    require_web_packages()
    from myxtts.collect.collect import Options
    from myxtts.collect.folder import CorpusFolder
    from myxtts.collect.review import HOST, Review, make_app
    from myxtts.web import Server, bind

    if options.record:
        folder = CorpusFolder(options.corpus)
        if not folder.is_collected():
            Options().prepare(folder)
    language = None
    if options.language is not None:
        language = parse_tag(options.language, "--language")
    app, path = make_app(
        Review(options.corpus, language or "en", options.speaker.strip()), language
    )
    with bind(HOST, options.port) as listener:
        address = f"http://{HOST}:{listener.getsockname()[1]}{path}"
        if options.record:
            address += "#record"

        def on_ready() -> None:
            say(f"Review {options.corpus} at {address}")
            say("Decisions are saved at once. Press Ctrl-C to end.")
            if not options.no_browser:
                webbrowser.open(address)

        Server(app, on_ready).run(sockets=[listener])
    say(f"Next: myxtts train {options.corpus}")
    return 0
