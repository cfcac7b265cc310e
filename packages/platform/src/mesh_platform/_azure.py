"""Azure: the instance metadata service. Source: "Azure Instance Metadata Service for VMs"."""

from mesh_platform._http import MetadataAddress, ask_for_text, read_object
from mesh_platform._platform import Platform, word, words

_COMPUTE = "/metadata/instance/compute?api-version=2021-02-01"


async def ask_azure(server: MetadataAddress) -> Platform:
    """Return what Azure knows of this machine; raises `NoMetadata`."""
    text, _ = await ask_for_text(server, _COMPUTE, host=server.host, headers={"Metadata": "true"})
    compute = read_object(text, f"{server}{_COMPUTE}")
    zone = compute.get("zone")  # empty in regions without zones
    return Platform(
        name="azure",
        region=word(compute.get("location"), "location"),
        zone="" if zone in ("", None) else word(zone, "zone"),
        metadata=words(
            {
                "azure_location": compute.get("location"),
                "azure_name": compute.get("name"),
                "azure_vmid": compute.get("vmId"),
            }
        ),
    )
