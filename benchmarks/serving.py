"""Load test of a server: many clients on loopback, each with one request at a time.

    .venv/bin/python benchmarks/serving.py [RUN] [--clients 1 8 32 128] [--seconds 60] [--json FILE]

RUN is a trained run with a saved voice; by default the included base is served. The server is a
separate process. After a 429 a client waits as long as Retry-After says. Any status other than 200
and 429 is an error. A request that arrives alone is streamed, which costs more; --whole requests
every answer in one piece.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import numpy as np
import psutil

SENTENCES = (
    "The little boat sailed home before the storm arrived.",
    "She read the letter twice and put it back into the drawer.",
    "Nobody had seen the old clock run backwards before.",
    "Bread, cheese and apples were all that was left on the table.",
)


@dataclass
class Counts:
    seconds: list[float] = field(default_factory=list)
    """Time from the request to the last byte of each answer."""
    speech_seconds: float = 0.0
    refused: int = 0
    errors: list[str] = field(default_factory=list)


async def ask_again_and_again(
    client: httpx2.AsyncClient, number: int, until: float, is_whole: bool, counts: Counts
) -> None:
    turn = number
    while time.monotonic() < until:
        asked = {
            "input": SENTENCES[turn % len(SENTENCES)],
            "response_format": "pcm",
            "stream": not is_whole,
        }
        turn += 1
        started = time.monotonic()
        try:
            answer = await client.post("/v1/audio/speech", json=asked)
        except httpx2.HTTPError as error:
            counts.errors.append(repr(error))
            continue
        if answer.status_code == 429:
            counts.refused += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        elif answer.status_code == 200:
            counts.seconds.append(time.monotonic() - started)
            counts.speech_seconds += len(answer.content) / 2 / 24_000
        else:
            counts.errors.append(f"{answer.status_code} {answer.text}")


async def watch_memory(pid: int, until: float) -> list[float]:
    """Record resident megabytes once a second."""
    seen = [resident_mb(pid)]
    while time.monotonic() < until:
        await asyncio.sleep(1.0)
        seen.append(resident_mb(pid))
    return seen


async def load(
    address: str, pid: int, clients: int, seconds: float, is_whole: bool
) -> tuple[Counts, list[float]]:
    counts = Counts()
    limits = httpx2.Limits(max_connections=clients)
    async with httpx2.AsyncClient(base_url=address, timeout=300, limits=limits) as client:
        until = time.monotonic() + seconds
        memory, *_ = await asyncio.gather(
            watch_memory(pid, until),
            *(
                ask_again_and_again(client, number, until, is_whole, counts)
                for number in range(clients)
            ),
        )
    return counts, memory


def resident_mb(pid: int) -> float:
    return psutil.Process(pid).memory_info().rss / 2**20


def measure(
    address: str, pid: int, clients: int, seconds: float, is_whole: bool
) -> dict[str, object]:
    started = time.monotonic()
    counts, memory = asyncio.run(load(address, pid, clients, seconds, is_whole))
    took = time.monotonic() - started
    times = counts.seconds or [float("nan")]
    return {
        "clients": clients,
        "answers_per_second": round(len(counts.seconds) / took, 2),
        "speech_seconds_per_second": round(counts.speech_seconds / took, 2),
        "p50_seconds": round(float(np.percentile(times, 50)), 3),
        "p95_seconds": round(float(np.percentile(times, 95)), 3),
        "refused_429": counts.refused,
        "errors": counts.errors[:5],
        # At the start and after each quarter.
        "memory_mb": [round(memory[(len(memory) - 1) * quarter // 4]) for quarter in range(5)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--whole", action="store_true", help="answers are not streamed")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    run = [] if options.run is None else [str(options.run)]
    command = [sys.executable, "-m", "myxtts.cli.main", "serve", *run, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = next((line for line in server.stdout if line.startswith("http")), "").split()[0]
        measured = []
        for clients in options.clients:
            measured.append(measure(address, server.pid, clients, options.seconds, options.whole))
            print(json.dumps(measured[-1]), flush=True)
    finally:
        server.terminate()
        server.wait()
    if options.json is not None:
        options.json.write_text(json.dumps(measured, indent=1))
    return 1 if any(one["errors"] for one in measured) else 0


if __name__ == "__main__":
    sys.exit(main())
