"""The plan of a mesh: each replica's name, addresses and identity on this machine."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mesh_identity import SpiffeId
from mesh_local._errors import AddressError, ConfigurationError
from mesh_local.config._addresses import (
    POSITIONS,
    Block,
    Endpoint,
    RedirectedBlock,
    WorkloadAddresses,
)
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._rules import ENVOY_PORTS
from mesh_local.config._service_names import instance_names, service_names
from mesh_local.config._shapes import Workload

SECURE_PORT = 15012
HTTP_PORTS = (8080, 15080, 18080)
"""The control plane's, best first: other programs often take 8080 on all addresses."""
MONITORING_PORT = 15014
STATUS_PORT = 15020
CONTROL_PLANE_NAME = "istiod.istio-system.svc"
_NO_POSITIONS: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One replica of a workload."""

    name: str
    position: int
    """The number in its addresses, of this mesh alone."""
    workload: Workload
    addresses: WorkloadAddresses
    service_account: str
    spiffe_id: str

    @property
    def serves(self) -> bool:
        return bool(self.workload.ports)

    @property
    def full_name(self) -> str:
        return f"{self.name}.{self.workload.namespace}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPlan:
    """A whole mesh, before anything of it runs."""

    file: MeshFile
    block: Block | RedirectedBlock
    instances: tuple[Instance, ...]
    http_port: int = HTTP_PORTS[0]

    @property
    def is_redirected(self) -> bool:
        """Whether each workload has a network, in which its connections are redirected."""
        return isinstance(self.block, RedirectedBlock)

    @property
    def dns_port(self) -> int | None:
        """The port at which each agent answers DNS; None if none does."""
        return self.file.mesh.dns_port or None

    @property
    def monitoring_host(self) -> str:
        """Where the control plane's pages are, which it shows to callers on its own machine."""
        return "127.0.0.1" if self.is_redirected else self.block.control_plane

    @property
    def discovery_address(self) -> str:
        return f"{self.block.control_plane}:{SECURE_PORT}"

    def instances_of(self, name: str) -> tuple[Instance, ...]:
        """Return the replicas of the workload with this name."""
        return tuple(each for each in self.instances if each.workload.name == name)

    def serving(self, host: str, port: int) -> tuple[Instance, ...]:
        """Return the replicas behind a service name and port; none if no workload serves it."""
        return tuple(
            each
            for each in self.instances
            if host in service_names(each.workload)
            and any(served.port == port for served in each.workload.ports)
        )

    def with_identity(self, spiffe_id: str) -> tuple[Instance, ...]:
        return tuple(each for each in self.instances if each.spiffe_id == spiffe_id)


def plan_mesh(
    file: MeshFile,
    block: Block | RedirectedBlock,
    *,
    http_port: int = HTTP_PORTS[0],
    positions: Mapping[str, int] = _NO_POSITIONS,
) -> MeshPlan:
    """Return the plan: every replica gets addresses, in the file's order.

    positions: of replicas that run or still stop, by name; no other gets their addresses. Raises
    `AddressError` if these leave too few, `ConfigurationError` for a workload that can't be in a
    network of its own.
    """
    if isinstance(block, RedirectedBlock):
        _refuse_not_redirected(file)
    instances = tuple(_instances(file, block, positions))
    return MeshPlan(file=file, block=block, instances=instances, http_port=http_port)


def _instances(
    file: MeshFile, block: Block | RedirectedBlock, positions: Mapping[str, int]
) -> Iterator[Instance]:
    taken = set(positions.values())
    free = (each for each in range(1, POSITIONS + 1) if each not in taken)
    for workload in file.workloads:
        account = workload.service_account or workload.name
        for name in instance_names(workload):
            position = positions.get(name) or next(free, None)
            if position is None:
                raise AddressError(
                    f"{workload.name} gets no address: {POSITIONS} replicas run or still stop"
                )
            yield Instance(
                name=name,
                position=position,
                workload=workload,
                addresses=_without_envoy(block.workload(position))
                if workload.proxyless
                else block.workload(position),
                service_account=account,
                spiffe_id=str(
                    SpiffeId.for_service_account(
                        trust_domain=file.mesh.trust_domain,
                        namespace=workload.namespace,
                        service_account=account,
                    )
                ),
            )


def _refuse_not_redirected(file: MeshFile) -> None:
    """Raise `ConfigurationError` for workloads whose connections can't be redirected."""
    found = []
    for index, each in enumerate(file.workloads):
        for field, has_it, why in (
            ("gateway", each.gateway is not None, "listens on this machine's own addresses"),
            ("proxyless", each.proxyless, "has no Envoy"),
        ):
            if has_it:
                place = f"workloads[{index}].{field}"
                found.append(
                    f"{file.path}:{file.line_of(place)}: {place}: {each.name} {why}, and can't be "
                    "in a mesh with --capture: run the mesh without it, or leave the workload out"
                )
    if found:
        raise ConfigurationError("\n".join(found))


def _without_envoy(addresses: WorkloadAddresses) -> WorkloadAddresses:
    """Return the addresses of a program that others reach without an Envoy in between."""
    own = addresses.inbound
    return WorkloadAddresses(inbound=own, app=own, outbound=own)


def gateway_endpoints(file: MeshFile) -> Iterable[tuple[Workload, Endpoint]]:
    """Yield every address and port outside the mesh's own block, with the gateway it is of."""
    for workload in file.workloads:
        gateway = workload.gateway
        for port in gateway.ports if gateway is not None else ():
            yield workload, (gateway.address if gateway is not None else "", port)


def needed_endpoints(plan: MeshPlan) -> Iterable[Endpoint]:
    """Yield every address and port that a program of the mesh will listen on beside others."""
    yield plan.block.control_plane, SECURE_PORT
    yield plan.monitoring_host, MONITORING_PORT
    if plan.is_redirected:
        return  # in networks of their own, where each port is free
    service_ports = {port.port for each in plan.file.workloads for port in each.ports}
    proxy_port = plan.file.mesh.http_proxy_port
    for instance in plan.instances:
        if instance.workload.gateway is not None:
            for port in ENVOY_PORTS:
                yield instance.addresses.inbound, port
            continue
        own_ports = [port.port for port in instance.workload.ports]
        for port in (*ENVOY_PORTS, *((plan.dns_port,) if plan.dns_port else ()), *own_ports):
            yield instance.addresses.inbound, port
        if instance.workload.proxyless:
            continue
        for port in own_ports if instance.workload.command else ():
            yield instance.addresses.app, port
        for port in (*service_ports, *((proxy_port,) if proxy_port else ())):
            yield instance.addresses.outbound, port


def count_of_workloads(plan: MeshPlan) -> str:
    """Return how many replicas a plan has, in words."""
    count = len(plan.instances)
    return "1 workload" if count == 1 else f"{count} workloads"
