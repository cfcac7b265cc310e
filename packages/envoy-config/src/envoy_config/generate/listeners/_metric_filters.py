"""The filters that find out what tags of metrics are built from, for the loggers that count."""

from collections.abc import Iterable
from functools import cache

from envoy.config.core.v3 import substitution_format_string_pb2
from envoy.extensions.filters.common.set_filter_state.v3 import value_pb2
from envoy.extensions.filters.http.set_filter_state.v3 import set_filter_state_pb2 as by_request_pb2
from envoy.extensions.filters.network.set_filter_state.v3 import (
    set_filter_state_pb2 as by_connection_pb2,
)

from envoy_config.generate._filters import HttpFilter, http_filter, network_filter
from envoy_config.generate._messages import (
    base_pb2,
    http_connection_manager_pb2,
    listener_components_pb2,
    listener_pb2,
)
from envoy_config.generate.telemetry._metric_tags import (
    values_of_connection,
    values_of_handshake,
    values_of_request,
)
from envoy_config.plan._proxy_settings import ProxySettings
from envoy_config.plan.telemetry._telemetry import side_of
from istio_config.kinds.mesh_config import MeshConfigSpec
from mesh_protos import envoy_fields_pb2

_NAME = "mesh.metrics"


def find_own_workload(
    listener: listener_pb2.Listener, mesh: MeshConfigSpec, proxy: ProxySettings, *, inbound: bool
) -> None:
    """Have the connections of a listener know the proxy's workload, if they are counted.

    Those to the workload know their callers, too.
    """
    if not side_of(proxy, mesh, inbound=inbound).metrics:
        return
    chains = list(listener.filter_chains)
    if listener.HasField("default_filter_chain"):
        chains.append(listener.default_filter_chain)
    for chain in chains:
        filters = list(chain.filters)
        del chain.filters[:]
        chain.filters.extend((_by_connection(inbound=inbound), *filters))


def find_protocol(manager: http_connection_manager_pb2.HttpConnectionManager) -> None:
    """Have requests know what they are."""
    filters = list(manager.http_filters)
    del manager.http_filters[:]
    # First, so that requests that another filter answers are counted with all their tags.
    manager.http_filters.extend((_by_request(), *filters))


@cache
def _by_connection(*, inbound: bool) -> listener_components_pb2.Filter:
    values = _values(values_of_connection())
    found = network_filter(_NAME, by_connection_pb2.Config(on_new_connection=values))
    if inbound:
        found.typed_config.value += envoy_fields_pb2.FilterStateAfterHandshake(
            on_downstream_tls_handshake=[
                each.SerializeToString(deterministic=True)
                for each in _values(values_of_handshake())
            ]
        ).SerializeToString(deterministic=True)
    return found


@cache
def _by_request() -> HttpFilter:
    values = _values(values_of_request())
    return http_filter(_NAME, by_request_pb2.Config(on_request_headers=values))


def _values(found: Iterable[tuple[str, str]]) -> list[value_pb2.FilterStateValue]:
    return [
        value_pb2.FilterStateValue(
            object_key=key,
            factory_key="envoy.string",
            format_string=substitution_format_string_pb2.SubstitutionFormatString(
                text_format_source=base_pb2.DataSource(inline_string=text)
            ),
        )
        for key, text in found
    ]
