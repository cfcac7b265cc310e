"""The few facts of Envoy's node that saved configuration is bound to."""

from __future__ import annotations

from typing import NamedTuple

from mesh_protowire import WireError, numbers, scan, text

_ID, _CLUSTER, _BUILD_VERSION = 1, 2, 8
_VERSION = 1
_MAJOR_MINOR_PATCH = (1, 2, 3)


class DescribedNode(NamedTuple):
    """The node's id and cluster, and Envoy's version; empty texts for what it does not say."""

    node_id: str
    cluster: str
    envoy: str


def described_node(node: bytes) -> DescribedNode:
    """Read a serialised `core.v3.Node`. Raises WireError."""
    found = scan(node, frozenset({_ID, _CLUSTER, _BUILD_VERSION}))
    return DescribedNode(
        text(node, found.get(_ID)),
        text(node, found.get(_CLUSTER)),
        _version(node, found.get(_BUILD_VERSION, [])),
    )


def _version(node: bytes, builds: list[tuple[int, int]]) -> str:
    """Return major, minor and patch of the version of the build, such as 1.36.0."""
    found: dict[int, int] = {}
    try:
        for build in builds:
            for start, end in scan(node, frozenset({_VERSION}), *build).get(_VERSION, ()):
                found |= numbers(node[start:end])
    except WireError:
        return ""
    version = [found.get(number, 0) for number in _MAJOR_MINOR_PATCH]
    return ".".join(map(str, version)) if any(version) else ""
