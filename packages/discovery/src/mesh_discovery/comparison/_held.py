"""The resources that an Envoy has, read from the config dump of its admin port.

Envoy tells resources as it got them, except endpoints, which it puts together of the hosts that it
has. The control plane's own `/debug/config_dump` of a proxy has the same form.

Source: Envoy's `/config_dump?include_eds`, envoy/admin/v3/config_dump_shared.proto.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from xds_server import Node

Json: TypeAlias = dict[str, Any]

CLUSTER, ENDPOINT, LISTENER, ROUTE = "cluster", "endpoint", "listener", "route"
TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)


class NotADumpError(ValueError):
    """A document that is no config dump of an Envoy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The resources that an Envoy has, by type and name.

    node: as the Envoy says it is; None if the dump has none. warming: names that it has and does
    not use yet. refused: listeners whose last update it refused, and why.
    """

    node: Node | None
    resources: Mapping[str, Mapping[str, Json]]
    warming: Mapping[str, frozenset[str]]
    refused: Mapping[str, str]


def read_config_dump(document: object) -> Held:
    """Read a config dump; raises `NotADumpError`."""
    if not isinstance(document, dict) or not isinstance(document.get("configs"), list):
        raise NotADumpError("no config dump: there is no list of configs in it")
    found: dict[str, dict[str, Json]] = {each: {} for each in TYPES}
    warming: dict[str, set[str]] = {each: set() for each in TYPES}
    refused: dict[str, str] = {}
    node: Node | None = None
    for section in document["configs"]:
        node = _node(section["bootstrap"].get("node")) if "bootstrap" in section else node
        for cluster in section.get("dynamic_active_clusters", ()):
            _put(found[CLUSTER], _as_sent(cluster.get("cluster")), "name")
        for cluster in section.get("dynamic_warming_clusters", ()):
            warming[CLUSTER].add(cluster.get("cluster", {}).get("name", ""))
        for listener in section.get("dynamic_listeners", ()):
            name = listener.get("name", "")
            _put(found[LISTENER], listener.get("active_state", {}).get("listener"), "name")
            if "warming_state" in listener:
                warming[LISTENER].add(name)
            if "error_state" in listener:
                refused[name] = listener["error_state"].get("details", "")
        for route in section.get("dynamic_route_configs", ()):
            _put(found[ROUTE], route.get("route_config"), "name")
        for endpoints in section.get("dynamic_endpoint_configs", ()):
            _put(found[ENDPOINT], endpoints.get("endpoint_config"), "cluster_name")
    return Held(
        node=node,
        resources=found,
        warming={kind: frozenset(names) for kind, names in warming.items()},
        refused=refused,
    )


def _node(value: Json | None) -> Node | None:
    if not value or not isinstance(value.get("id"), str):
        return None
    locality = value.get("locality", {})
    return Node(
        id=value["id"],
        cluster=value.get("cluster", ""),
        metadata=value.get("metadata", {}),
        region=locality.get("region", ""),
        zone=locality.get("zone", ""),
        sub_zone=locality.get("sub_zone", ""),
        user_agent=_user_agent(value),
    )


def _user_agent(node: Json) -> str:
    """Return the program and its version, which decide on what it is given."""
    build = node.get("user_agent_build_version", {}).get("version", {})
    numbers = (build.get(f"{each}_number", 0) for each in ("major", "minor"))
    version = ".".join(map(str, (*numbers, build.get("patch", 0)))) if build else ""
    version = node.get("user_agent_version", version)  # the control plane's page has it as a text
    return "/".join(filter(None, (node.get("user_agent_name", ""), version)))


_ADAPTED = "xds_adapter"
"""The metadata of clusters by which mesh-agent has a plain Envoy choose protocols of ALPN."""


def _as_sent(cluster: Json | None) -> Json | None:
    """Return a cluster without what an agent adds on the way to an Envoy that lacks extensions."""
    metadata = cluster.get("metadata", {}) if cluster is not None else {}
    given = metadata.get("filter_metadata", {})
    if cluster is None or _ADAPTED not in given:
        return cluster
    left = {name: value for name, value in given.items() if name != _ADAPTED}
    if left:
        return {**cluster, "metadata": {**metadata, "filter_metadata": left}}
    rest = {key: value for key, value in metadata.items() if key != "filter_metadata"}
    bare = {key: value for key, value in cluster.items() if key != "metadata"}
    return {**bare, "metadata": rest} if rest else bare


def _put(found: dict[str, Json], resource: Json | None, name: str) -> None:
    if resource is not None:
        found[resource.get(name, "")] = {
            key: value for key, value in resource.items() if key != "@type"
        }
