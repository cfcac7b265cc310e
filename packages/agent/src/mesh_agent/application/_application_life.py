"""Ends the agent with a process, and the application that the agent starts with the agent."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, assert_never

from envoy_supervisor import EnvoySupervisorError
from mesh_agent._errors import ApplicationNotStarted, NoSuchProcess
from mesh_agent.application._application_config import ApplicationConfig, FollowedProcess
from mesh_lifecycle import Readiness, Stopping, in_background

if TYPE_CHECKING:
    from mesh_lifecycle.processes import Application

log = logging.getLogger(__name__)

# Not SIGUSR1: the agent and Envoy open their log files anew at it.
_FORWARDED = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2, signal.SIGWINCH)
_STOP_SIGNALS = {number.name: number for number in (signal.SIGTERM, signal.SIGINT)}
_NEVER_STARTED = 128 + signal.SIGTERM
_NOT_SEEN_S = 60.0


class ApplicationLife:
    """The exit status of the agent, as far as the application decides it."""

    def __init__(self) -> None:
        self.exit_status = 0
        """That of the application that the agent started; 143 if it was never started; else 0."""


Drain = Callable[[], Awaitable[None]]


@asynccontextmanager
async def application_life(
    config: FollowedProcess | ApplicationConfig | None,
    *,
    readiness: Readiness,
    stopping: Stopping,
    drain: Drain,
    ended: Callable[[], None],
) -> AsyncIterator[ApplicationLife]:
    """Request the agent's stop when the process ends; leaving the block ends the application.

    drain: asks Envoy's clients to leave, when an application that still runs is to be ended.
    ended: called when the process has ended: requests are answered no more.
    Raises `ApplicationNotStarted` and `NoSuchProcess`.
    """
    life = ApplicationLife()
    match config:
        case None:
            yield life
        case FollowedProcess():
            following = _follow(config.process, stopping, ended)
            async with in_background(following, name="process to end with"):
                yield life
        case ApplicationConfig():
            running = _RunningApplication(config, life, stopping)
            work = running.run(readiness, ended)
            try:
                async with in_background(work, name="application"):
                    yield life
            finally:
                await running.stop(drain, ended)
        case never:
            assert_never(never)


async def _follow(process: int | str, stopping: Stopping, ended: Callable[[], None]) -> None:
    from mesh_lifecycle.processes import ProcessHandle, wait_named_end

    if isinstance(process, str):
        await _with_word(process, wait_named_end(process, found=_log_found))
    else:
        try:
            handle = ProcessHandle(process)
        except OSError as error:
            raise NoSuchProcess(
                f"there is no process {process} to end with ({error.strerror}): "
                "it may have ended before the agent started"
            ) from error
        try:
            await handle.wait_end()
        finally:
            handle.close()
    ended()
    stopping.request(f"process {process} has ended")
    await asyncio.Event().wait()  # a background task that returned would count as failed


def _log_found(pids: Sequence[int]) -> None:
    log.info("the agent ends with these processes", extra={"pids": list(pids)})


async def _with_word(name: str, waiting: Awaitable[None]) -> None:
    """Wait, and say so if no process of that name is seen for a while."""
    from mesh_lifecycle.processes import named_processes

    async def word() -> None:
        await asyncio.sleep(_NOT_SEEN_S)
        if not named_processes(name):
            log.warning(
                "the program that the agent is to end with has not been seen yet; in a pod, "
                "programs of other containers are seen only with shareProcessNamespace",
                extra={"program": name},
            )
        await asyncio.Event().wait()

    async with in_background(word(), name="word of a missing process"):
        await waiting


class _RunningApplication:
    """The application, from when the agent is ready."""

    def __init__(
        self, config: ApplicationConfig, life: ApplicationLife, stopping: Stopping
    ) -> None:
        self._config = config
        self._life = life
        self._stopping = stopping
        self._application: Application | None = None
        self._forwarded = ExitStack()
        life.exit_status = _NEVER_STARTED

    async def run(self, readiness: Readiness, ended: Callable[[], None]) -> None:
        """Start the application once the agent is ready, and request a stop when it ends."""
        from mesh_lifecycle.processes import ApplicationError, start_application

        await readiness.wait_ready()
        if self._stopping.requested:
            await asyncio.Event().wait()
        try:
            application = start_application(
                self._config.command, environment=self._config.environment
            )
        except ApplicationError as error:
            raise ApplicationNotStarted(str(error), exit_status=error.exit_status) from error
        self._application = application
        log.info("application started", extra={"pid": application.pid, "command": application.name})
        # Until the block's end: what such a signal does otherwise is end the agent at once.
        self._forwarded.enter_context(_forwarding(application))
        status = await application.wait()
        self._life.exit_status = status
        ended()
        self._stopping.request(f"the application has ended with exit status {status}")
        await asyncio.Event().wait()

    async def stop(self, drain: Drain, ended: Callable[[], None]) -> None:
        """End the application if it still runs; Envoy's clients are asked to leave meanwhile."""
        application = self._application
        if application is None:
            return
        try:
            if application.exit_status is None:
                number = _STOP_SIGNALS.get(self._stopping.reason or "", signal.SIGTERM)
                log.info("application is told to end", extra={"signal": number.name})
                async with in_background(_drain(drain), name="drain beside the application"):
                    self._life.exit_status = await application.stop(
                        number=number, within_s=self._config.stop_timeout.total_seconds()
                    )
                log.info("application ended", extra={"exit_status": self._life.exit_status})
                ended()
        finally:
            self._forwarded.close()
            application.close()


async def _drain(drain: Drain) -> None:
    try:
        await drain()
    except EnvoySupervisorError as error:
        log.warning("envoy was not told to drain", extra={"error": str(error)})
    await asyncio.Event().wait()


@contextmanager
def _forwarding(application: "Application") -> Iterator[None]:
    """Send these signals on to the application while the block runs."""
    loop = asyncio.get_running_loop()
    for number in _FORWARDED:
        loop.add_signal_handler(number, application.signal, number)
    try:
        yield
    finally:
        for number in _FORWARDED:
            loop.remove_signal_handler(number)
