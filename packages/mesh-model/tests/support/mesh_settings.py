"""The settings that a mesh has without a mesh config, as the parts of its model take them."""

from mesh_model._destination_rules import RuleSettings
from mesh_model._visibility import NO_OWNERS
from mesh_model.virtual_services._virtual_services import VirtualServiceSettings

DOMAIN = "cluster.local"
RULES = RuleSettings(domain=DOMAIN, root_namespace="istio-system", export_to=("*",))
VIRTUAL_SERVICES = VirtualServiceSettings(export_to=("*",), domain=DOMAIN, owners=NO_OWNERS)
