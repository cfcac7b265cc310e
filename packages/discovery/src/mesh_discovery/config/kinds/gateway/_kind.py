"""The kind Gateway of Istio's API."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.gateway._rules import gateway_mistakes, gateway_warnings
from mesh_discovery.config.kinds.gateway._spec import GatewaySpec

GATEWAY = Kind(
    name="Gateway",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=GatewaySpec,
    validate=gateway_mistakes,
    warn=gateway_warnings,
)
