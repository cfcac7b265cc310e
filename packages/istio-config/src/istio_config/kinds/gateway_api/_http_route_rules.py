"""The rules of the Gateway API for an HTTPRoute."""

import re
from collections.abc import Iterator

from istio_config.kinds._regular_expressions import Expression, cost_mistakes, regex_mistake
from istio_config.kinds.gateway_api._filter_rules import METHODS, check_filters
from istio_config.kinds.gateway_api._headers import check_matches, expressions_of
from istio_config.kinds.gateway_api._http_filters import FilterType
from istio_config.kinds.gateway_api._http_route import (
    HttpBackend,
    HttpMatch,
    HttpRouteSpec,
    HttpRule,
    PathMatch,
    PathType,
    Retry,
    Timeouts,
)
from istio_config.kinds.gateway_api._names import GROUP, seconds, wrong_duration
from istio_config.kinds.gateway_api._references import MAX_BACKENDS, check_backend, check_parents
from istio_config.kinds.gateway_api._route_rules import (
    check_hostnames,
    check_rules,
    lacking_in_requests,
    vain_in_requests,
)
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_LONGEST_PATH = 1024
_PATH = re.compile(r"(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+")
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F", "#")
_NOT_AT_ENDS = ("/..", "/.")


def _validate(spec: HttpRouteSpec, _metadata: Metadata) -> Iterator[Finding]:
    yield from check_parents(spec.parent_refs)
    yield from check_hostnames(spec.hostnames)
    yield from check_rules(
        [each.name for each in spec.rules], [len(each.matches) for each in spec.rules], least=1
    )
    for index, rule in enumerate(spec.rules):
        yield from _check_rule(rule, ("rules", index))
    yield from cost_mistakes(_expressions(spec))


def _expressions(spec: HttpRouteSpec) -> Iterator[Expression]:
    for number, rule in enumerate(spec.rules):
        for index, match in enumerate(rule.matches):
            place = ("rules", number, "matches", index)
            if match.path.type is PathType.REGULAR_EXPRESSION:
                yield Expression((*place, "path", "value"), match.path.value)
            yield from expressions_of(match.headers, (*place, "headers"))
            yield from expressions_of(match.query_params, (*place, "queryParams"))


def _check_rule(rule: HttpRule, place: FieldPath) -> Iterator[Finding]:
    for index, match in enumerate(rule.matches):
        yield from _check_match(match, (*place, "matches", index))
    (first, *others) = rule.all_matches
    prefix = not others and first.path.type is PathType.PATH_PREFIX
    yield from check_filters(rule.filters, (*place, "filters"), prefix=prefix)
    if rule.backend_refs and any(each.type is FilterType.REQUEST_REDIRECT for each in rule.filters):
        yield (
            (*place, "backendRefs"),
            "can't stand beside a RequestRedirect, which answers by itself; remove one of them",
        )
    if len(rule.backend_refs) > MAX_BACKENDS:
        yield (
            (*place, "backendRefs"),
            f"has {len(rule.backend_refs)} entries; {MAX_BACKENDS} are allowed",
        )
    for index, backend in enumerate(rule.backend_refs):
        yield from _check_backend(backend, (*place, "backendRefs", index))
    if rule.timeouts is not None:
        yield from _check_timeouts(rule.timeouts, (*place, "timeouts"))
    if rule.retry is not None:
        yield from _check_retry(rule.retry, (*place, "retry"))


def _check_match(match: HttpMatch, place: FieldPath) -> Iterator[Finding]:
    yield from _check_path(match.path, (*place, "path"))
    yield from check_matches(match.headers, (*place, "headers"))
    yield from check_matches(match.query_params, (*place, "queryParams"))
    if match.method is not None and match.method not in METHODS:
        yield (
            (*place, "method"),
            f'expected one of {", ".join(METHODS)}, found "{match.method}"',
        )
    for field, matches in (("headers", match.headers), ("queryParams", match.query_params)):
        for index, each in enumerate(matches):
            if each.type.value == "RegularExpression" and (text := regex_mistake(each.value)):
                yield (*place, field, index, "value"), text


def _check_path(path: PathMatch, place: FieldPath) -> Iterator[Finding]:
    where = (*place, "value")
    if len(path.value) > _LONGEST_PATH:
        yield where, f"is longer than {_LONGEST_PATH} characters"
    if path.type is PathType.REGULAR_EXPRESSION:
        if text := regex_mistake(path.value):
            yield where, text
        return
    if not path.value.startswith("/"):
        yield where, f'"{path.value}" must begin with /'
        return
    for part in _NOT_IN_PATHS:
        if part in path.value:
            yield where, f'"{path.value}" must not have {part} in it'
            return
    for end in _NOT_AT_ENDS:
        if path.value.endswith(end):
            yield where, f'"{path.value}" must not end with {end}'
            return
    if not _PATH.fullmatch(path.value):
        yield where, f'"{path.value}" has characters that a path must have as %XX'


def _check_backend(backend: HttpBackend, place: FieldPath) -> Iterator[Finding]:
    yield from check_backend(backend, place)
    yield from check_filters(backend.filters, (*place, "filters"), of_backend=True)


def _check_timeouts(timeouts: Timeouts, place: FieldPath) -> Iterator[Finding]:
    wrong = False
    for field, text in (
        ("request", timeouts.request),
        ("backendRequest", timeouts.backend_request),
    ):
        if text is not None and (found := wrong_duration(text)):
            wrong = True
            yield (*place, field), found
    if wrong or timeouts.request is None or timeouts.backend_request is None:
        return
    request, of_backend = seconds(timeouts.request), seconds(timeouts.backend_request)
    if request and of_backend > request:
        yield (
            (*place, "backendRequest"),
            f"{timeouts.backend_request} is longer than the whole request's {timeouts.request}",
        )


def _check_retry(retry: Retry, place: FieldPath) -> Iterator[Finding]:
    if retry.backoff is not None and (text := wrong_duration(retry.backoff)):
        yield (*place, "backoff"), text


HTTP_ROUTE = Kind(
    name="HTTPRoute",
    group=GROUP,
    versions=("v1", "v1beta1"),
    spec=HttpRouteSpec,
    validate=_validate,
    warn=vain_in_requests,
    lacks=lacking_in_requests,
)
