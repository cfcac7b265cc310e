"""A request to stop that signals make and a program can wait for."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Stopping:
    """The request to stop this process: whether it has come, why, and how often."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._reason: str | None = None
        self._count = 0

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    @property
    def reason(self) -> str | None:
        """The reason of the first request: a signal's name, or the text given to `request`."""
        return self._reason

    @property
    def count(self) -> int:
        """The number of requests; a second one usually means to stop immediately."""
        return self._count

    def request(self, reason: str) -> None:
        self._count += 1
        if self._reason is None:
            self._reason = reason
        self._event.set()

    async def wait(self) -> str:
        """Wait for a request to stop; returns its reason."""
        await self._event.wait()
        return self._reason or ""


@contextmanager
def stop_signals(*signals: signal.Signals) -> Iterator[Stopping]:
    """Turn these signals (default SIGTERM and SIGINT) into a `Stopping` while the block runs.

    Needs the main thread's running event loop. The handlers are removed at the end, which puts
    Python's defaults back.
    """
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    wanted = signals or (signal.SIGTERM, signal.SIGINT)
    for number in wanted:
        loop.add_signal_handler(number, stopping.request, number.name)
    try:
        yield stopping
    finally:
        for number in wanted:
            loop.remove_signal_handler(number)
