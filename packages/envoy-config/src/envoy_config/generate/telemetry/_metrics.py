"""Istio's metrics: access loggers that make statistics.

Envoy's names for them begin with `envoy_istio_`; the agent's page, and scrapers that are set to,
have them without `envoy_`.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache

from envoy.data.accesslog.v3 import accesslog_pb2 as log_data_pb2
from envoy.extensions.access_loggers.stats.v3 import stats_pb2

from envoy_config.generate._messages import (
    accesslog_pb2,
    packed,
    wrappers_pb2,
)
from envoy_config.generate.telemetry._metric_tags import (
    connection_tags,
    request_tags,
)
from envoy_config.plan.resolved._telemetry import Metric, SideTelemetry
from istio_config.kinds.telemetry import METRIC_NAMES, IstioMetric
from mesh_protos import envoy_fields_pb2

_Config = stats_pb2.Config
_Unit = _Config.Histogram.Unit
_Type = log_data_pb2.AccessLogType
_MOST_LOGGERS = 256
_STAT_PREFIX = "istio"
_MOST_COUNTERS = 20_000
_MOST_HISTOGRAMS = 30_000
"""Three times as many as there are counters of requests: both run out at once. A series takes about
2 KiB of Envoy's memory for a counter, and a histogram as much for each thread besides."""

_HISTOGRAMS = {
    IstioMetric.REQUEST_DURATION: ("%DURATION%", _Unit.Milliseconds),
    IstioMetric.REQUEST_SIZE: ("%DOWNSTREAM_WIRE_BYTES_RECEIVED%", _Unit.Bytes),
    IstioMetric.RESPONSE_SIZE: ("%DOWNSTREAM_WIRE_BYTES_SENT%", _Unit.Bytes),
}
"""The value of each, and its unit."""
_BYTES = {
    IstioMetric.TCP_SENT_BYTES: "%BYTES_SENT%",
    IstioMetric.TCP_RECEIVED_BYTES: "%BYTES_RECEIVED%",
}
_OF_REQUESTS = frozenset((IstioMetric.REQUEST_COUNT, *_HISTOGRAMS))
_OF_CONNECTIONS = frozenset(
    (IstioMetric.TCP_OPENED_CONNECTIONS, IstioMetric.TCP_CLOSED_CONNECTIONS, *_BYTES)
)


def request_metrics(side: SideTelemetry, *, inbound: bool) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers that count requests; inbound: those to the proxy's own workload."""
    wanted = tuple(each for each in side.metrics if each.kind in _OF_REQUESTS)
    if not wanted:
        return []
    return [_request_logger(wanted, inbound=inbound, bounded=side.bounds_metrics)]


def connection_metrics(side: SideTelemetry, *, inbound: bool) -> list[accesslog_pb2.AccessLog]:
    """Return the loggers that count connections that are not looked into, opened and closed."""
    metrics = side.metrics
    at_start = _when_opened(metrics, inbound=inbound)
    at_end = tuple(
        each for each in metrics if each.kind in _OF_CONNECTIONS and each not in at_start
    )
    return [
        _connection_logger(wanted, when, inbound=inbound, bounded=side.bounds_metrics)
        for wanted, when in (
            (at_start, _Type.TcpUpstreamConnected),
            (at_end, _Type.TcpConnectionEnd),
        )
        if wanted
    ]


def counts_opened(metrics: Iterable[Metric], *, inbound: bool) -> bool:
    """Return whether connections are logged when they are opened, too."""
    return bool(_when_opened(metrics, inbound=inbound))


def _when_opened(metrics: Iterable[Metric], *, inbound: bool) -> tuple[Metric, ...]:
    """Return the metrics of opened connections that are counted when these are opened.

    A server counts them when they end: Envoy connects to the application before the handshake with
    the caller is over, and so before it knows who calls.
    """
    if inbound:
        return ()
    return tuple(each for each in metrics if each.kind is IstioMetric.TCP_OPENED_CONNECTIONS)


def of_type(log_type: "_Type.ValueType") -> accesslog_pb2.AccessLogFilter:
    """Make the filter of one moment of connections."""
    return accesslog_pb2.AccessLogFilter(
        log_type_filter=accesslog_pb2.LogTypeFilter(types=[log_type])
    )


@lru_cache(maxsize=_MOST_LOGGERS)
def _request_logger(
    metrics: tuple[Metric, ...], *, inbound: bool, bounded: bool
) -> accesslog_pb2.AccessLog:
    return _logger(metrics, request_tags(inbound=inbound), bounded=bounded)


@lru_cache(maxsize=_MOST_LOGGERS)
def _connection_logger(
    metrics: tuple[Metric, ...], when: "_Type.ValueType", *, inbound: bool, bounded: bool
) -> accesslog_pb2.AccessLog:
    logger = _logger(metrics, connection_tags(inbound=inbound), bounded=bounded)
    logger.filter.CopyFrom(of_type(when))
    return logger


def _logger(
    metrics: tuple[Metric, ...], usual: Mapping[str, str], *, bounded: bool
) -> accesslog_pb2.AccessLog:
    config = _Config(stat_prefix="" if bounded else _STAT_PREFIX)
    for metric in metrics:
        stat = _Config.Stat(name=METRIC_NAMES[metric.kind], tags=_tags(metric, usual))
        if metric.kind in _HISTOGRAMS:
            value, unit = _HISTOGRAMS[metric.kind]
            config.histograms.append(_Config.Histogram(stat=stat, unit=unit, value_format=value))
        elif metric.kind in _BYTES:
            config.counters.append(_Config.Counter(stat=stat, value_format=_BYTES[metric.kind]))
        else:
            one = wrappers_pb2.UInt64Value(value=1)
            config.counters.append(_Config.Counter(stat=stat, value_fixed=one))
    typed = packed(config)
    if bounded:
        # A field that the message has not in Python; Envoy reads both parts as one message.
        typed.value += _scope()
    return accesslog_pb2.AccessLog(name="envoy.access_loggers.stats", typed_config=typed)


@cache
def _scope() -> bytes:
    """Return the field of the bounds, which all loggers of a proxy share."""
    scope = envoy_fields_pb2.Scope(
        max_counters=wrappers_pb2.UInt32Value(value=_MOST_COUNTERS),
        max_histograms=wrappers_pb2.UInt32Value(value=_MOST_HISTOGRAMS),
        enable_eviction=True,
        prefix=_STAT_PREFIX,
        sharing_name=_STAT_PREFIX,
    )
    field = envoy_fields_pb2.StatsLoggerScope(stats_scope=scope)
    return field.SerializeToString(deterministic=True)


def _tags(metric: Metric, usual: Mapping[str, str]) -> Iterator[stats_pb2.Config.Tag]:
    for name, value in {**usual, **dict(metric.changed_tags)}.items():
        if value:
            yield _Config.Tag(name=name, value_format=value)
