"""The kind Gateway of Istio's API."""

from istio_config.kinds.gateway._rules import gateway_mistakes, gateway_warnings
from istio_config.kinds.gateway._spec import GatewaySpec
from istio_config.kinds.kind import Kind

GATEWAY = Kind(
    name="Gateway",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=GatewaySpec,
    validate=gateway_mistakes,
    warn=gateway_warnings,
)
