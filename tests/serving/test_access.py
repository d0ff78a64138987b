import pytest

from myxtts.serving.access import AccessRules, checked_origins, is_loopback

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "host", ["localhost:5002", "LOCALHOST", "127.0.0.1", "[::1]:80", "10.0.0.7:1", "tts.lan:9"]
)
def test_addresses_and_allowed_names_are_hosts(host):
    assert AccessRules(hosts=("TTS.lan",)).allows_host(host)


@pytest.mark.parametrize(
    "host", ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil", "a@localhost", "::1:x"]
)
def test_other_names_are_not(host):
    assert not AccessRules(hosts=("tts.lan",)).allows_host(host)


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        ("http://localhost:5002", True),
        ("https://localhost:5002", True),
        ("https://allowed.example", True),
        ("http://localhost:3000", False),
        ("http://allowed.example", False),
        ("https://evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_only_its_own_pages_and_allowed_sites_are_origins(origin, is_allowed):
    rules = AccessRules(origins=("https://allowed.example",))
    assert rules.allows_origin(origin, "localhost:5002") is is_allowed


@pytest.mark.parametrize(
    ("header", "is_allowed"),
    [
        (f"Bearer {TOKEN}", True),
        (f"bearer  {TOKEN} ", True),
        (f"Basic {TOKEN}", False),
        (TOKEN, False),
        (f"Bearer {TOKEN[:-1]}", False),
        ("Bearer ", False),
        ("Bearer \u00e9", False),
        ("", False),
    ],
)
def test_the_token_must_be_the_same(header, is_allowed):
    assert AccessRules(token=TOKEN).allows_token(header) is is_allowed
    assert AccessRules().allows_token(header)


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("0.0.0.0", False), ("::", False)],
)
def test_which_addresses_stay_on_this_machine(host, is_local):
    assert is_loopback(host) is is_local


def test_an_origin_is_a_scheme_and_a_host():
    assert checked_origins(["https://a.example", "http://b:80"]) is None
    for wrong in ("a.example", "https://a.example/", "https://a.example/path", "*", "ftp://a"):
        assert checked_origins(["https://a.example", wrong]) == wrong
