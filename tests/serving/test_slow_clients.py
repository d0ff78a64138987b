"""Clients that send or read slowly, over plain connections."""

import contextlib
import time

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse

from myxtts.serving.limits import Limits

from .conftest import connect, running, wait_for


async def app(scope, receive, send):
    """Reads the body and answers with its length, or with much more than buffers hold."""
    body = await Request(scope, receive).body()
    if scope["path"] == "/much":
        pieces = (b"0" * 65_536 for _ in range(1_000))
        await StreamingResponse(pieces)(scope, receive, send)
    else:
        await PlainTextResponse(str(len(body)))(scope, receive, send)


@pytest.fixture
def client():
    limits = Limits(receive_seconds=1.0, send_seconds=0.5, connections=3)
    with running(app, limits) as address, httpx2.Client(base_url=address) as client:
        yield client


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
    ],
)
def test_a_client_that_does_not_finish_its_request_is_disconnected(client, sent):
    with connect(client) as connection:
        connection.sendall(sent)
        _read_to_the_end(connection)
    wait_for(lambda: answers(client))


def test_a_client_that_does_not_read_is_disconnected(client):
    with connect(client) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(2)
        assert _read_to_the_end(connection) < 1_000 * 65_536
    wait_for(lambda: answers(client))


def answers(client) -> bool:
    """Whether the server answers others; on a busy machine also they may be slow."""
    try:
        return client.get("/").text == "0"
    except httpx2.HTTPError:
        return False


def _read_to_the_end(connection) -> int:
    """Bytes until the server ends the connection; without an end the socket times out."""
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            received += len(piece)
    return received


def test_more_connections_than_allowed_are_told_so(client):
    with connect(client), connect(client), connect(client), connect(client) as last:
        assert last.recv(4_096).startswith(b"HTTP/1.1 503 ")
    wait_for(lambda: answers(client))
