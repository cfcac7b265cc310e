import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_listening import is_loopback, local_page_refusal


def refusal(
    *headers: tuple[str, str], peer: str = "127.0.0.1", own: str = "127.0.0.1"
) -> str | None:
    return local_page_refusal(peer=peer, own_address=own, headers=headers)


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:15020",
        "localhost:9999",
        "127.0.0.1",
        "127.63.9.1:15020",
        "[::1]",
        "[::1]:15020",
        "[::ffff:127.0.0.1]:1",
    ],
)
def test_a_loopback_host_is_ours_with_any_port_and_without(host: str) -> None:
    assert refusal(("Host", host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:15020",
        "localhost.evil.example",
        "localhost@evil.example",
        "localhost:1:2",
        "127.0.0.1.evil.example",
        "127.0.0.1,evil.example",
        "10.0.0.1",
        "0.0.0.0:15020",
        "[::]:15020",
        "[::1",
        "::1",
        "",
    ],
)
def test_a_host_that_is_not_ours_is_refused_and_named(host: str) -> None:
    reason = refusal(("host", host))
    assert reason is not None
    assert repr(host) in reason


def test_the_address_that_the_connection_came_to_is_ours() -> None:
    assert refusal(("Host", "10.0.0.1:15020"), own="10.0.0.1") is None
    assert refusal(("Host", "10.0.0.1:15020"), own="::ffff:10.0.0.1") is None
    assert refusal(("Host", "[fe80::1]:15020"), own="fe80::1%eth0") is None
    assert refusal(("Host", "10.0.0.2:15020"), own="10.0.0.1") is not None


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:15020", ""])
def test_any_origin_is_refused(origin: str) -> None:
    assert "Origin" in (refusal(("Host", "localhost"), ("ORIGIN", origin)) or "")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "Cross-Site", "", "new-value"])
def test_what_another_page_has_a_browser_ask_is_refused(site: str) -> None:
    assert "Sec-Fetch-Site" in (refusal(("sec-fetch-site", site)) or "")


@pytest.mark.parametrize("site", ["none", "same-origin"])
def test_an_address_that_was_typed_into_a_browser_is_answered(site: str) -> None:
    assert refusal(("host", "localhost:15020"), ("sec-fetch-site", site)) is None


def test_one_of_several_hosts_that_is_foreign_is_enough() -> None:
    assert refusal(("Host", "localhost"), ("Host", "evil.example")) is not None


@pytest.mark.parametrize("peer", ["10.0.0.1", "fe80::1%eth0", "2001:db8::1", "127.0.0.6"])
def test_other_machines_are_refused(peer: str) -> None:
    assert refusal(peer=peer) == "only for callers on this machine"


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_this_machine_is_answered(peer: str) -> None:
    assert is_loopback(peer)
    assert refusal(peer=peer) is None


@given(st.text() | st.text(alphabet="127.0:[]@ ,x") | st.from_regex(r".?localhost.?.?"))
def test_of_any_text_only_what_is_ours_passes(host: str) -> None:
    if refusal(("host", host)) is None:
        name = host.strip().partition("]")[0].lstrip("[")
        assert (
            name.rpartition(":")[0].lower() == "localhost"
            or name.lower() == "localhost"
            or (is_loopback(name) or is_loopback(name.rpartition(":")[0]))
        )
