"""Limits of Envoy: its connections, its heap, and runtime values."""

import logging
from collections.abc import Mapping

import envoy_supervisor
from envoy_supervisor import JSON
from istio_settings import Fields, ProxyConfig, Settings
from mesh_configfile import QuantityError, parse_bytes

log = logging.getLogger(__name__)

_HEAP = "MESH_AGENT_ENVOY_MAX_HEAP"
_LIMIT = "ISTIO_META_GLOBAL_DOWNSTREAM_MAX_CONNECTIONS"
_OLD_LIMIT = "overload.global_downstream_max_connections"
_MOST_CONNECTIONS = 2**63 - 1
_LEAST_HEAP = 32 << 20
# The memory of the agent, which shares the cgroup, and Envoy's memory beside its heap.
_BESIDE_HEAP = 96 << 20


def runtime_values(proxy: ProxyConfig, problems: list[str]) -> Mapping[str, JSON]:
    """Return the runtime values to be laid over the defaults, by name."""
    fields = Fields.top_level(proxy, "runtimeValues", problems)
    values = proxy.merged.get("runtimeValues")
    if fields is None or not isinstance(values, Mapping):
        return {}
    for name, value in values.items():
        if not isinstance(value, str | bool | int | float):
            fields.complain(name, f"is {value!r}, it must be text, a number, true or false")
        elif name == _OLD_LIMIT and value != "" and _count(value) is None:
            fields.complain(name, f"is {value!r}, it must be a number of connections")
    return values


def max_connections(
    proxy: ProxyConfig, metadata: Mapping[str, JSON], problems: list[str]
) -> int | None:
    """Return how many downstream connections Envoy takes; None leaves it to the runtime values.

    Precedence is Istio's: connectionSettings, then node metadata.
    """
    name = "globalDownstreamConnectionLimit"
    settings = Fields.top_level(proxy, "connectionSettings", problems)
    if settings is not None and (value := settings.value(name)) is not None:
        if (limit := _count(value)) is None:
            settings.complain(name, f"is {value!r}, it must be a number of connections")
        return limit
    value = metadata.get(_LIMIT.removeprefix("ISTIO_META_"))
    if value is None or value == "":
        return None
    if (limit := _count(value)) is None:
        problems.append(f"{_LIMIT} is {value!r}, it must be a number of connections")
    return limit


def max_heap_bytes(settings: Settings) -> int | None:
    """Return how large Envoy's heap may get before Envoy refuses requests; None for no limit.

    `auto` is what the memory cgroup allows, less the agent's memory and Envoy's beside its heap,
    but at least half.
    """
    text = settings.text(_HEAP)
    if not text:
        return None
    if text.lower() == "auto":
        allowed = envoy_supervisor.memory_limit()
        if allowed is None:
            log.warning(
                "envoy's heap is not limited: MESH_AGENT_ENVOY_MAX_HEAP is auto, and the memory"
                " cgroup has no limit; give a number of bytes"
            )
            return None
        return max(allowed - _BESIDE_HEAP, allowed // 2)
    try:
        size = parse_bytes(text)
    except QuantityError:
        size = 0
    if not _LEAST_HEAP <= size < 1 << 60:
        settings.problems.append(
            f"{_HEAP} is {text!r}, it must be auto or a number of bytes, 32Mi or more"
        )
        return None
    return size


def _count(value: JSON) -> int | None:
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    return int(text) if 0 < int(text) <= _MOST_CONNECTIONS else None
