"""The server as a user starts it, and the same in this process where limits must be small."""

from __future__ import annotations

import contextlib
import functools
import io
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import numpy as np
import pytest
import soundfile

GOLDEN = Path(__file__).parents[1] / "runs" / "golden"
SENTENCES = "Good morning. Good evening."


def recording(seconds: float = 2.0, rate_hz: int = 22_050, format_name: str = "WAV") -> bytes:
    """Return a vowel-like sound as a file."""
    times = np.arange(int(seconds * rate_hz)) / rate_hz
    file = io.BytesIO()
    soundfile.write(file, 0.3 * np.sin(2 * np.pi * 220 * times), rate_hz, format=format_name)
    return file.getvalue()


@pytest.fixture(scope="session")
def served_folder(tmp_path_factory) -> Path:
    """Return a run with the voices anna and سارا."""
    from myxtts.synthesis.tts import TTS

    folder = tmp_path_factory.mktemp("served")
    (folder / "me.wav").write_bytes(recording())
    run = shutil.copytree(GOLDEN, folder / "run")
    speaker = TTS(run, compiled=False)
    for name in ("anna", "سارا"):
        speaker.add_voice(name, folder / "me.wav")
    return run


@pytest.fixture
def start_server(user_environment, tmp_path):
    """Start `myxtts serve` and return the process, its address and its file of errors."""
    started = []

    def start(*arguments, **environment):
        log = tmp_path / "errors"
        command = [sys.executable, "-m", "myxtts.cli.main", "serve", *map(str, arguments)]
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*command, "--port", "0"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=user_environment | environment,
            )
        started.append(process)
        for line in process.stdout:
            if line.startswith("http://"):
                return process, line.split()[0], log
        raise AssertionError(log.read_text())

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def served_tts(served_folder):
    from myxtts.synthesis.tts import TTS

    return TTS(served_folder, compiled=False)


@contextlib.contextmanager
def running(app, **limits) -> Iterator[str]:
    """Serve an application in a thread and yield its address."""
    from myxtts.web import Server, bind

    is_ready = threading.Event()
    with bind("127.0.0.1", 0) as listener:
        server = Server(app, is_ready.set, **limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            assert is_ready.wait(30)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60)


@pytest.fixture(scope="session")
def base_tts():
    from myxtts.runs.run_dir import run_or_base
    from myxtts.synthesis.tts import TTS

    return TTS(run_or_base(None), compiled=False)


@pytest.fixture
def serve():
    """Return a client of a server in this process: `serve(folder, tts, rules, waiting=2)`."""
    from myxtts.serving.app import make_app
    from myxtts.serving.engine import Engine, Limits
    from myxtts.web import AccessRules

    with contextlib.ExitStack() as stack:

        def start(folder, tts, rules=None, *, names=("run",), strict_voices=False, **changes):
            limits, rules = Limits(**changes), rules or AccessRules()
            engines = {
                name: Engine(name, folder, tts, limits, strict_voices=strict_voices)
                for name in names
            }
            address = stack.enter_context(running(make_app(engines, rules, limits)))
            return stack.enter_context(httpx2.Client(base_url=address, timeout=120))

        yield start


@pytest.fixture
def serve_here(serve, served_folder, served_tts):
    return functools.partial(serve, served_folder, served_tts)


@pytest.fixture
def serve_base(serve, base_tts):
    from myxtts.runs.run_dir import run_or_base

    return functools.partial(serve, run_or_base(None), base_tts)


def connect(client: httpx2.Client) -> socket.socket:
    """Open a plain connection to the server of a client."""
    address = (client.base_url.host, client.base_url.port)
    return socket.create_connection(address, timeout=20)


def wait_for(condition, seconds: float = 100) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)
