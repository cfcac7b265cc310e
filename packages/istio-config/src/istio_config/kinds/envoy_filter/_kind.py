"""The kind EnvoyFilter."""

from istio_config.kinds.envoy_filter._mistakes import mistakes
from istio_config.kinds.envoy_filter._spec import EnvoyFilterSpec
from istio_config.kinds.envoy_filter._warnings import lacks, warnings
from istio_config.kinds.kind import Kind

ENVOY_FILTER = Kind(
    name="EnvoyFilter",
    group="networking.istio.io",
    versions=("v1alpha3",),
    spec=EnvoyFilterSpec,
    validate=mistakes,
    warn=warnings,
    lacks=lacks,
)
