"""Proxies as the xDS server sees them, without connections: which of them are sent a change.

A `Mesh` serves documents to proxies. `change` replaces documents and returns, for each proxy, the
types of which it is sent something, and those of which it would have to be sent something by what
it has: the smallest possible. What a proxy has after a change is compared with what a control
plane that starts with the new documents would give it.
"""

from pushed_meshes._documents import egress, route, service
from pushed_meshes._mesh import Change, Mesh, StrictMesh
from pushed_meshes._proxies import router, sidecar

__all__ = [
    "Change",
    "Mesh",
    "StrictMesh",
    "egress",
    "route",
    "router",
    "service",
    "sidecar",
]
