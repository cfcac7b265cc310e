"""How many connections and requests a client has open to a service, and for how long.

Sidecar has the same settings for what comes in. Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.checks import duration_mistakes
from istio_config.kinds.fields import SpecFields
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class TcpKeepalive(SpecFields, frozen=True):
    """The probes that keep an idle connection open, in whole seconds."""

    probes: Count | None = None
    time: Duration | None = None
    interval: Duration | None = None


class TcpSettings(SpecFields, frozen=True):
    """Limits of connections, whatever they carry."""

    max_connections: Count = 0
    connect_timeout: Duration | None = None
    tcp_keepalive: TcpKeepalive | None = None
    max_connection_duration: Duration | None = None
    idle_timeout: Duration | None = None


class H2UpgradePolicy(StrEnum):
    """Whether connections over which clients speak HTTP/1.1 become HTTP/2."""

    DEFAULT = "DEFAULT"
    DO_NOT_UPGRADE = "DO_NOT_UPGRADE"
    UPGRADE = "UPGRADE"


class Http2KeepAlive(SpecFields, frozen=True):
    """The pings that keep an HTTP/2 connection open."""

    interval: Duration | None = None
    timeout: Duration | None = None


class HttpSettings(SpecFields, frozen=True):
    """Limits of requests; 0 means none, as in Istio."""

    http1_max_pending_requests: Count = 0
    http2_max_requests: Count = 0
    max_requests_per_connection: Count = 0
    max_retries: Count = 0
    idle_timeout: Duration | None = None
    h2_upgrade_policy: H2UpgradePolicy = H2UpgradePolicy.DEFAULT
    use_client_protocol: bool = False
    max_concurrent_streams: Count = 0
    http2_keep_alive: Http2KeepAlive | None = None


class ConnectionPool(SpecFields, frozen=True):
    """Limits of connections and of requests."""

    tcp: TcpSettings | None = None
    http: HttpSettings | None = None


def connection_pool_mistakes(pool: ConnectionPool) -> Iterator[Finding]:
    """Yield what is wrong with a connection pool; paths start below it."""
    if pool.tcp is None and pool.http is None:
        yield (), "is empty; give tcp, http or both"
    if pool.tcp is not None:
        for path, message in _tcp_mistakes(pool.tcp):
            yield ("tcp", *path), message
    if pool.http is not None:
        for path, message in _http_mistakes(pool.http):
            yield ("http", *path), message


def _tcp_mistakes(tcp: TcpSettings) -> Iterator[Finding]:
    yield from duration_mistakes(("connectTimeout",), tcp.connect_timeout)
    yield from duration_mistakes(("maxConnectionDuration",), tcp.max_connection_duration)
    yield from duration_mistakes(("idleTimeout",), tcp.idle_timeout, may_be_zero=True)
    if tcp.tcp_keepalive is not None:
        for name, value in (
            ("time", tcp.tcp_keepalive.time),
            ("interval", tcp.tcp_keepalive.interval),
        ):
            if value is not None and (value < 1 or not value.is_integer()):
                # Envoy's TcpKeepalive counts them in seconds.
                yield ("tcpKeepalive", name), "must be whole seconds, and one at least"


def _http_mistakes(http: HttpSettings) -> Iterator[Finding]:
    yield from duration_mistakes(("idleTimeout",), http.idle_timeout, may_be_zero=True)
    if http.use_client_protocol and http.h2_upgrade_policy is H2UpgradePolicy.UPGRADE:
        yield (
            ("useClientProtocol",),
            "can't stand beside h2UpgradePolicy UPGRADE: keep one of the two",
        )
    keepalive = http.http2_keep_alive
    if keepalive is not None:
        for name, value in (("interval", keepalive.interval), ("timeout", keepalive.timeout)):
            if value is None:
                yield ("http2KeepAlive",), f"the field {name} is missing"
            yield from duration_mistakes(("http2KeepAlive", name), value)
