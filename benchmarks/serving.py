"""Load on a server: clients on loopback, each of which asks again as soon as it has its answer.

    python benchmarks/serving.py [RUN] [--clients 1 8 32] [--seconds 20] [--other NAME=URL]

Serves a run, by default the base, in a process of its own. --other measures a server that already
runs and has OpenAI's API, such as that of Kokoro-FastAPI. A client that gets status 429 waits as
long as Retry-After says. Any other status than 200 and 429 is an error, and so is memory that grows
by a tenth after the first half of a measurement. Both end with exit code 1.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field

import httpx2
import psutil
from harness import SkippedError, Table, arguments, interleave, peer_python, report

_SENTENCES = (
    "The little boat sailed home before the storm arrived.",
    "She read the letter twice and put it back into the drawer.",
    "Nobody had seen the old clock run backwards before.",
    "Bread, cheese and apples were all that was left on the table.",
)
_MAX_GROWTH = 1.1
_OURS = "MyXTTS"


@dataclass
class Counts:
    seconds: list[float] = field(default_factory=list)
    """From a request to the last byte of its answer."""
    first_audio_seconds: list[float] = field(default_factory=list)
    speech_seconds: float = 0.0
    refused: int = 0
    errors: list[str] = field(default_factory=list)


async def ask_repeatedly(
    client: httpx2.AsyncClient, voice: str | None, first: int, until: float, counts: Counts
) -> None:
    for turn in itertools.count(first):
        if time.monotonic() >= until:
            return
        sentence = _SENTENCES[turn % len(_SENTENCES)]
        asked = {"model": "tts-1", "input": sentence, "voice": voice, "response_format": "pcm"}
        started, size = time.monotonic(), 0
        try:
            async with client.stream("POST", "/v1/audio/speech", json=asked) as answer:
                async for piece in answer.aiter_raw():
                    if answer.status_code == 200 and not size:
                        counts.first_audio_seconds.append(time.monotonic() - started)
                    size += len(piece)
        except httpx2.HTTPError as error:
            counts.errors.append(repr(error))
            continue
        if answer.status_code == 429:
            counts.refused += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        elif answer.status_code == 200:
            counts.seconds.append(time.monotonic() - started)
            counts.speech_seconds += size / 2 / 24_000
        else:
            counts.errors.append(f"status {answer.status_code}")


async def load(
    address: str, voice: str | None, clients: int, seconds: float, pid: int | None
) -> tuple[Counts, list[float]]:
    counts, until, memory = Counts(), time.monotonic() + seconds, []

    async def watch() -> None:
        while pid is not None and time.monotonic() < until:
            memory.append(psutil.Process(pid).memory_info().rss / 2**20)
            await asyncio.sleep(0.5)

    limits = httpx2.Limits(max_connections=clients)
    async with httpx2.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
        asking = (ask_repeatedly(client, voice, it, until, counts) for it in range(clients))
        await asyncio.gather(watch(), *asking)
    return counts, memory


def main() -> int:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("run", nargs="?", default="base")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--other", action="append", default=[], metavar="NAME=URL")
    parser.add_argument("--voice", help="voice of the other servers")
    options = parser.parse_args()
    problems: list[str] = []
    tables = []
    command = [sys.executable, "-m", "myxtts.cli.main", "serve", options.run, "--port", "0"]
    # A busy machine is no error.
    command += ["--time-limit", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ours = next((line for line in server.stdout if line.startswith("http")), "").split()[0]
        addresses = {_OURS: ours, **dict(it.split("=", 1) for it in options.other)}

        def measure(name: str, clients: int) -> dict[str, float]:
            is_ours = name == _OURS
            counts, memory = asyncio.run(
                load(
                    addresses[name],
                    None if is_ours else options.voice,
                    clients,
                    options.seconds,
                    server.pid if is_ours else None,
                )
            )
            problems.extend(f"{name}, {clients} clients: {it}" for it in counts.errors[:3])
            half = memory[len(memory) // 2 :]
            if half and max(half) > _MAX_GROWTH * half[0]:
                problems.append(f"{clients} clients: memory {half[0]:.0f} to {max(half):.0f} MB")
            figures = {
                "rate": len(counts.seconds) / options.seconds,
                "speech": counts.speech_seconds / options.seconds,
                "first": statistics.median(counts.first_audio_seconds or [float("nan")]),
            }
            return figures | ({"memory": max(memory)} if memory else {})

        def no_server() -> dict[str, float]:
            peer_python(options.peers, "kokoro-fastapi")
            raise SkippedError("start its server and name it with --other")

        try:
            for clients in options.clients:
                words = f"{clients} {'client' if clients == 1 else 'clients'}"
                found = {
                    "rate": Table(f"Requests answered, {words}", "1/s", "higher"),
                    "speech": Table(f"Speech, {words}", "seconds per second", "higher"),
                    "first": Table(f"First audio, {words}", "seconds", "lower"),
                    "memory": Table(f"Memory of the server, {words}", "MB", "lower"),
                }
                contenders = {
                    name: lambda name=name, clients=clients: measure(name, clients)
                    for name in addresses
                }
                if not options.other:
                    contenders["Kokoro-FastAPI"] = no_server
                interleave(contenders, options.repeats, **found)
                tables += found.values()
        finally:
            server.terminate()
    report(tables, options)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
