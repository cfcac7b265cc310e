"""One deadline for the whole stop, however many parts there are and whichever of them hangs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

from mesh_agent._config import AgentConfig
from mesh_agent._errors import StopOverdue
from mesh_agent.application._application_config import ApplicationConfig

_OTHER_PARTS = timedelta(seconds=5)
"""For all parts but the application and Envoy; each of them takes a second at most."""

StopBegan = Callable[[float], None]
"""Called when the stop begins, with the seconds that it may take."""


def stop_limit(config: AgentConfig) -> timedelta:
    """Return how long a stop may take: what the application and Envoy may, and five seconds."""
    envoy, application = config.envoy, config.application
    limit = max(envoy.termination_drain, envoy.minimum_drain) + envoy.pre_drain_pause
    limit += envoy.stop_grace + _OTHER_PARTS
    if isinstance(application, ApplicationConfig):
        limit += application.stop_timeout
    return limit


@asynccontextmanager
async def stop_deadline(
    limit: timedelta, began: StopBegan | None = None
) -> AsyncIterator[Callable[[], None]]:
    """Run the block, and bound its time from when it calls what is yielded: the stop begins then.

    At the deadline the block is cancelled: Envoy is killed, and nothing is waited for any more.
    Raises `StopOverdue` if it came to that.
    """
    timeout = asyncio.timeout(None)

    def begin() -> None:
        if timeout.when() is None:
            timeout.reschedule(asyncio.get_running_loop().time() + limit.total_seconds())
            if began is not None:
                began(limit.total_seconds())

    try:
        async with timeout:
            yield begin
    except TimeoutError:
        if not timeout.expired():
            raise
        raise StopOverdue(
            f"the agent did not stop within {limit.total_seconds():g} s and was cut short"
        ) from None
