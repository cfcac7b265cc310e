"""Rules of the Gateway API that hold for several kinds of routes.

Source: the Gateway API, v1.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from istio_config.kinds.gateway_api._filters import GrpcFilter, HttpFilter
from istio_config.kinds.gateway_api._filters_rules import filter_warnings
from istio_config.kinds.gateway_api._headers import ValueMatch
from istio_config.kinds.gateway_api._names import wrong_hostname, wrong_section_name
from istio_config.kinds.gateway_api._references import DefaultScope, ParentReference
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

# Bounds of the CRDs, as all `MOST_...` of this folder.
MOST_RULES = 16
MOST_HOSTNAMES = 16
MOST_MATCHES = 64
MOST_MATCHES_IN_ALL = 128
_NO_PERSISTENCE = (
    "session persistence is not supported yet (a DestinationRule's consistentHash by a cookie "
    "does much the same)"
)


class _Match(Protocol):
    @property
    def headers(self) -> Sequence[ValueMatch]: ...


class _Backend(Protocol):
    @property
    def filters(self) -> Sequence[HttpFilter | GrpcFilter]: ...


class _Rule(Protocol):
    @property
    def matches(self) -> Sequence[_Match]: ...
    @property
    def filters(self) -> Sequence[HttpFilter | GrpcFilter]: ...
    @property
    def backend_refs(self) -> Sequence[_Backend]: ...
    @property
    def session_persistence(self) -> object: ...


class RequestRoute(Protocol):
    """How requests, or calls of gRPC, are routed."""

    @property
    def parent_refs(self) -> Sequence[ParentReference]: ...
    @property
    def use_default_gateways(self) -> DefaultScope: ...
    @property
    def rules(self) -> Sequence[_Rule]: ...


def request_route_lacks(spec: RequestRoute, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what a route of requests asks for that is not supported."""
    for index, rule in enumerate(spec.rules):
        if rule.session_persistence is not None:
            yield ("rules", index, "sessionPersistence"), _NO_PERSISTENCE


def request_route_warnings(spec: RequestRoute, _metadata: Metadata) -> Iterator[Finding]:
    """Yield what has no effect in a route of requests."""
    yield from parent_warnings(spec.parent_refs, spec.use_default_gateways)
    for index, rule in enumerate(spec.rules):
        yield from filter_warnings(rule.filters, ("rules", index, "filters"))
        for number, backend in enumerate(rule.backend_refs):
            where = ("rules", index, "backendRefs", number, "filters")
            yield from filter_warnings(backend.filters, where)
        for number, match in enumerate(rule.matches):
            path = ("rules", index, "matches", number)
            yield from _repeated_name_warnings(match.headers, (*path, "headers"))


def parent_warnings(parents: Sequence[ParentReference], default: DefaultScope) -> Iterator[Finding]:
    """Yield that a route is attached to nothing; default: the default Gateways that it asks for."""
    if not parents:
        yield ("parentRefs",), "is empty: the route has no effect"
    if default is not DefaultScope.NONE:
        yield (
            ("useDefaultGateways",),
            "has no effect, as in Istio, which has no default Gateways: name one in parentRefs",
        )


def hostname_mistakes(hostnames: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong with the hostnames of a route."""
    if len(hostnames) > MOST_HOSTNAMES:
        yield ("hostnames",), f"has {len(hostnames)} entries; {MOST_HOSTNAMES} are allowed"
    for index, each in enumerate(hostnames):
        if text := wrong_hostname(each):
            yield ("hostnames", index), text


def rule_list_mistakes(
    names: Sequence[str | None], matches: Sequence[int] = (), *, least: int = 0
) -> Iterator[Finding]:
    """Yield what is wrong with the list of rules, by their names and how many matches each has."""
    if not least <= len(names) <= MOST_RULES:
        number = f"{least} to {MOST_RULES}" if least else f"{MOST_RULES} at most"
        yield ("rules",), f"has {len(names)} entries; there may be {number}"
    known: set[str] = set()
    for index, name in enumerate(names):
        if name is None:
            continue
        path = ("rules", index, "name")
        if text := wrong_section_name(name):
            yield path, text
        if name in known:
            yield path, f'the name "{name}" is given twice'
        known.add(name)
    for index, count in enumerate(matches):
        if count > MOST_MATCHES:
            yield ("rules", index, "matches"), f"has {count} entries; {MOST_MATCHES} are allowed"
    if sum(matches) > MOST_MATCHES_IN_ALL:
        yield (
            ("rules",),
            f"have {sum(matches)} matches in all; {MOST_MATCHES_IN_ALL} are allowed in one route",
        )


def _repeated_name_warnings(matches: Sequence[ValueMatch], path: FieldPath) -> Iterator[Finding]:
    """Yield the headers that an earlier one repeats, as names differ in case alone."""
    first: dict[str, str] = {}
    for index, each in enumerate(matches):
        known = first.setdefault(each.name.lower(), each.name)
        if known != each.name:
            yield (*path, index), f"has no effect: {known} above is the same header"
