"""Proxies of a mesh whose settings are the usual ones."""

from mesh_discovery.config.kinds.mesh_config._interception import InterceptionMode
from mesh_discovery.plan._proxy import Proxy, parse_proxy
from xds_server import Node


def proxy_of(
    node: Node,
    *,
    source: str = "",
    mesh_interception: InterceptionMode = InterceptionMode.NONE,
) -> Proxy:
    """Read a node of a mesh with the domain `cluster.local`."""
    return parse_proxy(
        node,
        domain_suffix="cluster.local",
        source=source,
        mesh_interception=mesh_interception,
    )
