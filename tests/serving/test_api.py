"""Requests to a server in this process: what is answered, refused and limited."""

import base64
import io
import json
import struct
import threading
import wave
from urllib.parse import unquote

import httpx2
import numpy as np
import pytest
import soundfile

from myxtts.runs.run_dir import run_or_base
from myxtts.serving.engine import Engine, Limits, SpeechRequest
from myxtts.synthesis.voices import VoiceStore, voice_names
from myxtts.web import AccessRules

from .conftest import SENTENCES, connect, recording, wait_for

TOKEN = "a-token-of-thirty-two-characters"


def line_of(answer) -> str:
    message = answer.json()["error"]["message"]
    assert len(message.splitlines()) == 1
    return message


def upload(client, name="eve", content=None, count=1, **form):
    file = ("file", ("x.wav", recording() if content is None else content))
    return client.post("/v1/voices", data={"name": name, **form}, files=[file] * count)


@pytest.fixture
def client(serve_here):
    return serve_here(text_characters=200, upload_bytes=300_000, upload_seconds=10)


def test_a_voice_is_added_used_replaced_and_removed(serve_here):
    client = serve_here()
    added = upload(client, "نگار")
    assert added.status_code == 201
    assert added.json()["seconds"] == pytest.approx(2, abs=0.1)
    assert upload(client, "نگار").status_code == 400
    assert upload(client, "نگار", replace="true").status_code == 201
    spoken = client.get("/api/tts", params={"text": "Hello.", "speaker_id": "نگار"})
    assert soundfile.info(io.BytesIO(spoken.content)).frames > 0
    assert "نگار" in [voice["id"] for voice in client.get("/v1/voices").json()["data"]]
    assert client.delete("/v1/voices/نگار").status_code == 200
    assert client.delete("/v1/voices/نگار").status_code == 404


def test_included_voices_are_read_only(serve_base):
    voices = VoiceStore(run_or_base(None)).included
    assert "adam" in voice_names(voices)
    before = {file: file.read_bytes() for file in voices.iterdir()}
    client = serve_base()
    assert client.delete("/v1/voices/adam").status_code == 403
    for name in ("adam", "Adam"):
        assert upload(client, name, replace="true").status_code == 403
    assert before == {file: file.read_bytes() for file in voices.iterdir()}


def test_metrics_and_the_description_of_the_interface(serve_here):
    client = serve_here()
    assert client.get("/healthz").json()["status"] == "ok"
    client.get("/api/tts", params={"text": SENTENCES, "speaker_id": "anna"})
    client.get("/unknown")
    lines = client.get("/metrics").text.splitlines()
    assert 'myxtts_requests_total{route="/api/tts",status="200"} 1.0' in lines
    assert 'myxtts_requests_total{route="other",status="404"} 1.0' in lines
    assert f"myxtts_characters_total {len(SENTENCES)}.0" in lines
    assert "myxtts_requests_in_progress 0.0" in lines
    assert "myxtts_speech_seconds_count 1.0" in lines
    assert "/v1/audio/speech" in client.get("/openapi.json").json()["paths"]


def test_a_run_is_chosen_by_its_name_and_other_names_mean_the_first(serve_here):
    client = serve_here(names=("first", "second"))
    models = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in models] == ["first", "second"]
    assert models[0]["languages"] == ["en"]
    for asked, answered in (("second", "second"), ("first", "first"), ("tts-1", "first")):
        speech = {"input": "Hello.", "model": asked, "response_format": "flac"}
        content = client.post("/v1/audio/speech", json=speech).content
        with soundfile.SoundFile(io.BytesIO(content)) as sound:
            assert f" {answered} " in sound.comment


def test_the_same_seed_gives_the_same_file(serve_here):
    client = serve_here()
    asked = {"input": "Hello.", "voice": "anna", "response_format": "wav", "stream": False}
    first, second, other = (
        client.post("/v1/audio/speech", json=asked | {"seed": seed}).content for seed in (1, 1, 2)
    )
    assert first == second != other


def test_the_events_of_a_stream_have_its_bytes(serve_here):
    client = serve_here()
    asked = {"input": SENTENCES, "voice": "anna", "response_format": "pcm"}
    whole = client.post("/v1/audio/speech", json=asked).content
    answer = client.post("/v1/audio/speech", json=asked | {"stream_format": "sse"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    *deltas, done = (json.loads(line[6:]) for line in answer.text.split("\n\n") if line)
    assert b"".join(base64.b64decode(one["audio"]) for one in deltas) == whole
    assert {one["type"] for one in deltas} == {"speech.audio.delta"}
    assert done["type"] == "speech.audio.done"


def test_names_of_openai_mean_the_first_voice_and_the_answer_names_it(serve_here):
    client = serve_here()
    asked = {"input": "Hello.", "response_format": "pcm"}
    for voice, spoken in ((None, "anna"), ("alloy", "anna"), ("سارا", "سارا")):
        answer = client.post("/v1/audio/speech", json=asked | {"voice": voice})
        assert unquote(answer.headers["myxtts-voice"]) == spoken
    strict = serve_here(strict_voices=True)
    assert strict.post("/v1/audio/speech", json=asked | {"voice": "alloy"}).status_code == 400
    voices = client.get("/v1/audio/voices").json()["voices"]
    assert [(voice["id"], voice["name"]) for voice in voices] == [("anna",) * 2, ("سارا",) * 2]


def test_aac_needs_ffmpeg(serve_here, monkeypatch):
    client = serve_here()
    monkeypatch.setenv("PATH", "/nowhere")
    asked = {"input": "Hello.", "response_format": "aac"}
    assert client.post("/v1/audio/speech", json=asked).status_code == 400


def test_a_language_for_requests_that_name_none(base_tts):
    folder = run_or_base(None)
    engines = [Engine("base", folder, base_tts, Limits(), language) for language in (None, "fa")]
    assert [engine.languages[0] for engine in engines] == ["en", "fa"]
    assert {*engines[0].languages} == {*engines[1].languages}

    def spoken(engine, language=None):
        asked = SpeechRequest(input="1 2 3", voice="callie", language=language, steps=1)
        is_wanted = threading.Event()
        is_wanted.set()
        return np.concatenate(list(engine.speak(asked, is_wanted, in_chunks=False)))

    assert np.array_equal(spoken(engines[1]), spoken(engines[0], "fa"))
    assert not np.array_equal(spoken(engines[1])[:4_000], spoken(engines[1], "en")[:4_000])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"input": ""}, "input"),
        ({"input": " "}, ""),
        ({"input": "a" * 201}, "input"),
        ({"input": 3}, "input"),
        ({"voice": "nobody"}, "anna"),
        ({"voice": {"id": ""}}, "voice"),
        ({"voice": "../../etc/passwd"}, "voice"),
        ({"language": "xx"}, "language"),
        ({"speed": 9}, "speed"),
        ({"steps": 1_000}, "steps"),
        ({"response_format": "midi"}, "response_format"),
        ({"input": "[pause 100000] a"}, "pause"),
    ],
)
def test_a_wrong_request_is_one_line_without_paths(client, change, named, served_folder):
    answer = client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "anna"} | change)
    assert answer.status_code == 400
    assert named in line_of(answer)
    assert str(served_folder.parent) not in answer.text


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"\xff\xfe", b'{"input": NaN}', b'{"input": "\\ud800"}', b"[" * 9_000],
)
def test_bodies_that_are_not_a_request(client, body):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/v1/audio/speech", content=body, headers=headers)
    assert answer.status_code == 400
    line_of(answer)


def test_bodies_of_too_many_or_unknown_bytes(client):
    headers = {"Content-Type": "application/json"}
    large = client.post("/v1/audio/speech", content=b" " * 70_000, headers=headers)
    assert large.status_code == 413
    line_of(large)
    unknown = client.post("/v1/audio/speech", content=iter([b"{}"]), headers=headers)
    assert unknown.status_code == 411
    assert upload(client, content=b"0" * 400_000).status_code == 413
    limits = Limits(text_characters=10_000)
    longest = json.dumps({"input": "\U0001f600" * limits.text_characters, "voice": "anna"})
    assert len(longest) <= limits.body_bytes


def lying_wav() -> bytes:
    """Declare hours and has nothing."""
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
    """Return an hour in a few kilobytes."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3_600 * 22_050, np.int16), 22_050, format="FLAC")
    return file.getvalue()


def damaged_mp3() -> bytes:
    whole = bytearray(recording(format_name="MP3"))
    for place in range(600, len(whole), 150):
        whole[place : place + 90] = b"\xff\xfb\x90\x64" + bytes(86)
    return bytes(whole)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>no audio</html>",
        b"RIFF",
        lying_wav(),
        wav_at(1),
        wav_at(2**31 - 1),
        silence_bomb(),
        recording(0.1),
    ],
)
def test_uploads_that_are_not_speech(client, content):
    answer = upload(client, content=content)
    assert answer.status_code == 400
    line_of(answer)
    assert "eve" not in client.get("/v1/voices").text


def test_a_damaged_upload_writes_nothing_to_standard_error(client, capfd):
    assert upload(client, content=damaged_mp3()).status_code in (201, 400)
    client.delete("/v1/voices/eve")
    assert capfd.readouterr().err == ""


def test_uploads_that_are_too_many_or_badly_named(client):
    assert upload(client, count=9).status_code in (400, 413)
    for name in ("../eve", "a/b", ""):
        assert upload(client, name).status_code == 400


def test_files_of_the_server_are_not_served_or_read(client):
    assert client.get("/page/../server.py").status_code == 404
    assert client.get("/page/%2e%2e%2fapp.py").status_code == 404
    answer = client.get("/api/tts", params={"text": "Hi.", "style_wav": "/etc/passwd"})
    assert answer.status_code == 400


def test_other_names_sites_and_strangers_are_refused(serve_here):
    client = serve_here(AccessRules(token=TOKEN, origins=("https://friend.example",)))
    authorized = {"Authorization": f"Bearer {TOKEN}"}

    def status(path="/v1/models", method="GET", **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.request(method, path, headers=names).status_code

    assert status() == 401
    assert status(Authorization="Bearer wrong") == 401
    assert status(**authorized) == 200
    assert status("/metrics") == 401
    assert status("/healthz") == status("/") == status("/page/style.css") == 200
    assert status("/", Host="evil.example") == 421
    assert status("/", Host="[::1]evil") == 421
    assert status(Origin="https://evil.example", **authorized) == 403
    assert status(Origin="null", **authorized) == 403
    assert status(Sec_Fetch_Site="cross-site", **authorized) == 403
    assert status("/", Sec_Fetch_Site="cross-site") == 200
    own = str(client.base_url).rstrip("/")
    assert status(Origin=own, Sec_Fetch_Site="same-origin", **authorized) == 200
    friend = client.get("/v1/models", headers={"Origin": "https://friend.example"} | authorized)
    assert friend.headers["access-control-allow-origin"] == "https://friend.example"


def test_cors_is_off_by_default_and_headers_protect_the_page(serve_here):
    client = serve_here()
    answer = client.get("/", headers={"Origin": str(client.base_url).rstrip("/")})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers
    assert "default-src 'none'" in answer.headers["content-security-policy"]


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
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["Retry-After"]) >= 1
    assert client.get("/api/tts", params={"text": "Hi.", "speaker_id": "anna"}).status_code == 200


@pytest.mark.parametrize(
    ("limit", "status"), [({"request_seconds": 0.01}, 503), ({"audio_seconds": 0.2}, 400)]
)
def test_a_request_that_takes_too_long_is_ended(serve_here, limit, status):
    client = serve_here(**limit)
    asked = {"input": SENTENCES * 4, "voice": "anna", "response_format": "flac"}
    answer = client.post("/v1/audio/speech", json=asked)
    assert answer.status_code == status
    line_of(answer)


def test_speech_that_becomes_too_long_while_it_is_sent_is_cut_off_with_one_warning(
    serve_here, caplog
):
    client = serve_here(audio_seconds=1.0)
    asked = {"input": SENTENCES * 4, "voice": "anna", "response_format": "wav"}
    with pytest.raises(httpx2.RemoteProtocolError):
        client.post("/v1/audio/speech", json=asked)
    assert client.get("/healthz").status_code == 200
    assert [record.name for record in caplog.records] == ["myxtts.web"]


def test_a_client_that_hangs_up_stops_costing(serve_here, served_tts, monkeypatch, caplog):
    client = serve_here()
    sentences, counts = 30, []
    decode = served_tts.sampler.decode

    def counted(plans, options):
        counts.append(len(plans))
        return decode(plans, options)

    monkeypatch.setattr(served_tts.sampler, "decode", counted)
    body = b'{"input": "%b", "voice": "anna", "response_format": "flac"}' % (
        b"Good morning. " * sentences
    )
    with connect(client) as connection:
        head = "POST /v1/audio/speech HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
        head += f"application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        wait_for(lambda: counts)
    wait_for(lambda: "myxtts_hang_ups_total 1.0" in client.get("/metrics").text)
    wait_for(lambda: "myxtts_requests_in_progress 0.0" in client.get("/metrics").text)
    assert 0 < sum(counts) < sentences
    assert caplog.records == []
