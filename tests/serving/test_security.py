import pytest

from myxtts.web import AccessRules, is_loopback, is_origin

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost:5002", True),
        ("LOCALHOST", True),
        ("127.0.0.1", True),
        ("[::1]:80", True),
        ("10.0.0.7:1", True),
        ("tts.lan:9", True),
        ("", False),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil", False),
        ("a@localhost", False),
        ("::1:x", False),
        ("[::1]evil", False),
        ("[::1].evil.example", False),
        ("[::1]:80evil", False),
        ("localhost:80:90", False),
        ("[evil.example]", False),
    ],
)
def test_hosts(host, is_allowed):
    assert AccessRules(hosts=("TTS.lan",)).allows_host(host) is is_allowed


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        ("http://localhost:5002", True),
        ("https://localhost:5002", True),
        ("https://allowed.example", True),
        ("http://localhost:3000", False),
        ("http://allowed.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_origins(origin, is_allowed):
    rules = AccessRules(origins=("https://allowed.example",))
    assert rules.allows_origin(origin, "localhost:5002") is is_allowed


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer \u00e9", False),
        ("", False),
    ],
)
def test_tokens(header, is_allowed):
    assert AccessRules(token=TOKEN).allows_token(header) is is_allowed


@pytest.mark.parametrize(
    ("path", "is_open"),
    [("/", True), ("/page/a.js", True), ("/healthz", True), ("/healthz/x", False), ("/v1", False)],
)
def test_open_paths(path, is_open):
    assert AccessRules(open_paths=("/", "/healthz", "/page/")).is_open(path) is is_open


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_addresses(host, is_local):
    assert is_loopback(host) is is_local


def test_an_origin_is_a_scheme_and_a_host():
    assert all(map(is_origin, ["https://a.example", "http://b:80"]))
    assert not any(map(is_origin, ["a.example", "https://a.example/", "*", "ftp://a"]))
