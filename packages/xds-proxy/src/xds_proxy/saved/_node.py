"""The few facts of Envoy's node that saved configuration is bound to."""

from __future__ import annotations

from typing import NamedTuple

from xds_proxy._errors import WireError
from xds_proxy.protocol._wire import fields, scan, text

_ID, _CLUSTER, _BUILD_VERSION = 1, 2, 8
_VERSION = 1
_MOST_DIGITS_BYTES = 5


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
    numbers = {1: 0, 2: 0, 3: 0}
    try:
        for build in builds:
            for span in scan(node, frozenset({_VERSION}), *build).get(_VERSION, ()):
                for each in fields(node, *span):
                    if each.number in numbers and each.end - each.body <= _MOST_DIGITS_BYTES:
                        numbers[each.number] = _number(node[each.body : each.end])
    except WireError:
        return ""
    return ".".join(map(str, numbers.values())) if any(numbers.values()) else ""


def _number(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint))
