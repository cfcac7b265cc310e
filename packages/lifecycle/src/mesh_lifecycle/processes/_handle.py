"""One process, distinguished from a later one that gets the same id."""

import asyncio
import os
import select


class ProcessHandle:
    """A process that is not necessarily a child of this one; close the handle after use.

    The handle is a pidfd (Linux 5.3), which stays with the process when its id is given to another.
    Raises `ProcessLookupError` if no process has the id, `OSError` if it can't be followed.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    @property
    def ended(self) -> bool:
        """Whether the process has ended, be it that its parent has not noticed yet."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))

    async def wait_end(self) -> None:
        """Wait until the process has ended."""
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def on_end() -> None:
            if not ended.done():
                ended.set_result(None)

        loop.add_reader(self._descriptor, on_end)
        try:
            await ended
        finally:
            loop.remove_reader(self._descriptor)

    def close(self) -> None:
        """Let go of the process; it is not touched by that."""
        os.close(self._descriptor)
