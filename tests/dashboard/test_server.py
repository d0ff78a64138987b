import http.client
import json
import threading

import pytest

from myxtts.dashboard.run_reader import RunReader
from myxtts.dashboard.server import DashboardServer
from myxtts.errors import ConfigError


@pytest.fixture
def server(make_run):
    with DashboardServer([RunReader(make_run(), "mine")], 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer, content


def test_the_page_and_its_parts(server):
    answer, content = ask(server, "/")
    assert answer.status == 200
    assert b"dashboard.js" in content
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    for name in ("style.css", "words.js", "charts.js", "dashboard.js"):
        assert ask(server, f"/{name}")[0].status == 200


def test_runs_are_asked_for_again_and_sent_when_they_changed(server):
    answer, content = ask(server, "/runs.json")
    assert json.loads(content)[0]["name"] == "mine"
    again, _ = ask(server, "/runs.json", **{"If-None-Match": answer.headers["ETag"]})
    assert again.status == 304


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_other_hosts_get_nothing(server, host):
    answer, content = ask(server, "/runs.json", Host=host)
    assert answer.status == 421
    assert b"loss" not in content


@pytest.mark.parametrize("host", ["localhost:1234", "127.0.0.1", "[::1]:80", "LOCALHOST"])
def test_this_machine_by_any_of_its_names(server, host):
    assert ask(server, "/runs.json", Host=host)[0].status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/media/0/../report.json",
        "/media/0/%2e%2e/report.json",
        "/media/1/recording.wav",
        "/media/0/report.json",
        "/media/-1/recording.wav",
        "/../../etc/passwd",
        "//etc/passwd",
        "/page.html",
        "/config.yaml",
    ],
)
def test_nothing_but_the_page_is_served(server, path):
    assert ask(server, path)[0].status == 404


def test_nothing_can_be_sent(server):
    assert ask(server, "/", method="POST")[0].status == 501


def test_parts_of_a_sound(server):
    answer, whole = ask(server, "/media/0/recording.wav")
    assert answer.headers["Content-Type"] == "audio/wav"
    part, content = ask(server, "/media/0/recording.wav", Range="bytes=4-9")
    assert (part.status, content) == (206, whole[4:10])
    assert ask(server, "/media/0/recording.wav", Range="bytes=-5")[1] == whole[-5:]
    assert ask(server, "/media/0/recording.wav", Range="bytes=99999999-")[1] == whole


def test_a_port_that_is_taken(server, make_run):
    with pytest.raises(ConfigError, match="choose another with --port"):
        DashboardServer([RunReader(make_run("other"), "other")], server.server_port)
    with pytest.raises(ConfigError, match="port 70000 cannot be opened"):
        DashboardServer([RunReader(make_run("third"), "third")], 70_000)
