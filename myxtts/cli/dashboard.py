"""`myxtts dashboard`: shows runs in TensorBoard, while they train and afterwards."""

from __future__ import annotations

import argparse
import contextlib
import io
import logging
import os
import sys
import tempfile
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from myxtts.cli.console import say
from myxtts.cli.parser import CommandParser
from myxtts.errors import CheckpointError, DataError
from myxtts.runs.run_dir import RunDir

# TensorBoard shows ten of them by default: every evaluation of a usual run.
_KEPT_SAMPLES = {"audio": 100, "images": 100, "text": 100}


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: CommandParser = commands.add_parser(
        "dashboard",
        help="show the curves, samples and advice of runs in TensorBoard",
        description="Show one or more runs in TensorBoard: samples, alignments, speech metrics, "
        "losses, time, device and optimizer. Runs in progress are updated.",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders")
    parser.add_argument(
        "--host",
        default="localhost",
        help="address to listen on; 0.0.0.0 allows other machines",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=6006,
        metavar="N",
        help="port to listen on; 0 picks a free one",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address without opening the browser"
    )
    parser.why_no_language = "TensorBoard's page is in English"
    return parser


def run(options: argparse.Namespace) -> int:
    runs = list({folder.resolve(): folder for folder in options.runs}.values())
    for folder in runs:
        RunDir(folder).require_folder()
        if not RunDir(folder).events.is_dir():
            raise CheckpointError(f"{folder}: events/ is missing; expected the folder of a run")
    with tempfile.TemporaryDirectory(prefix="myxtts-dashboard-") as log_dir:
        # Link the runs into one log folder, each under its name.
        for folder, name in zip(runs, run_names(runs), strict=True):
            (Path(log_dir) / name).symlink_to(RunDir(folder).events.resolve())
        address = _start(log_dir, options.host, options.port)
        say(f"Dashboard: {address} (Ctrl-C to stop)")
        if not options.no_browser and _has_screen():
            webbrowser.open(address)
        try:
            while True:
                time.sleep(3_600)
        except KeyboardInterrupt:
            say("Stopped")
    return 0


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders, with their paths where two have the same name."""
    paths = [folder.resolve() for folder in folders]
    names = [path.name for path in paths]
    return [
        name if names.count(name) == 1 else str(path).strip("/").replace("/", "-")
        for path, name in zip(paths, names, strict=True)
    ]


def _start(log_dir: str, host: str, port: int) -> str:
    """Serve from threads of this process until it ends."""
    logging.getLogger("tensorboard").setLevel(logging.WARNING)
    # TensorBoard's switch for working without TensorFlow, which takes seconds to import.
    sys.modules["tensorboard.compat.notf"] = ModuleType("notf")
    from tensorboard import program

    board = program.TensorBoard()
    board.configure(
        logdir=log_dir,
        host=host,
        port=port,
        samples_per_plugin=_KEPT_SAMPLES,
        window_title="MyXTTS",
    )
    try:
        # TensorBoard announces its data loader on standard error.
        with contextlib.redirect_stderr(io.StringIO()):
            address: str = board.launch()
    except program.TensorBoardServerException as error:
        raise DataError(f"--host {host} --port {port}: {error.msg}; use another --port") from None
    return address


def _has_screen() -> bool:
    """Return whether there is a desktop; elsewhere a browser could open in this terminal."""
    return sys.platform != "linux" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
