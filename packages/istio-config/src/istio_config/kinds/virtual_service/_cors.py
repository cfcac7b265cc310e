"""CORS: the requests that browsers may make from pages of other origins.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.fields import SpecFields
from istio_config.kinds.virtual_service._headers import header_name_mistake
from istio_config.kinds.virtual_service._matches import StringMatch, string_match_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class UnmatchedPreflights(StrEnum):
    """Whether preflights of origins that are not allowed are forwarded to the destination."""

    UNSPECIFIED = "UNSPECIFIED"
    FORWARD = "FORWARD"
    IGNORE = "IGNORE"


class CorsPolicy(SpecFields, frozen=True):
    """The requests that browsers may make from pages of other origins."""

    allow_origin: tuple[str, ...] = ()
    """Deprecated for `allowOrigins`."""
    allow_origins: tuple[StringMatch, ...] = ()
    allow_methods: tuple[str, ...] = ()
    allow_headers: tuple[str, ...] = ()
    expose_headers: tuple[str, ...] = ()
    max_age: Duration | None = None
    allow_credentials: bool | None = None
    unmatched_preflights: UnmatchedPreflights = UnmatchedPreflights.UNSPECIFIED


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*")


def cors_mistakes(policy: CorsPolicy, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a CORS policy."""
    for index, origin in enumerate(policy.allow_origins):
        here = (*path, "allowOrigins", index)
        if origin.exact is None and origin.prefix is None and origin.regex is None:
            yield here, "is empty: give exact, prefix or regex"
        yield from string_match_mistakes(origin, here)
    for index, method in enumerate(policy.allow_methods):
        if method not in _METHODS:
            yield (
                (*path, "allowMethods", index),
                f'"{method}" is not a method; known: {", ".join(_METHODS)}',
            )
    for field, names in (
        ("allowHeaders", policy.allow_headers),
        ("exposeHeaders", policy.expose_headers),
    ):
        for index, name in enumerate(names):
            if (wrong := header_name_mistake(name)) is not None:
                yield (*path, field, index), wrong
    if policy.max_age is not None and policy.max_age % 1:
        yield (*path, "maxAge"), "must be of whole seconds"


def cors_warnings(policy: CorsPolicy, path: FieldPath) -> Iterator[Finding]:
    """Yield deprecated fields of a CORS policy."""
    if policy.allow_origin:
        yield (*path, "allowOrigin"), "is deprecated: use allowOrigins"
