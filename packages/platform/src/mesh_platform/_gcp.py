"""GCP: the metadata server of Compute Engine, page by page.

A recursive request would bring attributes that may hold secrets. Source: Google Cloud, "About VM
metadata".
"""

from mesh_platform._errors import NoMetadata
from mesh_platform._http import MetadataAddress, ask_for_text
from mesh_platform._platform import Platform, word

_HOST = "metadata.google.internal"
_ROOT = "/computeMetadata/v1/"
_OPTIONAL = {
    "gcp_project": "project/project-id",
    "gcp_project_number": "project/numeric-project-id",
    "gcp_gce_instance_id": "instance/id",
    "gcp_gke_cluster_name": "instance/attributes/cluster-name",
}


def gcp_platform(zone: str, metadata: dict[str, str]) -> Platform:
    """Return a machine in this zone, whose region is the zone's name without its last part."""
    region = zone.rpartition("-")[0]
    location = {"gcp_location": zone} if zone else {}
    return Platform(name="gcp", region=region, zone=zone, metadata={**metadata, **location})


async def ask_gcp(server: MetadataAddress) -> Platform:
    """Return what GCP knows of this machine; raises `NoMetadata`."""
    place = await _page(server, "instance/zone")  # projects/1234/zones/europe-west1-b
    zone = word(place.rpartition("/")[2], "zone")
    metadata = {}
    for name, page in _OPTIONAL.items():
        try:
            metadata[name] = word(await _page(server, page), name)
        except NoMetadata:  # a machine outside a cluster has no cluster's name
            continue
    return gcp_platform(zone, metadata)


async def _page(server: MetadataAddress, page: str) -> str:
    text, headers = await ask_for_text(
        server, _ROOT + page, host=_HOST, headers={"Metadata-Flavor": "Google"}
    )
    if headers.get("metadata-flavor") != "Google":
        raise NoMetadata(f"{server} is not Google's metadata server")
    return text
