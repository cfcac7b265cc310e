"""Clients: all of a proxy that the clusters and endpoints of services depend on, beside rules."""

from typing import NamedTuple

from envoy_config.plan._place import NOWHERE, Place
from mesh_model import Labels


class ClientFiles(NamedTuple):
    """The certificate that a proxy's node names for its calls, instead of the mesh's."""

    certificate: str
    key: str
    root: str


class Client(NamedTuple):
    """A proxy as services see it. Equal ones get equal clusters and endpoints of a service."""

    is_sidecar: bool = True
    captured: bool = False
    """Whether connections come to it that were going elsewhere."""
    place: Place = NOWHERE
    labels: Labels = ()
    """Those of its labels that rules look at."""
    files: ClientFiles | None = None
