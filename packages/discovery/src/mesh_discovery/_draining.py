"""How long an Envoy's listeners drain: what they use is kept for as long.

An agent starts its Envoy with the `drainDuration` of its own ProxyConfig, merged from files and
environment, and shows that ProxyConfig in its node. Who shows none has the mesh's. Envoy drains in
whole seconds, so what it uses is kept until the next one.
"""

import logging
import math
from collections.abc import Mapping

from mesh_configfile import Duration, DurationError
from xds_server import Node

log = logging.getLogger(__name__)

DRAIN_TIME = Duration(45)
"""Of agents that are told nothing else."""


def mesh_drain_time(default_config: Mapping[str, object]) -> Duration:
    """Return what the mesh config's `defaultConfig` says; raises `DurationError`."""
    value = default_config.get("drainDuration")
    return DRAIN_TIME if value is None else _whole_seconds(value if isinstance(value, str) else "")


def drain_time_of(node: Node, *, default: Duration) -> Duration:
    """Return what a proxy's agent says, else the default; of what can't be read, the log tells."""
    config = node.metadata.get("PROXY_CONFIG")
    value = config.get("drainDuration") if isinstance(config, dict) else None
    if value is None:
        return default
    try:
        return _whole_seconds(str(value))
    except DurationError as error:
        log.warning(
            "drainDuration of a proxy can't be read, that of the mesh is taken",
            extra={"node": node.id, "value": str(value)[:100], "reason": str(error)},
        )
        return default


def _whole_seconds(text: str) -> Duration:
    return Duration(math.ceil(Duration.parse(text)))
