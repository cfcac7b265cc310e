"""The fields of what is done with requests: redirects, rewrites, retries, faults, CORS and so on.

Source: Istio's API, networking/v1.
"""

from enum import StrEnum

from istio_config.kinds.fields import PortNumber, SpecFields
from istio_config.kinds.virtual_service._destinations import Destination, Percent
from istio_config.kinds.virtual_service._matches import StringMatch
from mesh_configfile import Duration


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
    """0: 301."""


class HttpBody(SpecFields, frozen=True):
    """A body, as text or as bytes in base64."""

    string: str | None = None
    bytes: str | None = None


class HttpDirectResponse(SpecFields, frozen=True):
    """An answer of the proxy's own."""

    status: int = 0
    body: HttpBody | None = None


class Delegate(SpecFields, frozen=True):
    """The VirtualService that has the routes."""

    name: str = ""
    namespace: str = ""


class RegexRewrite(SpecFields, frozen=True):
    """A replacement of the path by a regular expression."""

    match: str = ""
    rewrite: str = ""


class HttpRewrite(SpecFields, frozen=True):
    """Changes of the path and the authority."""

    uri: str = ""
    authority: str = ""
    uri_regex_rewrite: RegexRewrite | None = None


class HttpRetry(SpecFields, frozen=True):
    """How often and when a request is tried again."""

    attempts: int = 0
    per_try_timeout: Duration | None = None
    retry_on: str = ""
    retry_remote_localities: bool | None = None
    retry_ignore_previous_hosts: bool | None = None
    backoff: Duration | None = None


class Delay(SpecFields, frozen=True):
    """A delay before requests are forwarded."""

    percent: int = 0
    """Deprecated for `percentage`."""
    percentage: Percent | None = None
    fixed_delay: Duration | None = None
    exponential_delay: Duration | None = None


class Abort(SpecFields, frozen=True):
    """Requests that are answered with an error."""

    http_status: int | None = None
    grpc_status: str | None = None
    http2_error: str | None = None
    percentage: Percent | None = None


class FaultInjection(SpecFields, frozen=True):
    """Faults that are made on purpose."""

    delay: Delay | None = None
    abort: Abort | None = None


class MirrorPolicy(SpecFields, frozen=True):
    """A destination that gets a copy of requests."""

    destination: Destination | None = None
    percentage: Percent | None = None


class UnmatchedPreflights(StrEnum):
    """Where preflights of other origins go."""

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
