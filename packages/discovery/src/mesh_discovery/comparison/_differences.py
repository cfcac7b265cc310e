"""The differences between resources that a proxy would be given and those that an Envoy has."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from mesh_discovery.comparison._held import ENDPOINT, TYPES, Held, Json


class Difference(StrEnum):
    """How an Envoy differs from the configuration in one resource."""

    MISSING = "missing"
    EXTRA = "extra"
    DIFFERS = "differs"
    WARMING = "warming"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class DifferentResource:
    """A resource of which a proxy has another than it would be given.

    where: the field of the first difference; what: both values there, or Envoy's reason.
    """

    type: str
    name: str
    difference: Difference
    where: str = ""
    what: str = ""

    def __str__(self) -> str:
        place = f": {self.where}" if self.where else ""
        return f"{self.type} {self.name}: {self.difference}{place}" + (
            f": {self.what}" if self.what else ""
        )


def differences(
    expected: Mapping[str, Mapping[str, Json]], held: Held
) -> Iterator[DifferentResource]:
    """Yield what is missing, extra or different in an Envoy, by type and name.

    Of endpoints and routes an Envoy has only those that its clusters and listeners ask for:
    the ones that it does not have are missing only if it is to have them.
    """
    for kind in TYPES:
        wanted, had = expected.get(kind, {}), held.resources[kind]
        for name in sorted(wanted.keys() | had.keys()):
            if name in held.warming[kind]:
                yield DifferentResource(type=kind, name=name, difference=Difference.WARMING)
            elif name in held.refused and kind == "listener":
                yield DifferentResource(
                    type=kind, name=name, difference=Difference.REFUSED, what=held.refused[name]
                )
            elif name not in had:
                yield DifferentResource(type=kind, name=name, difference=Difference.MISSING)
            elif name not in wanted:
                # Clusters of other discovery types are sent with their endpoints, too.
                if kind != ENDPOINT:
                    yield DifferentResource(type=kind, name=name, difference=Difference.EXTRA)
            elif kind == ENDPOINT:
                yield from _different_endpoints(name, wanted[name], had[name])
            elif (found := first_difference(wanted[name], had[name])) is not None:
                yield DifferentResource(
                    type=kind,
                    name=name,
                    difference=Difference.DIFFERS,
                    where=found[0],
                    what=found[1],
                )


def routes_asked_for(listeners: Mapping[str, Json]) -> frozenset[str]:
    """Return the names of the route configurations that listeners refer to."""
    return frozenset(_named_under(list(listeners.values()), "route_config_name"))


def endpoints_asked_for(clusters: Mapping[str, Json]) -> frozenset[str]:
    """Return the names under which clusters ask for their endpoints."""
    return frozenset(
        each.get("eds_cluster_config", {}).get("service_name") or name
        for name, each in clusters.items()
        if each.get("type") == "EDS"
    )


def first_difference(wanted: Any, had: Any) -> tuple[str, str] | None:
    """Return the field of the first difference of two JSON values, and both values there."""
    return next(_different_fields(wanted, had, ""), None)


_UNREAD = frozenset(("stats_scope", "on_downstream_tls_handshake"))
"""Fields that are sent, and that Envoy's messages in Python are too old to read."""
_HIDDEN = "[redacted]"
"""Shown by Envoy in place of tokens and the like, which can't be compared."""


def _different_fields(wanted: Any, had: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(wanted, dict) and isinstance(had, dict):
        for key in sorted(wanted.keys() | had.keys()):
            inner = f"{path}.{key}" if path else key
            if key not in had:
                yield inner, f"expected {_short(wanted[key])}, Envoy has nothing"
            elif key not in wanted and key not in _UNREAD:
                yield inner, f"expected nothing, Envoy has {_short(had[key])}"
            elif key in wanted:
                yield from _different_fields(wanted[key], had[key], inner)
    elif isinstance(wanted, list) and isinstance(had, list):
        for index, (one, other) in enumerate(zip(wanted, had, strict=False)):
            yield from _different_fields(one, other, f"{path}[{index}]")
        if len(wanted) != len(had):
            yield path, f"expected {len(wanted)} entries, Envoy has {len(had)}"
    elif had not in (wanted, _HIDDEN):
        yield path, f"expected {_short(wanted)}, Envoy has {_short(had)}"


def _different_endpoints(name: str, wanted: Json, had: Json) -> Iterator[DifferentResource]:
    expected, found = _hosts(wanted), _hosts(had)
    # Of several endpoints with one address Envoy has one.
    missing = [address for address in expected if not expected[address] & found[address]]
    extra = [address for address in found if found[address] - expected[address]]
    if missing or extra:
        lacks, has = _host_texts(missing, expected), _host_texts(extra, found)
        yield DifferentResource(
            type=ENDPOINT,
            name=name,
            difference=Difference.DIFFERS,
            where="endpoints",
            what=f"expected {lacks}, Envoy has {has}",
        )


_Place: TypeAlias = tuple[int, str, int]
"""Priority, locality and weight."""
_LOCALITY = ("region", "zone", "sub_zone")


def _hosts(assignment: Json) -> "defaultdict[str, set[_Place]]":
    """Return priority, locality and weight of the endpoints at each address."""
    found: defaultdict[str, set[_Place]] = defaultdict(set)
    for group in assignment.get("endpoints", ()):
        locality = "/".join(group.get("locality", {}).get(key, "") for key in _LOCALITY)
        for endpoint in group.get("lb_endpoints", ()):
            address = _address(endpoint.get("endpoint", {}).get("address", {}))
            weight = endpoint.get("load_balancing_weight", 1)
            found[address].add((group.get("priority", 0), locality.strip("/"), weight))
    return found


def _host_texts(addresses: Iterable[str], hosts: Mapping[str, set[_Place]]) -> str:
    return (
        ", ".join(
            f"{address} (priority {priority}, locality {locality or 'none'}, weight {weight})"
            for address in sorted(addresses)
            for priority, locality, weight in sorted(hosts[address])
        )
        or "nothing else"
    )


def _address(address: Json) -> str:
    if "pipe" in address:
        return str(address["pipe"].get("path", ""))
    if "envoy_internal_address" in address:
        return str(address["envoy_internal_address"].get("server_listener_name", ""))
    socket = address.get("socket_address", {})
    return f"{socket.get('address', '')}:{socket.get('port_value', 0)}"


def _named_under(value: Any, field: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == field and isinstance(inner, str):
                yield inner
            else:
                yield from _named_under(inner, field)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_under(inner, field)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "..."
