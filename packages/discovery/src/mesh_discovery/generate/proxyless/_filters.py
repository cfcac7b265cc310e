"""The HTTP filters of gRPC's listeners: gRPC refuses a listener whose last one is no router."""

from collections.abc import Sequence

from mesh_discovery.generate._messages import http_connection_manager_pb2, packed, router_pb2


def terminal_filters() -> Sequence[http_connection_manager_pb2.HttpFilter]:
    """Make the filters, of which the router is all there is."""
    return (
        http_connection_manager_pb2.HttpFilter(
            name="envoy.filters.http.router", typed_config=packed(router_pb2.Router())
        ),
    )
