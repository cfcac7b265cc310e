"""The actions of HTTPRoutes and GRPCRoutes in terms of VirtualServices: filters and backends."""

import re
from collections.abc import Sequence
from typing import TypeAlias

from istio_config.kinds.formats import header_value_mistake
from istio_config.kinds.gateway_api import (
    BACKEND_FILTERS,
    Cors,
    GrpcBackend,
    GrpcFilter,
    HeaderFilter,
    HttpBackend,
    HttpFilter,
    HttpRule,
    Redirect,
    seconds,
)
from istio_config.kinds.virtual_service import (
    CorsPolicy,
    DerivePort,
    HeaderOperations,
    Headers,
    HttpDirectResponse,
    HttpRedirect,
    HttpRetry,
    HttpRouteDestination,
    MirrorPolicy,
    Percent,
    StringMatch,
    UnmatchedPreflights,
)
from mesh_configfile import Duration, FieldPath
from mesh_model.gateway_api.routes._backends import BadReference, Resolver

Filters: TypeAlias = Sequence[HttpFilter | GrpcFilter]
Backends: TypeAlias = Sequence[HttpBackend | GrpcBackend]

NO_BACKEND = HttpDirectResponse(status=500)
"""The answer of a rule without a backend that gets any requests."""

_RETRY_ON = "connect-failure,refused-stream,unavailable,cancelled,reset"
_DEFAULT_ATTEMPTS = 2


def destinations(
    backends: Backends, resolver: Resolver, place: FieldPath
) -> tuple[HttpRouteDestination, ...]:
    """Return the backends that get requests; none if no reference leads anywhere."""
    found = []
    any_good = False
    for index, each in enumerate(backends):
        path = (*place, "backendRefs", index)
        wrong = _unsupported(each.filters, path)
        resolved = resolver.refuse(each, wrong) if wrong else resolver.resolve(each, path)
        if each.weight == 0:
            continue
        any_good = any_good or resolved.bad is None
        found.append(
            HttpRouteDestination(
                destination=resolved.destination,
                weight=each.weight,
                headers=headers_of(each.filters),
            )
        )
    return tuple(found) if any_good else ()


def _unsupported(filters: Filters, path: FieldPath) -> BadReference | None:
    """Return the first filter that only a whole rule can have."""
    for index, each in enumerate(filters):
        if each.type not in BACKEND_FILTERS:
            message = (
                f"{each.type.value} is not supported at one backend, as in Istio: its share of "
                "requests is answered with 500; give it to the whole rule"
            )
            return BadReference((*path, "filters", index, "type"), "UnsupportedValue", message)
    return None


def headers_of(filters: Filters) -> Headers | None:
    """Return the changes of headers."""
    request = response = None
    for each in filters:
        if each.request_header_modifier is not None:
            request = _operations(each.request_header_modifier)
        if each.response_header_modifier is not None:
            response = _operations(each.response_header_modifier)
    return Headers(request=request, response=response) if request or response else None


def _operations(changes: HeaderFilter) -> HeaderOperations:
    return HeaderOperations(
        set={each.name: _literal(each.value) for each in changes.set},
        add={each.name: _literal(each.value) for each in changes.add},
        remove=changes.remove,
    )


def _literal(value: str) -> str:
    """Spell a value that Envoy would refuse so that it is taken literally.

    As in Istio, a valid value may have Envoy's substitutions, such as %DOWNSTREAM_REMOTE_ADDRESS%.
    """
    return value if header_value_mistake(value) is None else value.replace("%", "%%")


def mirrors(filters: Filters, resolver: Resolver, place: FieldPath) -> tuple[MirrorPolicy, ...]:
    """Return the mirrors that exist; requests are not copied to others."""
    found = []
    for index, each in enumerate(filters):
        mirror = each.request_mirror
        if mirror is None:
            continue
        path = (*place, "filters", index, "requestMirror", "backendRef")
        resolved = resolver.resolve(mirror.backend_ref, path)
        if resolved.bad is None:
            found.append(
                MirrorPolicy(
                    destination=resolved.destination, percentage=Percent(value=mirror.share)
                )
            )
    return tuple(found)


def redirect_of(redirect: Redirect, prefix: str | None) -> HttpRedirect:
    """Return a redirect; prefix: what the route replaces of the path, for a new prefix."""
    path = redirect.path
    derived = None
    if redirect.port is None:
        derived = (
            DerivePort.FROM_PROTOCOL_DEFAULT if redirect.scheme else DerivePort.FROM_REQUEST_PORT
        )
    return HttpRedirect(
        uri=(path.replace_full_path or "") if path is not None else "",
        prefix_rewrite=prefix or "",
        authority=redirect.hostname or "",
        port=redirect.port,
        derive_port=derived,
        scheme=redirect.scheme or "",
        redirect_code=redirect.status_code,
    )


def cors_of(cors: Cors) -> CorsPolicy:
    """Return a CORS policy: preflights of other origins end at the gateway."""
    return CorsPolicy(
        allow_origins=tuple(_origin(each) for each in cors.allow_origins),
        allow_methods=cors.allow_methods,
        allow_headers=cors.allow_headers,
        expose_headers=cors.expose_headers,
        max_age=Duration(cors.max_age),
        allow_credentials=cors.allow_credentials,
        unmatched_preflights=UnmatchedPreflights.IGNORE,
    )


def _origin(origin: str) -> StringMatch:
    if "*" not in origin:
        return StringMatch(exact=origin)
    return StringMatch(regex=".*".join(re.escape(part) for part in origin.split("*")))


def timeout_of(rule: HttpRule) -> Duration | None:
    """Return how long a request may take in all; None and 0: as long as it takes."""
    if rule.timeouts is None or rule.timeouts.request is None:
        return None
    return seconds(rule.timeouts.request)


def retries_of(rule: HttpRule) -> HttpRetry | None:
    """Return when requests are tried again; None: as the mesh does by default."""
    per_try = None
    if rule.timeouts is not None and rule.timeouts.backend_request is not None:
        per_try = seconds(rule.timeouts.backend_request) or None
    retry = rule.retry
    if retry is None:
        if per_try is None:
            return None
        return HttpRetry(attempts=_DEFAULT_ATTEMPTS, per_try_timeout=per_try)
    attempts = _DEFAULT_ATTEMPTS if retry.attempts is None else retry.attempts
    if not attempts:
        return HttpRetry(attempts=0)
    return HttpRetry(
        attempts=attempts,
        per_try_timeout=per_try,
        retry_on=",".join((_RETRY_ON, *map(str, dict.fromkeys(retry.codes)))),
        backoff=(seconds(retry.backoff) or None) if retry.backoff is not None else None,
    )
