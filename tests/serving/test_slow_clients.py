"""Clients that send or read slowly, over plain connections."""

import contextlib
import logging
import time

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse

from myxtts.web import AccessRules, CutOffError, Guard, RateLimit

from .conftest import connect, running, wait_for


async def app(scope, receive, send):
    """Answer with the length of the body, with much more than buffers hold, or not to the end."""
    body = await Request(scope, receive).body()
    if scope["path"] == "/much":
        pieces = (b"0" * 65_536 for _ in range(1_000))
        await StreamingResponse(pieces)(scope, receive, send)
    elif scope["path"] == "/cut":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"some", "more_body": True})
        raise CutOffError("longer than 600 s")
    else:
        await PlainTextResponse(str(len(body)))(scope, receive, send)


@pytest.fixture
def client():
    with (
        running(Guard(app, AccessRules()), idle_seconds=1.0, connections=4) as address,
        httpx2.Client(base_url=address) as client,
    ):
        yield client


def answers(client) -> bool:
    """Return whether the server answers others, who may also be slow on a busy machine."""
    try:
        return client.get("/").text == "0"
    except httpx2.HTTPError:
        return False


def read_to_the_end(connection) -> int:
    """Count bytes until the server ends the connection. Without an end the socket times out."""
    received = 0
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(1 << 20):
            received += len(piece)
    return received


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
        read_to_the_end(connection)
    wait_for(lambda: answers(client))


def test_a_client_that_does_not_read_is_disconnected(client):
    with connect(client) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(3)
        assert read_to_the_end(connection) < 1_000 * 65_536
    wait_for(lambda: answers(client))


def test_a_client_that_reads_slowly_but_steadily_is_served(client):
    received = 0
    with connect(client) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while piece := connection.recv(1 << 17):
            received += len(piece)
            time.sleep(0.003)
    assert received > 1_000 * 65_536


def test_connections_beyond_the_limit(client):
    with contextlib.ExitStack() as stack:
        *_, last = (stack.enter_context(connect(client)) for _ in range(4))
        last.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert last.recv(4_096).startswith(b"HTTP/1.1 503 ")
    wait_for(lambda: answers(client))


def test_an_answer_that_is_cut_off_is_one_warning(client, caplog):
    with pytest.raises(httpx2.RemoteProtocolError):
        client.get("/cut")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_client_that_hangs_up_leaves_no_log(client, caplog):
    with connect(client) as connection:
        connection.sendall(b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n")
        connection.recv(1_000)
    wait_for(lambda: answers(client))
    assert caplog.records == []


def test_log_records_are_limited_per_minute():
    limit = RateLimit(records_per_minute=3)

    def record(seconds: float) -> logging.LogRecord:
        made = logging.makeLogRecord({"msg": "odd request"})
        made.created = seconds
        return made

    assert sum(limit.filter(record(60 + number / 10)) for number in range(100)) == 3
    later = record(121)
    assert limit.filter(later)
    assert "97" in later.msg
