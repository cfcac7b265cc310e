"""Limits of connections and of memory, and what Envoy does near them."""

from __future__ import annotations

from envoy_supervisor._json import JSON
from envoy_supervisor.bootstrap._static_resources import TYPES

SHRINK_AT = 0.9
REFUSE_AT = 0.98

_CONNECTIONS = "envoy.resource_monitors.global_downstream_max_connections"
_HEAP = "envoy.resource_monitors.fixed_heap"


def overload_manager(max_connections: int, max_heap_bytes: int | None) -> dict[str, JSON]:
    """Return `overload_manager` of the bootstrap."""
    monitors: list[JSON] = [
        {
            "name": _CONNECTIONS,
            "typed_config": {
                "@type": (
                    f"{TYPES}.resource_monitors.downstream_connections.v3"
                    ".DownstreamConnectionsConfig"
                ),
                "max_active_downstream_connections": str(max_connections),
            },
        }
    ]
    if max_heap_bytes is None:
        return {"resource_monitors": monitors}
    monitors.append(
        {
            "name": _HEAP,
            "typed_config": {
                "@type": f"{TYPES}.resource_monitors.fixed_heap.v3.FixedHeapConfig",
                "max_heap_size_bytes": str(max_heap_bytes),
            },
        }
    )
    return {
        "refresh_interval": "0.250s",
        "resource_monitors": monitors,
        "actions": [
            _action("shrink_heap", SHRINK_AT),
            _action("stop_accepting_requests", REFUSE_AT),
        ],
    }


def _action(name: str, at: float) -> JSON:
    return {
        "name": f"envoy.overload_actions.{name}",
        "triggers": [{"name": _HEAP, "threshold": {"value": at}}],
    }
