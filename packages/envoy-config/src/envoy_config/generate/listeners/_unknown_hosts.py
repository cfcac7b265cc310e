"""Requests to places that the mesh does not know, where their hosts are looked up.

So mesh config's ALLOW_ANY_DYNAMIC_DNS wants it: requests in plaintext go to where the name in
`Host` leads, and not to where the connection was going. All else passes as it is.
"""

from collections.abc import Iterable

from envoy_config.generate._filters import Ports, http_inspector, original_destination
from envoy_config.generate._messages import (
    duration,
    listener_components_pb2,
    listener_pb2,
    route_pb2,
)
from envoy_config.generate.listeners._connection_managers import unknown_hosts_manager
from envoy_config.generate.listeners._manager_settings import ManagerSettings, Side, plain_http
from envoy_config.generate.routes._virtual_hosts import (
    packed_settings,
    route_configuration,
    unknown_hosts,
)
from envoy_config.plan import _envoy_names as names

_NAME = "virtualOutbound-catchall-http"


def look_hosts_up(
    listener: listener_pb2.Listener, settings: ManagerSettings, *, passed: Iterable[int]
) -> None:
    """Have the listener that all calls come to route the requests that no other one takes.

    passed: ports where first bytes are not waited for, since services there are connected to as
    they are: those that speak first would never be heard.
    """
    # Where a connection was going has to be known before its port is compared.
    listener.listener_filters.append(original_destination())
    listener.listener_filters.append(http_inspector(off=Ports(passed)))
    timeout = settings.mesh.protocol_detection_timeout
    listener.listener_filters_timeout.CopyFrom(duration(timeout))
    listener.continue_on_listener_filters_timeout = True
    before = settings.network_filters(0, Side.OUTBOUND, of_requests=True)
    manager = unknown_hosts_manager(_NAME, _routes(settings), settings)
    chain = listener_components_pb2.FilterChain(name=_NAME, filters=[*before, manager])
    # By the protocol alone: beside a chain of `raw_buffer`, Envoy would have no other plaintext
    # come to one that takes everything.
    chain.filter_chain_match.application_protocols.extend(plain_http(settings.proxy))
    listener.filter_chains.append(chain)


def _routes(settings: ManagerSettings) -> route_pb2.RouteConfiguration:
    attempts = settings.headers.attempt_count
    host = settings.headers.x_forwarded_host
    virtual_host = unknown_hosts(
        names.DYNAMIC_DNS,
        redirected=True,
        forwards_host=host is not None and bool(host.enabled),
        settings=packed_settings(counts_attempts=attempts is None or not attempts.disabled),
    )
    return route_pb2.RouteConfiguration.FromString(route_configuration(_NAME, [virtual_host]))
