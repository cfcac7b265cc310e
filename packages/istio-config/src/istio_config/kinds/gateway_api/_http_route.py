"""HTTPRoute: how requests are routed, by path, method, headers and query parameters.

Source: the Gateway API, v1.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds._regular_expressions import Expression, cost_mistakes, regex_mistake
from istio_config.kinds.fields import SpecFields, Text, Unchecked
from istio_config.kinds.gateway_api._filters import FilterType, HttpFilter
from istio_config.kinds.gateway_api._filters_rules import METHODS, filter_mistakes
from istio_config.kinds.gateway_api._headers import (
    ValueMatch,
    value_match_expressions,
    value_match_mistakes,
)
from istio_config.kinds.gateway_api._names import GROUP, seconds, wrong_duration
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

StatusCode: TypeAlias = Annotated[int, msgspec.Meta(ge=400, le=599)]


class PathType(StrEnum):
    """How a path is compared; a prefix is one of whole elements."""

    EXACT = "Exact"
    PATH_PREFIX = "PathPrefix"
    REGULAR_EXPRESSION = "RegularExpression"


class PathMatch(SpecFields, frozen=True):
    """A condition on the path."""

    type: PathType = PathType.PATH_PREFIX
    value: str = "/"


class HttpMatch(SpecFields, frozen=True):
    """A condition on requests: all that is given must hold."""

    path: PathMatch = PathMatch()
    headers: tuple[ValueMatch, ...] = ()
    query_params: tuple[ValueMatch, ...] = ()
    method: str | None = None


class HttpBackend(BackendReference, frozen=True):
    """A backend with its share of the requests, and changes of those."""

    filters: tuple[HttpFilter, ...] = ()


class Timeouts(SpecFields, frozen=True):
    """How long a request may take: in all, and each try at a backend."""

    request: str | None = None
    backend_request: str | None = None


class Retry(SpecFields, frozen=True):
    """When and how often a request is tried again."""

    codes: tuple[StatusCode, ...] = ()
    attempts: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None
    backoff: str | None = None


class HttpRule(SpecFields, frozen=True):
    """Some requests, and what is done with them."""

    name: Text | None = None
    matches: tuple[HttpMatch, ...] = ()
    filters: tuple[HttpFilter, ...] = ()
    backend_refs: tuple[HttpBackend, ...] = ()
    timeouts: Timeouts | None = None
    retry: Retry | None = None
    session_persistence: Unchecked = None

    @property
    def all_matches(self) -> tuple[HttpMatch, ...]:
        """The matches; without any, all requests."""
        return self.matches or (HttpMatch(),)


class HttpRouteSpec(SpecFields, frozen=True):
    """How requests at the parents are routed."""

    parent_refs: tuple[ParentReference, ...] = ()
    use_default_gateways: DefaultScope = DefaultScope.NONE
    hostnames: tuple[Text, ...] = ()
    rules: tuple[HttpRule, ...] = (HttpRule(),)


_LONGEST_PATH = 1024
_PATH = re.compile(r"(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F", "#")
_NOT_AT_ENDS = ("/..", "/.")


def _mistakes(spec: HttpRouteSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from parent_mistakes(spec.parent_refs)
    yield from hostname_mistakes(spec.hostnames)
    yield from rule_list_mistakes(
        [each.name for each in spec.rules], [len(each.matches) for each in spec.rules], least=1
    )
    for index, rule in enumerate(spec.rules):
        yield from _rule_mistakes(rule, ("rules", index))
    yield from cost_mistakes(_expressions(spec))


def _expressions(spec: HttpRouteSpec) -> Iterator[Expression]:
    for number, rule in enumerate(spec.rules):
        for index, match in enumerate(rule.matches):
            path = ("rules", number, "matches", index)
            if match.path.type is PathType.REGULAR_EXPRESSION:
                yield Expression((*path, "path", "value"), match.path.value)
            yield from value_match_expressions(match.headers, (*path, "headers"))
            yield from value_match_expressions(match.query_params, (*path, "queryParams"))


def _rule_mistakes(rule: HttpRule, path: FieldPath) -> Iterator[Finding]:
    for index, match in enumerate(rule.matches):
        yield from _match_mistakes(match, (*path, "matches", index))
    (first, *others) = rule.all_matches
    prefix = not others and first.path.type is PathType.PATH_PREFIX
    yield from filter_mistakes(rule.filters, (*path, "filters"), prefix=prefix)
    if rule.backend_refs and any(each.type is FilterType.REQUEST_REDIRECT for each in rule.filters):
        yield (
            (*path, "backendRefs"),
            "can't stand beside a RequestRedirect, which answers by itself; remove one of them",
        )
    if len(rule.backend_refs) > MAX_BACKENDS:
        yield (
            (*path, "backendRefs"),
            f"has {len(rule.backend_refs)} entries; {MAX_BACKENDS} are allowed",
        )
    for index, backend in enumerate(rule.backend_refs):
        yield from _backend_mistakes(backend, (*path, "backendRefs", index))
    if rule.timeouts is not None:
        yield from _timeout_mistakes(rule.timeouts, (*path, "timeouts"))
    if rule.retry is not None:
        yield from _retry_mistakes(rule.retry, (*path, "retry"))


def _match_mistakes(match: HttpMatch, path: FieldPath) -> Iterator[Finding]:
    yield from _path_mistakes(match.path, (*path, "path"))
    yield from value_match_mistakes(match.headers, (*path, "headers"))
    yield from value_match_mistakes(match.query_params, (*path, "queryParams"))
    if match.method is not None and match.method not in METHODS:
        yield (
            (*path, "method"),
            f'expected one of {", ".join(METHODS)}, found "{match.method}"',
        )
    for field, matches in (("headers", match.headers), ("queryParams", match.query_params)):
        for index, each in enumerate(matches):
            if each.type.value == "RegularExpression" and (text := regex_mistake(each.value)):
                yield (*path, field, index, "value"), text


def _path_mistakes(here: PathMatch, path: FieldPath) -> Iterator[Finding]:
    where = (*path, "value")
    if len(here.value) > _LONGEST_PATH:
        yield where, f"is longer than {_LONGEST_PATH} characters"
    if here.type is PathType.REGULAR_EXPRESSION:
        if text := regex_mistake(here.value):
            yield where, text
        return
    if not here.value.startswith("/"):
        yield where, f'"{here.value}" must begin with /'
        return
    for part in _NOT_IN_PATHS:
        if part in here.value:
            yield where, f'"{here.value}" must not have {part} in it'
            return
    for end in _NOT_AT_ENDS:
        if here.value.endswith(end):
            yield where, f'"{here.value}" must not end with {end}'
            return
    if not _PATH.fullmatch(here.value):
        yield where, f'"{here.value}" has characters that a path must have as %XX'


def _backend_mistakes(backend: HttpBackend, path: FieldPath) -> Iterator[Finding]:
    yield from backend_mistakes(backend, path)
    yield from filter_mistakes(backend.filters, (*path, "filters"))


def _timeout_mistakes(timeouts: Timeouts, path: FieldPath) -> Iterator[Finding]:
    wrong = False
    for field, text in (
        ("request", timeouts.request),
        ("backendRequest", timeouts.backend_request),
    ):
        if text is not None and (found := wrong_duration(text)):
            wrong = True
            yield (*path, field), found
    if wrong or timeouts.request is None or timeouts.backend_request is None:
        return
    request, of_backend = seconds(timeouts.request), seconds(timeouts.backend_request)
    if request and of_backend > request:
        yield (
            (*path, "backendRequest"),
            f"{timeouts.backend_request} is longer than the whole request's {timeouts.request}",
        )


def _retry_mistakes(retry: Retry, path: FieldPath) -> Iterator[Finding]:
    if retry.backoff is not None and (text := wrong_duration(retry.backoff)):
        yield (*path, "backoff"), text


HTTP_ROUTE = Kind(
    name="HTTPRoute",
    group=GROUP,
    versions=("v1", "v1beta1"),
    spec=HttpRouteSpec,
    validate=_mistakes,
    warn=request_route_warnings,
    lacks=request_route_lacks,
)
