"""Where a workload's request to a URL goes, so that the workload's Envoy sends it on."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from mesh_local._errors import FaultError
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._service_names import service_names
from mesh_local.observation._missing_service import missing_service


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Where a request goes: an address of the sender's Envoy, and what the request names.

    missing: a sentence if the mesh file has nothing at that name and port. network: the path of the
    namespace that it is sent in, as a connection that is redirected there.
    """

    host: str
    port: int
    target: str
    authority: str
    missing: str | None = None
    network: str | None = None


def route(plan: MeshPlan, sender: Instance, url: str) -> Route:
    """Return where the sender's request goes; a URL without a port means the service's first.

    Raises `FaultError`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise FaultError(f'"{url}" is not a URL') from None
    if parts.scheme != "http" or not parts.hostname:
        raise FaultError(f'"{url}" must begin with http:// and a host; Envoy makes it mutual TLS')
    port = port or _first_port(plan, parts.hostname) or 80
    authority = parts.hostname if port == 80 else f"{parts.hostname}:{port}"
    outbound = sender.addresses.outbound
    missing = missing_service(plan, sender.workload.namespace, parts.hostname, port)
    if (network := sender.addresses.network) is not None:
        return Route(
            host=parts.hostname,
            port=port,
            target=urlunsplit(("", "", parts.path or "/", parts.query, "")),
            authority=authority,
            missing=missing,
            network=network,
        )
    if proxy_port := plan.file.mesh.http_proxy_port:
        target = urlunsplit(("http", authority, parts.path or "/", parts.query, ""))
        return Route(
            host=outbound, port=proxy_port, target=target, authority=authority, missing=missing
        )
    target = urlunsplit(("", "", parts.path or "/", parts.query, ""))
    return Route(host=outbound, port=port, target=target, authority=authority, missing=missing)


def _first_port(plan: MeshPlan, host: str) -> int | None:
    """Return the port for a URL that names none: 80 if the service has it, else its first."""
    for each in plan.instances:
        served = [port.port for port in each.workload.ports]
        if served and host in service_names(each.workload):
            return 80 if 80 in served else served[0]
    return None
