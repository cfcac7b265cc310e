"""The answer of another server, passed on as it comes."""

import asyncio
from http import HTTPStatus

from mesh_status_server._errors import FetchError
from mesh_status_server.http._fetching import Address, fetching
from mesh_status_server.http._messages import Response, Start, Streamed

_TIMEOUT_S = 60.0
"""How long the other server may be silent."""


def passed_on(address: Address, target: str, *, server: str) -> Streamed:
    """Return the answer of another server to a GET request, with its status and type.

    server: its name in the sentence that the caller gets, with 502 or 504, if it does not answer.
    One that falls silent or breaks off midway ends the caller's connection.
    """

    async def write(start: Start) -> None:
        loop = asyncio.get_running_loop()
        begun = False
        try:
            async with asyncio.timeout(_TIMEOUT_S) as time, fetching(address, target) as answer:
                time.reschedule(None)
                send = await start(
                    status=answer.status,
                    content_type=answer.header("content-type") or "application/octet-stream",
                )
                begun = True
                while True:
                    time.reschedule(loop.time() + _TIMEOUT_S)
                    piece = await answer.read()
                    time.reschedule(None)
                    if not piece:
                        return
                    await send(piece)
        except FetchError as error:
            if begun:
                raise ConnectionError(f"{server} broke off: {error}") from error
            await _tell(start, HTTPStatus.BAD_GATEWAY, f"{server} gave no answer: {error}\n")
        except TimeoutError:
            if begun:
                raise
            await _tell(
                start, HTTPStatus.GATEWAY_TIMEOUT, f"{server} gave no answer for {_TIMEOUT_S:g} s\n"
            )

    return Streamed(write=write, compress=True)


async def _tell(start: Start, status: HTTPStatus, text: str) -> None:
    response = Response.text(text, status)
    send = await start(status=status, content_type=response.content_type)
    await send(response.body)
