"""Warnings: what a VirtualService says that is accepted and hardly meant so."""

from collections.abc import Iterator, Sequence

from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service._action_mistakes import body_size
from istio_config.kinds.virtual_service._covered import Place, covered_matches
from istio_config.kinds.virtual_service._l4_mistakes import sni_is_ip
from istio_config.kinds.virtual_service._matches import TcpMatch
from istio_config.kinds.virtual_service._spec import (
    HttpRoute,
    TcpRoute,
    TlsRoute,
    VirtualServiceSpec,
)
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

_LARGE_BODY = 100 * 1024


def warnings(spec: VirtualServiceSpec, metadata: Metadata) -> Iterator[Finding]:  # noqa: ARG001
    """Yield the warnings of a valid VirtualService."""
    for index, gateway in enumerate(spec.gateways):
        if "/" not in gateway and "." in gateway:
            yield ("gateways", index), f'"{gateway}" is better written NAMESPACE/NAME'
    for index, route in enumerate(spec.http):
        yield from _route_warnings(route, ("http", index))
    yield from _covered(spec.http)
    for index, tls in enumerate(spec.tls):
        for at, match in enumerate(tls.match):
            for number, host in enumerate(match.sni_hosts):
                if sni_is_ip(host):
                    yield (
                        ("tls", index, "match", at, "sniHosts", number),
                        f'"{host}" is an address, and clients send names only: nothing matches',
                    )
    for index, tcp in enumerate(spec.tcp):
        for at, condition in enumerate(tcp.match):
            if condition.source_subnet:
                yield (
                    ("tcp", index, "match", at, "sourceSubnet"),
                    "has no effect, nor in Istio: use sourceLabels or sourceNamespace",
                )
    yield from _covered_connections("tls", spec.tls)
    yield from _covered_connections("tcp", spec.tcp)


def _route_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    for index, match in enumerate(route.match):
        if match.gateways and (match.source_labels or match.source_namespace):
            field = "sourceLabels" if match.source_labels else "sourceNamespace"
            yield (
                (*path, "match", index, field),
                "is not looked at beside gateways: leave out one of them",
            )
    yield from _fault_warnings(route, path)
    yield from _action_warnings(route, path)
    yield from _unused(route, path)


def _fault_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    fault = route.fault
    if fault is not None and fault.abort is not None:
        if fault.abort.http_status is None and fault.abort.grpc_status is None:
            yield (*path, "fault", "abort"), "aborts nothing: give httpStatus or grpcStatus"
        elif fault.abort.percentage is None:
            yield (*path, "fault", "abort"), "never happens: give a percentage"
    if fault is not None and fault.delay is not None and fault.delay.percentage is None:
        if fault.delay.percent:
            yield (*path, "fault", "delay", "percent"), "is deprecated: use percentage"
        else:
            yield (*path, "fault", "delay"), "never happens: give a percentage"


def _action_warnings(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    if route.retries is not None and any(
        word != word.strip() for word in route.retries.retry_on.split(",")
    ):
        yield (*path, "retries", "retryOn"), "has blanks, for which Istio refuses the object"
    if route.mirror_percent is not None:
        yield (*path, "mirrorPercent"), "is deprecated: use mirrorPercentage"
    if route.mirror is None and (
        route.mirror_percentage is not None or route.mirror_percent is not None
    ):
        yield path, "has a percentage of requests to mirror, and no mirror"
    if route.cors_policy is not None:
        if route.cors_policy.allow_origin:
            yield (*path, "corsPolicy", "allowOrigin"), "is deprecated: use allowOrigins"
        if route.direct_response is not None:
            yield (*path, "corsPolicy"), "has no effect on direct responses"
    response = route.direct_response
    if response is not None and response.body is not None:
        size = body_size(response.body) or 0
        if size > _LARGE_BODY:
            yield (
                (*path, "directResponse", "body"),
                f"has {size} bytes, which every proxy keeps in memory",
            )


def _unused(route: HttpRoute, path: FieldPath) -> Iterator[Finding]:
    """Yield the fields that mean something for forwarded requests only, where none are."""
    if route.redirect is None and route.direct_response is None:
        return
    answer = "redirect" if route.redirect is not None else "directResponse"
    for field, given in (
        ("timeout", route.timeout is not None),
        ("retries", route.retries is not None),
        ("mirror", route.mirror is not None),
        ("mirrors", bool(route.mirrors)),
    ):
        if given:
            yield (*path, field), f"has no effect beside {answer}"


def _covered(routes: tuple[HttpRoute, ...]) -> Iterator[Finding]:
    for place, by in covered_matches(routes):
        path: FieldPath = ("http", place.rule)
        if place.match is not None:
            path = (*path, "match", place.match)
        yield path, f"is never reached: {_named(by)} takes all its requests"


def _named(place: Place) -> str:
    if place.match is None:
        return f"rule {place.rule + 1}, which has no match,"
    return f"match {place.match + 1} of rule {place.rule + 1}"


def _covered_connections(kind: str, routes: Sequence[TlsRoute | TcpRoute]) -> Iterator[Finding]:
    """Yield the routes after one without conditions, and matches that are there already."""
    seen: dict[object, int] = {}
    everything: int | None = None
    for index, route in enumerate(routes):
        if everything is not None:
            yield (
                (kind, index),
                f"is never reached: rule {everything + 1} takes all connections",
            )
            continue
        for at, match in enumerate(route.match):
            first = seen.setdefault(repr(match), index)
            if first != index:
                yield (kind, index, "match", at), f"is never reached: rule {first + 1} has it too"
        if not route.match or TcpMatch() in route.match:
            everything = index
