"""Names of the mesh, answered to the workload: settings, the tables that come with configuration,
and what is counted.

Only an agent that answers names loads this module, and the DNS server with it. Names of settings
are Istio's.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError

import mesh_dnsproxy
import xds_proxy
from mesh_agent._exposition import Family, Kind, Sample, counter
from mesh_agent._http import ListenError
from mesh_agent._names_config import NamesConfig
from mesh_dnsproxy import ByType, Counts, DnsServer, NameEntry
from mesh_lifecycle import Readiness
from mesh_protos import type_urls
from mesh_protos.nds_pb2 import NameTable

_DNS_PORT = 53
_RESOLV_CONF = Path("/etc/resolv.conf")
_RESOLV_CONF_OF_BEFORE = Path("/var/lib/istio/resolv.conf")
"""Where Istio's scripts put it on a machine whose own then names the agent."""


def dns_config(config: NamesConfig) -> mesh_dnsproxy.DnsConfig:
    """Make the DNS server's settings; on port 53 it is all that the machine asks, as in Istio."""
    for_the_machine = config.port == _DNS_PORT
    resolv_conf = _RESOLV_CONF
    if for_the_machine and os.geteuid() == 0 and _RESOLV_CONF_OF_BEFORE.exists():
        resolv_conf = _RESOLV_CONF_OF_BEFORE
    return mesh_dnsproxy.DnsConfig(
        listen=tuple(
            mesh_dnsproxy.ListenAddress(host, config.port)
            for host in ((config.host,) if config.host else _every_interface())
        ),
        domain=config.domain,
        namespace=config.namespace,
        resolv_conf=resolv_conf,
        forward_before_table=for_the_machine,
        forward=mesh_dnsproxy.ForwardConfig(parallel=config.parallel),
    )


def _every_interface() -> tuple[str, ...]:
    """The wildcard addresses of the families that this machine has."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return ("0.0.0.0",)  # noqa: S104 - what the user asked for
    return ("0.0.0.0", "::")  # noqa: S104


@asynccontextmanager
async def answering_names(config: NamesConfig, readiness: Readiness) -> AsyncIterator[DnsServer]:
    """Answer DNS for as long as the block runs; ready is when there has been a table.

    Raises `ListenError`.
    """
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(
                mesh_dnsproxy.serving(dns_config(config), readiness=readiness)
            )
        except mesh_dnsproxy.DnsProxyError as error:
            raise ListenError(
                f"can't answer DNS: {error}; free it, or set DNS_PROXY_ADDR to another address"
            ) from error
        yield server


class NameTableUpdates:
    """The name table that the control plane sends, given to the DNS server."""

    type_url = type_urls.NAME_TABLE

    def __init__(self, server: DnsServer) -> None:
        self._server = server

    def take(self, response: bytes) -> None:
        """Answer from it; raises `InterceptorRefused` for what is no name table."""
        try:
            tables = tuple(
                NameTable.FromString(body) for body in xds_proxy.resource_bodies(response)
            )
        except DecodeError as error:
            raise xds_proxy.InterceptorRefused(f"no name table: {error}") from error
        self._server.set_table(_Tables(tables))


class _Tables(NamedTuple):
    """Tables as they came, read while they are compiled; of one host the last counts."""

    tables: tuple[NameTable, ...]

    def items(self) -> Iterator[tuple[str, NameEntry]]:
        for table in self.tables:
            for host, info in table.table.items():
                entry = NameEntry(
                    addresses=tuple(info.ips),
                    registry=info.registry,
                    short_name=info.shortname,
                    namespace=info.namespace,
                    alternate_hosts=tuple(info.alt_hosts),
                )
                yield host, entry


_TEXTS = {
    ByType.TABLE_HITS: "Queries answered from the name table, by type.",
    ByType.CACHE_HITS: "Queries answered with what an upstream said before, by type.",
    ByType.CACHE_MISSES: "Queries for which an upstream was asked, by type.",
    ByType.STALE: "Queries answered with what has expired, as no upstream answered, by type.",
    ByType.COALESCED: "Queries that waited for another's answer, by type.",
}
_PREFIX = "istio_agent_dns_"


def dns_families(counts: Counts) -> Iterator[Family]:
    """Everything the DNS server has counted."""
    yield counter(f"{_PREFIX}requests_total", "DNS queries.", counts.requests)
    yield counter(
        f"{_PREFIX}upstream_requests_total", "Questions put to upstreams.", counts.upstream_requests
    )
    yield counter(
        f"{_PREFIX}upstream_failures_total",
        "Questions that no upstream answered.",
        counts.upstream_failures,
    )
    yield _durations(counts)
    for kind in ByType:
        yield _labelled(f"{_PREFIX}{kind}_total", _TEXTS[kind], "type", counts.by_type(kind))
    errors = {str(code): number for code, number in sorted(counts.error_answers.items())}
    yield _labelled(
        f"{_PREFIX}error_answers_total", "Errors that are our own, by code.", "rcode", errors
    )
    dropped = {str(reason): number for reason, number in counts.dropped.items()}
    yield _labelled(f"{_PREFIX}dropped_total", "Packets that were not answered.", "reason", dropped)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Family:
    samples = tuple(Sample(value=number, labels={label: each}) for each, number in values.items())
    return Family(name=name, kind=Kind.COUNTER, text=text, samples=samples)


def _durations(counts: Counts) -> Family:
    bounds = [*(str(bound) for bound in mesh_dnsproxy.DURATION_BUCKETS_S), "+Inf"]
    total, samples = 0, []
    for bound, number in zip(bounds, counts.duration_buckets, strict=True):
        total += number
        samples.append(Sample(value=total, labels={"le": bound}, suffix="_bucket"))
    samples.append(Sample(value=counts.duration_sum_s, suffix="_sum"))
    samples.append(Sample(value=total, suffix="_count"))
    return Family(
        name=f"{_PREFIX}upstream_request_duration_seconds",
        kind=Kind.HISTOGRAM,
        text="Seconds from a question to its upstream's answer.",
        samples=tuple(samples),
    )
