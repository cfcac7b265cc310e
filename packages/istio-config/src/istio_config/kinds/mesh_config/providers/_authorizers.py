"""Services that decide whether requests may pass (Envoy's ext_authz)."""

from typing import Annotated

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text
from mesh_configfile import Duration


class RequestBodyInCheck(SpecFields, frozen=True):
    """How much of a request's body the authorizer is told."""

    max_request_bytes: Annotated[int, msgspec.Meta(ge=1, le=2**32 - 1)]
    allow_partial_message: bool = False
    """Whether of a longer body the beginning is told; if not, it is answered with 413."""
    pack_as_bytes: bool = False
    """Whether it is sent as bytes, not as text; of gRPC authorizers only."""


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
    """Of the answer while it can't be asked; empty: 403."""
    include_headers_in_check: tuple[str, ...] = ()
    """The older name of `includeRequestHeadersInCheck`, which goes before it."""
    include_request_headers_in_check: tuple[str, ...] = ()
    """As all lists of headers here: names, or beginnings (`x-*`) or ends (`*-id`) of them."""
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
        """The headers of requests that it is told, by either name of the field."""
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
