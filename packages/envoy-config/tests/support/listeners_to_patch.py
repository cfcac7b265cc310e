"""A listener with HTTP, TCP and a default chain, and patches of it."""

from functools import partial
from typing import Any

from envoy_config.patch._filters import Listener, Manager
from envoy_config.patch._listeners import listener_stage, patch_listener
from envoy_config.patch._resources import Outcome, Sort, patched
from envoy_config.patch._routes import RouteSide
from envoy_filters import MANAGER, patches_of
from istio_config.envoy_api import find_type, message_of
from istio_config.kinds.envoy_filter import Context

OUTBOUND = RouteSide(Context.SIDECAR_OUTBOUND)
TYPE = "type.googleapis.com/envoy.extensions.filters"


def http(name: str, kind: str) -> dict[str, Any]:
    return {"name": f"envoy.filters.http.{name}", "typed_config": {"@type": f"{TYPE}.http.{kind}"}}


FAULT, CORS = http("fault", "fault.v3.HTTPFault"), http("cors", "cors.v3.Cors")
ROUTER = http("router", "router.v3.Router")
TCP: dict[str, Any] = {
    "name": "envoy.filters.network.tcp_proxy",
    "typed_config": {
        "@type": f"{TYPE}.network.tcp_proxy.v3.TcpProxy",
        "stat_prefix": "tcp",
        "cluster": "one",
    },
}
RBAC: dict[str, Any] = {
    "name": "envoy.filters.network.rbac",
    "typed_config": {"@type": f"{TYPE}.network.rbac.v3.RBAC", "stat_prefix": "rbac"},
}
HTTP: dict[str, Any] = {
    "name": MANAGER,
    "typed_config": {
        "@type": f"{TYPE}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "stream_idle_timeout": "5s",
        "http_filters": [FAULT, CORS, ROUTER],
        "route_config": {
            "name": "inbound|8080||",
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": []}],
        },
    },
}
INSPECTOR: dict[str, Any] = {
    "name": "envoy.filters.listener.tls_inspector",
    "typed_config": {"@type": f"{TYPE}.listener.tls_inspector.v3.TlsInspector"},
}
ORIGINAL = {
    "name": "envoy.filters.listener.original_dst",
    "typed_config": {"@type": f"{TYPE}.listener.original_dst.v3.OriginalDst"},
}
PROXY_PROTOCOL = {
    "name": "envoy.filters.listener.proxy_protocol",
    "typed_config": {"@type": f"{TYPE}.listener.proxy_protocol.v3.ProxyProtocol"},
}


def listener(name: str = "10.0.0.1_80", port: int = 80) -> Listener:
    """Make a listener with a chain of HTTP, one of TCP, and one for all else."""
    descriptor = find_type("envoy.config.listener.v3.Listener")
    assert descriptor is not None
    plain: dict[str, Any] = {
        "name": name,
        "address": {"socket_address": {"address": "10.0.0.1", "port_value": port}},
        "listener_filters": [ORIGINAL, INSPECTOR],
        "filter_chains": [
            {
                "name": "web",
                "filter_chain_match": {
                    "destination_port": 8080,
                    "server_names": ["a.example"],
                    "application_protocols": ["h2", "http/1.1"],
                    "transport_protocol": "tls",
                },
                "filters": [HTTP],
            },
            {"name": "raw", "filter_chain_match": {"destination_port": 9000}, "filters": [TCP]},
        ],
        "default_filter_chain": {"name": "rest", "filters": [TCP]},
    }
    message = message_of(plain, descriptor)
    assert isinstance(message, Listener)
    return message


def apply(
    patches: list[dict[str, Any]], to: Listener | None = None, side: RouteSide = OUTBOUND
) -> Outcome[Listener]:
    """Apply patches as to a listener of calls out."""
    sort = Sort[Listener](
        apply=partial(patch_listener, side=side),
        mistakes=lambda _: iter(()),
        name_of=lambda each: each.name,
    )
    ordered = sorted(patches_of(patches), key=listener_stage)
    return patched(listener() if to is None else to, ordered, sort)


def change(apply_to: str, operation: str, value: Any = None, **match: Any) -> dict[str, Any]:
    """Write a patch down; match: of listeners."""
    patch = {"operation": operation} | ({"value": value} if value is not None else {})
    found = {"applyTo": apply_to, "patch": patch}
    return found | ({"match": {"listener": match}} if match else {})


def manager(patched: Listener | None) -> Manager:
    assert patched is not None
    return Manager.FromString(patched.filter_chains[0].filters[0].typed_config.value)


def names(items: Any) -> list[str]:
    return [each.name.rpartition(".")[2] for each in items]


def of_http(patched: Listener) -> list[str]:
    return names(manager(patched).http_filters)


def of_network(patched: Listener) -> list[str]:
    return names(patched.filter_chains[1].filters)


def of_listener(patched: Listener) -> list[str]:
    return names(patched.listener_filters)


def of_chains(patched: Listener) -> list[str]:
    return names([*patched.filter_chains, patched.default_filter_chain])


BEFORE_ROUTER = {
    "filterChain": {"filter": {"name": MANAGER, "subFilter": {"name": ROUTER["name"]}}}
}
CORS_MATCH = {"filterChain": {"filter": {"name": MANAGER, "subFilter": {"name": CORS["name"]}}}}
UNKNOWN = {"filterChain": {"filter": {"name": MANAGER, "subFilter": {"name": "unknown"}}}}
AT_TCP = {"filterChain": {"filter": {"name": TCP["name"]}}}
