"""How a client chooses one of a service's endpoints.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec

from istio_config.kinds.checks import duration_mistakes, is_header_name, percent_mistake
from istio_config.kinds.destination_rule._locality import (
    LocalityLbSetting,
    ZoneAwareLbSetting,
    locality_mistakes,
    zone_aware_mistakes,
)
from istio_config.kinds.fields import SpecFields, Text
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding

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
    """The cookie whose value is hashed."""

    name: str = ""
    path: str = ""
    ttl: Duration | None = None
    """None: Envoy only reads the cookie. 0: Envoy sets a session cookie where there is none."""
    attributes: tuple[CookieAttribute, ...] = ()


class RingHash(SpecFields, frozen=True):
    """The hash ring."""

    minimum_ring_size: _Size = 0


class Maglev(SpecFields, frozen=True):
    """The table of the Maglev algorithm."""

    table_size: _Size | None = None


class ConsistentHash(SpecFields, frozen=True):
    """Requests with the same value of a header, a cookie and so on go to the same endpoint."""

    http_header_name: str = ""
    http_cookie: HttpCookie | None = None
    use_source_ip: bool = False
    http_query_parameter_name: str = ""
    ring_hash: RingHash | None = None
    maglev: Maglev | None = None
    minimum_ring_size: _Size = 0
    """Deprecated for `ring_hash`."""


class Warmup(SpecFields, frozen=True):
    """How the share of a new endpoint grows (Envoy's slow start)."""

    duration: Duration | None = None
    minimum_percent: float | None = None
    aggression: float | None = None


class BackendUtilization(SpecFields, frozen=True):
    """The load that endpoints report themselves (ORCA), as their weights."""

    weight_stabilization_period: Duration | None = None
    weight_expiration_period: Duration | None = None
    weight_update_period: Duration | None = None
    error_utilization_penalty_percent: Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)] = 0
    metric_names_for_computing_utilization: tuple[Text, ...] = ()


class LoadBalancer(SpecFields, frozen=True):
    """How one of a service's endpoints is chosen."""

    simple: SimpleLb | None = None
    consistent_hash: ConsistentHash | None = None
    backend_utilization: BackendUtilization | None = None
    locality_lb_setting: LocalityLbSetting | None = None
    zone_aware_lb_setting: ZoneAwareLbSetting | None = None
    warmup_duration_secs: Duration | None = None
    """Deprecated for `warmup`."""
    warmup: Warmup | None = None


MOST_OF_A_TABLE = 5_000_011
"""Envoy's bound of a Maglev table, whose size has to be a prime number."""
MOST_OF_A_RING = 8_388_608
"""Envoy's bound of a hash ring."""


def load_balancer_mistakes(balancer: LoadBalancer) -> Iterator[Finding]:
    """Yield what is wrong with a load balancer; paths start below it."""
    hashing = balancer.consistent_hash
    if balancer.simple is not None and hashing is not None:
        yield ("simple",), "can't stand beside consistentHash: keep one of the two"
    if balancer.backend_utilization is not None and (
        balancer.simple is not None or hashing is not None
    ):
        yield ("backendUtilization",), "can't stand beside simple or consistentHash: keep one"
    if hashing is not None:
        for path, message in _hash_mistakes(hashing):
            yield ("consistentHash", *path), message
    yield from _warmup_mistakes(balancer)
    if balancer.locality_lb_setting is not None:
        for path, message in locality_mistakes(balancer.locality_lb_setting):
            yield ("localityLbSetting", *path), message
    if balancer.zone_aware_lb_setting is not None:
        for path, message in zone_aware_mistakes(balancer.zone_aware_lb_setting):
            yield ("zoneAwareLbSetting", *path), message


def load_balancer_warnings(balancer: LoadBalancer) -> Iterator[Finding]:
    """Yield the settings of a load balancer that are deprecated, or have no effect."""
    if balancer.simple is SimpleLb.LEAST_CONN:
        yield ("simple",), "LEAST_CONN is deprecated; use LEAST_REQUEST, which is the same"
    if balancer.backend_utilization is not None:
        yield (
            ("backendUtilization",),
            "is not supported: endpoints are chosen by LEAST_REQUEST, whatever load they report",
        )
    hashing = balancer.consistent_hash
    if hashing is not None:
        if hashing.minimum_ring_size:
            yield ("consistentHash", "minimumRingSize"), "is deprecated; use ringHash"
        if not hash_keys(hashing):
            yield (
                ("consistentHash",),
                (
                    "names nothing to tell requests apart by, so that endpoints are chosen at "
                    f"random; give one of {', '.join(_KEYS)}"
                ),
            )
    zones = balancer.zone_aware_lb_setting
    if zones is not None and zones.enabled is not False:
        yield (
            ("zoneAwareLbSetting",),
            (
                "regions come before others, and zones do not: proxies would have to know the "
                "other workloads of their own service"
            ),
        )
    if balancer.warmup is not None or balancer.warmup_duration_secs is not None:
        if balancer.warmup_duration_secs is not None:
            yield ("warmupDurationSecs",), "is deprecated; use warmup"
        if hashing is not None or balancer.simple in (SimpleLb.RANDOM, SimpleLb.PASSTHROUGH):
            yield (
                ("warmup" if balancer.warmup is not None else "warmupDurationSecs",),
                "has an effect with ROUND_ROBIN and LEAST_REQUEST only",
            )


def hash_keys(hashing: ConsistentHash) -> tuple[str, ...]:
    """Return the fields that are given to be hashed."""
    given = (
        hashing.http_header_name,
        hashing.http_cookie,
        hashing.use_source_ip,
        hashing.http_query_parameter_name,
    )
    return tuple(name for name, value in zip(_KEYS, given, strict=True) if value)


_KEYS = ("httpHeaderName", "httpCookie", "useSourceIp", "httpQueryParameterName")


def _hash_mistakes(hashing: ConsistentHash) -> Iterator[Finding]:
    keys = hash_keys(hashing)
    if len(keys) > 1:
        yield (keys[1],), f"can't stand beside {keys[0]}: keep one of them"
    if hashing.http_header_name and not is_header_name(hashing.http_header_name):
        yield ("httpHeaderName",), f'"{hashing.http_header_name}" is not the name of a header'
    if hashing.http_cookie is not None:
        for path, message in _cookie_mistakes(hashing.http_cookie):
            yield ("httpCookie", *path), message
    algorithms = [
        name
        for name, given in (
            ("ringHash", hashing.ring_hash is not None),
            ("maglev", hashing.maglev is not None),
            ("minimumRingSize", hashing.minimum_ring_size > 0),
        )
        if given
    ]
    if len(algorithms) > 1:
        yield (algorithms[1],), f"can't stand beside {algorithms[0]}: keep one of them"
    ring = hashing.ring_hash or RingHash()
    for path, size in (
        (("ringHash", "minimumRingSize"), ring.minimum_ring_size),
        (("minimumRingSize",), hashing.minimum_ring_size),
    ):
        if size > MOST_OF_A_RING:
            yield path, f"is {size}; the largest ring has {MOST_OF_A_RING} places"
    table = hashing.maglev.table_size if hashing.maglev is not None else None
    if table is not None and not (table < MOST_OF_A_TABLE and _is_prime(table)):
        yield (
            ("maglev", "tableSize"),
            f"is {table}; it must be a prime number below {MOST_OF_A_TABLE}, such as 65537",
        )


def _cookie_mistakes(cookie: HttpCookie) -> Iterator[Finding]:
    if not cookie.name:
        yield (), "the field name is missing"
    elif not is_header_name(cookie.name):
        yield ("name",), f'"{cookie.name}" is not the name of a cookie'
    yield from duration_mistakes(("ttl",), cookie.ttl, may_be_zero=True)
    seen: set[str] = set()
    for index, attribute in enumerate(cookie.attributes):
        path = ("attributes", index, "name")
        if not attribute.name:
            yield path, "must not be empty"
        elif attribute.name in seen:
            yield path, f'the attribute "{attribute.name}" is given twice'
        seen.add(attribute.name)


def _warmup_mistakes(balancer: LoadBalancer) -> Iterator[Finding]:
    yield from duration_mistakes(("warmupDurationSecs",), balancer.warmup_duration_secs)
    warmup = balancer.warmup
    if warmup is None:
        return
    if warmup.duration is None:
        yield ("warmup",), "the field duration is missing"
    yield from duration_mistakes(("warmup", "duration"), warmup.duration)
    least = warmup.minimum_percent
    if least is not None and (wrong := percent_mistake(least)) is not None:
        yield ("warmup", "minimumPercent"), wrong
    if warmup.aggression is not None and warmup.aggression < 1:
        yield ("warmup", "aggression"), f"expected at least 1, found {warmup.aggression:g}"
    if balancer.warmup_duration_secs not in (None, warmup.duration):
        yield ("warmupDurationSecs",), "can't stand beside warmup: keep warmup"


def _is_prime(number: int) -> bool:
    if number < 2:
        return False
    return all(number % each for each in range(2, int(number**0.5) + 1))
