"""GRPCRoute: how gRPC calls are routed, by service, method and headers.

Source: the Gateway API, v1.
"""

import re
from collections.abc import Iterator

from istio_config.kinds._regular_expressions import Expression, cost_mistakes, regex_mistake
from istio_config.kinds.fields import SpecFields, Text, Unchecked
from istio_config.kinds.gateway_api._filters import GrpcFilter
from istio_config.kinds.gateway_api._filters_rules import filter_mistakes
from istio_config.kinds.gateway_api._headers import (
    MatchType,
    ValueMatch,
    value_match_expressions,
    value_match_mistakes,
)
from istio_config.kinds.gateway_api._names import GROUP
from istio_config.kinds.gateway_api._references import (
    MAX_BACKENDS,
    BackendReference,
    DefaultScope,
    ParentReference,
    backend_mistakes,
    parent_mistakes,
)
from istio_config.kinds.gateway_api._routes import (
    hostname_mistakes,
    request_route_lacks,
    request_route_warnings,
    rule_list_mistakes,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_SERVICE = re.compile(r"\.?[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*")
_METHOD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


class MethodMatch(SpecFields, frozen=True):
    """A condition on the service and the method that is called; one of them at least."""

    type: MatchType = MatchType.EXACT
    service: str | None = None
    method: str | None = None


class GrpcMatch(SpecFields, frozen=True):
    """A condition on calls: all that is given must hold."""

    method: MethodMatch | None = None
    headers: tuple[ValueMatch, ...] = ()


class GrpcBackend(BackendReference, frozen=True):
    """A backend with its share of the calls, and changes of those."""

    filters: tuple[GrpcFilter, ...] = ()


class GrpcRule(SpecFields, frozen=True):
    """Some calls, and what is done with them."""

    name: Text | None = None
    matches: tuple[GrpcMatch, ...] = ()
    filters: tuple[GrpcFilter, ...] = ()
    backend_refs: tuple[GrpcBackend, ...] = ()
    session_persistence: Unchecked = None

    @property
    def all_matches(self) -> tuple[GrpcMatch, ...]:
        """The matches; without any, all calls."""
        return self.matches or (GrpcMatch(),)


class GrpcRouteSpec(SpecFields, frozen=True):
    """How gRPC calls at the parents are routed."""

    parent_refs: tuple[ParentReference, ...] = ()
    use_default_gateways: DefaultScope = DefaultScope.NONE
    hostnames: tuple[Text, ...] = ()
    rules: tuple[GrpcRule, ...] = ()


def _mistakes(spec: GrpcRouteSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from parent_mistakes(spec.parent_refs)
    yield from hostname_mistakes(spec.hostnames)
    yield from rule_list_mistakes(
        [each.name for each in spec.rules], [len(each.matches) for each in spec.rules]
    )
    for index, rule in enumerate(spec.rules):
        yield from _rule_mistakes(rule, ("rules", index))
    yield from cost_mistakes(_expressions(spec))


def _expressions(spec: GrpcRouteSpec) -> Iterator[Expression]:
    for number, rule in enumerate(spec.rules):
        for index, match in enumerate(rule.matches):
            path = ("rules", number, "matches", index)
            if match.method is not None and match.method.type is MatchType.REGULAR_EXPRESSION:
                text = (match.method.service or "") + (match.method.method or "")
                yield Expression((*path, "method"), text)
            yield from value_match_expressions(match.headers, (*path, "headers"))


def _rule_mistakes(rule: GrpcRule, path: FieldPath) -> Iterator[Finding]:
    for index, match in enumerate(rule.matches):
        here = (*path, "matches", index)
        if match.method is not None:
            yield from _method_mistakes(match.method, (*here, "method"))
        yield from value_match_mistakes(match.headers, (*here, "headers"))
        for number, each in enumerate(match.headers):
            if each.type is MatchType.REGULAR_EXPRESSION and (text := regex_mistake(each.value)):
                yield (*here, "headers", number, "value"), text
    yield from filter_mistakes(rule.filters, (*path, "filters"))
    if len(rule.backend_refs) > MAX_BACKENDS:
        yield (
            (*path, "backendRefs"),
            f"has {len(rule.backend_refs)} entries; {MAX_BACKENDS} are allowed",
        )
    for index, backend in enumerate(rule.backend_refs):
        where = (*path, "backendRefs", index)
        yield from backend_mistakes(backend, where)
        yield from filter_mistakes(backend.filters, (*where, "filters"))


def _method_mistakes(match: MethodMatch, path: FieldPath) -> Iterator[Finding]:
    if not match.service and not match.method:
        yield path, "needs a service, a method or both"
    for field, value, pattern in (
        ("service", match.service, _SERVICE),
        ("method", match.method, _METHOD),
    ):
        if not value:
            continue
        if len(value) > 1024:
            yield (*path, field), "is longer than 1024 characters"
        elif match.type is MatchType.REGULAR_EXPRESSION:
            if text := regex_mistake(value):
                yield (*path, field), text
        elif not pattern.fullmatch(value):
            yield (*path, field), f'"{value}" can\'t be the name of a {field} of gRPC'


GRPC_ROUTE = Kind(
    name="GRPCRoute",
    group=GROUP,
    versions=("v1", "v1alpha2"),
    spec=GrpcRouteSpec,
    validate=_mistakes,
    warn=request_route_warnings,
    lacks=request_route_lacks,
)
