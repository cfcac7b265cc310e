"""Names of Envoy objects, exactly Istio's: dashboards, `istioctl` and people know them."""

from typing import NamedTuple

from istio_config.addresses import UNIX
from istio_config.kinds.virtual_service import Destination
from mesh_model import Port, Service, ServicesByName

BLACK_HOLE = "BlackHoleCluster"
PASSTHROUGH = "PassthroughCluster"
DYNAMIC_DNS = "AllowAnyDynamicDNSCluster"
SDS_CLUSTER = "sds-grpc"
INBOUND_PASSTHROUGH = "InboundPassthroughCluster"
HTTP_PROXY_ROUTE = "http_proxy"
MESH_ALPN_FILTER = "mesh.alpn"
"""The HTTP filter of redirected proxies that has upstream TLS offer the mesh's ALPN protocols.

Routes to a cluster whose TLS is not the mesh's own switch it off.
"""


def outbound_cluster(service: Service, port: Port, subset: str = "") -> str:
    """`outbound|80|v1|reviews.default.svc.cluster.local`."""
    return f"outbound|{port.number}|{subset}|{service.host}"


def egress_proxy_cluster(proxy: Destination | None, services: ServicesByName) -> str | None:
    """Return the cluster of a proxy to which what is for unknown hosts goes, if there is one."""
    if proxy is None:
        return None
    host = proxy.host.lower()
    if (found := services.find(host)) is not None:
        host = found.service.host
    return f"outbound|{proxy.port_number}|{proxy.subset}|{host}"


class OutboundClusterName(NamedTuple):
    """The parts of an outbound cluster's name."""

    port: int
    subset: str
    host: str


def parse_outbound_cluster(name: str) -> OutboundClusterName | None:
    """Take a name apart; None if it is no outbound cluster's."""
    parts = name.split("|")
    if len(parts) != 4 or parts[0] != "outbound" or not parts[1].isdecimal():
        return None
    return OutboundClusterName(int(parts[1]), parts[2], parts[3])


def sni_cluster(service: Service, port: Port, subset: str = "") -> str:
    """`outbound_.80_.v1_.reviews.default.svc.cluster.local`: a cluster, and the SNI to it."""
    return f"outbound_.{port.number}_.{subset}_.{service.host}"


def parse_sni_cluster(name: str) -> OutboundClusterName | None:
    """Take the name of a cluster by SNI apart; None if it is no such name."""
    parts = name.split("_.", 3)
    if len(parts) != 4 or parts[0] != "outbound" or not parts[1].isdecimal():
        return None
    return OutboundClusterName(int(parts[1]), parts[2], parts[3])


def http_proxy_route(port: int) -> str:
    """`http_proxy|8888`: the routes of an HTTP proxy that a Sidecar asks for."""
    return f"{HTTP_PROXY_ROUTE}|{port}"


def inbound_cluster(port: int) -> str:
    """`inbound|8080||`."""
    return f"inbound|{port}||"


def listener(bind: str, port: int) -> str:
    """`0.0.0.0_80`; `unix:///path` for a Unix socket."""
    return bind if bind.startswith(UNIX) else f"{bind}_{port}"


def short_names(host: str, proxy_domain: str) -> tuple[str, ...]:
    """Return the names of a host that a proxy's DNS search path would complete."""
    namespace, dot, mesh_domain = proxy_domain.partition(".")
    if not dot or not mesh_domain or not host.endswith(f".{mesh_domain}"):
        return ()
    prefix = host.removesuffix(f".{mesh_domain}")
    if prefix.startswith("*"):
        return ()
    names = [prefix]
    if mesh_domain.startswith("svc."):
        names.append(f"{prefix}.svc")
    if prefix.endswith(f".{namespace}"):
        names.insert(0, prefix.removesuffix(f".{namespace}"))
    return tuple(dict.fromkeys(names))


def name_and_namespace(host: str, proxy_domain: str) -> tuple[str, str] | None:
    """Return `web` and `a` for `web.a.svc.cluster.local`; None for hosts outside the mesh.

    The mesh's own domain is what follows the namespace in a proxy's, as in `b.svc.cluster.local`.
    """
    _, dot, mesh_domain = proxy_domain.partition(".")
    if not dot or not mesh_domain or not host.endswith(f".{mesh_domain}"):
        return None
    name, dot, namespace = host.removesuffix(f".{mesh_domain}").partition(".")
    if not name or name == "*" or not namespace or "." in namespace:
        return None
    return name, namespace
