"""How a client chooses one of a service's endpoints."""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.destination_rule._locality import LocalityLbSetting, ZoneAwareLbSetting
from istio_config.kinds.fields import SpecFields
from mesh_configfile import Duration

_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class SimpleLb(StrEnum):
    """The algorithms that need no further settings."""

    UNSPECIFIED = "UNSPECIFIED"
    LEAST_CONN = "LEAST_CONN"
    RANDOM = "RANDOM"
    PASSTHROUGH = "PASSTHROUGH"
    ROUND_ROBIN = "ROUND_ROBIN"
    LEAST_REQUEST = "LEAST_REQUEST"


class CookieAttribute(SpecFields, frozen=True):
    """One attribute of a cookie, such as SameSite."""

    name: str = ""
    value: str = ""


class HttpCookie(SpecFields, frozen=True):
    """The cookie that requests are told apart by."""

    name: str = ""
    path: str = ""
    ttl: Duration | None = None
    """None: the cookie is read and never set. 0: it lasts as long as the browser runs."""
    attributes: tuple[CookieAttribute, ...] = ()


class RingHash(SpecFields, frozen=True):
    """The hash ring."""

    minimum_ring_size: _Size = 0


class Maglev(SpecFields, frozen=True):
    """The table of the Maglev algorithm."""

    table_size: _Size | None = None


class ConsistentHash(SpecFields, frozen=True):
    """Requests that are alike in one thing go to the same endpoint."""

    http_header_name: str = ""
    http_cookie: HttpCookie | None = None
    use_source_ip: bool = False
    http_query_parameter_name: str = ""
    ring_hash: RingHash | None = None
    maglev: Maglev | None = None
    minimum_ring_size: _Size = 0
    """Deprecated; `ring_hash` has it now."""


class Warmup(SpecFields, frozen=True):
    """How the share of an endpoint that has just come grows."""

    duration: Duration | None = None
    minimum_percent: float | None = None
    aggression: float | None = None


class LoadBalancer(SpecFields, frozen=True):
    """How one of a service's endpoints is chosen."""

    simple: SimpleLb | None = None
    consistent_hash: ConsistentHash | None = None
    locality_lb_setting: LocalityLbSetting | None = None
    zone_aware_lb_setting: ZoneAwareLbSetting | None = None
    warmup_duration_secs: Duration | None = None
    """Deprecated; `warmup` has it now."""
    warmup: Warmup | None = None
