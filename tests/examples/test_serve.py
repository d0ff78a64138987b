"""The server as a user starts it: one process for all of these tests."""

import http.client
import io
import json
import runpy
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile

from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.tts import TTS

PROGRAM = Path(__file__).parents[2] / "examples" / "serve.py"
GOLDEN = Path(__file__).parents[1] / "runs" / "golden"
REQUEST = {"text": "Good morning. Good morning.", "voice": "anna"}


@pytest.fixture(scope="module")
def tts(tmp_path_factory):
    """The run that is served, with two saved voices in it."""
    folder = tmp_path_factory.mktemp("served")
    seconds = np.arange(44_100) / 22_050
    soundfile.write(folder / "me.wav", 0.3 * np.sin(2 * np.pi * 220 * seconds), 22_050)
    speaker = TTS(shutil.copytree(GOLDEN, folder / "run"))
    for name in ("anna", "سارا"):
        speaker.add_voice(name, folder / "me.wav")
    speaker.run_dir = folder / "run"
    return speaker


class Client:
    """Talks to a server that was started as a process."""

    def __init__(self, process, log):
        self.process, self.log = process, log
        self.url = process.stdout.readline().partition(" ")[0].strip()
        assert self.url.startswith("http://127.0.0.1:"), log.read_text()
        self.port = int(self.url.rpartition(":")[2])

    def ask(self, path, body=None):
        """Status, type and content of the answer."""
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        try:
            with urllib.request.urlopen(f"{self.url}{path}", content, timeout=300) as answer:
                status, headers, content = answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            status, headers, content = error.code, error.headers, error.read()
        assert int(headers["Content-Length"]) == len(content)
        return status, headers["Content-Type"], content

    def speak(self, **changes):
        status, kind, content = self.ask("/speak", REQUEST | changes)
        assert (status, kind) == (200, "audio/wav"), content
        return content

    def refused(self, path, body=None):
        status, kind, content = self.ask(path, body)
        assert kind == "application/json"
        return status, json.loads(content)["error"]


@pytest.fixture(scope="module")
def client(tts, user_environment, tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "stderr"
    with open(log, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, PROGRAM, tts.run_dir, "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=user_environment,
        )
    yield Client(process, log)
    process.kill()
    process.communicate()


def test_a_sentence_is_said_as_from_python(client, tts):
    said, rate = soundfile.read(io.BytesIO(client.speak(seed=3, speed=1.5, language="en")))
    expected = tts.tts(
        REQUEST["text"], tts.saved_voice("anna"), options=SpeechOptions(seed=3, speed=1.5)
    )
    assert (rate, said.shape) == (tts.sample_rate_hz, expected.shape)
    np.testing.assert_allclose(said, expected, atol=1e-3)


def test_the_same_seed_the_same_bytes_also_for_two_at_once(client):
    one, other = (client.speak(seed=seed) for seed in (0, 1))
    assert one != other
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda seed: client.speak(seed=seed), (0, 1))) == [one, other]


def test_what_there_is_to_ask_for(client):
    status, kind, content = client.ask("/voices")
    assert (status, kind) == (200, "application/json")
    assert json.loads(content) == {"voices": ["anna", "سارا"], "languages": ["en"]}
    assert client.speak(voice="سارا")[:4] == b"RIFF"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"voice": "ana"}, "no voice 'ana'; did you mean 'anna'?"),
        ({"voice": "../voices/anna"}, "voice name '../voices/anna': found '/'"),
        ({"voice": ["me.wav"]}, 'voice: found ["me.wav"], expected a string'),
        ({"text": None}, "text: found null, expected a string"),
        ({"text": " "}, "nothing to say"),
        ({"text": "\ud800"}, "nothing to say"),
        ({"text": "a" * 1_001}, "text: 1001 characters, expected at most 1000"),
        ({"language": "fa"}, "language 'fa' is not one of this model's languages: en"),
        ({"language": 7}, "language: found 7, expected a string"),
        ({"speed": 5}, "speed: found 5, allowed: 0.25 to 4"),
        ({"speed": float("nan")}, "speed: found nan, allowed: 0.25 to 4"),
        ({"seed": "1"}, "seed: found '1', allowed: a whole number, 0 to 2147483647"),
        ({"speaker_wav": "me.wav"}, "unknown key 'speaker_wav', expected text, voice,"),
    ],
)
def test_wrong_requests(client, changes, line):
    status, said = client.refused("/speak", REQUEST | changes)
    assert status == 400
    assert line in said


@pytest.mark.parametrize("body", [b"", b"hello", b"\xff\xfe\xfa", b"[" * 16_000, b"9" * 5_000])
def test_bodies_that_are_not_json(client, body):
    assert client.refused("/speak", body) == (400, "the body is not JSON")


def test_json_that_is_no_request(client):
    assert client.refused("/speak", b"[1]")[1].startswith("found [1], expected an object with text")


def test_paths_that_are_not_there(client):
    for path, body in (("/", None), ("/speak", None), ("/voices", REQUEST), ("/a/../speak", {})):
        status, said = client.refused(path, body)
        assert status == 404
        assert said.startswith(f"no {path}; expected")


def test_a_body_that_is_too_long(client):
    line = "a body of 800000 bytes, expected at most 16384"
    assert client.refused("/speak", b" " * 800_000) == (413, line)


@pytest.mark.parametrize(
    ("length", "status"),
    [(None, 400), ("", 400), ("-1", 400), ("1e3", 400), ("9" * 5_000, 400), ("999999999", 413)],
)
def test_lengths_that_cannot_be(client, length, status):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    connection.putrequest("POST", "/speak")
    if length is not None:
        connection.putheader("Content-Length", length)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == status
    assert "expected" in json.loads(answer.read())["error"]
    connection.close()


def test_a_method_that_is_not_there(client):
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=300)
    connection.request("DELETE", "/voices")
    answer = connection.getresponse()
    assert answer.status == 501
    assert "DELETE" in json.loads(answer.read())["error"]
    connection.close()


def main_in(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [PROGRAM.name, *map(str, arguments)])
    return runpy.run_path(str(PROGRAM))["main"]()


def test_a_port_in_use_a_port_that_is_none_and_no_run(client, tts, tmp_path, monkeypatch, capsys):
    for arguments, line in (
        ((tts.run_dir, "--port", client.port), "Address already in use"),
        ((tts.run_dir, "--port", 65_536), "port must be 0-65535"),
        ((tts.run_dir, "--host", "192.0.2.1"), "Cannot assign requested address"),
        ((tmp_path / "none", "--port", 0), f"{tmp_path / 'none'}: no such folder"),
    ):
        assert main_in(monkeypatch, *arguments) == 2
        (said,) = capsys.readouterr().err.splitlines()
        assert said.startswith("serve.py: ")
        assert line in said


def hang_up_while_it_speaks(port):
    body = json.dumps(REQUEST).encode()
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"POST /speak HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    # Closed so that the other side is told at once.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# The last one of this file: no server is left after it.
def test_who_hangs_up_and_ctrl_c_leave_no_traceback(client):
    hang_up_while_it_speaks(client.port)
    assert client.speak()[:4] == b"RIFF"
    with ThreadPoolExecutor(1) as threads:
        # Long enough to be under way still while Python ends.
        long = REQUEST | {"text": "boat " * 40, "speed": 0.25}
        under_way = threads.submit(client.ask, "/speak", long)
        time.sleep(1.0)  # until TensorFlow is at work on it
        client.process.send_signal(signal.SIGINT)
        output, _ = client.process.communicate(timeout=300)
        under_way.exception()
    assert (client.process.returncode, output) == (130, "")
    log = client.log.read_text()
    assert '"POST /speak HTTP/1.1" 200' in log
    assert "Traceback" not in log
