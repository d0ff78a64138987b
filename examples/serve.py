"""A minimal HTTP server for a trained run: text in, wav out. An example to start from.

    .venv/bin/myxtts voice add anna me.wav --checkpoint RUN
    .venv/bin/python examples/serve.py RUN
    curl http://127.0.0.1:8020/speak -d '{"text": "Good morning.", "voice": "anna"}' -o out.wav

POST /speak takes {"text", "voice", "language"?, "seed"?, "speed"?} and returns a wav, or {"error"}
with a message; GET /voices lists the saved voices and languages of the run.

There is no authentication and no encryption: anyone who can reach the port can use every saved
voice. By default it listens on localhost only.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import signal
import sys
import threading
import wave
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from myxtts.errors import DataError, MyXTTSError
from myxtts.models.speech_options import SpeechOptions
from myxtts.synthesis.voices import voice_names, voices_folder

if TYPE_CHECKING:
    from myxtts import TTS

KEYS = ("text", "voice", "language", "seed", "speed")
MOST_CHARACTERS = 1_000  # about a minute of speech; other requests wait
MOST_BODY_BYTES = 16_384  # MOST_CHARACTERS in any JSON encoding


class Server(ThreadingHTTPServer):
    def handle_error(self, *request: Any) -> None:
        """A client that disconnects is not a server error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(*request)


class Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds for a client to send or receive the next bytes
    turn = threading.Lock()  # one text at a time
    tts: TTS
    voices: Path

    def do_GET(self) -> None:
        if self.path != "/voices":
            return self.send_error(404, f"no {self.path}; expected GET /voices or POST /speak")
        names = voice_names(self.voices)
        return self.answer(200, {"voices": names, "languages": self.tts.languages})

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,9}", length):
            return self.send_error(400, f"Content-Length: found '{length}', expected a number")
        if int(length) > MOST_BODY_BYTES:
            self.send_error(413, f"a body of {length} bytes, expected at most {MOST_BODY_BYTES}")
            self.rfile.read(
                1 << 20
            )  # otherwise a client that is still sending never reads the response
            return None
        body = self.rfile.read(int(length))
        if self.path != "/speak":
            return self.send_error(404, f"no {self.path}; expected GET /voices or POST /speak")
        try:
            return self.answer(200, self.speech(**checked_request(body)))
        except MyXTTSError as error:
            return self.send_error(400, str(error))

    def speech(self, text: str, voice: str, language: str | None = None, **how: Any) -> bytes:
        """A wav file of 16-bit samples."""
        options = SpeechOptions(**how)
        with self.turn:
            samples = self.tts.tts(text, self.tts.saved_voice(voice), language, options=options)
        file = io.BytesIO()
        with wave.open(file, "wb") as wav:
            wav.setparams((1, 2, self.tts.sample_rate_hz, 0, "NONE", ""))
            wav.writeframes((samples * 32_767).round().astype("<i2").tobytes())
        return file.getvalue()

    def answer(self, status: int, content: bytes | dict[str, Any]) -> None:
        is_wav = isinstance(content, bytes)
        if not is_wav:
            content = json.dumps(content, ensure_ascii=False).encode(errors="replace") + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "audio/wav" if is_wav else "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Sends JSON, also for errors of http.server itself."""
        self.answer(code, {"error": message or self.responses[code][0]})


def checked_request(body: bytes) -> dict[str, Any]:
    """Parses the body; values are validated where they are used."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise DataError("the body is not JSON") from None
    if not isinstance(asked, dict):
        raise DataError(f"found {json.dumps(asked)}, expected an object with {', '.join(KEYS)}")
    if unknown := sorted(asked.keys() - set(KEYS)):
        raise DataError(f"unknown key '{unknown[0]}', expected {', '.join(KEYS)}")
    for key in ("text", "voice", *(asked.keys() & {"language"})):
        if not isinstance(asked.get(key), str):
            raise DataError(f"{key}: found {json.dumps(asked.get(key))}, expected a string")
    if (characters := len(asked["text"])) > MOST_CHARACTERS:
        raise DataError(f"text: {characters} characters, expected at most {MOST_CHARACTERS}")
    return asked


def main() -> int:
    parser = argparse.ArgumentParser(description="Serves a trained run over HTTP.")
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("--host", default="127.0.0.1", help="default: localhost only")
    parser.add_argument("--port", type=int, default=8020, help="default: 8020; 0 picks a free port")
    options = parser.parse_args()
    with Server((options.host, options.port), Handler, bind_and_activate=False) as server:
        return serve(server, options, parser.prog)


def serve(server: Server, options: argparse.Namespace, program: str) -> int:
    try:
        server.server_bind()  # first, so that a port in use fails immediately
    except (OSError, OverflowError, UnicodeError) as error:
        print(f"{program}: {options.host}, port {options.port}: {error}", file=sys.stderr)
        return 2
    try:
        from myxtts import TTS

        Handler.tts, Handler.voices = TTS(options.run), voices_folder(options.run)
        server.server_activate()
        print(f"http://{options.host}:{server.server_port} (press Ctrl-C to stop)", flush=True)
        server.serve_forever()
    except MyXTTSError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C quits immediately
        Handler.turn.acquire()  # TensorFlow must be idle when Python exits
        return 130


if __name__ == "__main__":
    sys.exit(main())
