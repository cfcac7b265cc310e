"""VirtualServices that are built from routes of the Gateway API."""

from collections.abc import Sequence

from istio_config import ConfigObject
from istio_config.kinds.virtual_service import VirtualServiceSpec
from mesh_model.virtual_services._virtual_services import GATEWAY_SEMANTICS


def virtual_service(
    sources: Sequence[ConfigObject], *, namespace: str, name: str, spec: VirtualServiceSpec
) -> ConfigObject:
    """Return the VirtualService of these routes; its age is that of the oldest."""
    oldest = min(sources, key=age)
    return ConfigObject(
        kind="VirtualService",
        group="networking.istio.io",
        namespace=namespace,
        name=name,
        spec=spec,
        annotations=(GATEWAY_SEMANTICS,),
        created=oldest.created,
        origin=oldest.origin,
    )


def age(item: ConfigObject) -> tuple[str, str, str]:
    """Return the key by which routes are ordered, oldest first, then by namespace and name."""
    return item.created or "9999", f"{item.namespace}/{item.name}", item.kind
