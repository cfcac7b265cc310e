"""A connected proxy: identity and addresses, read from its node once a stream.

Node ids and metadata keys are Istio's; without Kubernetes, three more say where its listeners go in
interception mode NONE (APP_ADDRESS, OUTBOUND_BIND_ADDRESS, INSTANCE_IPS). DNS_CAPTURE,
DNS_AUTO_ALLOCATE and ENABLE_DNS_SERVER say whether and how its agent answers DNS. GENERATOR is
`grpc` for gRPC programs without an Envoy, which nothing is intercepted for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import NamedTuple

from envoy_config.plan._client import NOWHERE, ClientFiles, Location
from envoy_config.plan._proxy_settings import (
    NO_SETTINGS,
    ProxySettings,
    metadata_flag,
    proxy_settings,
)
from istio_config.addresses import is_ip
from istio_config.kinds.mesh_config import InterceptionMode
from istio_config.proxy_ports import ADMIN_PORT, PROXY_PORTS, STATUS_PORT
from xds_server import Node

_TAG_VALUES_SINCE = (1, 40)
_METRICS_SINCE = (1, 37)
_BOUNDS_SINCE = (1, 40)
NO_NAMESPACE = ""
"""That of a proxy that has proved nothing: what is exported to it is exported to all."""


class NodeError(ValueError):
    """A node that can't be served; the message has the reason and the remedy."""


class NotServedError(NodeError):
    """A valid node that asks for something this control plane does not support."""


class Naming(NamedTuple):
    """The DNS settings of a proxy: where names of services lead, and whether its agent answers.

    answers_dns: its agent does. own_listeners: its node says where it listens for its workload, and
    names lead there. ip_versions: of the addresses allocated for services that it can use; empty if
    it takes none of them.
    """

    answers_dns: bool = False
    own_listeners: bool = False
    ip_versions: frozenset[int] = frozenset()


NO_DNS = Naming()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One proxy; equal ones get equal configuration."""

    id: str
    is_sidecar: bool
    addresses: tuple[str, ...]
    namespace: str
    domain: str
    """The DNS suffix of its own names, as in `default.svc.cluster.local`."""
    labels: tuple[tuple[str, str], ...] = ()
    service_account: str = ""
    app_address: str = "127.0.0.1"
    outbound_address: str = "127.0.0.1"
    naming: Naming = NO_DNS
    location: Location = NOWHERE
    client_files: ClientFiles | None = None
    """The certificate of its own that its node names for its calls."""
    is_proxyless: bool = False
    """A gRPC program that takes its configuration itself."""
    interception: InterceptionMode = InterceptionMode.NONE
    is_unprivileged: bool = False
    """Whether it can't listen on ports below 1024."""
    service_cluster: str = ""
    """The name that its node has for its workload, by which tracers know it."""
    takes_tag_values: bool = False
    """Whether its Envoy can make tags of spans by format strings (1.40; 1.36 can't)."""
    can_make_metrics: bool = False
    """Whether its Envoy has the access logger that makes statistics with tags (1.37; not 1.36)."""
    can_bound_metrics: bool = False
    """Whether that logger has a bound of how many statistics there may be (1.40)."""
    settings: ProxySettings = NO_SETTINGS
    """Of its own; the rest is as in mesh config (`ProxySettings.over`)."""
    own_ports: frozenset[int] = frozenset(PROXY_PORTS)
    """The ports of its machine that are its own and its agent's, and no application's."""
    metadata: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)
    """Of its node, which patches may ask for; no part of its identity."""
    source: str = field(default="", compare=False)
    """The address that its stream comes from, as the kernel tells it; empty if that is unknown."""

    @property
    def is_redirected(self) -> bool:
        """Whether connections come to it that were going elsewhere."""
        return self.interception is not InterceptionMode.NONE


def parse_proxy(
    node: Node,
    *,
    domain_suffix: str,
    source: str,
    mesh_interception: InterceptionMode,
) -> Proxy:
    """Read a node, `type~address~id~domain`; raises `NodeError`.

    domain_suffix: the mesh's, for a node that says none. source: the address that its stream comes
    from; empty if that is unknown. mesh_interception: the mode of a sidecar whose
    node says nothing.
    """
    parts = node.id.split("~")
    if len(parts) != 4:
        raise NodeError(f"node id {node.id!r} is not type~address~id~domain")
    kind, address, _, domain = parts
    if kind not in ("sidecar", "router"):
        raise NodeError(f"node id {node.id!r}: the type is not sidecar or router")
    metadata = node.metadata
    is_proxyless = kind == "sidecar" and _text(metadata, "GENERATOR") == "grpc"
    interception = InterceptionMode.NONE
    if kind == "sidecar" and not is_proxyless:
        interception = _interception(metadata, mesh_interception)
    listed = [each.strip() for each in _text(metadata, "INSTANCE_IPS").split(",") if each.strip()]
    addresses = tuple(dict.fromkeys(each for each in listed or [address] if is_ip(each)))
    if not addresses:
        raise NodeError(f"node {node.id!r} has no valid address in INSTANCE_IPS or its id")
    namespace = _text(metadata, "NAMESPACE") or domain.partition(".")[0]
    if not namespace:
        raise NodeError(f"node {node.id!r} names no namespace in NAMESPACE or its domain")
    return Proxy(
        id=node.id,
        is_sidecar=kind == "sidecar",
        addresses=addresses,
        namespace=namespace,
        domain=domain or f"{namespace}.svc.{domain_suffix}",
        labels=_labels(metadata),
        service_account=_text(metadata, "SERVICE_ACCOUNT"),
        app_address=_address(metadata, "APP_ADDRESS"),
        outbound_address=_address(metadata, "OUTBOUND_BIND_ADDRESS"),
        naming=_naming(kind, metadata, addresses, interception),
        interception=interception,
        location=Location(
            locality=f"{node.region}/{node.zone}/{node.sub_zone}".rstrip("/"),
            network=_text(metadata, "NETWORK"),
            cluster=_text(metadata, "CLUSTER_ID"),
            node=_text(metadata, "NODE_NAME"),
        ),
        client_files=_client_files(metadata),
        is_proxyless=is_proxyless,
        is_unprivileged=metadata_flag(metadata, "UNPRIVILEGED_POD"),
        service_cluster=node.cluster,
        takes_tag_values=_envoy_version(node.user_agent) >= _TAG_VALUES_SINCE,
        can_bound_metrics=not is_proxyless and _envoy_version(node.user_agent) >= _BOUNDS_SINCE,
        can_make_metrics=not is_proxyless and _envoy_version(node.user_agent) >= _METRICS_SINCE,
        settings=proxy_settings(metadata, node=node.id),
        own_ports=_own_ports(metadata.get("PROXY_CONFIG")),
        metadata=metadata,
        source=source,
    )


def as_stranger(proxy: Proxy) -> Proxy:
    """Return a proxy as it is served that has proved nothing: it is of no namespace.

    It is sent what is exported to all: services, their endpoints, names and routes. No object of a
    namespace is for it, and no service is its own; so it listens for no one, and what policies
    protect stays closed. Raises `NotServedError` for one that would be open to others all the same.
    """
    if proxy.is_redirected or not proxy.is_sidecar:
        what = "a redirected proxy" if proxy.is_sidecar else "a gateway"
        raise NotServedError(
            f"{what} has to prove who it is: connect over TLS, with a token or a certificate; a "
            "control plane with --believe-plaintext believes callers in plaintext"
        )
    return replace(proxy, namespace=NO_NAMESPACE, service_account="", labels=(), metadata={})


_OWN_PORTS = frozenset(PROXY_PORTS)


def _own_ports(config: object) -> frozenset[int]:
    """Return the ports that a proxy keeps, with those that its ProxyConfig gives other numbers."""
    if not isinstance(config, dict):
        return _OWN_PORTS
    found = set(_OWN_PORTS)
    for name, usual in (("proxyAdminPort", ADMIN_PORT), ("statusPort", STATUS_PORT)):
        given = config.get(name)
        if isinstance(given, int | float) and given == int(given) and given:
            found.discard(usual)
            found.add(int(given))
    return frozenset(found) if found != _OWN_PORTS else _OWN_PORTS


def _envoy_version(user_agent: str) -> tuple[int, int]:
    found = re.fullmatch(r"envoy/([0-9]{1,4})\.([0-9]{1,4})(\..*)?", user_agent)
    return (int(found[1]), int(found[2])) if found is not None else (0, 0)


def _client_files(metadata: Mapping[str, object]) -> ClientFiles | None:
    certificate = _text(metadata, "TLS_CLIENT_CERT_CHAIN")
    key = _text(metadata, "TLS_CLIENT_KEY")
    if not certificate or not key:
        return None
    return ClientFiles(certificate, key, _text(metadata, "TLS_CLIENT_ROOT_CERT"))


def _text(metadata: Mapping[str, object], key: str) -> str:
    value = metadata.get(key)
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    return value if isinstance(value, str) else ""


def _interception(metadata: Mapping[str, object], of_mesh: InterceptionMode) -> InterceptionMode:
    mode = _text(metadata, "INTERCEPTION_MODE")
    try:
        return InterceptionMode(mode.upper()) if mode else of_mesh
    except ValueError:
        known = ", ".join(InterceptionMode)
        raise NotServedError(
            f"interception mode {mode!r} is not known; set INTERCEPTION_MODE to one of {known}"
        ) from None


def _naming(
    kind: str,
    metadata: Mapping[str, object],
    addresses: tuple[str, ...],
    interception: InterceptionMode,
) -> Naming:
    # Agents of gateways ask for names by a setting of their own.
    answers_dns = metadata_flag(
        metadata, "DNS_CAPTURE" if kind == "sidecar" else "ENABLE_DNS_SERVER"
    )
    own_listeners = interception is InterceptionMode.NONE and bool(
        _text(metadata, "OUTBOUND_BIND_ADDRESS")
    )
    allocated = (
        answers_dns
        and not own_listeners
        and metadata_flag(metadata, "DNS_AUTO_ALLOCATE", default=True)
    )
    return Naming(
        answers_dns=answers_dns,
        own_listeners=own_listeners,
        ip_versions=frozenset(ip_address(each).version for each in addresses)
        if allocated
        else frozenset(),
    )


def _address(metadata: Mapping[str, object], key: str) -> str:
    address = _text(metadata, key)
    if address and not is_ip(address):
        raise NodeError(f"node metadata {key} is {address!r}, which is not an IP address")
    return address or "127.0.0.1"


def _labels(metadata: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    labels = metadata.get("LABELS")
    if not isinstance(labels, dict):
        return ()
    return tuple(sorted((str(key), str(value)) for key, value in labels.items()))
