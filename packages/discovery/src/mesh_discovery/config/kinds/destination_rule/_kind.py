"""DestinationRule as a kind of configuration object."""

from mesh_discovery.config.kinds._kind import Kind
from mesh_discovery.config.kinds.destination_rule._mistakes import mistakes, warnings
from mesh_discovery.config.kinds.destination_rule._spec import DestinationRuleSpec

DESTINATION_RULE = Kind(
    name="DestinationRule",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=DestinationRuleSpec,
    validate=mistakes,
    warn=warnings,
)
