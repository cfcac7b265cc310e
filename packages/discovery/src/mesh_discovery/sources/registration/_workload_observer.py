"""Registers workloads as their proxies connect, and takes the reports of their health.

Source: Istio's autoregistration.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import grpc

from envoy_config import Proxy
from istio_config import ConfigObject
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from istio_config.kinds.workload_group import WORKLOAD_GROUP
from mesh_discovery.sources.registration._group_entries import GROUP
from mesh_discovery.sources.registration._registered_workloads import (
    RegisteredWorkloads,
    TooManyWorkloadsError,
)
from mesh_discovery.sources.registration._rights import (
    MayNotRegisterError,
    registrant,
    reported_endpoints,
)
from mesh_lifecycle import Clock, RepeatLog, SystemClock, in_background
from mesh_model import EndpointKey, Facts, MeshModel
from mesh_protos import type_urls
from xds_server import Client, DeltaRequest, Refused, Response, SotwRequest

log = logging.getLogger(__name__)

_SHORTEST_REST_S = 0.25
"""More than pushes wait for a pause of changes."""
_REST_FOR_WORK = 10
_MOST_MESSAGES = 20
"""Messages at once; more are counted."""


class WorkloadObserver:
    """The observer of streams by which connected proxies become workloads, as a source of facts."""

    def __init__(
        self,
        workloads: RegisteredWorkloads,
        *,
        clock: Clock = SystemClock(),  # noqa: B008  stateless
    ) -> None:
        self._workloads = workloads
        self._clock = clock
        self._groups: tuple[ConfigObject, ...] = ()
        self._entries: tuple[ConfigObject, ...] = ()
        """Those that somebody wrote."""
        self._model: MeshModel | None = None
        """The model that is served, or is to be."""
        self._changed = asyncio.Event()
        """What is registered or reported differs from what is served."""
        self._gone = asyncio.Event()
        """A stream is over."""
        self._messages: list[tuple[str, dict[str, str]]] = []
        """Messages that are logged once what they are about is served."""
        self._left_out = 0
        self._warnings: dict[str, RepeatLog] = {}
        """By their message."""

    def add_to(self, facts: Facts) -> Facts:
        """Return facts with the entries of the proxies that are here, and with their reports."""
        self._groups = facts.snapshot.of_kind(WORKLOAD_GROUP)
        self._entries = facts.snapshot.of_kind(WORKLOAD_ENTRY)
        registered = self._workloads.entries_in(facts.snapshot)
        return replace(facts, registered=registered, reports=self._workloads.reports)

    def on_model(self, model: MeshModel) -> None:
        """Note the model, which says whose the addresses are that proxies report the health of."""
        self._model = model

    @asynccontextmanager
    async def following(self, on_change: Callable[[], None]) -> AsyncIterator[None]:
        """Tell of changes, and forget proxies that stay away, while the block runs."""
        async with (
            in_background(self._tell_changes(on_change), name="changes of workloads"),
            in_background(self._expire(), name="workloads that have gone"),
        ):
            yield

    def on_open(self, client: Client[Proxy], /) -> None:
        """Register a proxy that says so; raises `Refused` if it may not be one of its group."""
        name = client.node.metadata.get(GROUP)
        if not isinstance(name, str) or not name:
            return
        try:
            found = registrant(
                client.context, client.identities, self._group(client, name), name=name
            )
            is_new = self._workloads.connected(
                found, client.id, now=self._clock.now(), monotonic=self._clock.monotonic()
            )
        except MayNotRegisterError as error:
            raise Refused(grpc.StatusCode.PERMISSION_DENIED, str(error)) from error
        except TooManyWorkloadsError as error:
            raise Refused(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from error
        if is_new:
            self._tell("workload registered", workload=found.name, namespace=found.namespace)
            self._changed.set()

    def on_request(self, client: Client[Proxy], request: SotwRequest | DeltaRequest, /) -> None:
        """Take a report of health; all other requests are for generators."""
        if request.type_url != type_urls.HEALTH_INFORMATION:
            return
        endpoints = self._reported_by(client)
        if not endpoints:
            self._warn(
                "report of health without effect",
                client,
                "its sender has not proved to be the workload: the identities shown are "
                f"{', '.join(client.identities) or 'none'}, the connection comes from "
                f"{client.context.source or 'an unknown address'}",
            )
            return
        healthy = request.error is None
        if self._workloads.on_report(endpoints, client.id, healthy=healthy):
            reason = "" if request.error is None else request.error.message[:200]
            self._tell(
                "workload is healthy" if healthy else "workload is not healthy",
                client=client.id,
                **({"reason": reason} if reason else {}),
            )
            self._changed.set()

    def on_response(self, client: Client[Proxy], response: Response, /) -> None:
        """A response went out, which says nothing of a workload."""

    def on_close(self, client: Client[Proxy], /) -> None:
        """Take note that a stream is over."""
        if self._workloads.closed(client.id, now=self._clock.monotonic()):
            self._changed.set()
        self._gone.set()

    def _group(self, client: Client[Proxy], name: str) -> ConfigObject:
        namespace = client.context.namespace
        if not client.identities:
            raise Refused(
                grpc.StatusCode.UNAUTHENTICATED,
                f"a proxy that registers as a workload ({GROUP}) has to prove who it is: it has to "
                "connect over TLS, with a token or a certificate",
            )
        for each in self._groups:
            if (each.namespace, each.name) == (namespace, name):
                return each
        raise Refused(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"there is no WorkloadGroup {namespace}/{name}, as which the proxy wants to register "
            f"({GROUP})",
        )

    def _reported_by(self, client: Client[Proxy]) -> set[EndpointKey]:
        """Return the workloads that a client's report of health is about."""
        endpoints = reported_endpoints(client.context, client.identities, self._entries)
        found = {each for each in endpoints if not self._is_anothers(each)}
        registered = self._workloads.endpoint_of(client.id)
        return found if registered is None else {*found, registered}

    def _is_anothers(self, endpoint: EndpointKey) -> bool:
        """Return whether what is served at an address is of other accounts alone."""
        namespace, account, address = endpoint
        served = self._model.by_address.get((namespace, address), ()) if self._model else ()
        return bool(served) and all(each.service_account != account for _, each in served)

    def _tell(self, message: str, **facts: str) -> None:
        if len(self._messages) < _MOST_MESSAGES:
            self._messages.append((message, facts))
        else:
            self._left_out += 1

    def _warn(self, message: str, client: Client[Proxy], reason: str) -> None:
        """Log what has no effect."""
        if message not in self._warnings:
            self._warnings[message] = RepeatLog(log, message, now=self._clock.monotonic)
        facts = {"client": client.id}
        self._warnings[message].happened(client.node.id[:256], reason=reason, facts=facts)

    async def _tell_changes(self, changed: Callable[[], None]) -> None:
        """Have what changed served, with rests between: ten times as long as the work, at least.

        So registrations and reports together take a tenth of a core at the most, however many
        there are, and pushes of other changes find the pause that they wait for.
        """
        while True:
            await self._changed.wait()
            self._changed.clear()
            messages, left_out = self._messages, self._left_out
            self._messages, self._left_out = [], 0
            for message, facts in messages:
                log.info(message, extra=facts)
            if left_out:
                log.info("further workloads registered, or their health changed: %d", left_out)
            began = time.thread_time()
            changed()
            worked = time.thread_time() - began
            await self._clock.sleep(max(_SHORTEST_REST_S, worked * _REST_FOR_WORK))

    async def _expire(self) -> None:
        while True:
            at = self._workloads.next_expiry
            if at is None:
                await self._gone.wait()
                self._gone.clear()
                continue
            await self._clock.sleep(max(0.0, at - self._clock.monotonic()))
            if self._workloads.expire(now=self._clock.monotonic()):
                log.info("workloads that have gone are registered no longer")
                self._changed.set()
