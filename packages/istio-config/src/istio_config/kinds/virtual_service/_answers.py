"""Answers that a proxy gives itself: redirects and direct responses.

Source: Istio's API, networking/v1.
"""

from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator
from enum import StrEnum

from istio_config.kinds.checks import control_character_mistakes
from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.virtual_service._matches import HttpMatch
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class DerivePort(StrEnum):
    """Where a redirect's port comes from."""

    FROM_PROTOCOL_DEFAULT = "FROM_PROTOCOL_DEFAULT"
    FROM_REQUEST_PORT = "FROM_REQUEST_PORT"


class HttpRedirect(SpecFields, frozen=True):
    """An answer that sends the client elsewhere."""

    uri: str = ""
    prefix_rewrite: str = ""
    authority: str = ""
    port: PortNumber | None = None
    derive_port: DerivePort | None = None
    scheme: str = ""
    redirect_code: int = 0
    """0 means 301."""


class HttpBody(SpecFields, frozen=True):
    """A body, as text or as bytes in base64."""

    string: str | None = None
    bytes: str | None = None


class HttpDirectResponse(SpecFields, frozen=True):
    """An answer that the proxy gives without forwarding the request."""

    status: int = 0
    body: HttpBody | None = None


REDIRECT_CODES = (301, 302, 303, 307, 308)
"""Envoy's RedirectResponseCode has no others. A route with another one would have no action, for
which Envoy refuses the whole route table."""
_MOST_BYTES = 1024 * 1024
"""Istio refuses larger bodies."""
_LARGE_BYTES = 100 * 1024
"""Istio warns of larger bodies: each is part of the routes in every proxy's memory."""


def redirect_mistakes(
    redirect: HttpRedirect, matches: tuple[HttpMatch, ...], path: FieldPath
) -> Iterator[Finding]:
    """Yield what is wrong with the redirect of a route with these matches."""
    if not (
        redirect.uri
        or redirect.prefix_rewrite
        or redirect.authority
        or redirect.scheme
        or redirect.port is not None
        or redirect.derive_port is not None
    ):
        yield path, "leads nowhere: give uri, prefixRewrite, authority, port, derivePort or scheme"
    if redirect.uri and redirect.prefix_rewrite:
        yield (*path, "prefixRewrite"), "can't stand beside uri: keep one"
    if redirect.prefix_rewrite:
        for index, match in enumerate(matches):
            if match.uri is not None and match.uri.prefix is None:
                yield (
                    (*path, "prefixRewrite"),
                    f"needs a match by prefix, and match[{index}].uri is none",
                )
    if redirect.port is not None and redirect.derive_port is not None:
        yield (*path, "derivePort"), "can't stand beside port: keep one"
    if redirect.redirect_code and redirect.redirect_code not in REDIRECT_CODES:
        codes = ", ".join(map(str, REDIRECT_CODES))
        yield (*path, "redirectCode"), f"must be one of {codes}, found {redirect.redirect_code}"
    if redirect.scheme not in ("", "http", "https"):
        yield (*path, "scheme"), f'must be http or https, found "{redirect.scheme}"'
    for field, text in (
        ("uri", redirect.uri),
        ("prefixRewrite", redirect.prefix_rewrite),
        ("authority", redirect.authority),
    ):
        yield from control_character_mistakes((*path, field), text)


def direct_response_mistakes(response: HttpDirectResponse, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a direct response."""
    if not is_http_status(response.status):
        yield (*path, "status"), f"must be from 200 to 599, found {response.status}"
    body = response.body
    if body is None:
        return
    if (body.string is None) == (body.bytes is None):
        yield (*path, "body"), "has string or bytes: give one of them"
    elif (size := body_size(body)) is None:
        yield (*path, "body", "bytes"), "is not base64"
    elif size > _MOST_BYTES:
        yield (*path, "body"), f"has {size} bytes, more than {_MOST_BYTES}"


def direct_response_warnings(response: HttpDirectResponse, path: FieldPath) -> Iterator[Finding]:
    """Yield that a body is large."""
    size = body_size(response.body) if response.body is not None else None
    if size is not None and size > _LARGE_BYTES:
        yield (*path, "body"), f"has {size} bytes, which every proxy keeps in memory"


def body_size(body: HttpBody) -> int | None:
    """Return how long a body is, in bytes; None if its base64 can't be read."""
    if body.bytes is None:
        return len((body.string or "").encode())
    try:
        return len(b64decode(body.bytes, validate=True))
    except (Base64Error, ValueError):
        return None


def is_http_status(status: int) -> bool:
    """Return whether Envoy takes this status in a direct response or an abort."""
    return 200 <= status <= 599
