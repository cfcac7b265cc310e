"""The requests of a stream that have come and are not handled yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mesh_lifecycle import SystemClock
from xds_server._signal import Signal
from xds_server.protocol._request import SotwRequest
from xds_server.streams._inbox import Inbox
from xds_server.streams._work_share import WorkShare

Settle = Callable[[], Awaitable[None]]


class Bytes(bytes):
    """Bytes that say when they are freed."""

    freed = False

    def __del__(self) -> None:
        Bytes.freed = True


async def test_the_bytes_of_a_request_are_not_kept_until_the_next_comes(settle: Settle) -> None:
    """An acknowledgement names all endpoints: half a megabyte with ten thousand of them."""
    request = SotwRequest(type_url="t")
    inbox = Inbox(
        request,
        parse=lambda _data: request,
        requests_per_second=None,
        clock=SystemClock(),
        wake=Signal(),
        work_share=WorkShare(SystemClock()),
        holder="a",
    )
    waiting = [Bytes(b"names")]

    async def read() -> object:
        if waiting:
            return waiting.pop()
        await asyncio.get_running_loop().create_future()
        return None

    receiving = asyncio.create_task(inbox.receive(read, lambda _request: True))
    await settle()
    assert inbox.pop() is request
    await settle()
    assert Bytes.freed
    receiving.cancel()
    await asyncio.wait([receiving])
