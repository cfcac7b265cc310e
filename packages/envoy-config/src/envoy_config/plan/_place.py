"""Places: the locality, network and cluster of a proxy, which decide over its endpoints."""

from typing import NamedTuple


class Place(NamedTuple):
    """Where a proxy runs."""

    locality: str = ""
    """`region/zone/subzone`."""
    network: str = ""
    cluster: str = ""
    node: str = ""
    """The Kubernetes node, if anything depends on it."""


NOWHERE = Place()
"""The place of all proxies where places decide over nothing: they then share what they get."""
