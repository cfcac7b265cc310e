"""Mistakes and warnings of connection pools and of outlier detection."""

from collections.abc import Iterator

from istio_config.kinds.destination_rule._connection_pool import (
    ConnectionPool,
    H2UpgradePolicy,
    HttpSettings,
    TcpSettings,
)
from istio_config.kinds.destination_rule._durations import duration_mistakes
from istio_config.kinds.destination_rule._outlier_detection import OutlierDetection
from mesh_configfile.shapes import Finding


def pool_mistakes(pool: ConnectionPool) -> Iterator[Finding]:
    """Yield what is wrong with a connection pool; paths start below it."""
    if pool.tcp is None and pool.http is None:
        yield (), "is empty; give tcp, http or both"
    if pool.tcp is not None:
        for path, message in _tcp(pool.tcp):
            yield ("tcp", *path), message
    if pool.http is not None:
        for path, message in _http(pool.http):
            yield ("http", *path), message


def _tcp(tcp: TcpSettings) -> Iterator[Finding]:
    yield from duration_mistakes(("connectTimeout",), tcp.connect_timeout)
    yield from duration_mistakes(("maxConnectionDuration",), tcp.max_connection_duration)
    yield from duration_mistakes(("idleTimeout",), tcp.idle_timeout, may_be_zero=True)
    if tcp.tcp_keepalive is not None:
        for name, value in (
            ("time", tcp.tcp_keepalive.time),
            ("interval", tcp.tcp_keepalive.interval),
        ):
            if value is not None and (value < 1 or not value.is_integer()):
                yield ("tcpKeepalive", name), "must be whole seconds, and one at least"


def _http(http: HttpSettings) -> Iterator[Finding]:
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


def outlier_mistakes(outlier: OutlierDetection) -> Iterator[Finding]:
    """Yield what is wrong with outlier detection; paths start below it."""
    yield from duration_mistakes(("interval",), outlier.interval)
    yield from duration_mistakes(("baseEjectionTime",), outlier.base_ejection_time)
    if outlier.consecutive_local_origin_failures and not outlier.split_external_local_origin_errors:
        yield (
            ("consecutiveLocalOriginFailures",),
            "needs splitExternalLocalOriginErrors: true beside it",
        )


def outlier_warnings(outlier: OutlierDetection) -> Iterator[Finding]:
    """Yield the settings of outlier detection that are not what they seem."""
    if outlier.consecutive_errors:
        yield (
            ("consecutiveErrors",),
            "is deprecated and has no effect; use consecutive5xxErrors or consecutiveGatewayErrors",
        )
