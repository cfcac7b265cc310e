"""DestinationRule as a kind of configuration object."""

from istio_config.kinds.destination_rule._mistakes import mistakes, warnings
from istio_config.kinds.destination_rule._spec import DestinationRuleSpec
from istio_config.kinds.kind import Kind

DESTINATION_RULE = Kind(
    name="DestinationRule",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=DestinationRuleSpec,
    validate=mistakes,
    warn=warnings,
)
