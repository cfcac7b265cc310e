"""The fields of an HTTPRoute.

Source: the Gateway API, v1.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.fields import SpecFields, Text, Unchecked
from istio_config.kinds.gateway_api._headers import ValueMatch
from istio_config.kinds.gateway_api._http_filters import HttpFilter
from istio_config.kinds.gateway_api._references import BackendReference, ParentReference

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
    """How requests are routed that reach the parents."""

    parent_refs: tuple[ParentReference, ...] = ()
    use_default_gateways: str = "None"
    hostnames: tuple[Text, ...] = ()
    rules: tuple[HttpRule, ...] = (HttpRule(),)
