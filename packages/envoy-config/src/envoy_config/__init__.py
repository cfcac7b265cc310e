"""The configuration of proxies as Envoy's messages: pure functions from the model of a mesh.

The parts are loaded when they are first used, so that what is unreachable is found without any of
Envoy's messages.
"""

from importlib import import_module

TYPE_CHECKING = False  # as type checkers know it, without loading `typing`
if TYPE_CHECKING:
    from envoy_config._accounts import accounts_in
    from envoy_config.context._context import PushContext
    from envoy_config.context._proxyless import ProxylessContext
    from envoy_config.plan._envoy_names import parse_outbound_cluster
    from envoy_config.plan._proxy import NodeError, NotServedError, Proxy, as_stranger, parse_proxy
    from envoy_config.plan._workload import workload_of
    from envoy_config.plan.extensions._extensions import has_pull_secrets

__all__ = [
    # What a change can touch.
    # What proxies get.
    "NodeError",
    "NotServedError",
    "Proxy",
    "ProxylessContext",
    "PushContext",
    "accounts_in",
    "as_stranger",
    "has_pull_secrets",
    "parse_outbound_cluster",
    "parse_proxy",
    "workload_of",
]

_LOADED_WHEN_USED = {
    "NodeError": "plan._proxy",
    "NotServedError": "plan._proxy",
    "Proxy": "plan._proxy",
    "ProxylessContext": "context._proxyless",
    "PushContext": "context._context",
    "accounts_in": "_accounts",
    "as_stranger": "plan._proxy",
    "has_pull_secrets": "plan.extensions._extensions",
    "parse_outbound_cluster": "plan._envoy_names",
    "parse_proxy": "plan._proxy",
    "workload_of": "plan._workload",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if (home := _LOADED_WHEN_USED.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
