"""Names of the mesh: how they are set up, how tables come in, and that they stay."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import dns.asyncquery
import dns.message
import dns.rcode
import pytest
from envoy.service.discovery.v3.discovery_pb2 import (
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
)

import xds_proxy
from envoy_supervisor import BootstrapConfig
from mesh_agent import AgentConfig, ConfigError
from mesh_agent._errors import ListenError
from mesh_agent.dns._dns_config import NamesConfig
from mesh_agent.dns._dns_server import answering_names, dns_config, dns_server
from mesh_agent.dns._name_table_updates import NameTableUpdates
from mesh_agent.status._agent_endpoints import name_table
from mesh_agent.status._description import describe_dns
from mesh_agent.status._dns_metrics import dns_metrics
from mesh_dnsproxy import DnsServer
from mesh_lifecycle import Readiness
from mesh_protos import type_urls
from mesh_protos.nds_pb2 import NameTable
from mesh_status_server import render
from mesh_testkit import until
from xds_proxy.testing import ControlPlaneStream, control_plane, envoy_stream

Load = Callable[..., AgentConfig]
WEB = "web.shop.svc.cluster.local"
CAPTURE = {"ISTIO_META_DNS_CAPTURE": "true"}


def test_names_are_not_answered_unless_asked_for(load: Load) -> None:
    assert load().names is None
    assert load({"ISTIO_META_DNS_CAPTURE": "false"}).names is None
    assert load(CAPTURE, role="router").names is None


def test_with_dns_capture_names_are_answered_where_istios_agent_does(load: Load) -> None:
    assert load(CAPTURE).names == NamesConfig("localhost", 15053, "svc.cluster.local", "shop")
    names = load({"ISTIO_META_ENABLE_DNS_SERVER": "true"}, role="router").names
    assert names == NamesConfig("localhost", 15053, "svc.cluster.local", "shop")


def test_proxy_metadata_counts_where_no_variable_is_set(load: Load) -> None:
    config = (
        '{"discoveryAddress": "127.0.0.1:15012", '
        '"proxyMetadata": {"ISTIO_META_DNS_CAPTURE": "true"}}'
    )
    assert load({"PROXY_CONFIG": config}).names is not None
    assert load({"PROXY_CONFIG": config, "ISTIO_META_DNS_CAPTURE": "false"}).names is None


def test_the_address_and_the_way_of_forwarding_are_set_as_in_istio(load: Load) -> None:
    more = {"DNS_PROXY_ADDR": "[::1]:53", "DNS_FORWARD_PARALLEL": "true"}

    names = load({**CAPTURE, **more}, domain="shop.svc.mesh.example").names

    assert names == NamesConfig("::1", 53, "svc.mesh.example", "shop", parallel=True)
    config = dns_config(names)
    assert config.forward_before_table
    assert config.forward.parallel
    assert not dns_config(names._replace(port=15053)).forward_before_table


def test_an_address_without_a_host_is_every_interface_as_in_istio(load: Load) -> None:
    names = load({**CAPTURE, "DNS_PROXY_ADDR": ":15053"}).names
    assert names is not None
    hosts = [ip_address(each.host) for each in dns_config(names).listen]
    assert hosts[0].version == 4
    assert all(each.is_unspecified for each in hosts)


@pytest.mark.parametrize(
    ("variable", "text", "problem"),
    [
        ("DNS_PROXY_ADDR", "53", "DNS_PROXY_ADDR is '53', it must be an IP address"),
        ("DNS_PROXY_ADDR", "::1:53", "DNS_PROXY_ADDR is '::1:53', it must be an IP address"),
        ("DNS_PROXY_ADDR", "dns.test:53", "DNS_PROXY_ADDR is 'dns.test:53', it must be"),
        ("DNS_PROXY_ADDR", "127.0.0.1:0", "DNS_PROXY_ADDR is '127.0.0.1:0', it must be"),
        ("DNS_FORWARD_PARALLEL", "perhaps", "DNS_FORWARD_PARALLEL is 'perhaps', it must be true"),
        ("ISTIO_META_DNS_CAPTURE", "2", "ISTIO_META_DNS_CAPTURE is '2', it must be true or false"),
        ("ISTIO_META_DNS_AUTO_ALLOCATE", "2", "ISTIO_META_DNS_AUTO_ALLOCATE is '2', it must be"),
    ],
)
def test_a_wrong_setting_is_reported_in_a_sentence(
    load: Load, variable: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load({variable: text})
    (said,) = refused.value.problems
    assert said.startswith(problem)


def test_the_control_plane_hears_of_it(load: Load) -> None:
    bootstrap = load(CAPTURE).envoy.bootstrap
    assert isinstance(bootstrap, BootstrapConfig)
    assert bootstrap.node_metadata["DNS_CAPTURE"] == "true"


def table_of(hosts: Mapping[str, str]) -> NameTable:
    info = {
        host: NameTable.NameInfo(
            ips=[ip], registry="Kubernetes", shortname=host.partition(".")[0], namespace="shop"
        )
        for host, ip in hosts.items()
    }
    return NameTable(table=info)


def response(hosts: Mapping[str, str], *, version: str = "1", nonce: str = "n") -> bytes:
    message = DiscoveryResponse(type_url=type_urls.NAME_TABLE, version_info=version, nonce=nonce)
    message.resources.add(type_url=type_urls.NAME_TABLE, value=table_of(hosts).SerializeToString())
    return bytes(message.SerializeToString())


def delta_response(hosts: Mapping[str, str], *, nonce: str = "n") -> bytes:
    message = DeltaDiscoveryResponse(type_url=type_urls.NAME_TABLE, nonce=nonce)
    resource = message.resources.add(name="default", version="1").resource
    resource.type_url, resource.value = type_urls.NAME_TABLE, table_of(hosts).SerializeToString()
    return bytes(message.SerializeToString())


async def ask(server: DnsServer, name: str, kind: str = "A") -> tuple[int, set[str]]:
    """Ask over UDP; the code of the answer and its addresses."""
    query = dns.message.make_query(name, kind)
    host, port = server.addresses[0]
    answer = await dns.asyncquery.udp(query, host, port=port, timeout=60)
    return answer.rcode(), {item.to_text() for each in answer.answer for item in each}


@pytest.fixture
async def names(free_port: Callable[..., int]) -> AsyncIterator[tuple[DnsServer, Readiness]]:
    readiness = Readiness()
    config = NamesConfig("127.0.0.1", free_port("127.0.0.1"), "svc.cluster.local", "shop")
    async with answering_names(config, readiness) as server:
        yield server, readiness


async def test_before_the_first_table_it_is_not_ready_and_answers_servfail(
    names: tuple[DnsServer, Readiness],
) -> None:
    server, readiness = names
    assert (await ask(server, WEB))[0] == dns.rcode.SERVFAIL
    assert readiness.reasons() == ("dns: DNS lookup table is not ready yet",)

    NameTableUpdates(server).apply(response({WEB: "127.0.9.3"}))
    await server.wait_table_in_use()

    assert readiness.ready
    for name in (WEB, "web", "web.shop", "web.shop.svc", "WEB.shop"):
        assert await ask(server, name) == (dns.rcode.NOERROR, {"127.0.9.3"}), name
    assert await ask(server, WEB, "AAAA") == (dns.rcode.NOERROR, set())


async def test_an_empty_table_is_a_table(names: tuple[DnsServer, Readiness]) -> None:
    server, readiness = names
    NameTableUpdates(server).apply(response({}))
    await server.wait_table_in_use()
    assert readiness.ready


async def test_what_is_no_name_table_is_refused_and_the_one_before_stays(
    names: tuple[DnsServer, Readiness],
) -> None:
    server, _ = names
    updates = NameTableUpdates(server)
    updates.apply(response({WEB: "127.0.9.3"}))
    broken = DiscoveryResponse(type_url=type_urls.NAME_TABLE)
    broken.resources.add(type_url=type_urls.NAME_TABLE, value=b"\xff\xff")

    with pytest.raises(xds_proxy.InterceptorRefused, match="no name table"):
        updates.apply(broken.SerializeToString())

    await server.wait_table_in_use()
    assert await ask(server, WEB) == (dns.rcode.NOERROR, {"127.0.9.3"})


async def test_an_address_that_is_taken_is_reported_with_its_setting(
    names: tuple[DnsServer, Readiness],
) -> None:
    server, _ = names
    host, port = server.addresses[0]
    config = NamesConfig(host, port, "svc.cluster.local", "shop")
    with pytest.raises(ListenError, match=f"port {port} of {host} is in use.*DNS_PROXY_ADDR"):
        async with answering_names(config, Readiness()):
            raise AssertionError


async def test_what_is_shown_of_names_and_what_is_counted(
    load: Load, free_port: Callable[..., int]
) -> None:
    address = f"127.0.0.1:{free_port('127.0.0.1')}"
    config = load({**CAPTURE, "DNS_PROXY_ADDR": address})
    async with dns_server(config.names, Readiness()) as server:
        assert server is not None
        NameTableUpdates(server).apply(response({WEB: "127.0.9.3"}))
        await server.wait_table_in_use()
        await ask(server, WEB)

        table = await name_table(server)
        shown = describe_dns(server)
        text = render(dns_metrics(server.counts)).decode()

    assert table is not None
    assert b'"ips": ["127.0.9.3"]' in table
    assert b'"web.shop.svc"' in table
    assert (shown["addresses"], shown["table"]) == ([address], True)
    assert "istio_agent_dns_requests_total 1\n" in text
    assert 'istio_agent_dns_table_hits_total{type="A"} 1\n' in text
    name = "istio_agent_dns_upstream_request_duration_seconds"
    assert f"# TYPE {name} histogram\n" in text
    assert f'{name}_bucket{{le="+Inf"}} 0\n{name}_sum 0.0\n{name}_count 0\n' in text


Request = type[DeltaDiscoveryRequest] | type[DiscoveryRequest]


@asynccontextmanager
async def subscribed(
    socket_dir: Path, server: DnsServer, *, delta: bool
) -> AsyncIterator[tuple[ControlPlaneStream, Request]]:
    """An Envoy that has asked for listeners, through a relay; yields the control plane's end."""
    method = "DeltaAggregatedResources" if delta else "StreamAggregatedResources"
    request: Request = DeltaDiscoveryRequest if delta else DiscoveryRequest
    async with control_plane() as plane:
        upstream = xds_proxy.UpstreamConfig(address=plane.address, root_certificate=None)
        config = xds_proxy.RelayConfig(socket_path=socket_dir / "XDS", upstream=upstream)
        async with (
            xds_proxy.relaying(config, (NameTableUpdates(server),)),
            envoy_stream(config.socket_path, method=method) as envoy,
        ):
            await envoy.send(request(type_url=type_urls.LISTENER).SerializeToString())
            stream = await plane.accept()
            for wanted in (type_urls.LISTENER, type_urls.NAME_TABLE):
                received = await stream.receive()
                assert received is not None
                assert request.FromString(received).type_url == wanted
            yield stream, request


@pytest.mark.parametrize("delta", [False, True])
async def test_tables_are_asked_for_after_listeners_and_outlive_the_control_plane_and_envoy(
    names: tuple[DnsServer, Readiness], socket_dir: Path, *, delta: bool
) -> None:
    server, readiness = names
    make = delta_response if delta else response
    async with subscribed(socket_dir, server, delta=delta) as (stream, request):
        empty = DeltaDiscoveryResponse if delta else DiscoveryResponse
        await stream.send(empty(type_url=type_urls.NAME_TABLE, nonce="empty").SerializeToString())
        assert request.FromString(await stream.receive() or b"").response_nonce == "empty"
        assert not readiness.ready

        await stream.send(make({WEB: "127.0.9.3"}, nonce="full"))
        acked = request.FromString(await stream.receive() or b"")
        assert acked.response_nonce == "full"
        assert not acked.HasField("error_detail")
        await until(lambda: readiness.ready, what="the table")
        stream.end()

    assert await ask(server, "web") == (dns.rcode.NOERROR, {"127.0.9.3"})
