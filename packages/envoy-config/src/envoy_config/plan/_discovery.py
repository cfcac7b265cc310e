"""How a client finds the endpoints of a service: which type its cluster has."""

from enum import StrEnum

from envoy_config.plan._client import Client
from envoy_config.plan._traffic_policy import Policy
from istio_config.addresses import is_ip, socket_path
from istio_config.kinds.service_entry import Resolution
from mesh_model import Service


class Discovery(StrEnum):
    """The types of clusters, by where their endpoints come from."""

    EDS = "EDS"
    """Sent apart from the cluster."""
    STRICT_DNS = "STRICT_DNS"
    LOGICAL_DNS = "LOGICAL_DNS"
    """Looked up, and only the first address is used."""
    ORIGINAL_DST = "ORIGINAL_DST"
    """Wherever the connection was going."""
    FORWARD_PROXY = "FORWARD_PROXY"
    """Looked up by the host of each request."""


def discovery(  # noqa: PLR0911 - one for each way
    service: Service, policy: Policy, client: Client, *, is_http: bool
) -> Discovery:
    """Decide how a client finds the endpoints of a service's port.

    Only a client to which intercepted connections come knows where one was going. Others balance
    where Istio would pass connections through: over the endpoints of headless services, and by the
    host of a request if there are no endpoints.
    """
    if client.redirected and (policy.is_passthrough or service.resolution is Resolution.NONE):
        return Discovery.ORIGINAL_DST
    match service.resolution:
        case Resolution.STATIC:
            return Discovery.EDS
        case Resolution.DNS:
            return Discovery.STRICT_DNS
        case Resolution.DNS_ROUND_ROBIN:
            # Envoy refuses such a cluster unless it has just one endpoint.
            one = len(service.endpoints) == 1
            return Discovery.LOGICAL_DNS if one else Discovery.STRICT_DNS
        case Resolution.DYNAMIC_DNS:
            return Discovery.FORWARD_PROXY
        case Resolution.NONE:
            if not client.is_sidecar or service.is_headless:
                return Discovery.EDS
            return Discovery.FORWARD_PROXY if is_http else Discovery.ORIGINAL_DST


def is_looked_up(found: Discovery) -> bool:
    """Return whether a cluster holds the names of its endpoints, for Envoy to look up."""
    return found in (Discovery.STRICT_DNS, Discovery.LOGICAL_DNS)


def has_addresses(service: Service) -> bool:
    """Return whether the endpoints of a service can be sent apart from its clusters.

    Envoy refuses names there. It may still ask for the endpoints of a service that is looked up now
    and was not before.
    """
    if service.resolution in (Resolution.STATIC, Resolution.NONE):
        return True
    return bool(service.endpoints) and all(
        is_ip(each.address) or socket_path(each.address) is not None for each in service.endpoints
    )
