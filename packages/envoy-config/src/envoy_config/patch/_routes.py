"""Patches of route configurations, of their virtual hosts, and of the routes of those."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from envoy_config.generate._messages import route_components_pb2, route_pb2
from envoy_config.patch._lists import edit
from envoy_config.patch._merging import merge
from envoy_config.plan.policies._patches import Patch
from istio_config.kinds.envoy_filter import (
    ApplyTo,
    Context,
    Operation,
    RouteAction,
    RouteConfigurationMatch,
    RouteMatch,
    VirtualHostMatch,
)

RouteConfiguration = route_pb2.RouteConfiguration
VirtualHost = route_components_pb2.VirtualHost
Route = route_components_pb2.Route

_OF_ACTION = {
    RouteAction.ROUTE: "route",
    RouteAction.REDIRECT: "redirect",
    RouteAction.DIRECT_RESPONSE: "direct_response",
}


class RouteSide(NamedTuple):
    """The proxies that routes are for.

    target_ports: of a gateway, the ports that it listens on for those of its services.
    """

    context: Context
    target_ports: tuple[tuple[int, tuple[int, ...]], ...] = ()


def route_stage(patch: Patch) -> int:
    """Return the place of a patch in the order of work on a route configuration."""
    if patch.apply_to is ApplyTo.ROUTE_CONFIGURATION:
        return 0
    if patch.apply_to is ApplyTo.VIRTUAL_HOST:
        return 3 if patch.adds else 1
    return 2


def patch_routes(configuration: RouteConfiguration, patch: Patch, side: RouteSide) -> bool:
    """Apply a patch to a route configuration; tell whether it was for something in it."""
    wanted = patch.match.route_configuration
    if not patch.is_for(side.context) or not _is_matched(configuration.name, wanted, side):
        return False
    replaces = patch.operation is Operation.MERGE_AND_REPLACE_LIST
    if patch.apply_to is ApplyTo.ROUTE_CONFIGURATION:
        merge(configuration, patch.value, replaces_lists=replaces)
        return True
    host = wanted.vhost if wanted is not None else None
    if patch.apply_to is ApplyTo.VIRTUAL_HOST:
        return _patch_hosts(configuration, patch, host, replaces_lists=replaces)
    changed = False
    for each in configuration.virtual_hosts:
        if _is_host(each, host):
            route = host.route if host is not None else None
            changed |= _patch_routes_of(each, patch, route, replaces_lists=replaces)
    return changed


def _patch_hosts(
    configuration: RouteConfiguration,
    patch: Patch,
    wanted: VirtualHostMatch | None,
    *,
    replaces_lists: bool,
) -> bool:
    hosts, value = configuration.virtual_hosts, patch.value
    if not isinstance(value, VirtualHost):
        return False
    if patch.adds:
        return edit(hosts, Operation.ADD, value)
    if patch.operation.is_merge:
        found = [each for each in hosts if _is_host(each, wanted)]
        for each in found:
            merge(each, value, replaces_lists=replaces_lists)
        return bool(found)
    return edit(hosts, patch.operation, value, matches=lambda each: _is_host(each, wanted))


def _patch_routes_of(
    host: VirtualHost, patch: Patch, wanted: RouteMatch | None, *, replaces_lists: bool
) -> bool:
    value = patch.value
    if not isinstance(value, Route):
        return False
    if patch.operation.is_merge:
        found = [each for each in host.routes if _is_route(each, wanted)]
        for each in found:
            merge(each, value, replaces_lists=replaces_lists)
        return bool(found)
    matches: Callable[[Route], bool] | None = None
    if wanted is not None or patch.operation is Operation.REMOVE:
        matches = lambda each: _is_route(each, wanted)  # noqa: E731 - by the match of the patch
    return edit(host.routes, patch.operation, value, matches=matches)


def _is_matched(name: str, wanted: RouteConfigurationMatch | None, side: RouteSide) -> bool:
    if wanted is None:
        return True
    if wanted.name and wanted.name != name:
        return False
    if side.context is Context.GATEWAY:
        return _is_of_gateway(name, wanted, dict(side.target_ports))
    if wanted.port_name or wanted.gateway:
        return False
    return wanted.port_number in (None, _port(name))


def _port(name: str) -> int:
    """Return the port in the name of a sidecar's routes: `80`, `inbound|80||` or `host:80`."""
    parts = name.split("|")
    number = parts[1] if len(parts) > 1 else name.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdecimal() else 0


def _is_of_gateway(
    name: str, wanted: RouteConfigurationMatch, target_ports: Mapping[int, tuple[int, ...]]
) -> bool:
    """Compare with a gateway's `http.80`, or `https.443.port.gateway.namespace`."""
    parts = name.split(".")
    port = int(parts[1]) if len(parts) > 1 and parts[1].isdecimal() else 0
    port_name = gateway = ""
    if parts[0] == "https" and len(parts) >= 5:
        port_name, gateway = parts[2], f"{parts[4]}/{parts[3]}"
    number = wanted.port_number
    if number is not None and number != port and port not in target_ports.get(number, ()):
        return False
    return wanted.port_name in ("", port_name) and wanted.gateway in ("", gateway)


def _is_host(host: VirtualHost, wanted: VirtualHostMatch | None) -> bool:
    if wanted is None:
        return True
    if wanted.name and wanted.name != host.name:
        return False
    return not wanted.domain_name or wanted.domain_name in host.domains


def _is_route(route: Route, wanted: RouteMatch | None) -> bool:
    if wanted is None:
        return True
    if wanted.name and wanted.name != route.name:
        return False
    action = _OF_ACTION.get(wanted.action)
    return action is None or route.WhichOneof("action") == action
