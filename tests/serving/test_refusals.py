"""What clients may not do: answered with one line, and the server goes on."""

import io
import struct
import threading
import wave

import httpx2
import numpy as np
import pytest
import soundfile

from myxtts.serving.access import AccessRules

from .conftest import SENTENCES, connect, recording, wait_for

TOKEN = "a-token-of-thirty-two-characters"


def line_of(answer) -> str:
    message = answer.json()["error"]["message"]
    assert len(message.splitlines()) == 1
    return message


@pytest.fixture
def client(serve_here):
    return serve_here(text_characters=200, upload_bytes=300_000, upload_seconds=10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"input": ""}, "input: String should have at least 1 character"),
        ({"input": " "}, "nothing to say"),
        ({"input": "a" * 201}, "201 characters, expected at most 200"),
        ({"input": 3}, "input"),
        ({"input": None}, "input"),
        ({"voice": "nobody"}, "no voice 'nobody'; it has: anna"),
        ({"voice": ""}, "voice name"),
        ({"voice": {"id": ""}}, "voice name"),
        ({"voice": "../../etc/passwd"}, "voice name"),
        ({"voice": "/etc/passwd"}, "voice name"),
        ({"language": "xx"}, "language"),
        ({"speed": 9}, "speed"),
        ({"steps": 1_000}, "steps"),
        ({"response_format": "opus"}, "response_format"),
        ({"input": "[pause 100000] a"}, "pause"),
    ],
)
def test_a_wrong_request_is_told_in_one_line(client, change, message, served_folder):
    answer = client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "anna"} | change)
    assert answer.status_code == 400
    assert message in line_of(answer)
    assert str(served_folder.parent) not in answer.text


def test_bodies_that_are_no_json_or_too_large(client):
    headers = {"Content-Type": "application/json"}
    for body in (
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"input": NaN}',
        b'{"input": "\\ud800"}',
        b"[" * 9_000,
    ):
        answer = client.post("/v1/audio/speech", content=body, headers=headers)
        assert answer.status_code == 400, body
        line_of(answer)
    large = client.post("/v1/audio/speech", content=b" " * 70_000, headers=headers)
    assert large.status_code == 413
    unknown = client.post("/v1/audio/speech", content=iter([b"{}"]), headers=headers)
    assert unknown.status_code == 411


def lying_wav() -> bytes:
    """Declares hours and has nothing."""
    header = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 0x7FFF0000, b"WAVE", b"fmt ", 16, 1, 1,
                         22_050, 44_100, 2, 16, b"data", 0x7FFF0000)  # fmt: skip
    return header + b"\0\0"


def wav_at(rate_hz: int) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, rate_hz, 0, "NONE", ""))
        writer.writeframes(b"\1\0" * 100)
    return file.getvalue()


def silence_bomb() -> bytes:
    """An hour in a few kilobytes."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3_600 * 22_050, np.int16), 22_050, format="FLAC")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read as audio"),
        (b"<html>no audio</html>", "cannot be read as audio"),
        (b"RIFF", "cannot be read as audio"),
        (lying_wav(), "expected at least 0.5 s of speech"),
        (wav_at(1), "sample rate 1 Hz"),
        (wav_at(2**31 - 1), "sample rate"),
        (silence_bomb(), "longer than 10 s"),
        (recording(0.1), "expected at least 0.5 s of speech"),
    ],
)
def test_uploads_that_are_no_speech(client, content, message):
    answer = client.post("/v1/voices", data={"name": "eve"}, files=[("file", ("x.wav", content))])
    assert answer.status_code == 400
    assert message in line_of(answer)
    assert "eve" not in client.get("/v1/voices").text


def test_uploads_that_are_too_many_or_too_large(client):
    one = ("file", ("x.wav", recording()))
    many = client.post("/v1/voices", data={"name": "eve"}, files=[one] * 9)
    assert "9 recordings, expected 1 to 8" in line_of(many) or many.status_code == 413
    large = client.post(
        "/v1/voices", data={"name": "eve"}, files=[("file", ("x.wav", b"0" * 400_000))]
    )
    assert large.status_code == 413
    for name in ("../eve", "a/b", "", "CON"):
        answer = client.post("/v1/voices", data={"name": name}, files=[one])
        assert answer.status_code == 400


def test_files_of_the_server_are_not_served_or_read(client):
    assert client.get("/page/../server.py").status_code == 404
    assert client.get("/page/%2e%2e%2fserver.py").status_code == 404
    answer = client.get("/api/tts", params={"text": "Hi.", "style_wav": "/etc/passwd"})
    assert "are not read" in line_of(answer)


def test_other_names_sites_and_strangers_are_refused(serve_here):
    rules = AccessRules(token=TOKEN, origins=("https://friend.example",))
    client = serve_here(rules)
    authorised = {"Authorization": f"Bearer {TOKEN}"}

    def status(path="/v1/models", method="GET", **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.request(method, path, headers=names).status_code

    assert status() == 401
    assert status(Authorization="Bearer wrong") == 401
    assert status(**authorised) == 200
    assert status("/metrics") == 401
    assert status("/healthz") == status("/") == 200
    assert status(Host="evil.example", **authorised) == 421
    assert status("/", Host="evil.example") == 421
    assert status(Origin="https://evil.example", **authorised) == 403
    assert status(Origin="null", **authorised) == 403
    assert status(Sec_Fetch_Site="cross-site", **authorised) == 403
    assert status("/", Sec_Fetch_Site="cross-site") == 200
    own = str(client.base_url).rstrip("/")
    assert status(Origin=own, Sec_Fetch_Site="same-origin", **authorised) == 200
    friend = client.get("/v1/models", headers={"Origin": "https://friend.example"} | authorised)
    assert friend.headers["access-control-allow-origin"] == "https://friend.example"


def test_cors_is_off_by_default(serve_here):
    client = serve_here()
    own = str(client.base_url).rstrip("/")
    answer = client.get("/v1/models", headers={"Origin": own})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_more_requests_than_may_wait_are_told_to_come_back(serve_here, served_tts, monkeypatch):
    client = serve_here(waiting=2)
    answers = []
    # No speech is finished before a request was refused, however slowly requests arrive.
    refused = threading.Event()
    decode = served_tts.sampler.decode

    def decode_later(plans, options):
        assert refused.wait(60)
        return decode(plans, options)

    monkeypatch.setattr(served_tts.sampler, "decode", decode_later)

    def ask():
        asked = {"input": SENTENCES, "voice": "anna", "response_format": "wav"}
        answers.append(client.post("/v1/audio/speech", json=asked))
        if answers[-1].status_code == 429:
            refused.set()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    statuses = sorted(answer.status_code for answer in answers)
    assert set(statuses) == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1
    assert client.get("/api/tts", params={"text": "Hi.", "speaker_id": "anna"}).status_code == 200


def test_a_request_that_takes_too_long_is_ended(serve_here):
    client = serve_here(request_seconds=0.01)
    asked = {"input": SENTENCES * 4, "voice": "anna", "response_format": "flac"}
    answer = client.post("/v1/audio/speech", json=asked)
    assert answer.status_code == 503
    assert "took longer than 0.01 s" in line_of(answer)


def test_speech_longer_than_allowed_is_refused(serve_here):
    client = serve_here(audio_seconds=0.2)
    asked = {"input": SENTENCES, "voice": "anna", "response_format": "flac"}
    answer = client.post("/v1/audio/speech", json=asked)
    assert answer.status_code == 400
    assert "longer than 0.2 s" in line_of(answer)


def test_a_client_that_hangs_up_stops_costing(serve_here, served_tts, monkeypatch):
    client = serve_here()
    sentences = 30
    before = _sentences_spoken(served_tts, monkeypatch)
    body = b'{"input": "%b", "voice": "anna", "response_format": "flac"}' % (
        b"Good morning. " * sentences
    )
    with connect(client) as connection:
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        head += f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        wait_for(lambda: before)
    wait_for(lambda: "myxtts_hang_ups_total 1" in client.get("/metrics").text)
    wait_for(lambda: "myxtts_requests_in_progress 0" in client.get("/metrics").text)
    assert 0 < sum(before) < sentences


def _sentences_spoken(tts, monkeypatch) -> list[int]:
    """How many sentences were computed at each time, from now on."""
    counts = []
    decode = tts.sampler.decode

    def counted(plans, options):
        counts.append(len(plans))
        return decode(plans, options)

    monkeypatch.setattr(tts.sampler, "decode", counted)
    return counts


def test_speech_that_becomes_too_long_while_it_is_sent_ends_the_connection(serve_here):
    client = serve_here(audio_seconds=1.0)
    asked = {"input": SENTENCES * 4, "voice": "anna", "response_format": "wav"}
    with pytest.raises(httpx2.RemoteProtocolError):
        client.post("/v1/audio/speech", json=asked)
    assert client.get("/healthz").status_code == 200
