"""The HTTP filters of gRPC's listeners: gRPC refuses a listener whose last one is no router."""

from collections.abc import Sequence

from envoy.extensions.filters.http.fault.v3 import fault_pb2

from envoy_config.generate._messages import http_connection_manager_pb2, packed, router_pb2
from envoy_config.generate.proxyless._routes import FAULT_FILTER


def terminal_filters() -> Sequence[http_connection_manager_pb2.HttpFilter]:
    """Make the filters, of which the router is all there is."""
    return (
        http_connection_manager_pb2.HttpFilter(
            name="envoy.filters.http.router", typed_config=packed(router_pb2.Router())
        ),
    )


def client_filters() -> Sequence[http_connection_manager_pb2.HttpFilter]:
    """Make the filters of clients: that by which routes inject faults comes before (gRFC A33)."""
    fault = http_connection_manager_pb2.HttpFilter(
        name=FAULT_FILTER, typed_config=packed(fault_pb2.HTTPFault())
    )
    return (fault, *terminal_filters())
