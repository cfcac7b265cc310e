"""How long the Envoy of a proxy drains: what its listeners use is kept for as long.

An agent starts its Envoy with the `drainDuration` of its own ProxyConfig, merged from files and
environment, and sends that ProxyConfig in its node. A node without one has the mesh's drain time.
"""

import logging

from istio_config.kinds.mesh_config import drain_time
from mesh_configfile import Duration, DurationError
from xds_server import Node

log = logging.getLogger(__name__)


def drain_time_of(node: Node, *, default: Duration) -> Duration:
    """Return the node's drain time; the default if it has none or one that can't be read."""
    config = node.metadata.get("PROXY_CONFIG")
    value = config.get("drainDuration") if isinstance(config, dict) else None
    if value is None:
        return default
    try:
        return drain_time(str(value))
    except DurationError as error:
        log.warning(
            "drainDuration of a proxy can't be read, that of the mesh is taken",
            extra={"node": node.id, "value": str(value)[:100], "reason": str(error)},
        )
        return default
