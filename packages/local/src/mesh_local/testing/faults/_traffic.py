"""Faults between two workloads: the caller's Envoy gets them, and no other's."""

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mesh_local._errors import FaultError
from mesh_local._parts import Called, called, sender
from mesh_local._running_mesh import RunningMesh, RunningWorkload
from mesh_local.observation._agent_status import fetch_status
from mesh_local.state._istio import to_yaml
from mesh_local.testing.faults import _rules
from mesh_local.testing.faults._configuration import Configuration, runs
from mesh_local.testing.faults._connections import end_connections
from mesh_local.testing.faults._rules import HttpFault

_CLUSTERS, _ROUTES = "dynamic_active_clusters", "dynamic_route_configs"
_END_WITHIN_S = 10.0
_POLL_S = 0.03


@dataclass(slots=True, kw_only=True)
class _Pair:
    """The faults of one workload's requests to a service, oldest first, and their newest file."""

    faults: list[HttpFault] = field(default_factory=list)
    file: str | None = None
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class TrafficFaults:
    """The faults between workloads of one mesh."""

    def __init__(self, mesh: RunningMesh, configuration: Configuration) -> None:
        self._mesh = mesh
        self._configuration = configuration
        self._pairs: dict[tuple[str, str], _Pair] = {}
        self._cut: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def cut(self, workload: str, to: str) -> AsyncIterator[None]:
        """Refuse connections of a workload to a service, and end those that are open."""
        senders, service = sender(self._mesh, workload), called(self._mesh, to)
        key = (_name(senders), service.host)
        if key in self._cut:
            raise FaultError(f"{workload} is cut off from {to} already")
        name = self._configuration.new_name("cut")
        document = _rules.cut(
            name=name,
            workload=_name(senders),
            namespace=_namespace(senders),
            called=service,
            mark=name,
        )
        self._cut.add(key)
        try:
            await self._configuration.put(name, to_yaml([document]))
            try:
                await self._shown(senders, _CLUSTERS, name)
                await asyncio.gather(*(_end_open(each, service) for each in senders if runs(each)))
                yield
            finally:
                await self._configuration.remove(name)
                await self._shown(senders, _CLUSTERS, name, shown=False)
        finally:
            self._cut.discard(key)

    @asynccontextmanager
    async def http(self, workload: str, to: str, fault: HttpFault) -> AsyncIterator[None]:
        """Add a fault to a workload's requests to a service; of two alike, the newest counts."""
        senders, service = sender(self._mesh, workload), called(self._mesh, to)
        if not service.http_ports:
            raise FaultError(f"{to} has no port of HTTP or gRPC: only requests have such faults")
        pair = self._pairs.setdefault((_name(senders), service.host), _Pair())
        pair.faults.append(fault)
        try:
            await self._renew(pair, senders, service)
            yield
        finally:
            pair.faults.remove(fault)
            await self._renew(pair, senders, service)

    async def _renew(
        self, pair: _Pair, senders: tuple[RunningWorkload, ...], service: Called
    ) -> None:
        """Give the caller's Envoys the faults of a pair as they are now."""
        async with pair.changing:
            before, pair.file = pair.file, None
            if not pair.faults:
                if before is not None:
                    await self._configuration.remove(before)
                    await self._shown(senders, _ROUTES, before, shown=False)
                return
            together = HttpFault()
            for each in pair.faults:
                together = together.with_values_of(each)
            name = pair.file = self._configuration.new_name("fault")
            document = _rules.http_fault(
                together,
                name=name,
                workload=_name(senders),
                namespace=_namespace(senders),
                called=service,
                mark=name,
            )
            await self._configuration.put(name, to_yaml([document]), instead_of=before)
            await self._shown(senders, _ROUTES, name)

    async def _shown(
        self, senders: tuple[RunningWorkload, ...], resource: str, mark: str, *, shown: bool = True
    ) -> None:
        for each in senders:
            if runs(each):
                await self._configuration.until_envoy_shows(each, resource, mark, shown=shown)


def _name(senders: tuple[RunningWorkload, ...]) -> str:
    return senders[0].instance.workload.name


def _namespace(senders: tuple[RunningWorkload, ...]) -> str:
    return senders[0].instance.workload.namespace


async def _end_open(workload: RunningWorkload, service: Called) -> None:
    """End an Envoy's connections to a service that are left from before it was cut off."""
    addresses = frozenset(each.addresses.inbound for each in service.replicas)
    try:
        async with asyncio.timeout(_END_WITHIN_S):
            while True:
                status = await fetch_status(workload.instance.addresses.agent)
                if status is None or status.envoy_pid is None:
                    return
                if not end_connections(status.envoy_pid, addresses):
                    return
                await asyncio.sleep(_POLL_S)
    except (OSError, TimeoutError) as error:
        reason = os.strerror(error.errno or errno.ETIMEDOUT)
        raise FaultError(
            f"the open connections of {workload.instance.name} to {service.host} can't be ended: "
            f"{reason}; this machine must let a process have descriptors of those that it started"
        ) from None
