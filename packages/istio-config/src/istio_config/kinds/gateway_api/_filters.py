"""The filters of routes: changes of headers, redirects, rewrites, mirrors, CORS.

Source: the Gateway API, v1.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text, Unchecked
from istio_config.kinds.gateway_api._headers import HeaderFilter
from istio_config.kinds.gateway_api._references import BackendObjectReference, LocalReference

Percent: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=100)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class FilterType(StrEnum):
    """The filters of an HTTPRoute, and of a GRPCRoute as far as it has them."""

    REQUEST_HEADER_MODIFIER = "RequestHeaderModifier"
    RESPONSE_HEADER_MODIFIER = "ResponseHeaderModifier"
    REQUEST_MIRROR = "RequestMirror"
    REQUEST_REDIRECT = "RequestRedirect"
    URL_REWRITE = "URLRewrite"
    CORS = "CORS"
    EXTERNAL_AUTH = "ExternalAuth"
    EXTENSION_REF = "ExtensionRef"


class PathModifierType(StrEnum):
    """The part of a path that is replaced."""

    REPLACE_FULL_PATH = "ReplaceFullPath"
    REPLACE_PREFIX_MATCH = "ReplacePrefixMatch"


class PathModifier(SpecFields, frozen=True):
    """A change of the path."""

    type: PathModifierType
    replace_full_path: str | None = None
    replace_prefix_match: str | None = None


class Redirect(SpecFields, frozen=True):
    """An answer that sends the client elsewhere."""

    scheme: str | None = None
    hostname: Text | None = None
    path: PathModifier | None = None
    port: PortNumber | None = None
    status_code: int = 302


class UrlRewrite(SpecFields, frozen=True):
    """Changes of a request's URL on its way to the backend."""

    hostname: Text | None = None
    path: PathModifier | None = None


class Fraction(SpecFields, frozen=True):
    """A share of requests, as a fraction."""

    numerator: Count
    denominator: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 100


class Mirror(SpecFields, frozen=True):
    """A backend that gets copies of the requests."""

    backend_ref: BackendObjectReference
    percent: Percent | None = None
    fraction: Fraction | None = None

    @property
    def share(self) -> float:
        """The percentage of requests that are copied."""
        if self.fraction is not None:
            return 100 * self.fraction.numerator / self.fraction.denominator
        return 100 if self.percent is None else self.percent


class Cors(SpecFields, frozen=True):
    """The requests that browsers may make from pages of other origins."""

    allow_origins: tuple[Text, ...] = ()
    allow_credentials: bool = False
    allow_methods: tuple[Text, ...] = ()
    allow_headers: tuple[Text, ...] = ()
    expose_headers: tuple[Text, ...] = ()
    max_age: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] = 5


class HttpFilter(SpecFields, frozen=True):
    """A filter of an HTTPRoute: only the field that its type names is set."""

    type: FilterType
    request_header_modifier: HeaderFilter | None = None
    response_header_modifier: HeaderFilter | None = None
    request_mirror: Mirror | None = None
    request_redirect: Redirect | None = None
    url_rewrite: UrlRewrite | None = None
    cors: Cors | None = None
    external_auth: Unchecked = None
    extension_ref: LocalReference | None = None


class GrpcFilter(SpecFields, frozen=True):
    """A filter of a GRPCRoute: only the field that its type names is set."""

    type: FilterType
    request_header_modifier: HeaderFilter | None = None
    response_header_modifier: HeaderFilter | None = None
    request_mirror: Mirror | None = None
    extension_ref: LocalReference | None = None
