"""The server as a user starts it: one process, with the client of OpenAI."""

import contextlib
import io
import signal
import threading
import time

import httpx2
import numpy as np
import openai
import psutil
import pytest
import soundfile

from myxtts.cli.main import main
from myxtts.web import bind

from .conftest import GOLDEN, SENTENCES

TOKEN = "a-token-of-thirty-two-characters"


def test_openai_client_speaks_in_every_format_and_the_server_stops_in_order(
    start_server, served_folder, served_tts, tmp_path
):
    process, address, _ = start_server(served_folder, MYXTTS_TOKEN=TOKEN)
    asked = {"model": "tts-1", "voice": "anna", "input": SENTENCES}
    expected = served_tts.tts(SENTENCES, voice="anna")
    with openai.OpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as client:
        for response_format in ("mp3", "wav", "flac"):
            file = tmp_path / f"speech.{response_format}"
            client.audio.speech.create(**asked, response_format=response_format).write_to_file(file)
            spoken, rate_hz = soundfile.read(file)
            assert rate_hz == served_tts.sample_rate_hz
            assert spoken.size == pytest.approx(expected.size, abs=5_000)
            assert np.sqrt(np.mean(spoken**2)) > 0.01

        with client.audio.speech.with_streaming_response.create(
            **asked, response_format="wav"
        ) as answer:
            pieces = list(answer.iter_bytes())
        assert len(pieces) > 1
        streamed, _ = soundfile.read(io.BytesIO(b"".join(pieces)))
        assert streamed.size == pytest.approx(expected.size, abs=2)

        with pytest.raises(openai.BadRequestError, match="anna"):
            client.audio.speech.create(**asked | {"voice": "nobody"})
        with pytest.raises(openai.AuthenticationError):
            client.with_options(api_key="wrong").audio.speech.create(**asked)
        assert [model.id for model in client.models.list()] == ["run"]
    _stop_while_it_answers(process, address)


def _stop_while_it_answers(process, address):
    """SIGTERM: what was asked for is answered, and the exit code is 0."""
    is_asked, answers = threading.Event(), []

    def ask():
        headers = {"Authorization": f"Bearer {TOKEN}"}
        body = {"input": SENTENCES * 4, "voice": "anna", "response_format": "wav"}
        with httpx2.stream(
            "POST", f"{address}/v1/audio/speech", json=body, headers=headers, timeout=120
        ) as answer:
            is_asked.set()
            answers.append(answer.read())

    asking = threading.Thread(target=ask)
    asking.start()
    assert is_asked.wait(60)
    process.send_signal(signal.SIGTERM)
    asking.join(60)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.endswith("stopped\n")
    assert soundfile.read(io.BytesIO(answers[0]))[0].size > 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/healthz")


def test_a_second_interrupt_during_a_stream_ends_the_server_without_a_traceback(
    start_server, served_folder
):
    process, address, errors = start_server(served_folder)
    body = {"input": SENTENCES * 40, "voice": "anna", "response_format": "wav"}
    with httpx2.stream("POST", f"{address}/v1/audio/speech", json=body, timeout=120) as answer:
        pieces = answer.iter_raw()
        for _ in range(2):
            next(pieces)
            process.send_signal(signal.SIGINT)
        with contextlib.suppress(httpx2.HTTPError):
            list(pieces)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in errors.read_text()
    assert "ASGI" not in errors.read_text()


@pytest.mark.slow
def test_memory_is_flat_while_64_clients_ask(start_server, served_folder):
    process, address, errors = start_server(served_folder, "--time-limit", "600")
    memory = psutil.Process(process.pid).memory_info

    def ask_for(seconds: float) -> set[int]:
        end, statuses = time.monotonic() + seconds, set()

        def ask():
            with httpx2.Client(base_url=address, timeout=600) as client:
                while time.monotonic() < end:
                    body = {"input": SENTENCES, "voice": "anna", "response_format": "pcm"}
                    statuses.add(client.post("/v1/audio/speech", json=body).status_code)

        threads = [threading.Thread(target=ask) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(700)
        return statuses

    assert ask_for(20) <= {200, 429}
    before = memory().rss
    assert ask_for(40) <= {200, 429}
    assert memory().rss < 1.1 * before
    assert "Traceback" not in errors.read_text()


@pytest.mark.parametrize(
    ("arguments", "token", "named"),
    [
        (["--host", "0.0.0.0"], None, "--host 0.0.0.0"),
        (["--host", "0.0.0.0"], "short", "MYXTTS_TOKEN"),
        (["--token-file", "missing"], None, "--token-file missing"),
        (["--allow-origin", "*"], None, "--allow-origin *"),
        (["--max-waiting", "0"], None, "--max-waiting"),
        (["--port", "99999"], None, "--port"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_loaded(
    arguments, token, named, capfd, monkeypatch
):
    if token is not None:
        monkeypatch.setenv("MYXTTS_TOKEN", token)
    assert main(["serve", str(GOLDEN), *arguments]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert named in line


def test_a_port_in_use_is_reported_before_the_model_is_loaded(capfd):
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(GOLDEN), "--port", str(port)]) == 2
    assert f"--port {port}" in capfd.readouterr().err
