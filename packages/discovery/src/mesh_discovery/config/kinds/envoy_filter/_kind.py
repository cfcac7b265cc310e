"""The kind EnvoyFilter."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.envoy_filter._mistakes import mistakes
from mesh_discovery.config.kinds.envoy_filter._spec import EnvoyFilterSpec
from mesh_discovery.config.kinds.envoy_filter._warnings import lacks, warnings

ENVOY_FILTER = Kind(
    name="EnvoyFilter",
    group="networking.istio.io",
    versions=("v1alpha3",),
    spec=EnvoyFilterSpec,
    validate=mistakes,
    warn=warnings,
    lacks=lacks,
)
