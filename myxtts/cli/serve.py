"""`myxtts serve`: a run over HTTP, with a page to try it."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.cli.console import Progress, say
from myxtts.cli.parser import add_run, add_vocoder_flag, flag_group, require_in_range
from myxtts.devices.doctor import install_command
from myxtts.devices.startup import load_tensorflow
from myxtts.errors import ConfigError, DeviceError
from myxtts.runs.run_dir import RunDir, model_name, run_or_base

if TYPE_CHECKING:
    from myxtts.serving.engine import Engine, Limits
    from myxtts.web import AccessRules

_TOKEN_VARIABLE = "MYXTTS_TOKEN"
_MIN_TOKEN = 16


def add_parser(commands: Any) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="serve a run over HTTP, with a page to try it",
        description="Serve a run over HTTP: OpenAI's and Coqui's interfaces for speech, voices, "
        "and a page to try it in a browser. Needs the extra serve.",
    )
    add_run(parser, "folder of a trained run (default: the included base model)")
    parser.add_argument(
        "--also",
        type=Path,
        action="append",
        default=[],
        metavar="RUN",
        help="serve another run too, to compare them; may be repeated",
    )
    parser.add_argument(
        "--language",
        metavar="TAG",
        help="language of requests without one (default: each run's text.default_language)",
    )
    parser.add_argument(
        "--strict-voices",
        action="store_true",
        help="reject OpenAI's voice names, such as alloy, instead of using the first voice",
    )
    add_vocoder_flag(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--port", type=int, default=5002, metavar="N", help="port to listen on; 0 picks a free one"
    )
    access = flag_group(parser, "access")
    access.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="file with the token that clients must send as Authorization: Bearer TOKEN "
        f"(default: the environment variable {_TOKEN_VARIABLE}, or no token)",
    )
    access.add_argument(
        "--force",
        action="store_true",
        help="listen on the network without a token: anyone who can reach it can use it",
    )
    access.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that clients use, besides localhost and IP addresses; may be repeated",
    )
    access.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="another site whose pages may use the server (CORS), such as https://example.org; "
        "may be repeated",
    )
    limits = flag_group(parser, "limits")
    limits.add_argument(
        "--max-waiting",
        type=int,
        default=64,
        metavar="N",
        help="maximum number of requests running or waiting; more get status 429",
    )
    limits.add_argument(
        "--max-characters",
        type=int,
        default=4_096,
        metavar="N",
        help="maximum length of the text of a request",
    )
    limits.add_argument(
        "--time-limit",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="maximum time for a request",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    require_web_packages()
    rules, limits = _rules(options), _limits(options)
    folders = [run_or_base(options.checkpoint), *options.also]
    with contextlib.ExitStack() as stack, Progress() as progress:
        from myxtts.web import RateLimit, Server, bind

        # First, so that a port in use is reported before the models are loaded.
        listener = stack.enter_context(bind(options.host, options.port))
        progress.begin("loading TensorFlow", is_brief=True)
        load_tensorflow()
        engines = _load(folders, options, limits, progress)
        stack.pop_all()  # the server closes it
    from myxtts.serving.app import make_app

    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]

    def on_ready() -> None:
        for name, engine in engines.items():
            voices = ", ".join(engine.tts.voices) or "none yet; add one on the page"
            say(f"{name} (step {engine.tts.step:,}), voices: {voices}")
        say(f"http://{host}:{port} (press Ctrl-C to stop)")

    for handler in logging.getLogger().handlers:
        handler.addFilter(RateLimit())
    with listener:
        Server(make_app(engines, rules, limits), on_ready).run(sockets=[listener])
    say("stopped")
    return 0


def _load(
    folders: list[Path], options: argparse.Namespace, limits: Limits, progress: Progress
) -> dict[str, Engine]:
    from myxtts.serving.engine import Engine
    from myxtts.synthesis.tts import TTS

    engines: dict[str, Engine] = {}
    for folder in folders:
        progress.begin(f"loading {model_name(folder)}", is_brief=True)
        tts = TTS(folder, vocoder=options.vocoder)
        progress.begin(f"warming up {model_name(folder)}")
        tts.warm_up()
        name = RunDir.around(folder).path.resolve().name
        if name in engines:
            name = f"{name}-{len(engines) + 1}"
        engines[name] = Engine(
            name, folder, tts, limits, options.language, strict_voices=options.strict_voices
        )
    return engines


def require_web_packages() -> None:
    for name in ("fastapi", "uvicorn", "multipart", "prometheus_client"):
        if importlib.util.find_spec(name) is None:
            raise DeviceError(
                f"needs the package {name}; install it with {install_command('serve')}"
            )


def _rules(options: argparse.Namespace) -> AccessRules:
    from myxtts.web import AccessRules, is_loopback, is_origin

    token = _token(options.token_file)
    if token is None and not options.force and not is_loopback(options.host):
        raise ConfigError(
            f"--host {options.host}: would open the server to the network without a token; give "
            f"one with --token-file or {_TOKEN_VARIABLE}, or use --force"
        )
    for origin in options.allow_origin:
        if not is_origin(origin):
            raise ConfigError(
                f"--allow-origin {origin}: expected a scheme and a host, such as "
                "https://example.org"
            )
    hosts = (*options.allow_host, options.host)
    return AccessRules(token=token, hosts=hosts, origins=tuple(options.allow_origin))


def _token(file: Path | None) -> str | None:
    where = _TOKEN_VARIABLE if file is None else f"--token-file {file}"
    token = os.environ.get(_TOKEN_VARIABLE)
    if file is not None:
        try:
            token = next(iter(file.read_bytes().decode(errors="replace").splitlines()), "")
        except OSError as error:
            raise ConfigError(f"{where}: cannot be read ({error.strerror})") from None
    if token is None:
        return None
    token = token.strip()
    if len(token) < _MIN_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigError(
            f"{where}: expected a token of at least {_MIN_TOKEN} ASCII characters; make one "
            "with openssl rand -hex 32"
        )
    return token


def _limits(options: argparse.Namespace) -> Limits:
    from myxtts.serving.engine import Limits

    require_in_range("--port", options.port, 0, 65_535)
    require_in_range("--max-waiting", options.max_waiting, 1, 1_000)
    require_in_range("--max-characters", options.max_characters, 1, 10_000)
    require_in_range("--time-limit", options.time_limit, 1, 3_600)
    return Limits(
        waiting=options.max_waiting,
        text_characters=options.max_characters,
        request_seconds=options.time_limit,
    )
