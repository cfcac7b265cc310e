"""Clients: all of a proxy that the clusters and endpoints of services depend on, beside rules."""

from typing import NamedTuple

from mesh_model import Labels


class Location(NamedTuple):
    """Where a proxy runs."""

    locality: str = ""
    """`region/zone/subzone`."""
    network: str = ""
    cluster: str = ""
    node: str = ""
    """The Kubernetes node, if anything depends on it."""


NOWHERE = Location()
"""The location of all proxies where none depends on it: they then share what they get."""


class ClientFiles(NamedTuple):
    """The certificate that a proxy's node names for its calls, instead of the mesh's."""

    certificate: str
    key: str
    root: str


class Client(NamedTuple):
    """A proxy as services see it. Equal ones get equal clusters and endpoints of a service."""

    is_sidecar: bool = True
    redirected: bool = False
    """Whether connections come to it that were going elsewhere."""
    location: Location = NOWHERE
    labels: Labels = ()
    """Those of its labels that rules look at."""
    files: ClientFiles | None = None
