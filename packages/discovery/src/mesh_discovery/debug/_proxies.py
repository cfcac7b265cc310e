"""The connected proxies among the clients, and how they are named on debug pages."""

from collections.abc import Iterable, Iterator

from xds_server import ClientStatus

_TOOLS = "event"
"""The GENERATOR that istioctl names in its node's metadata."""


def proxies(clients: Iterable[ClientStatus]) -> Iterator[ClientStatus]:
    """Yield the clients that are proxies, and no tools that ask for pages like these."""
    for client in clients:
        if client.node.metadata.get("GENERATOR") != _TOOLS:
            yield client


def short_id(node_id: str) -> str:
    """Return the `name.namespace` in a node id, by which Istio's pages name a proxy."""
    parts = node_id.split("~")
    return parts[2] if len(parts) > 2 else node_id


def is_named(client: ClientStatus, proxy_id: str) -> bool:
    """Return whether an id is that of a proxy: of its node, or the `name.namespace` in it."""
    return bool(proxy_id) and proxy_id in (client.node.id, short_id(client.node.id))


def kind_of(node_id: str) -> str:
    """Return the type in a node id: sidecar or router."""
    return node_id.partition("~")[0]


def text_of(client: ClientStatus, key: str) -> str:
    """Return a text of the node's metadata; empty if there is none."""
    value = client.node.metadata.get(key)
    return value if isinstance(value, str) else ""
