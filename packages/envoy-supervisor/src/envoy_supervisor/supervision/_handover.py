"""What an Envoy leaves to the one after it: its listening sockets, and somebody to answer for it.

One that lives is asked by its successor itself. For one that has died, the sockets were held beside
it (`_keeper`), and a stand-in answers (`_families`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._exit import Exit
from envoy_supervisor.decisions._process_states import Fleet, Member, Phase, Stage
from envoy_supervisor.handover._retention import ServingEnvoy, SocketKeeper
from envoy_supervisor.handover._series import Families
from envoy_supervisor.processes._envoy_process import Child
from mesh_lifecycle import Clock


class Handover:
    """Between all processes of one supervisor. `fleet` gives them as they are now."""

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        fleet: Callable[[], Fleet],
        clock: Clock,
        background: Background,
    ) -> None:
        self.keeper = SocketKeeper(
            config, clock=clock, may_ask=self._may_ask, background=background
        )
        self._fleet = fleet
        self._families = Families(config.directory)

    def prepare(
        self, member: Member, *, same_workers: bool, heir: Callable[[], Child | None]
    ) -> None:
        """Clear the way for a process that is about to start; wait for `quiet` before it does.

        same_workers: it has as many worker threads as the one that serves.
        heir: its process, once it was started.
        """
        self._families.add(member.family)
        if member.epoch == 0:
            # A socket of a dead Envoy would take connections that are meant for this one.
            self.keeper.release()
            return
        self.keeper.pause()
        if member.heir:
            self._families.stand_in(
                member.family,
                member.epoch - 1,
                claim=self.keeper.claim,
                live=lambda: self._inherit(heir()),
            )
        elif same_workers:
            # A child before this one may have told the parent to stop listening, and died.
            self.keeper.check()
        else:
            # Fewer workers: the sockets of those too many would be ours alone, and get a share.
            self.keeper.release()

    def must_wait(self, member: Member) -> bool:
        """Whether a question of ours is open, whose answer that process would get instead."""
        return member.epoch > 0 and self.keeper.asking

    async def quiet(self) -> None:
        """Wait until no question of ours is open."""
        await self.keeper.quiet()

    def ended(self, member: Member, child: Child, outcome: Exit) -> bool:
        """Whether the next one can take over what this one had, or was to get."""
        if member.stage is Stage.RETIRING and self._there_is(member.family, member.epoch + 1):
            self._families.stand_in(member.family, member.epoch, owed=True)
        if self._fleet().phase is not Phase.RUNNING or outcome.final:
            return False
        if member.stage is Stage.READY:
            kept = self.keeper.bequeath(serving_envoy(child))
        elif member.stage is Stage.STARTING and member.heir:
            # Killed from outside it has proved nothing; else taking over may be what it cannot.
            kept = outcome.signal == signal.SIGKILL and self.keeper.bequeath(serving_envoy(child))
        else:
            self.keeper.check()
            return False
        if not kept:
            self.keeper.release()
        return kept

    def tidy(self) -> None:
        """Remove what outlives processes, once no process is left that needs it."""
        fleet = self._fleet()
        needed = {member.family for member in fleet.members}
        if fleet.legacy is not None and fleet.phase is Phase.RUNNING:
            needed.add(fleet.legacy.family)
        self._families.keep_only(needed)

    def _inherit(self, heir: Child | None) -> None:
        if heir is not None:
            self.keeper.inherit(serving_envoy(heir))

    def _may_ask(self, child: ServingEnvoy) -> bool:
        """Whether answers of that process come to us, and not to the next of its family."""
        serving = self._fleet().first(Stage.READY)
        if serving is None or serving.number != child.number:
            return False
        return not self._there_is(serving.family, serving.epoch + 1)

    def _there_is(self, family: int, epoch: int) -> bool:
        """Whether there is a process of that family and epoch."""
        return any((m.family, m.epoch) == (family, epoch) for m in self._fleet().members)


def serving_envoy(child: Child) -> ServingEnvoy:
    """Returns what socket retention needs to know of a process."""
    return ServingEnvoy(
        number=child.member.number,
        series=child.member.family,
        epoch=child.member.epoch,
        pid=child.process.pid,
        exited=child.process.exited,
        admin=child.admin,
        fixed_listeners=child.version.fixed_listeners,
    )
