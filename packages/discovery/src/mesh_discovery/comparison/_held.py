"""The resources that an Envoy has, read from the config dump of its admin port.

Envoy tells resources as it got them, except endpoints, which it puts together of the hosts that it
has: of these only what it can tell is kept.

Source: Envoy's `/config_dump?include_eds`, envoy/admin/v3/config_dump_shared.proto.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

CLUSTER, ENDPOINT, LISTENER, ROUTE = "cluster", "endpoint", "listener", "route"
TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)


class NotADumpError(ValueError):
    """A document that is no config dump of an Envoy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The resources that an Envoy has, by type and name.

    warming: names that it has and does not use yet. refused: listeners whose last update it
    refused, and why.
    """

    resources: Mapping[str, Mapping[str, Json]]
    warming: Mapping[str, frozenset[str]]
    refused: Mapping[str, str]


def read_config_dump(document: object) -> Held:
    """Read a config dump; raises `NotADumpError`."""
    if not isinstance(document, dict) or not isinstance(document.get("configs"), list):
        raise NotADumpError("there is no list of configs in it")
    found: dict[str, dict[str, Json]] = {each: {} for each in TYPES}
    warming: dict[str, set[str]] = {each: set() for each in TYPES}
    refused: dict[str, str] = {}
    for section in document["configs"]:
        for cluster in _each(section, "dynamic_active_clusters"):
            _put(found[CLUSTER], cluster.get("cluster"), "name")
        for cluster in _each(section, "dynamic_warming_clusters"):
            warming[CLUSTER].add(cluster.get("cluster", {}).get("name", ""))
        for listener in _each(section, "dynamic_listeners"):
            _put(found[LISTENER], listener.get("active_state", {}).get("listener"), "name")
            if "warming_state" in listener:
                warming[LISTENER].add(listener.get("name", ""))
            if "error_state" in listener:
                refused[listener.get("name", "")] = listener["error_state"].get("details", "")
        for route in _each(section, "dynamic_route_configs"):
            _put(found[ROUTE], route.get("route_config"), "name")
        for endpoints in _each(section, "dynamic_endpoint_configs"):
            _put(found[ENDPOINT], endpoints.get("endpoint_config"), "cluster_name")
    return Held(
        resources=found,
        warming={kind: frozenset(names) for kind, names in warming.items()},
        refused=refused,
    )


def _each(section: Json, field: str) -> Iterator[Json]:
    yield from section.get(field, ())


def _put(found: dict[str, Json], resource: Json | None, name: str) -> None:
    if resource is not None:
        found[resource.get(name, "")] = {
            key: value for key, value in resource.items() if key != "@type"
        }
