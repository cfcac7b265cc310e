"""Retains a running Envoy's listening sockets, in case it dies: carries out `decide`'s actions."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import assert_never

import msgspec

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import AdminError
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.admin._listeners import listening_addresses
from envoy_supervisor.handover import _retention_state as retention
from envoy_supervisor.handover._fetch_sockets import fetch_listening_sockets
from envoy_supervisor.handover._hot_restart_files import (
    can_continue_series,
    hot_restart_sockets,
    id_file,
)
from envoy_supervisor.handover._retained_sockets import RetainedSockets, SocketName
from envoy_supervisor.handover._retention_decisions import CHECK_INTERVAL_S, MAX_WAIT_S, decide
from envoy_supervisor.handover._retention_state import Orphaned, RetentionState, Serving, StartKind
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

MOST_SOCKETS = 256
WARMING = "listener_manager.total_listeners_warming"
WARMING_POLL_S = 0.1
WARMING_POLL_SLOW_S = 5.0


class ServingEnvoy(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about an Envoy process that socket retention needs.

    fixed_listeners: no control plane says where it listens.
    """

    number: int
    series: int
    epoch: int
    pid: int
    exited: asyncio.Future[int]
    admin: AdminClient
    fixed_listeners: bool


class SocketRetention:
    """The retained sockets of one supervisor's Envoys.

    `handed_over` counts the sockets that a new Envoy took over after a crash.

    serving: returns the process that serves, unless a child of it is there, dead or alive: answers
        would go to the child.
    """

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        clock: Clock,
        serving: Callable[[], ServingEnvoy | None],
        background: Background,
    ) -> None:
        self.handed_over = 0
        self._config = config
        self._clock = clock
        self._serving_envoy = serving
        self._background = background
        self._state = RetentionState()
        self._sets: dict[int, RetainedSockets] = {}
        self._events: deque[retention.Event] = deque()
        self._handling = False
        self._fetching = asyncio.Lock()
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def count(self) -> int:
        """How many sockets are retained now."""
        retained = self._state.retained
        return len(self._sets[retained.sockets]) if retained else 0

    @property
    def fetching(self) -> bool:
        """Whether Envoy is being asked: it must not be replaced until it has answered."""
        return self._fetching.locked()

    async def wait_fetched(self) -> None:
        """Wait until no answer is outstanding."""
        async with self._fetching:
            pass

    async def wait_settled(self) -> None:
        """Wait until Envoy's sockets are retained, or nothing is under way to retain them."""
        await self._settled.wait()

    def envoy_ready(self, envoy: ServingEnvoy) -> None:
        """Retain the sockets of a process that has become ready."""
        serving = self._serving()
        if serving is not None and serving.pid == envoy.pid:
            self._handle(retention.EnvoyReady(serving))

    def envoy_starts(self, kind: StartKind) -> None:
        """Prepares for a process that is about to start; `wait_fetched` before it does."""
        self._handle(retention.EnvoyStarts(kind))

    def child_serves(self, child: ServingEnvoy) -> None:
        """Leaves to the child of a dead Envoy the sockets that it has asked for."""
        self._handle(retention.ChildServes(child.pid))

    def child_failed(self) -> None:
        """Check the sockets after a child has failed: it may have had its parent close some."""
        self._handle(retention.ChildFailed())

    def envoy_died(self, envoy: ServingEnvoy) -> bool:
        """Retain the sockets of a process that has died; returns whether its child can have them.

        The process served, or was to get the sockets of a dead one itself.
        """
        self._handle(retention.EnvoyDied(envoy.pid))
        file = id_file(self._config.directory, envoy.series)
        orphaned = isinstance(self._state.retained, Orphaned)
        return orphaned and self.count > 0 and can_continue_series(file)

    def listeners_changing(self) -> None:
        """Release the sockets that a running Envoy may close."""
        self._handle(retention.ListenersChanging())

    def listeners_changed(self) -> None:
        """Retain the sockets that Envoy listens on now."""
        self._handle(retention.ListenersChanged(self._serving()))

    def release(self) -> None:
        """Release all sockets now."""
        self._handle(retention.Release())

    def close(self) -> None:
        """Release all sockets, and retains none any more."""
        self._handle(retention.Release(for_good=True))

    def pass_socket(self, name: SocketName) -> int | None:
        """Return a descriptor of a dead Envoy's socket, for its child."""
        retained = self._state.retained
        if not isinstance(retained, Orphaned):
            return None
        return self._sets[retained.sockets].pass_on(name)

    # --- events in, actions out

    def _handle(self, event: retention.Event) -> None:
        """Handles an event; one that comes while another is handled is queued."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                now = self._clock.monotonic()
                self._state, actions = decide(self._state, self._events.popleft(), now=now)
                for action in actions:
                    self._do(action)
        finally:
            self._handling = False
        if self._state.fetch is None and not self._state.listeners_changing:
            self._settled.set()
        else:
            self._settled.clear()

    def _do(self, action: retention.Action) -> None:
        match action:
            case retention.FetchSockets(number, pid, after_s):
                work = self._fetch(number, after_s)
                self._background.start(work, name=f"envoy {pid} sockets")
            case retention.Check(sockets):
                self._check(sockets)
            case retention.CheckLater(check):
                self._later(CHECK_INTERVAL_S, retention.CheckDue(check))
            case retention.LetConnectionsWait(sockets):
                self._let_connections_wait(sockets)
            case retention.EndWaitLater(sockets):
                self._later(MAX_WAIT_S, retention.WaitOver(sockets))
            case retention.HandOver(sockets, pid):
                self._hand_over(self._sets[sockets], pid)
            case retention.KeepThoseOf(sockets, pid):
                self._sets[sockets].keep_those_of(pid)
            case retention.CloseNotPassed(sockets):
                self._close_not_passed(sockets)
            case retention.Close(sockets):
                self._sets.pop(sockets).close()
            case _:
                assert_never(action)

    def _check(self, sockets: int) -> None:
        if not _is_shared(self._sets[sockets]):
            log.warning("envoy has closed listening sockets that were retained")
            self._events.append(retention.NotShared(sockets, self._serving()))

    def _let_connections_wait(self, sockets: int) -> None:
        try:
            self._sets[sockets].let_connections_wait()
        except OSError as error:
            log.debug("few connections can wait", extra={"error": str(error)})

    def _close_not_passed(self, sockets: int) -> None:
        retained = self._sets[sockets]
        if count := len(retained) - retained.passed:
            extra = {"sockets": count}
            log.warning("the new envoy takes long, connections are refused", extra=extra)
            retained.close_not_passed()

    def _hand_over(self, retained: RetainedSockets, pid: int) -> None:
        retained.close_not_passed()
        count = len(retained)
        retained.keep_those_of(pid)
        if count:
            self.handed_over += count
            log.info("connections waited for the new envoy", extra={"sockets": count})

    def _later(self, seconds: float, event: retention.Event) -> None:
        async def wait() -> None:
            await self._clock.sleep(seconds)
            self._handle(event)

        self._background.start(wait(), name=f"sockets timer {type(event).__name__}")

    def _serving(self) -> Serving | None:
        envoy, config = self._serving_envoy(), self._config
        if envoy is None:
            return None
        retainable = (
            config.retain_sockets
            and config.hot_restart
            and config.crashes.budget > 0
            and (envoy.fixed_listeners or config.listener_changes_reported)
        )
        return Serving(pid=envoy.pid, retainable=retainable)

    # --- asking Envoy

    def _is_wanted(self, number: int) -> bool:
        return self._state.fetch is not None and self._state.fetch.number == number

    async def _fetch(self, number: int, after_s: float) -> None:
        envoy = self._serving_envoy()
        await self._clock.sleep(after_s)
        retained = None
        if envoy is not None and self._is_wanted(number):
            try:
                retained = await self._fetched(envoy, wanted=lambda: self._is_wanted(number))
            except AdminError as error:
                log.debug("envoy's listeners are not known", extra={"error": str(error)})
        if retained is None:
            self._handle(retention.FetchFailed(number, self._serving()))
            return
        if not _is_shared(retained):
            retained.close()
        self._sets[number] = retained
        log.debug("listening sockets are fetched", extra={"sockets": len(retained)})
        self._handle(retention.Fetched(number, len(retained)))

    async def _fetched(
        self, envoy: ServingEnvoy, *, wanted: Callable[[], bool]
    ) -> RetainedSockets | None:
        """Return the sockets, none if they cannot be retained; None if Envoy does not answer now.

        Raises `AdminError`.
        """
        if not envoy.fixed_listeners and not await self._wait_warmed(envoy, wanted):
            log.warning("listening sockets are not retained", extra={"missing_statistic": WARMING})
            return RetainedSockets(pid=envoy.pid)
        async with self._fetching:
            if not wanted():
                return None
            file = id_file(self._config.directory, envoy.series)
            if (at := hot_restart_sockets(file, envoy.epoch)) is None:
                return RetainedSockets(pid=envoy.pid)
            addresses = listening_addresses(await envoy.admin.listeners())
            return await fetch_listening_sockets(
                at,
                addresses,
                pid=envoy.pid,
                exited=envoy.exited,
                most=MOST_SOCKETS,
                wanted=wanted,
            )

    async def _wait_warmed(self, envoy: ServingEnvoy, wanted: Callable[[], bool]) -> bool:
        """Wait until no listener is about to replace another; False if that cannot be seen."""
        interval_s = WARMING_POLL_S
        while wanted():
            warming = (await envoy.admin.stats(f"^{WARMING}$")).get(WARMING)
            if warming is None:
                return False
            if warming == 0:
                break
            await self._clock.sleep(interval_s)
            interval_s = min(WARMING_POLL_SLOW_S, interval_s * 1.5)
        return True


def _is_shared(retained: RetainedSockets) -> bool:
    """Return whether it is certain that Envoy has these sockets too."""
    try:
        return retained.envoy_has_all()
    except OSError as error:
        # Another user's process, or one with capabilities of its own.
        log.info("cannot look at envoy's sockets", extra={"reason": str(error)})
        return False
