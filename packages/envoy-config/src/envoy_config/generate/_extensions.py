"""The filters of a proxy's extensions, by their phase.

A program (a module, or a script in Lua) comes by ECDS: its filter names the resource, and Envoy
waits for it before it serves the listener, as the program may be what keeps strangers out. A script
does not stand in its filter, because a sidecar has that filter in hundreds of listeners.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from envoy_config.generate._messages import (
    config_source_pb2,
    from_ads,
    http_connection_manager_pb2,
    listener_components_pb2,
)
from envoy_config.plan.resolved._extensions import Extension
from istio_config.kinds.traffic_extension import ExtensionPhase

_F = TypeVar("_F", http_connection_manager_pb2.HttpFilter, listener_components_pb2.Filter)
_TYPE = "type.googleapis.com/envoy.extensions.filters"
_SCRIPT = (f"{_TYPE}.http.lua.v3.Lua",)
_LAST = (ExtensionPhase.STATS, ExtensionPhase.UNSPECIFIED)


class PhaseFilters(NamedTuple, Generic[_F]):
    """The filters of extensions, by where policies stand between them."""

    before_tokens: tuple[_F, ...] = ()
    before_policies: tuple[_F, ...] = ()
    behind: tuple[_F, ...] = ()

    @property
    def all(self) -> tuple[_F, ...]:
        """All of them, for where there are no policies."""
        return self.before_tokens + self.before_policies + self.behind


def http_extensions(
    extensions: Iterable[Extension], port: int, *, inbound: bool
) -> PhaseFilters[http_connection_manager_pb2.HttpFilter]:
    """Make the filters of requests to a port; 0: to one that is none of a service's."""
    found = [
        each for each in extensions if not each.is_network and each.works_on(port, inbound=inbound)
    ]
    return _by_phase(found, _http_filter)


def network_extensions(
    extensions: Iterable[Extension], port: int, *, inbound: bool
) -> PhaseFilters[listener_components_pb2.Filter]:
    """Make the filters of connections to a port; 0: to one that is none of a service's."""
    found = [
        each for each in extensions if each.is_network and each.works_on(port, inbound=inbound)
    ]
    return _by_phase(found, _network_filter)


def _by_phase(extensions: list[Extension], make: Callable[[Extension], _F]) -> PhaseFilters[_F]:
    if not extensions:
        return PhaseFilters()

    def in_phases(*phases: ExtensionPhase) -> Iterator[_F]:
        return (make(each) for phase in phases for each in extensions if each.phase is phase)

    return PhaseFilters(
        before_tokens=tuple(in_phases(ExtensionPhase.AUTHN)),
        before_policies=tuple(in_phases(ExtensionPhase.AUTHZ)),
        behind=tuple(in_phases(*_LAST)),
    )


def _http_filter(extension: Extension) -> http_connection_manager_pb2.HttpFilter:
    types = _SCRIPT if extension.is_script else _module("http")
    return http_connection_manager_pb2.HttpFilter(
        name=extension.name, config_discovery=_discovered(types)
    )


def _network_filter(extension: Extension) -> listener_components_pb2.Filter:
    return listener_components_pb2.Filter(
        name=extension.name, config_discovery=_discovered(_module("network"))
    )


def _module(level: str) -> tuple[str, ...]:
    """Return the types of a module, in place of which an agent may put a rule for all or none."""
    return f"{_TYPE}.{level}.wasm.v3.Wasm", f"{_TYPE}.{level}.rbac.v3.RBAC"


def _discovered(types: tuple[str, ...]) -> config_source_pb2.ExtensionConfigSource:
    return config_source_pb2.ExtensionConfigSource(config_source=from_ads(), type_urls=types)
