"""The server as a user starts it: one process, with the client of OpenAI."""

import io
import signal
import threading

import httpx2
import numpy as np
import openai
import pytest
import soundfile

from .conftest import GOLDEN, SENTENCES, recording

TOKEN = "a-token-of-thirty-two-characters"


def test_openai_client_speaks_in_every_format_and_the_server_stops_in_order(
    start_server, served_folder, served_tts, tmp_path
):
    process, address = start_server(served_folder, MYXTTS_TOKEN=TOKEN)
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

        with pytest.raises(openai.BadRequestError, match="no voice 'alloy'; it has: anna"):
            client.audio.speech.create(**asked | {"voice": "alloy"})
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
    output, _ = process.communicate(timeout=900)
    assert process.returncode == 0
    assert output.endswith("stopped\n")
    assert soundfile.read(io.BytesIO(answers[0]))[0].size > 0
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{address}/healthz")


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--host", "0.0.0.0"], {}, "would open the server to the network without a token"),
        (["--host", "0.0.0.0"], {"MYXTTS_TOKEN": "short"}, "at least 16 ASCII characters"),
        (["--token-file", "missing"], {}, "--token-file missing: cannot be read"),
        (["--allow-origin", "*"], {}, "expected a scheme and a host"),
        (["--max-waiting", "0"], {}, "--max-waiting: found 0, allowed: 1 to 1000"),
        (["--port", "99999"], {}, "--port: found 99999, allowed: 0 to 65535"),
    ],
)
def test_mistakes_are_told_in_one_line_before_anything_is_loaded(
    arguments, environment, message, capfd, monkeypatch
):
    from myxtts.cli.main import main

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["serve", str(GOLDEN), *arguments]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("myxtts serve: ")
    assert message in line


def test_a_port_in_use_is_told_before_the_model_is_loaded(capfd):
    from myxtts.cli.main import main
    from myxtts.serving.server import take_port

    with take_port("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["serve", str(GOLDEN), "--port", str(port)]) == 2
    assert "in use; use another port" in capfd.readouterr().err


def test_a_voice_is_added_used_and_removed(serve_here):
    client = serve_here()
    form = {"name": "نگار"}
    added = client.post("/v1/voices", data=form, files=[("file", ("x.wav", recording()))])
    assert added.status_code == 201
    assert added.json()["seconds"] == pytest.approx(2, abs=0.1)
    again = client.post("/v1/voices", data=form, files=[("file", ("x.wav", recording()))])
    assert again.status_code == 400
    assert "already exists" in again.json()["error"]["message"]
    spoken = client.get("/api/tts", params={"text": "Hello.", "speaker_id": "نگار"})
    assert spoken.status_code == 200
    assert soundfile.info(io.BytesIO(spoken.content)).frames > 0
    assert "نگار" in [voice["id"] for voice in client.get("/v1/voices").json()["data"]]
    assert client.delete("/v1/voices/نگار").status_code == 200
    assert client.delete("/v1/voices/نگار").status_code == 404
    assert "نگار" not in [voice["id"] for voice in client.get("/v1/voices").json()["data"]]


def test_health_figures_and_the_description_of_the_interface(serve_here):
    client = serve_here()
    assert client.get("/healthz").json()["status"] == "ok"
    client.get("/api/tts", params={"text": SENTENCES, "speaker_id": "anna"})
    client.get("/unknown")
    figures = client.get("/metrics").text
    assert 'myxtts_requests_total{route="/api/tts",status="200"} 1' in figures
    assert 'myxtts_requests_total{route="other",status="404"} 1' in figures
    assert f"myxtts_characters_total {len(SENTENCES)}" in figures
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
            assert f"with the model {answered} " in sound.comment


def test_the_same_seed_gives_the_same_file(serve_here):
    client = serve_here()
    asked = {"input": "Hello.", "voice": "anna", "response_format": "wav", "stream": False}
    first, second, other = (
        client.post("/v1/audio/speech", json=asked | {"seed": seed}).content for seed in (1, 1, 2)
    )
    assert first == second != other


def test_a_language_for_requests_that_name_none():
    from myxtts.runs.base import run_or_base
    from myxtts.serving.limits import Limits
    from myxtts.serving.requests import SpeechRequest
    from myxtts.serving.served_run import ServedRun
    from myxtts.synthesis.tts import TTS

    folder = run_or_base(None)
    tts = TTS(folder, compiled=False)
    runs = [ServedRun("base", folder, tts, Limits(), language) for language in (None, "fa")]
    assert [run.facts()["languages"][0] for run in runs] == ["en", "fa"]
    assert {*runs[0].languages} == {*runs[1].languages}

    def spoken(run, language=None):
        asked = SpeechRequest(input="1 2 3", voice="callie", language=language, steps=1)
        is_wanted = threading.Event()
        is_wanted.set()
        return np.concatenate(list(run.speak(asked, is_wanted, in_chunks=False)))

    assert np.array_equal(spoken(runs[1]), spoken(runs[0], "fa"))
    assert not np.array_equal(spoken(runs[1])[:4_000], spoken(runs[1], "en")[:4_000])
