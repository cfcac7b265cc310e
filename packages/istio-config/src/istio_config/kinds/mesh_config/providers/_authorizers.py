"""Services that decide whether requests may pass (Envoy's ext_authz).

Source: Istio's API, mesh/v1alpha1.
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import PortNumber, SpecFields, Text
from istio_config.kinds.mesh_config.providers._headers import header_mistakes
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding


class RequestBodyInCheck(SpecFields, frozen=True):
    """How much of a request's body is sent to the authorizer."""

    max_request_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
    allow_partial_message: bool = False
    """Whether only the beginning of a longer body is sent; if not, the answer to it is 413."""
    pack_as_bytes: bool = False
    """Whether it is sent as bytes, not as text; for gRPC authorizers only."""


class HttpAuthorizer(SpecFields, frozen=True):
    """An authorizer that is asked by HTTP; it allows by answering 200."""

    service: Text
    port: PortNumber
    timeout: Duration | None = None
    path_prefix: str = ""
    fail_open: bool = False
    """Whether requests pass while it can't be asked."""
    clear_route_cache: bool = False
    """Whether the route is chosen again by the headers that it sets."""
    status_on_error: str = ""
    """The status of the answer while it can't be asked; empty: 403."""
    include_headers_in_check: tuple[str, ...] = ()
    """The older name of `includeRequestHeadersInCheck`, which has precedence."""
    include_request_headers_in_check: tuple[str, ...] = ()
    """Names, prefixes (`x-*`) or suffixes (`*-id`), as in all lists of headers here."""
    include_additional_headers_in_check: dict[str, str] = msgspec.field(default_factory=dict)
    include_request_body_in_check: RequestBodyInCheck | None = None
    headers_to_upstream_on_allow: tuple[str, ...] = ()
    headers_to_downstream_on_deny: tuple[str, ...] = ()
    headers_to_downstream_on_allow: tuple[str, ...] = ()

    def __hash__(self) -> int:
        """Return the same number for equal ones, whatever headers they add."""
        return hash((self.service, self.port, self.path_prefix, self.timeout))

    @property
    def request_headers(self) -> tuple[str, ...]:
        """The headers of requests that are sent to it, by either name of the field."""
        return self.include_request_headers_in_check or self.include_headers_in_check


class GrpcAuthorizer(SpecFields, frozen=True):
    """An authorizer that is asked by gRPC, about requests and connections."""

    service: Text
    port: PortNumber
    timeout: Duration | None = None
    fail_open: bool = False
    clear_route_cache: bool = False
    status_on_error: str = ""
    include_request_body_in_check: RequestBodyInCheck | None = None


Authorizer: TypeAlias = HttpAuthorizer | GrpcAuthorizer
_CODES = frozenset(
    str(each)
    for each in (
        *range(200, 209),
        226,
        *range(300, 306),
        307,
        308,
        *range(400, 418),
        421,
        422,
        423,
        424,
        426,
        428,
        429,
        431,
        *range(500, 509),
        510,
        511,
    )
)
"""The statuses that Envoy has a name for (`envoy.type.v3.StatusCode`) and can answer with."""


def authorizer_mistakes(authorizer: Authorizer) -> Iterator[Finding]:
    """Yield what is wrong with an authorizer; paths start below it."""
    code = authorizer.status_on_error
    if code and code not in _CODES:
        yield ("statusOnError",), f'"{code}" is not an HTTP status that Envoy can answer with'
    if isinstance(authorizer, GrpcAuthorizer):
        return
    yield from _http_authorizer_mistakes(authorizer)


def _http_authorizer_mistakes(authorizer: HttpAuthorizer) -> Iterator[Finding]:
    prefix = authorizer.path_prefix
    if prefix and (not prefix.startswith("/") or any(each in prefix for each in "?# ")):
        yield ("pathPrefix",), f'"{prefix}" is not a path; it must begin with "/"'
    body = authorizer.include_request_body_in_check
    if body is not None and body.pack_as_bytes:
        yield (
            ("includeRequestBodyInCheck", "packAsBytes"),
            "is for envoyExtAuthzGrpc: by HTTP a body is sent as it is",
        )
    for field, listed in (
        ("includeHeadersInCheck", authorizer.include_headers_in_check),
        ("includeRequestHeadersInCheck", authorizer.include_request_headers_in_check),
        ("headersToUpstreamOnAllow", authorizer.headers_to_upstream_on_allow),
        ("headersToDownstreamOnDeny", authorizer.headers_to_downstream_on_deny),
        ("headersToDownstreamOnAllow", authorizer.headers_to_downstream_on_allow),
    ):
        for index, each in enumerate(listed):
            plain = each[:-1] if each.endswith("*") else each.removeprefix("*")
            if not is_header_name(plain) or "*" in plain:
                yield (
                    (field, index),
                    f'"{each}" is not a header, nor a beginning (x-*) or an end (*-id) of headers',
                )
    for name, value in authorizer.include_additional_headers_in_check.items():
        path: FieldPath = ("includeAdditionalHeadersInCheck", name)
        yield from header_mistakes(name, value, path, path)
