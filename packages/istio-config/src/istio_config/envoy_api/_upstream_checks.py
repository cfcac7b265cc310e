"""Demands of Envoy on the parts of clusters that no constraint of its API states.

Seen with Envoy 1.36 and 1.40.
"""

import ipaddress
from collections.abc import Mapping
from typing import Any as Unchecked

from istio_config.envoy_api._message_types import content_type
from istio_config.envoy_api._value_checks import TypeCheck

_POLICIES = "envoy.extensions.load_balancing_policies"
_HTTP = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
_CODEC = "envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec"
_BASE_EJECTION_S = 30
_MOST_RING = 8 * 1024 * 1024
_LEAST_RING = 1024
_NOT_PER_HOST = ("max_pending_requests", "max_requests", "max_retries", "max_connection_pools")
_NAMED_SETTINGS = {
    1: "hpack_table_size",
    3: "max_concurrent_streams",
    4: "initial_stream_window_size",
}
_PUSH = 2


def is_prime(number: int) -> bool:
    """Return whether a size of a table is one that Envoy's maglev takes; it takes 1 as well."""
    return number > 0 and all(number % each for each in range(2, int(number**0.5) + 1))


def ring_mistake(ring: Unchecked) -> str | None:
    """Return what is wrong with the sizes of a ring, or None."""
    most = ring.maximum_ring_size.value if ring.HasField("maximum_ring_size") else _MOST_RING
    least = ring.minimum_ring_size.value if ring.HasField("minimum_ring_size") else _LEAST_RING
    return f"the ring has {least} entries at least and {most} at most" if least > most else None


def table_mistake(maglev: Unchecked) -> str | None:
    """Return what is wrong with the size of a maglev table, or None."""
    if not maglev.HasField("table_size") or is_prime(maglev.table_size.value):
        return None
    return f"the table size of maglev must be a prime number, found {maglev.table_size.value}"


def duration_s(duration: Unchecked) -> float:
    """Return the seconds of a duration."""
    return float(duration.seconds + duration.nanos / 1e9)


def is_ip(address: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def balancing_policy(message: Unchecked) -> str:
    """Return the type of the first policy that Envoy takes of a list; empty if there is none."""
    types = (content_type(each.typed_extension_config.typed_config) for each in message.policies)
    return next((each for each in types if each.startswith(f"{_POLICIES}.")), "")


def _policies(message: Unchecked) -> tuple[str, str] | None:
    if not message.policies:
        return "policies", "is missing"
    return None if balancing_policy(message) else ("policies", "has none that balances load")


def _ring(message: Unchecked) -> tuple[str, str] | None:
    wrong = ring_mistake(message)
    return None if wrong is None else ("minimum_ring_size", f"is too large: {wrong}")


def _maglev(message: Unchecked) -> tuple[str, str] | None:
    wrong = table_mistake(message)
    return None if wrong is None else ("table_size", f"is refused: {wrong}")


def _filter(message: Unchecked) -> tuple[str, str] | None:
    if message.HasField("typed_config") or message.HasField("config_discovery"):
        return None
    return "typed_config", "is missing"


def _selector(message: Unchecked) -> tuple[str, str] | None:
    keys, rest = set(message.keys), set(message.fallback_keys_subset)
    field = "fallback_keys_subset"
    if message.fallback_policy != message.KEYS_SUBSET:
        return (field, "is for the fallback_policy KEYS_SUBSET alone") if rest else None
    return None if rest and rest < keys else (field, "must be some of keys, and not all")


def _outlier(message: Unchecked) -> tuple[str, str] | None:
    base: float = _BASE_EJECTION_S
    if message.HasField("base_ejection_time"):
        base = duration_s(message.base_ejection_time)
    if message.HasField("max_ejection_time") and duration_s(message.max_ejection_time) < base:
        return "max_ejection_time", f"must not be less than base_ejection_time, {base:g}s"
    return None


def _http_check(message: Unchecked) -> tuple[str, str] | None:
    for field in ("expected_statuses", "retriable_statuses"):
        for each in getattr(message, field):
            if not 100 <= each.start < each.end <= 600:
                found = f"found {each.start} to {each.end}"
                return field, f"must begin at 100 at least and end later, at 600 at most; {found}"
    return None


def _payload(message: Unchecked) -> tuple[str, str] | None:
    text = message.text
    if len(text) % 2 == 0 and all(each in "0123456789abcdefABCDEF" for each in text):
        return None
    return "text", f'must be hexadecimal digits, found "{text[:80]}"'


def _breakers(message: Unchecked) -> tuple[str, str] | None:
    fields = (*_NOT_PER_HOST, "retry_budget")
    for each in message.per_host_thresholds:
        for field in fields:
            if each.HasField(field):
                return "per_host_thresholds", f"can have max_connections alone, found {field}"
    return None


def _binding(message: Unchecked) -> tuple[str, str] | None:
    older, newer = message.additional_source_addresses, message.extra_source_addresses
    if older and newer:
        return "additional_source_addresses", "excludes extra_source_addresses"
    first = message.source_address.address
    more = [each.address for each in older] + [each.address.address for each in newer]
    if more and not message.HasField("source_address"):
        return "source_address", "is missing, and there are further ones"
    addresses = [*([first] if message.HasField("source_address") else []), *more]
    wrong = next((each for each in addresses if not is_ip(each)), None)
    if wrong is not None:
        return "source_address", f'must be an IP address, found "{wrong}"'
    versions = [ipaddress.ip_address(each).version for each in addresses]
    if len(set(versions)) < len(versions):
        return "source_address", "may be one for IPv4 and one for IPv6"
    return None


def _refresh_rate(message: Unchecked) -> tuple[str, str] | None:
    base, most = duration_s(message.base_interval), duration_s(message.max_interval)
    if message.HasField("max_interval") and most < base:
        return "max_interval", "must not be less than base_interval"
    return None


def _original_dst(message: Unchecked) -> tuple[str, str] | None:
    if message.http_header_name and not message.use_http_header:
        return "http_header_name", "needs use_http_header"
    return None


def _endpoint(message: Unchecked) -> tuple[str, str] | None:
    further = [(each.address, "additional_addresses") for each in message.additional_addresses]
    for address, field in (
        (message.health_check_config.address, "health_check_config"),
        *further,
    ):
        if address.HasField("socket_address") and not is_ip(address.socket_address.address):
            return field, f'must have an IP address, found "{address.socket_address.address}"'
        if field == "additional_addresses" and address.HasField("pipe"):
            return field, "must be IP addresses"  # until Envoy 1.36
    return None


def _drops(message: Unchecked) -> tuple[str, str] | None:
    if len(message.drop_overloads) > 1:
        return "drop_overloads", "may have 1 at most"
    for each in message.drop_overloads:
        share = each.drop_percentage
        if share.numerator > (100, 10_000, 1_000_000)[share.denominator]:
            return "drop_overloads", "must be 100 % at most"
    return None


def _http(message: Unchecked) -> tuple[str, str] | None:
    auto = message.auto_config
    cached = auto.HasField("alternate_protocols_cache_options")
    if auto.HasField("http3_protocol_options") and not cached:
        return "auto_config", "needs alternate_protocols_cache_options for HTTP/3"
    last = next(reversed(message.http_filters), None)
    if last is not None and last.HasField("typed_config"):
        if content_type(last.typed_config) == _CODEC:
            return None
        return "http_filters", "must end with the one of upstream_codec"
    return None


def _http2(message: Unchecked) -> tuple[str, str] | None:
    field = "custom_settings_parameters"
    found: dict[int, int] = {}
    for each in message.custom_settings_parameters:
        number, value = each.identifier.value, each.value.value
        if number == _PUSH and value:
            return field, "can't enable server push"
        if found.setdefault(number, value) != value:
            return field, f"has two values of the setting {number}"
        if (named := _NAMED_SETTINGS.get(number)) is not None and message.HasField(named):
            return field, f"has the setting {number}, which {named} gives as well"
    return None


CHECKS: Mapping[str, tuple[TypeCheck, ...]] = {
    "envoy.config.cluster.v3.CircuitBreakers": (_breakers,),
    "envoy.config.cluster.v3.Cluster.LbSubsetConfig.LbSubsetSelector": (_selector,),
    "envoy.config.cluster.v3.Cluster.OriginalDstLbConfig": (_original_dst,),
    "envoy.config.cluster.v3.Cluster.RefreshRate": (_refresh_rate,),
    "envoy.config.cluster.v3.Filter": (_filter,),
    "envoy.config.cluster.v3.LoadBalancingPolicy": (_policies,),
    "envoy.config.cluster.v3.OutlierDetection": (_outlier,),
    "envoy.config.core.v3.BindConfig": (_binding,),
    "envoy.config.core.v3.HealthCheck.HttpHealthCheck": (_http_check,),
    "envoy.config.core.v3.HealthCheck.Payload": (_payload,),
    "envoy.config.core.v3.Http2ProtocolOptions": (_http2,),
    "envoy.config.endpoint.v3.Endpoint": (_endpoint,),
    "envoy.config.endpoint.v3.ClusterLoadAssignment.Policy": (_drops,),
    f"{_POLICIES}.maglev.v3.Maglev": (_maglev,),
    f"{_POLICIES}.ring_hash.v3.RingHash": (_ring,),
    _HTTP: (_http,),
}
"""By the names of types."""
