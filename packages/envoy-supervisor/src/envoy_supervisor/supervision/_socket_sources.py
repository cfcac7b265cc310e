"""Where each Envoy that starts gets its listening sockets: from its parent, or as retained ones.

An Envoy that lives is asked by its child itself. For one that has died, the sockets were retained
(`handover._retention`), and the supervisor answers its child (`handover._dead_parent_responder`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from envoy_supervisor._background_tasks import Background
from envoy_supervisor._config import EnvoyConfig
from envoy_supervisor._exit import Exit
from envoy_supervisor.decisions._state import Phase, ProcessState, Stage, SupervisorState
from envoy_supervisor.handover._retention import ServingEnvoy, SocketRetention
from envoy_supervisor.handover._retention_state import StartKind
from envoy_supervisor.handover._series import SeriesResources
from envoy_supervisor.processes._envoy_process import EnvoyProcess
from mesh_lifecycle import Clock


class SocketSources:
    """Prepares the sources of sockets for all processes of one supervisor.

    state: returns it as it is now. process: returns the process of a number, if it is alive.
    """

    def __init__(
        self,
        config: EnvoyConfig,
        *,
        state: Callable[[], SupervisorState],
        process: Callable[[int], EnvoyProcess | None],
        clock: Clock,
        background: Background,
    ) -> None:
        self.retention = SocketRetention(
            config, clock=clock, serving=self._serving, background=background
        )
        self._state = state
        self._process = process
        self._series = SeriesResources(config.directory)

    def prepare(self, starting: ProcessState, *, same_workers: bool) -> None:
        """Prepares for a process that is about to start; call `wait_fetched` before it does.

        same_workers: it has as many worker threads as the one that serves.
        """
        self._series.add(starting.series)
        if starting.epoch == 0:
            self.retention.envoy_starts(StartKind.BINDS)
        elif starting.parent_died:
            self.retention.envoy_starts(StartKind.FROM_DEAD_PARENT)
            self._series.answer_for_dead_parent(
                starting.series,
                starting.epoch - 1,
                pass_socket=self.retention.pass_socket,
                on_child_serves=lambda: self._on_child_serves(starting.number),
            )
        elif same_workers:
            self.retention.envoy_starts(StartKind.FROM_PARENT)
        else:
            self.retention.envoy_starts(StartKind.FROM_PARENT_OF_OTHER_SIZE)

    def must_wait(self, starting: ProcessState) -> bool:
        """Return whether Envoy's answer to the supervisor would go to that process instead."""
        return starting.epoch > 0 and self.retention.fetching

    async def wait_fetched(self) -> None:
        """Wait until no answer of Envoy's is outstanding."""
        await self.retention.wait_fetched()

    def ready(self, process: EnvoyProcess) -> None:
        """Retain the sockets of a process that has become ready."""
        self.retention.envoy_ready(serving_envoy(process))

    def ended(self, last: ProcessState, process: EnvoyProcess, outcome: Exit) -> bool:
        """Return whether the next process can have the sockets that this one had, or was to get.

        last: the state of the process before its end.
        """
        state = self._state()
        if last.stage is Stage.RETIRING and state.has_epoch(last.series, last.epoch + 1):
            self._series.answer_for_dead_parent(last.series, last.epoch, child_serves_already=True)
        if state.phase is not Phase.RUNNING or outcome.final:
            return False
        if last.stage is Stage.READY:
            retained = self.retention.envoy_died(serving_envoy(process))
        elif last.stage is Stage.STARTING and last.parent_died:
            # If it was not killed from outside, the hand-over may be what failed.
            killed = outcome.signal == signal.SIGKILL
            retained = killed and self.retention.envoy_died(serving_envoy(process))
        else:
            self.retention.child_failed()
            return False
        if not retained:
            self.retention.release()
        return retained

    def release_unused(self) -> None:
        """Remove the files of each series of which no process is left or will be started."""
        state = self._state()
        needed = {process.series for process in state.processes}
        if state.dead_parent is not None and state.phase is Phase.RUNNING:
            needed.add(state.dead_parent.series)
        self._series.release_all_but(needed)

    def _on_child_serves(self, number: int) -> None:
        if (child := self._process(number)) is not None:
            self.retention.child_serves(serving_envoy(child))

    def _serving(self) -> ServingEnvoy | None:
        """Return the process that serves, if its answers come here and not to a child of it."""
        state = self._state()
        serving = state.first(Stage.READY)
        if serving is None or state.has_epoch(serving.series, serving.epoch + 1):
            return None
        process = self._process(serving.number)
        return serving_envoy(process) if process else None


def serving_envoy(process: EnvoyProcess) -> ServingEnvoy:
    """Return what socket retention needs to know of a process."""
    return ServingEnvoy(
        number=process.started_as.number,
        series=process.started_as.series,
        epoch=process.started_as.epoch,
        pid=process.pid,
        exited=process.exited,
        admin=process.admin,
        fixed_listeners=process.version.fixed_listeners,
    )
