"""How long an Envoy's listeners drain, from `drainDuration` of a mesh config or of a proxy.

Envoy drains in whole seconds, so what it uses is kept until the next one.
"""

import math
from collections.abc import Mapping

from mesh_configfile import Duration

DRAIN_TIME = Duration(45)
"""Of agents that are told nothing else; Istio's and Envoy's default."""


def mesh_drain_time(default_config: Mapping[str, object]) -> Duration:
    """Return what the mesh config's `defaultConfig` says; raises `DurationError`."""
    value = default_config.get("drainDuration")
    return DRAIN_TIME if value is None else drain_time(value if isinstance(value, str) else "")


def drain_time(text: str) -> Duration:
    """Read a `drainDuration`, rounded up to whole seconds; raises `DurationError`."""
    return Duration(math.ceil(Duration.parse(text)))
