"""The extension providers of a mesh by name, Istio's own among them."""

from collections.abc import Mapping

from istio_config.kinds.mesh_config import MeshConfigSpec
from istio_config.kinds.mesh_config.providers import PROMETHEUS, ExtensionProvider

BUILT_IN_LOG = "envoy"
"""The log of Istio's own, on standard output in the mesh's format."""


def providers_of(mesh: MeshConfigSpec) -> Mapping[str, ExtensionProvider]:
    """Return the providers that mesh config defines, by their names in small letters."""
    return {each.name.lower(): each for each in mesh.extension_providers}


def makes_metrics(name: str, mesh: MeshConfigSpec) -> bool:
    """Return whether a provider takes metrics that proxies make: Istio's own, or one like it."""
    provider = providers_of(mesh).get(name.lower())
    if provider is None:
        return name.lower() == PROMETHEUS
    return provider.prometheus is not None
