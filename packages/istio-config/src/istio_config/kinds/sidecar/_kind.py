"""Sidecar: which part of the mesh some workloads reach, and where their own proxies listen.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum

from istio_config.addresses import is_host, socket_path
from istio_config.kinds.checks import below, is_dns_label, label_mistakes
from istio_config.kinds.destination_rule import ConnectionPool, connection_pool_mistakes
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.service_entry import Selector
from istio_config.kinds.sidecar._egress import EgressListener, egress_mistakes, egress_warnings
from istio_config.kinds.sidecar._ingress import IngressListener, ingress_mistakes, ingress_warnings
from istio_config.kinds.virtual_service import Destination
from mesh_configfile.shapes import Finding


class SidecarTrafficMode(StrEnum):
    """How calls of a workload to hosts that it does not know are treated."""

    REGISTRY_ONLY = "REGISTRY_ONLY"
    ALLOW_ANY = "ALLOW_ANY"
    ALLOW_ANY_DYNAMIC_DNS = "ALLOW_ANY_DYNAMIC_DNS"
    """For a whole mesh only: Istio refuses it in a Sidecar."""


class SidecarTrafficPolicy(SpecFields, frozen=True):
    """The treatment of unknown hosts. It replaces that of mesh config, also where it is unset."""

    mode: SidecarTrafficMode = SidecarTrafficMode.REGISTRY_ONLY
    egress_proxy: Destination | None = None
    """The service to which ALLOW_ANY sends what is for unknown hosts."""


class SidecarSpec(SpecFields, frozen=True):
    """The part of a mesh that the proxies of a namespace, or of some workloads, see."""

    workload_selector: Selector | None = None
    ingress: tuple[IngressListener, ...] = ()
    egress: tuple[EgressListener, ...] = ()
    inbound_connection_pool: ConnectionPool | None = None
    outbound_traffic_policy: SidecarTrafficPolicy | None = None

    def inbound_pool(self, number: int) -> ConnectionPool | None:
        """Return the connection pool of an inbound port, if the object has one."""
        own = (
            each.connection_pool
            for each in self.ingress
            if each.port is not None and each.port.number == number
        )
        return next(own, None) or self.inbound_connection_pool


def _mistakes(spec: SidecarSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a Sidecar; paths start below its spec."""
    del metadata
    if (
        not spec.ingress
        and not spec.egress
        and spec.outbound_traffic_policy is None
        and spec.inbound_connection_pool is None
    ):
        yield (
            (),
            "says nothing; give egress, ingress, outboundTrafficPolicy or inboundConnectionPool",
        )
    if spec.workload_selector is not None:
        yield from label_mistakes(spec.workload_selector.labels, ("workloadSelector", "labels"))
    yield from _ingress_port_mistakes(spec)
    for index, ingress in enumerate(spec.ingress):
        yield from below(("ingress", index), ingress_mistakes(ingress))
    yield from _egress_order_mistakes(spec)
    yield from _egress_port_mistakes(spec)
    for index, egress in enumerate(spec.egress):
        yield from below(("egress", index), egress_mistakes(egress))
    if spec.inbound_connection_pool is not None:
        yield from below(
            ("inboundConnectionPool",), connection_pool_mistakes(spec.inbound_connection_pool)
        )
    if spec.outbound_traffic_policy is not None:
        yield from below(
            ("outboundTrafficPolicy",), _traffic_policy_mistakes(spec.outbound_traffic_policy)
        )


def _ingress_port_mistakes(spec: SidecarSpec) -> Iterator[Finding]:
    seen: set[int] = set()
    for index, each in enumerate(spec.ingress):
        if each.port is None or not each.port.number:
            continue
        if each.port.number in seen:
            yield (
                ("ingress", index, "port", "number"),
                f"another ingress listener has the port {each.port.number}",
            )
        seen.add(each.port.number)


def _egress_port_mistakes(spec: SidecarSpec) -> Iterator[Finding]:
    first: dict[int, int] = {}
    for index, each in enumerate(spec.egress):
        if each.port is None or not each.port.number:
            continue
        known = first.setdefault(each.port.number, index)
        if known != index:
            yield (
                ("egress", index, "port", "number"),
                (
                    f"egress[{known}] has the port {each.port.number} already; give one of the "
                    "two another port, or put the hosts of both into one"
                ),
            )


def _egress_order_mistakes(spec: SidecarSpec) -> Iterator[Finding]:
    without_port = [index for index, each in enumerate(spec.egress) if each.port is None]
    for index in without_port[:-1]:
        yield (
            ("egress", index),
            "only the last listener can be without a port: it has the hosts of all other ports",
        )
    if without_port and without_port[-1] != len(spec.egress) - 1:
        yield ("egress", without_port[-1]), "a listener without a port must be the last"
    paths: set[str] = set()
    for index, each in enumerate(spec.egress):
        path = socket_path(each.bind)
        if path is not None and path in paths:
            yield ("egress", index, "bind"), f"another listener is bound to {each.bind}"
        paths.add(path or "")


def _traffic_policy_mistakes(policy: SidecarTrafficPolicy) -> Iterator[Finding]:
    if policy.mode is SidecarTrafficMode.ALLOW_ANY_DYNAMIC_DNS:
        yield ("mode",), "ALLOW_ANY_DYNAMIC_DNS is for mesh config; use ALLOW_ANY here"
    proxy = policy.egress_proxy
    if proxy is None:
        return
    if policy.mode is not SidecarTrafficMode.ALLOW_ANY:
        yield ("egressProxy",), "needs mode ALLOW_ANY beside it"
    if proxy.host.startswith("*") or not is_host(proxy.host):
        yield ("egressProxy", "host"), f'"{proxy.host}" is not a host name'
    if proxy.port is None or proxy.port.number is None:
        yield ("egressProxy",), "the field port.number is missing"
    if proxy.subset and not is_dns_label(proxy.subset):
        yield ("egressProxy", "subset"), f'"{proxy.subset}" can\'t name a subset'


def _warnings(spec: SidecarSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted in a Sidecar and probably not meant."""
    del metadata
    if spec.workload_selector is not None and not spec.workload_selector.labels:
        yield ("workloadSelector",), "has no labels: it selects every workload of the namespace"
    for index, egress in enumerate(spec.egress):
        yield from below(("egress", index), egress_warnings(egress))
    for index, ingress in enumerate(spec.ingress):
        yield from below(("ingress", index), ingress_warnings(ingress))


SIDECAR = Kind(
    name="Sidecar",
    group="networking.istio.io",
    versions=("v1", "v1beta1", "v1alpha3"),
    spec=SidecarSpec,
    validate=_mistakes,
    warn=_warnings,
)
