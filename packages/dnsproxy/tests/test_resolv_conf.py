"""resolv.conf in all the forms it is found in, and servers from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_dnsproxy import Upstream, parse_resolv_conf, parse_upstream
from mesh_dnsproxy.forwarding._upstreams import Health, Routes, without_ourselves
from mesh_dnsproxy.message._names import to_wire

ANY = "0.0.0.0"  # noqa: S104 - nothing is bound
MANY_DOMAINS = tuple(f"d{number}.example" for number in range(32))


@pytest.mark.parametrize(
    ("what", "text", "servers", "search"),
    [
        ("empty", "", (), ()),
        ("plain", "nameserver 10.0.0.1\nsearch a.b c.d\n", ("10.0.0.1",), ("a.b", "c.d")),
        ("tabs", "nameserver\t10.0.0.1\nsearch\ta.b\tc.d\n", ("10.0.0.1",), ("a.b", "c.d")),
        ("CRLF", "nameserver 10.0.0.1\r\nsearch a.b\r\n", ("10.0.0.1",), ("a.b",)),
        ("old line ends", "nameserver 10.0.0.1\rsearch a.b\r", ("10.0.0.1",), ("a.b",)),
        ("no end", "nameserver 10.0.0.1", ("10.0.0.1",), ()),
        ("a byte order mark", "\ufeffnameserver 10.0.0.1\n", ("10.0.0.1",), ()),
        ("indented", "  nameserver   10.0.0.1  \n", ("10.0.0.1",), ()),
        (
            "comments",
            (
                "# nameserver 1.1.1.1\n; nameserver 1.1.1.2\nnameserver 10.0.0.1 # first\n"
                "search a.b ; c.d\n"
            ),
            ("10.0.0.1",),
            ("a.b",),
        ),
        ("IPv6", "nameserver 2001:db8::1\n", ("2001:db8::1",), ()),
        ("a scope", "nameserver fe80::1%eth0\n", ("fe80::1%eth0",), ()),
        (
            "more than three",
            "".join(f"nameserver 10.0.0.{n}\n" for n in range(1, 6)),
            tuple(f"10.0.0.{n}" for n in range(1, 6)),
            (),
        ),
        ("twice the same", "nameserver 10.0.0.1\n" * 3, ("10.0.0.1",), ()),
        ("the last list counts", "search a\nsearch b c\n", (), ("b", "c")),
        ("domain after search", "search a b\ndomain c d\n", (), ("c",)),
        ("search after domain", "domain c\nsearch a b\n", (), ("a", "b")),
        ("the root", "search . a.b.\n", (), ("a.b",)),
        ("letters", "search Example.COM\n", (), ("example.com",)),
        ("32 domains", f"search {' '.join(MANY_DOMAINS)}\n", (), MANY_DOMAINS),
        ("empty search", "search a\nsearch\n", (), ()),
        ("options", "options ndots:15 timeout:0 use-vc\nnameserver 10.0.0.1\n", ("10.0.0.1",), ()),
    ],
)
def test_every_form_is_read(
    what: str, text: str, servers: tuple[str, ...], search: tuple[str, ...]
) -> None:
    del what
    found = parse_resolv_conf(text)
    assert tuple(server.host for server in found.nameservers) == servers
    assert found.search == search
    assert not found.problems


def test_options_are_kept_to_be_shown() -> None:
    assert parse_resolv_conf("options ndots:15 timeout:0\noptions use-vc").options == (
        "ndots:15",
        "timeout:0",
        "use-vc",
    )


def test_a_line_that_cannot_be_read_costs_itself_only_and_is_reported() -> None:
    found = parse_resolv_conf(
        "nameserver\nnameserver dns.example\nnameserver 10.0.0.\nnamesrver 10.0.0.2\n"
        "nameserver 10.0.0.1%eth0\nnameserver 10.0.0.3\n"
    )
    assert found.nameservers == (Upstream("10.0.0.3"),)
    assert found.problems == (
        "line 1: nameserver without an address",
        "line 2: 'dns.example' is no address of a server",
        "line 3: '10.0.0.' is no address of a server",
        "line 4: 'namesrver' is no keyword",
        "line 5: '10.0.0.1%eth0' is no address of a server",
    )


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda b: b.decode("utf-8", "replace")))
def test_any_text_is_read(text: str) -> None:
    parse_resolv_conf(text)
    parse_resolv_conf(f"nameserver {text}\nsearch {text}")


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("10.0.0.1", "10.0.0.1", 53),
        ("10.0.0.1:5353", "10.0.0.1", 5353),
        ("10.0.0.1#5353", "10.0.0.1", 5353),
        ("2001:db8::1", "2001:db8::1", 53),
        ("[2001:db8::1]", "2001:db8::1", 53),
        ("[2001:db8::1]:5353", "2001:db8::1", 5353),
        ("[fe80::1%eth0]:53", "fe80::1%eth0", 53),
    ],
)
def test_servers_are_read_with_and_without_a_port(text: str, host: str, port: int) -> None:
    assert parse_upstream(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "a", "10.0.0.1:", "10.0.0.1:x", "10.0.0.1:0", "1.1.1.1:65536"]
)
def test_what_is_no_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no address of a server"):
        parse_upstream(text)


@pytest.mark.parametrize(
    ("server", "listening", "left_out"),
    [
        (Upstream("127.0.0.1"), ("127.0.0.1", 53), True),
        (Upstream("127.0.0.1"), ("127.0.0.1", 15053), False),
        (Upstream("127.0.0.2"), ("127.0.0.1", 53), False),
        (Upstream(ANY), ("127.0.0.1", 53), True),
        (Upstream("::"), ("::1", 53), True),
        (Upstream("::ffff:127.0.0.1"), ("127.0.0.1", 53), True),
        (Upstream("10.1.1.1"), (ANY, 53), True),
        (Upstream("10.9.9.9"), (ANY, 53), False),
        (Upstream("fe80::1%eth0"), ("::1", 53), False),
    ],
)
def test_a_server_that_is_ourselves_is_left_out(
    server: Upstream, listening: tuple[str, int], *, left_out: bool
) -> None:
    others = without_ourselves([server], [listening], is_local=lambda host: host == "10.1.1.1")
    assert (not others) == left_out


def test_the_longest_suffix_decides_by_whole_labels() -> None:
    default, one, two = ((Upstream(f"10.0.0.{n}"),) for n in (1, 2, 3))
    routes = Routes(default, {to_wire("example"): one, to_wire("a.example"): two})
    for name, expected in (
        ("example", one),
        ("b.example", one),
        ("a.example", two),
        ("x.a.example", two),
        ("ba.example", one),
        ("myexample", default),
        ("example.com", default),
    ):
        assert routes.servers_for(to_wire(name)) == expected


def test_a_server_that_was_silent_twice_is_asked_last_for_a_while() -> None:
    first, second = Upstream("10.0.0.1"), Upstream("10.0.0.2")
    health = Health()
    health.failed(first, 0.0)
    assert health.order((first, second), 1.0) == (first, second)
    health.failed(first, 1.0)
    assert health.order((first, second), 2.0) == (second, first)
    assert health.order((first, second), 11.5) == (first, second)
    health.failed(first, 12.0)
    assert health.order((first, second), 12.0) == (second, first)
    health.succeeded(first)
    assert health.order((first, second), 12.0) == (first, second)
    health.failed(first, 13.0)
    health.failed(first, 13.0)
    health.keep_only([second])
    assert health.order((first, second), 13.0) == (first, second)
