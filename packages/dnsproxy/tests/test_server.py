"""The server as a whole: tables, readiness, resolv.conf, metrics, and its beginning and end."""

import asyncio
import itertools
import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import dns.message
import dns.rcode
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from dns_peers import (
    Behaviour,
    FakeUpstream,
    Over,
    answering,
    ask,
    ask_tcp,
    exchange,
    reply_to,
    running,
    upstream,
)
from mesh_dnsproxy import (
    AddressInUse,
    ConfigError,
    DnsConfig,
    ForwardConfig,
    JsonNameTable,
    ListenAddress,
    NameEntry,
    NameTable,
    TcpConfig,
    serving,
)
from mesh_lifecycle import Readiness
from mesh_testkit import until

ENTRIES = {"known.example": NameEntry(("10.0.0.1",))}


def first_address(answer: dns.message.Message) -> str:
    return str(answer.answer[0][0])


async def test_readiness_holds_from_the_first_table_on() -> None:
    readiness = Readiness()
    async with serving(answering(), readiness=readiness) as server:
        assert readiness.reasons() == ("dns: DNS lookup table is not ready yet",)
        assert not server.ready
        server.set_table(NameTable({}))
        await readiness.wait_ready()
        assert server.ready


async def test_a_condition_that_the_caller_registered_is_set_by_the_first_table() -> None:
    readiness = Readiness()
    async with serving(answering(), readiness=readiness.register("names")) as server:
        assert readiness.reasons() == ("names: DNS lookup table is not ready yet",)
        server.set_table(NameTable({}))
        await readiness.wait_ready()


async def test_a_table_is_replaced_as_a_whole_under_load() -> None:
    names = [f"n{number}.example." for number in range(20)]
    stop = False

    async def client(address: tuple[str, int]) -> int:
        asked = 0
        while not stop:
            answers = await asyncio.gather(*(ask(address, name) for name in names))
            for answer in answers:
                assert answer.rcode() == dns.rcode.NOERROR
                assert len(answer.answer[0]) == 2
                assert len({str(data).split(".")[1] for data in answer.answer[0]}) == 1
            asked += len(names)
        return asked

    def table(generation: int) -> dict[str, NameEntry]:
        entry = NameEntry((f"10.{generation}.0.1", f"10.{generation}.0.2"))
        return {f"n{number}.example": entry for number in range(1000)}

    async with running(answering(), table(0)) as (server, address):
        clients = [asyncio.create_task(client(address)) for _ in range(2)]
        for generation in range(1, 4):
            server.set_table(table(generation))
            await server.wait_table_in_use()
            answer = await ask(address, "n7.example.")
            assert first_address(answer).startswith(f"10.{generation}.")
        stop = True
        assert min(await asyncio.gather(*clients)) > 0


async def test_of_tables_that_come_fast_the_last_one_counts() -> None:
    async with running(answering(), ENTRIES) as (server, address):
        for number in range(2, 9):
            server.set_table({"known.example": NameEntry((f"10.0.0.{number}",))})
        await server.wait_table_in_use()
        assert first_address(await ask(address, "known.example.")) == "10.0.0.8"


async def test_queries_are_answered_while_a_table_is_compiled() -> None:
    compiled: list[int] = []

    class Slow:
        def items(self) -> Iterator[tuple[str, NameEntry]]:
            for number in itertools.count():
                if stop:
                    return
                compiled.append(number)
                yield f"n{number % 100}.example", NameEntry(("10.0.0.2",))

    stop = False
    async with running(answering(), ENTRIES) as (server, address):
        server.set_table(Slow())
        for _ in range(50):
            assert first_address(await ask(address, "known.example.")) == "10.0.0.1"
        assert compiled
        stop = True
        await server.wait_table_in_use()
        assert first_address(await ask(address, "n1.example.")) == "10.0.0.2"


@pytest.mark.parametrize("text", ["{", '{"table": {"a": {"ips": ["10.0.0.2"]}, "b": 1}}'])
async def test_a_table_that_cannot_be_read_leaves_the_one_before(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(answering(), ENTRIES) as (server, address):
        server.set_table(JsonNameTable(text))
        await server.wait_table_in_use()
        assert "name table is not used" in caplog.text
        assert first_address(await ask(address, "known.example.")) == "10.0.0.1"
        server.set_table({"known.example": NameEntry(("10.0.0.3",))})
        await server.wait_table_in_use()
        assert first_address(await ask(address, "known.example.")) == "10.0.0.3"


async def test_hosts_that_are_left_out_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with running(answering(), {"none.example": NameEntry(())}):
        assert "hosts of the name table are left out" in caplog.text


async def test_the_table_as_json_is_read_again() -> None:
    entries = {
        "web.ns.svc.cluster.local": NameEntry(("10.0.0.1", "::1"), "Kubernetes", "web", "ns"),
        **ENTRIES,
    }
    async with running(answering(), entries) as (server, _):
        shown = await server.table_json()
        found = json.loads(shown)["table"]
        assert found["web.ns.svc.cluster.local"] == {
            "ips": ["10.0.0.1", "::1"],
            "registry": "Kubernetes",
            "shortname": "web",
            "namespace": "ns",
            "alt_hosts": ["web.ns", "web.ns.svc"],
        }
        assert NameTable.from_json(shown.decode()).entries.keys() == entries.keys()
    async with running(answering()) as (server, _):
        assert json.loads(await server.table_json()) == {"table": {}}


async def test_metrics_have_istios_names_and_count_by_type() -> None:
    registry = CollectorRegistry()

    def good(packet: bytes, over: Over) -> list[tuple[float, bytes]]:
        del over
        return [(0, reply_to(packet, "10.0.0.9"))]

    async with (
        upstream(good) as up,
        running(answering(up.address), ENTRIES, registry=registry) as (_, address),
    ):
        for _ in range(3):
            await ask(address, "known.example.")
        await ask_tcp(address, "known.example.", "AAAA")
        for _ in range(2):
            await ask(address, "name.example.")
        text = generate_latest(registry).decode()
        for line in (
            "istio_agent_dns_requests_total 6.0",
            "istio_agent_dns_upstream_requests_total 1.0",
            "istio_agent_dns_upstream_failures_total 0.0",
            'istio_agent_dns_upstream_request_duration_seconds_bucket{le="+Inf"} 1.0',
            "istio_agent_dns_upstream_request_duration_seconds_count 1.0",
            'istio_agent_dns_table_hits_total{type="A"} 3.0',
            'istio_agent_dns_table_hits_total{type="AAAA"} 1.0',
            'istio_agent_dns_cache_hits_total{type="A"} 1.0',
            'istio_agent_dns_cache_misses_total{type="A"} 1.0',
            "istio_agent_dns_table_hosts 1.0",
            "istio_agent_dns_cache_entries 1.0",
        ):
            assert f"{line}\n" in text, line
        assert 'istio_agent_dns_upstream_request_duration_seconds_bucket{le="5.0"} ' in text
    assert generate_latest(registry) == b""


async def test_resolv_conf_is_followed_and_kept_while_it_is_missing_or_empty(
    tmp_path: Path,
) -> None:
    file = tmp_path / "resolv.conf"

    def named(name: str) -> Behaviour:
        return lambda packet, over: [(0, reply_to(packet, name))] if over == "udp" else []

    async with upstream(named("10.0.0.1")) as one, upstream(named("10.0.0.2")) as two:

        def write(up: FakeUpstream, search: str) -> None:
            beside = tmp_path / "beside"
            beside.write_text(f"nameserver {up.address}\nsearch {search}\n")
            beside.replace(file)

        write(one, "one.example")
        config = answering(resolv_conf=file, cache=None)._replace(upstreams=())
        entries = {"svc": NameEntry(("10.9.9.9",))}
        async with running(config, entries) as (server, address):
            assert first_address(await ask(address, "a.example.")) == "10.0.0.1"
            assert len((await ask(address, "svc.one.example.")).answer) == 2
            write(two, "two.example")
            await until(lambda: server.upstreams == (two.address,), what="the new server")
            assert first_address(await ask(address, "a.example.")) == "10.0.0.2"
            assert len((await ask(address, "svc.two.example.")).answer) == 2
            assert first_address(await ask(address, "svc.one.example.")) == "10.0.0.2"
            file.write_text("")
            file.unlink()
            write(one, "one.example")
            await until(lambda: server.upstreams == (one.address,), what="the first again")
            file.write_text("# nothing yet\n")
            await ask(address, "a.example.")
            assert server.upstreams == (one.address,)


@pytest.mark.parametrize("content", [None, "", "nameserver garbage\n", "\0\xff\n"])
async def test_without_a_usable_resolv_conf_the_mesh_is_answered_still(
    content: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "resolv.conf"
    if content is not None:
        file.write_text(content)
    async with running(answering(resolv_conf=file), ENTRIES) as (server, address):
        assert first_address(await ask(address, "known.example.")) == "10.0.0.1"
        assert [str(each) for each in server.upstreams] == ["127.0.0.1:53"]


async def test_with_only_ourselves_as_servers_unknown_names_are_servfail_at_once(
    tmp_path: Path, free_port: Callable[..., int]
) -> None:
    port = free_port()
    file = tmp_path / "resolv.conf"
    file.write_text(f"nameserver 127.0.0.1:{port}\nnameserver 0.0.0.0:{port}\n")
    config = answering(listen=(ListenAddress("127.0.0.1", port),), resolv_conf=file)
    async with running(config, ENTRIES) as (server, address):
        assert server.upstreams == ()
        assert (await ask(address, "a.example.")).rcode() == dns.rcode.SERVFAIL
        assert first_address(await ask(address, "known.example.")) == "10.0.0.1"
        assert server.counts.upstream_requests == 0


async def test_a_wildcard_address_answers_from_where_it_was_asked() -> None:
    config = answering(listen=(ListenAddress("0.0.0.0", 0),))  # noqa: S104
    async with running(config, ENTRIES) as (_, (_, port)):
        for host in ("127.0.0.1", "127.0.0.2"):
            for _ in range(2):
                assert first_address(await ask((host, port), "known.example.")) == "10.0.0.1"
            assert (await ask((host, port), "a.example.")).rcode() == dns.rcode.SERVFAIL


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(AddressInUse, match=f"port {port} of 127.0.0.1 is in use"):
                async with serving(answering(listen=(ListenAddress("127.0.0.1", port),))):
                    pass


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (DnsConfig(listen=()), "listen is empty"),
        (DnsConfig(domain="a..b"), "domain: 'a..b' has an empty label"),
        (DnsConfig(ttl_s=-1), "ttl_s of DnsConfig is -1"),
        (DnsConfig(max_udp_bytes=100), "max_udp_bytes is 100"),
        (DnsConfig(forward=ForwardConfig(rounds=0)), "forward.rounds is 0"),
        (DnsConfig(tcp=TcpConfig(max_pipelined=0)), "tcp.max_pipelined is 0"),
        (DnsConfig(listen=(ListenAddress("dns.example", 53),)), "is no address of a listener"),
    ],
)
async def test_a_setting_that_cannot_be_meant_is_an_error(config: DnsConfig, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        async with serving(config):
            pass


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:53", ("127.0.0.1", 53)),
        ("[::1]:15053", ("::1", 15053)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_addresses_to_listen_on_are_read(text: str, address: tuple[str, int]) -> None:
    assert ListenAddress.parse(text) == address


@pytest.mark.parametrize("text", ["", "53", ":53", "127.0.0.1", "127.0.0.1:65536", "::1:53", "a:b"])
def test_what_is_no_address_to_listen_on_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address to listen on"):
        ListenAddress.parse(text)


@given(st.lists(st.binary(max_size=200), max_size=20))
async def test_any_packets_leave_the_server_answering(packets: list[bytes]) -> None:
    loop = asyncio.get_running_loop()
    async with running(answering(), ENTRIES) as (server, address):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(address)
            for packet in packets:
                await loop.sock_sendall(sock, packet)
        assert first_address(await ask(address, "known.example.")) == "10.0.0.1"
        assert server.counts.internal_errors == 0


async def test_the_largest_packet_is_answered() -> None:
    query = dns.message.make_query("known.example.", "A", use_edns=-1).to_wire()
    async with running(answering(), ENTRIES) as (_, address):
        wire = await exchange(address, query + bytes(60_000))
        assert dns.message.from_wire(wire).rcode() == dns.rcode.FORMERR
