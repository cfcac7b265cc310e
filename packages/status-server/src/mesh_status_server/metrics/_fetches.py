"""Pages of several sources on their way at the same time, each a few pieces ahead of its reader."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from mesh_status_server._errors import FetchError
from mesh_status_server.http._fetching import Headers
from mesh_status_server.http._messages import Send
from mesh_status_server.metrics._negotiation import Format
from mesh_status_server.metrics._pages import MAX_BYTES, SEVERAL_MAX_BYTES, Source, opened

T = TypeVar("T")

log = logging.getLogger("mesh_status_server")

_MOST_PIECES = 2
_MARGIN_S = 0.5


class Waiting:
    """The time for which the sources of a scrape may be waited for; it ends before the scraper's.

    The time in which the scraper does not take what is there does not count.
    """

    def __init__(self, patience_s: float) -> None:
        self.left_s = patience_s - min(_MARGIN_S, patience_s / 10)

    async def until_done(self, work: Coroutine[object, object, T], *, most_s: float) -> T:
        """Return what the work returns; raises TimeoutError when it takes too long."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        try:
            async with asyncio.timeout(min(most_s, self.left_s)):
                return await work
        finally:
            self.left_s = max(0.0, self.left_s - (loop.time() - begun_s))


class Fetch:
    """The page of one source on its way.

    head: the format of the page, None if there will be none.
    wanted: the format that the lines are to have; to be set before they are copied.
    """

    def __init__(self, source: Source) -> None:
        loop = asyncio.get_running_loop()
        self.source = source
        self.head: asyncio.Future[Format | None] = loop.create_future()
        self.wanted: asyncio.Future[Format] = loop.create_future()
        self._pieces = asyncio.Queue[bytes | FetchError](_MOST_PIECES)

    async def run(self, *, query: str, headers: Headers, max_bytes: int) -> None:
        """Fetch the page; an error is passed to `copy`."""
        page = opened(self.source, query=query, headers=headers, max_bytes=max_bytes)
        end: bytes | FetchError = b""
        try:
            async with page as lines_of:
                self.head.set_result(lines_of.format)
                wanted = await self.wanted
                while lines := await lines_of.read(wanted):
                    await self._pieces.put(lines)
        except FetchError as error:
            end = error
        except Exception as error:
            # The boundary between one source and the others.
            log.exception("metrics could not be fetched", extra={"from": self.source.name})
            end = FetchError(f"internal error: {error!r}")
        if not self.head.done():
            self.head.set_result(None)
        await self._pieces.put(end)

    async def copy(self, send: Send, waiting: Waiting, *, most_s: float) -> None:
        """Send the lines on; raises `FetchError` when they end early or take longer than most_s."""
        while True:
            before_s = waiting.left_s
            try:
                piece = await waiting.until_done(self._pieces.get(), most_s=most_s)
            except TimeoutError as error:
                raise FetchError("not all of its metrics came in time") from error
            most_s -= before_s - waiting.left_s
            if isinstance(piece, FetchError):
                raise piece
            if not piece:
                return
            await send(piece)


@asynccontextmanager
async def fetching_all(
    sources: Sequence[Source], *, query: str, headers: Headers, accept: str
) -> AsyncIterator[Sequence[Fetch]]:
    """Ask all sources at once; what is not finished with the block is cancelled.

    headers: for all sources. accept: for those that may choose their format.
    """
    fetches = [Fetch(source) for source in sources]
    several = sum(not source.text_only for source in sources) > 1
    tasks = [
        asyncio.create_task(
            fetch.run(
                query=query,
                headers=[*headers, ("accept", Format.TEXT if fetch.source.text_only else accept)],
                max_bytes=SEVERAL_MAX_BYTES
                if several and not fetch.source.text_only
                else MAX_BYTES,
            ),
            name=f"metrics of {fetch.source.name}",
        )
        for fetch in fetches
    ]
    try:
        yield fetches
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for fetch in fetches:
            fetch.head.cancel()
            fetch.wanted.cancel()
