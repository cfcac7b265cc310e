"""Keeps a running Envoy's listening sockets open beside it, in case it dies.

Three states: nothing is held; what is held is Envoy's too (`_held`); or Envoy has died, and it is
held for the next one (`_left`). Whatever makes it uncertain that Envoy still has the same sockets
releases them at once: a socket that only we hold swallows connections. Once it is settled they are
asked for anew.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._errors import AdminError
from envoy_supervisor.admin._client import AdminClient
from envoy_supervisor.admin._listeners import listening_addresses
from envoy_supervisor.handover._fetch_sockets import held_sockets
from envoy_supervisor.handover._hot_restart_files import can_go_on, id_file, sockets
from envoy_supervisor.handover._retained_sockets import HeldSockets
from mesh_lifecycle import Clock

log = logging.getLogger(__name__)

MOST_SOCKETS = 256
# How long a socket may be held that Envoy has closed without anyone telling.
LOOK_S = 5.0
# How long connections wait for a new Envoy that does not ask for their socket.
WAIT_MOST_S = 10.0
# A control plane that changes listeners in quick succession shall not have all of them asked for
# each time: only the first change is followed at once.
CALM_S = 0.25
WARMING = "listener_manager.total_listeners_warming"
WARMING_POLL_S = 0.1
WARMING_POLL_SLOW_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingEnvoy:
    """What socket retention needs to know of an Envoy process."""

    number: int
    series: int
    epoch: int
    pid: int
    exited: asyncio.Future[int]
    admin: AdminClient
    fixed_listeners: bool


class SocketKeeper:
    """The sockets of one supervisor's Envoys. `handed_over` counts those that a new one took.

    may_ask: whether a process serves and no next one of its family is there, dead or alive, which
        the answers would go to.
    """

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        clock: Clock,
        may_ask: Callable[[ServingEnvoy], bool],
        background: Background,
    ) -> None:
        self.handed_over = 0
        self._config = config
        self._clock = clock
        self._may_ask = may_ask
        self._background = background
        self._held: HeldSockets | None = None
        self._left: HeldSockets | None = None
        self._changing = False
        self._changed_at = -math.inf
        self._closed = False
        self._wish = object()  # replaced whenever what is being asked for is not wanted any more
        self._asking = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many sockets are held now."""
        return len(self._held or self._left or ())

    @property
    def asking(self) -> bool:
        """Whether Envoy is being asked: it must not be replaced until it has answered."""
        return self._asking.locked()

    async def quiet(self) -> None:
        """Wait until no answer is outstanding."""
        async with self._asking:
            pass

    # --- while Envoy runs

    def take(self, child: ServingEnvoy, *, after_s: float = 0.0) -> None:
        """Hold what the process that serves listens on, as soon as it can be asked."""
        if not self._may_ask(child):
            return
        self.inherit(child)
        if self._held is not None and self._held.pid != child.pid:
            # A hot restart: what the new one has, it has from the old one.
            self._held.belong_to(child.pid)
        if not self._applies_to(child):
            self.release()
            return
        wish = self._wish = object()
        name = f"envoy {child.pid} sockets"
        self._background.start(self._take(child, wish, after_s), name=name)

    def pause(self) -> None:
        """Ask no further; what is held stays held."""
        self._wish = object()

    def check(self) -> bool:
        """Look now whether what is held is Envoy's too, and release it if not."""
        if self._held is None or _shared(self._held):
            return True
        log.warning("envoy has closed listening sockets that were held for it")
        self._held.close()
        self._held = None
        return False

    def release(self) -> None:
        """Hold nothing, now: Envoy may be about to close its sockets."""
        self.pause()
        for held in (self._held, self._left):
            if held is not None:
                held.close()
        self._held = self._left = None

    def close(self) -> None:
        """Release, for good."""
        self._closed = True
        self.release()

    def listeners_changing(self) -> None:
        """Release what a running Envoy may close; what a dead one left is for the next."""
        self._changing = True
        if self._left is None:
            self.release()

    def listeners_changed(self, child: ServingEnvoy | None) -> None:
        """Take what there is now; child: the process that serves."""
        self._changing = False
        now = self._clock.monotonic()
        calm, self._changed_at = now - self._changed_at >= CALM_S, now
        if child is not None and self._left is None:
            self.take(child, after_s=0.0 if calm else CALM_S)

    # --- when it has died

    def bequeath(self, child: ServingEnvoy) -> bool:
        """Keep the sockets of a process that has died for the next; whether there are any.

        Or, if it was an heir and died before it served, what it would have got.
        """
        self.pause()
        held, self._held = self._held, None
        if held is not None and held.pid != child.pid:
            held.close()
        elif held:
            self._left = held
            self._background.start(self._patience(held), name="sockets without envoy")
        if self._left is not None:
            try:
                self._left.begin_handover()
            except OSError as error:
                log.debug("waiting connections stay few", extra={"error": str(error)})
        return bool(self._left) and can_go_on(id_file(self._config.directory, child.series))

    def claim(self, address: str, worker: int) -> int | None:
        """The descriptor of a socket that the dead process had; for the next one."""
        return self._left.claim(address, worker) if self._left is not None else None

    def inherit(self, heir: ServingEnvoy) -> None:
        """The next process serves; what it has asked for is its own as well."""
        if self._left is None:
            return
        self._left.close_unclaimed()
        sockets_taken = len(self._left)
        self._left.belong_to(heir.pid)
        if sockets_taken:
            self.handed_over += sockets_taken
            log.info("connections waited for the new envoy", extra={"sockets": sockets_taken})
        self._held, self._left = self._left, None
        if self._changing:
            self.release()

    async def _patience(self, left: HeldSockets) -> None:
        await self._clock.sleep(WAIT_MOST_S)
        if self._left is left and (count := len(left) - left.claimed):
            log.warning(
                "the new envoy takes long, connections are refused", extra={"sockets": count}
            )
            left.close_unclaimed()

    # --- asking and looking

    def _applies_to(self, child: ServingEnvoy) -> bool:
        config = self._config
        return (
            config.keep_sockets
            and config.hot_restart
            and config.crashes.budget > 0
            and not self._closed
            and not self._changing
            and (child.fixed_listeners or config.listener_changes_told)
        )

    async def _take(self, child: ServingEnvoy, wish: object, after_s: float) -> None:
        def wanted() -> bool:
            return self._wish is wish and self._may_ask(child)

        await self._clock.sleep(after_s)
        taken: HeldSockets | None = None
        while wanted() and (taken := await self._asked(child, wanted)) is None:
            await self._clock.sleep(LOOK_S)
            self.check()
        if taken is None:
            return
        if not wanted():
            taken.close()
            return
        if self._held is not None:
            self._held.close()
        self._held = taken
        log.debug("listening sockets are held", extra={"sockets": len(taken)})
        while taken and self._held is taken:
            await self._clock.sleep(LOOK_S)
            if self._held is taken and not self.check():
                self.take(child)

    async def _asked(self, child: ServingEnvoy, wanted: Callable[[], bool]) -> HeldSockets | None:
        """What it listens on, empty if we may not look; None if it could not be asked just now."""
        try:
            if not child.fixed_listeners and not await self._warm(child, wanted):
                log.warning("listening sockets are not held", extra={"missing_statistic": WARMING})
                return HeldSockets(pid=child.pid)
            async with self._asking:
                file = id_file(self._config.directory, child.series)
                if not wanted():
                    return None
                if (at := sockets(file, child.epoch)) is None:
                    return HeldSockets(pid=child.pid)
                addresses = listening_addresses(await child.admin.listeners())
                taken = await held_sockets(
                    at,
                    addresses,
                    pid=child.pid,
                    exited=child.exited,
                    most=MOST_SOCKETS,
                    wanted=wanted,
                )
        except AdminError as error:
            log.debug("envoy's listeners are not known", extra={"error": str(error)})
            return None
        if taken is not None and not _shared(taken):
            taken.close()
        return taken

    async def _warm(self, child: ServingEnvoy, wanted: Callable[[], bool]) -> bool:
        """Wait until no listener is about to take another's place; False if that cannot be seen."""
        interval_s = WARMING_POLL_S
        while wanted():
            warming = (await child.admin.stats(f"^{WARMING}$")).get(WARMING)
            if warming is None:
                return False
            if warming == 0:
                break
            await self._clock.sleep(interval_s)
            interval_s = min(WARMING_POLL_SLOW_S, interval_s * 1.5)
        return True


def _shared(held: HeldSockets) -> bool:
    """Whether it is certain that Envoy has them too."""
    try:
        return held.still_theirs()
    except OSError as error:
        # Another user's process, or one with capabilities of its own.
        log.info("cannot look at envoy's sockets", extra={"reason": str(error)})
        return False
