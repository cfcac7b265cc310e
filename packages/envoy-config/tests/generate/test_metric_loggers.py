"""The loggers that make Istio's metrics: what they bound, and the tags that dashboards ask for."""

from envoy.extensions.access_loggers.stats.v3 import stats_pb2

from envoy_config.generate.telemetry._metrics import connection_metrics, request_metrics
from envoy_config.plan.resolved._telemetry import Metric, SideTelemetry
from istio_config.kinds.telemetry import PROXY_METRICS
from mesh_protos.envoy_fields_pb2 import StatsLoggerScope

ALL = tuple(map(Metric, PROXY_METRICS))


def configs(*, inbound: bool, bounds_metrics: bool = False) -> list[stats_pb2.Config]:
    side = SideTelemetry(metrics=ALL, bounds_metrics=bounds_metrics)
    loggers = (*request_metrics(side, inbound=inbound), *connection_metrics(side, inbound=inbound))
    return [stats_pb2.Config.FromString(each.typed_config.value) for each in loggers]


def tags_by_metric(*, inbound: bool) -> dict[str, set[str]]:
    """Return the tags of each metric, by Istio's names."""
    found = configs(inbound=inbound)
    counters = [each.stat for config in found for each in config.counters]
    histograms = [each.stat for config in found for each in config.histograms]
    return {f"istio_{each.name}": {tag.name for tag in each.tags} for each in counters + histograms}


def test_an_envoy_that_can_is_told_how_many_series_there_may_be() -> None:
    side = SideTelemetry(metrics=ALL, bounds_metrics=True)
    for inbound in (False, True):
        for logger in (
            *request_metrics(side, inbound=inbound),
            *connection_metrics(side, inbound=inbound),
        ):
            scope = StatsLoggerScope.FromString(logger.typed_config.value).stats_scope
            # One name, so that all loggers of a proxy have one bound.
            assert (scope.prefix, scope.sharing_name) == ("istio", "istio")
            assert 0 < scope.max_counters.value <= 20_000
            assert 0 < scope.max_histograms.value <= 30_000
        assert {each.stat_prefix for each in configs(inbound=inbound)} == {"istio"}


EVERY_TAG = frozenset(
    f"{side}_{part}"
    for side in ("source", "destination")
    for part in (
        *("workload", "workload_namespace", "principal", "app", "version", "cluster"),
        *("canonical_service", "canonical_revision"),
    )
) | {
    "reporter",
    "destination_service",
    "destination_service_name",
    "destination_service_namespace",
    "request_protocol",
    "response_flags",
    "connection_security_policy",
}
OF_REQUESTS = {"response_code", "grpc_response_status"}

BY_SIDES = (
    "reporter destination_service destination_workload destination_workload_namespace"
    " source_workload source_workload_namespace connection_security_policy"
)
DASHBOARDS = {
    "istio_requests_total": (
        f"{BY_SIDES} response_code destination_principal destination_cluster source_cluster"
    ),
    "istio_request_duration_milliseconds": BY_SIDES,
    "istio_request_bytes": BY_SIDES,
    "istio_response_bytes": BY_SIDES,
    "istio_tcp_sent_bytes_total": f"{BY_SIDES} destination_cluster source_cluster",
    "istio_tcp_received_bytes_total": BY_SIDES,
    "istio_tcp_connections_opened_total": "",
    "istio_tcp_connections_closed_total": "",
}
"""The tags that the queries of Istio's dashboards have, of release 1.32; those of scraping (`pod`,
`app`) aside."""

BY_EDGE = (
    "reporter source_cluster source_workload_namespace source_workload source_canonical_service"
    " source_canonical_revision destination_cluster destination_service_namespace"
    " destination_service destination_service_name destination_workload_namespace"
    " destination_workload destination_canonical_service destination_canonical_revision"
    " response_flags connection_security_policy source_principal destination_principal"
)
KIALI = {
    "istio_requests_total": f"{BY_EDGE} request_protocol response_code grpc_response_status",
    "istio_request_duration_milliseconds": BY_EDGE,
    "istio_tcp_sent_bytes_total": BY_EDGE,
}
"""The tags by which Kiali draws its graph."""


def test_metrics_have_each_of_istios_tags_and_no_other() -> None:
    for inbound in (False, True):
        found = tags_by_metric(inbound=inbound)
        assert len(found) == len(PROXY_METRICS)
        for name, tags in found.items():
            is_tcp = name.startswith("istio_tcp_")
            assert tags == (EVERY_TAG if is_tcp else EVERY_TAG | OF_REQUESTS)


def test_what_dashboards_and_kiali_ask_for_is_there() -> None:
    for queries in (DASHBOARDS, KIALI):
        for inbound in (False, True):
            found = tags_by_metric(inbound=inbound)
            for name, tags in queries.items():
                assert set(tags.split()) <= found[name]
