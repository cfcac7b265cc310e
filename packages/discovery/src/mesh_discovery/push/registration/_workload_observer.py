"""Registers workloads as their proxies connect, and takes the reports of their health.

Source: Istio's autoregistration.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc

from mesh_discovery.config.kinds._workload_group import WORKLOAD_GROUP, WorkloadGroupSpec
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push.registration._group_entries import GROUP, Registrant
from mesh_discovery.push.registration._registered_workloads import Place, RegisteredWorkloads
from mesh_identity import InvalidSpiffeId, SpiffeId
from mesh_lifecycle import Clock, SystemClock, in_background
from mesh_protos import type_urls
from xds_server import Client, DeltaRequest, PushRequest, Refused, Response, SotwRequest

log = logging.getLogger(__name__)

Notify = Callable[[PushRequest], None]


class WorkloadObserver:
    """The observer of streams by which connected proxies become workloads."""

    def __init__(
        self,
        store: ConfigStore,
        workloads: RegisteredWorkloads,
        *,
        clock: Clock = SystemClock(),  # noqa: B008  stateless
    ) -> None:
        self._store = store
        self._workloads = workloads
        self._clock = clock
        self._notify: Notify | None = None
        self._wake = asyncio.Event()

    @asynccontextmanager
    async def running(self, notify: Notify) -> AsyncIterator[None]:
        """Serve what changes, and forget proxies that stay away, while the block runs."""
        self._notify = notify
        async with in_background(self._expire(), name="workloads that have gone"):
            yield
        self._notify = None

    def opened(self, client: Client[Proxy], /) -> None:
        """Register a proxy that says so; raises `Refused` if it may not be one of its group."""
        registrant = _registrant(client)
        if registrant is None:
            return
        self._check(client, registrant)
        if self._workloads.connected(registrant, client.id, now=self._clock.now()):
            log.info(
                "workload registered",
                extra={"workload": registrant.name, "namespace": registrant.namespace},
            )
            self._changed()

    def received(self, client: Client[Proxy], request: SotwRequest | DeltaRequest, /) -> None:
        """Take a report of health; all other requests are for generators."""
        if request.type_url != type_urls.HEALTH_INFORMATION:
            return
        healthy = request.error is None
        places: list[Place] = [
            (client.context.namespace, each) for each in client.context.addresses
        ]
        if self._workloads.reported(places, client.id, healthy=healthy):
            reason = "" if request.error is None else request.error.message[:200]
            log.info(
                "workload is healthy" if healthy else "workload is not healthy",
                extra={"client": client.id, **({"reason": reason} if reason else {})},
            )
            self._changed()

    def sent(self, client: Client[Proxy], response: Response, /) -> None:
        """A response went out, which says nothing of a workload."""

    def closed(self, client: Client[Proxy], /) -> None:
        """Take note that a stream is over."""
        if self._workloads.closed(client.id, now=self._clock.monotonic()):
            self._changed()
        self._wake.set()

    def _check(self, client: Client[Proxy], registrant: Registrant) -> None:
        group = next(
            (
                each
                for each in self._store.snapshot.of_kind(WORKLOAD_GROUP)
                if (each.namespace, each.name) == (registrant.namespace, registrant.group)
            ),
            None,
        )
        if group is None or not isinstance(group.spec, WorkloadGroupSpec):
            raise Refused(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"there is no WorkloadGroup {registrant.namespace}/{registrant.group}, as which "
                f"the proxy wants to register ({GROUP})",
            )
        account = group.spec.template.service_account if group.spec.template is not None else ""
        if not client.identities or any(
            _is_of(each, registrant.namespace, account) for each in client.identities
        ):
            return
        raise Refused(
            grpc.StatusCode.PERMISSION_DENIED,
            f"the WorkloadGroup {registrant.namespace}/{registrant.group} is for the service "
            f"account {account or 'of its namespace'}, the caller is "
            f"{', '.join(client.identities)[:300]}",
        )

    def _changed(self) -> None:
        if self._notify is not None:
            self._store.rebuild(self._notify)

    async def _expire(self) -> None:
        while True:
            at = self._workloads.next_expiry
            if at is None:
                await self._wake.wait()
                self._wake.clear()
                continue
            await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
            if self._workloads.expire(now=self._clock.monotonic()):
                log.info("workloads that have gone are registered no longer")
                self._changed()


def _is_of(identity: str, namespace: str, account: str) -> bool:
    try:
        shown = SpiffeId.parse(identity)
    except InvalidSpiffeId:
        return False
    return shown.namespace == namespace and (not account or shown.service_account == account)


def _registrant(client: Client[Proxy]) -> Registrant | None:
    group = client.node.metadata.get(GROUP)
    if not isinstance(group, str) or not group:
        return None
    proxy = client.context
    return Registrant(
        namespace=proxy.namespace,
        group=group,
        address=proxy.addresses[0],
        network=proxy.place.network,
        locality=proxy.place.locality,
        labels=proxy.labels,
    )
