"""The metrics of the configuration stream: control planes, NACKs, staleness, adaptation."""

from collections.abc import Iterator

import xds_proxy
from mesh_agent.envoy._adaptation import EnvoyAdapter
from mesh_status_server import Kind, Metric, Sample, counter, gauge


def relay_metrics(status: xds_proxy.RelayStatus, totals: xds_proxy.Counters) -> Iterator[Metric]:
    """The metrics of the configuration stream."""
    yield gauge(
        "mesh_agent_xds_connected", "1 if the control plane answers.", float(status.connected)
    )
    tried = [each for each in status.control_planes if each.healthy is not None]
    if tried:
        yield Metric(
            name="mesh_agent_xds_control_plane_healthy",
            kind=Kind.GAUGE,
            text="1 if the control plane at the address works, 0 if it fails; none if not tried.",
            samples=tuple(
                Sample(value=float(each.healthy is True), labels={"address": each.address})
                for each in tried
            ),
        )
    yield gauge("mesh_agent_xds_streams", "Envoy's streams; two in a hot restart.", status.streams)
    yield gauge(
        "mesh_agent_xds_types_refused",
        "Resource types whose newest version was refused.",
        sum(known.nack is not None for known in status.types.values()),
    )
    yield gauge(
        "mesh_agent_xds_resources_refused",
        "Resources whose newest version was refused, and refusals that name no resource.",
        sum(len(known.refused) for known in status.types.values()),
    )
    yield gauge(
        "mesh_agent_xds_resources_quarantined",
        "Refused resources that an Envoy without an older version of them does not get.",
        len(status.quarantined),
    )
    yield counter(
        "mesh_agent_xds_last_good_given_total",
        "Refused resources in whose place an Envoy got the last good version.",
        totals.last_good_given,
    )
    yield gauge(
        "mesh_agent_xds_stale_types",
        "Resource types of which Envoy has saved configuration, as no control plane answered.",
        len(status.stale_types),
    )
    yield counter(
        "mesh_agent_xds_stale_starts_total",
        "Envoys that were given saved configuration.",
        totals.stale_starts,
    )
    if status.saved is not None:
        yield gauge(
            "mesh_agent_xds_saved_bytes",
            "Size of the saved configuration.",
            sum(each.bytes for each in status.saved.types.values()),
        )
        if status.saved.current_at is not None:
            yield gauge(
                "mesh_agent_xds_saved_timestamp_seconds",
                "Until when the saved configuration is known to have been the newest.",
                status.saved.current_at.timestamp(),
            )
    yield counter(
        "istio_agent_xds_proxy_requests", "Requests to the control plane.", totals.requests
    )
    yield counter(
        "istio_agent_xds_proxy_responses", "Responses of the control plane.", totals.responses
    )
    yield counter(
        "mesh_agent_xds_responses_refused_total", "Responses that were NACKed.", totals.refused
    )
    yield Metric(
        name="mesh_agent_xds_not_reading_total",
        kind=Kind.COUNTER,
        text="Streams ended because one side did not take what it was sent, by that side.",
        samples=(
            Sample(value=totals.envoy_not_reading, labels={"side": "envoy"}),
            Sample(value=totals.control_plane_not_reading, labels={"side": "control_plane"}),
        ),
    )
    yield counter(
        "mesh_agent_xds_streams_crowded_out_total",
        "Streams of Envoy's ended because there were too many at once.",
        totals.crowded_out,
    )
    yield counter(
        "mesh_agent_xds_responses_beyond_limit_total",
        "Responses that ended a stream because they were larger than the relay takes.",
        totals.beyond_limit,
    )
    yield counter(
        "mesh_agent_xds_passed_calls_total",
        "Calls of other services, such as load reports, that passed to the control plane.",
        totals.passed_calls,
    )
    yield counter(
        "mesh_agent_xds_responses_dropped_total",
        "Responses of a type that neither Envoy nor the agent knows.",
        totals.dropped,
    )
    yield counter(
        "istio_agent_istiod_connection_failures",
        "Streams that ended before the control plane's first answer.",
        totals.connection_failures,
    )
    yield Metric(
        name="istio_agent_istiod_connection_terminations",
        kind=Kind.COUNTER,
        text="Streams that the control plane ended.",
        samples=(
            Sample(value=totals.control_plane_ended, labels={"type": "cancelled"}),
            Sample(value=totals.control_plane_failed, labels={"type": "error"}),
        ),
    )
    yield counter(
        "istio_agent_envoy_connection_terminations",
        "Streams that Envoy ended.",
        totals.envoy_ended,
        {"type": "cancelled"},
    )


def adaptation_metric(adapter: EnvoyAdapter) -> Metric:
    """The metric of what was adapted because Envoy lacks an extension."""
    return Metric(
        name="mesh_agent_xds_adaptations_total",
        kind=Kind.COUNTER,
        text="Places in resources that were adapted, as Envoy lacks an extension of Istio's.",
        samples=tuple(
            Sample(
                value=each.times, labels={"extension": each.extension, "action": str(each.action)}
            )
            for each in adapter.adaptations
        ),
    )
