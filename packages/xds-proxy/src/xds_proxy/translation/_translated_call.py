"""A call to a control plane that does not speak Envoy's dialect, with a translator in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import grpc
import grpc.aio

from mesh_lifecycle import in_background
from xds_proxy._errors import TranslationError, WireError
from xds_proxy.translation._translator import Translator

_LARGE_BYTES = 1 << 20
"""A message of more bytes is translated in a thread, as the event loop has other streams."""


class Call(Protocol):
    """A stream to a control plane."""

    shown: str

    def read(self) -> Awaitable[object]: ...

    def write(self, message: bytes) -> Awaitable[None]: ...

    def code(self) -> Awaitable[grpc.StatusCode]: ...

    def details(self) -> Awaitable[str | None]: ...


class TranslatedCall:
    """Reads and writes messages in Envoy's dialect; made by `translated`.

    When a message has no translation, the call is over for its reader, with a status that says so.
    """

    def __init__(self, call: Call, translator: Translator) -> None:
        self._call = call
        self._translator = translator
        self._translating = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._owes = asyncio.Event()
        self._failure: tuple[grpc.StatusCode, str] | None = None
        self._failed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.shown = call.shown

    async def read(self) -> object:
        """Return the next message; after the end something else than bytes."""
        while self._failure is None:
            response = await self._read()
            if not isinstance(response, bytes):
                return response
            try:
                async with self._translating:
                    if len(response) > _LARGE_BYTES:
                        translated = await asyncio.to_thread(self._translator.response, response)
                    else:
                        translated = self._translator.response(response)
            except WireError as error:
                self._fail(
                    grpc.StatusCode.INTERNAL, f"the control plane's response is malformed: {error}"
                )
            except TranslationError as error:
                self._fail(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error))
            else:
                self._owes.set()
                if translated is not None:
                    return translated
        return None

    async def write(self, message: bytes) -> None:
        """Send a message. Returns when the network has taken what the control plane gets of it."""
        async with self._writing:
            try:
                async with self._translating:
                    requests = self._translator.request(message)
            except WireError as error:
                self._fail(grpc.StatusCode.INTERNAL, f"Envoy's request is malformed: {error}")
                return
            for request in requests:
                await self._call.write(request)

    async def code(self) -> grpc.StatusCode:
        """Wait for the end of the call and return its status."""
        return self._failure[0] if self._failure is not None else await self._call.code()

    async def details(self) -> str | None:
        """Wait for the end of the call and return its status text."""
        return self._failure[1] if self._failure is not None else await self._call.details()

    async def _read(self) -> object:
        """Return the control plane's next message; None once a message had no translation."""
        reading = asyncio.ensure_future(self._call.read())
        try:
            await asyncio.wait([reading, self._failed], return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait([reading])

    async def _write_owed(self) -> None:
        """Write the requests that the translator makes of its own."""
        while True:
            await self._owes.wait()
            self._owes.clear()
            async with self._writing:
                async with self._translating:
                    requests = self._translator.owed()
                for request in requests:
                    # Once the call has ended, its reader learns how.
                    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await self._call.write(request)

    def _fail(self, code: grpc.StatusCode, details: str) -> None:
        if self._failure is None:
            self._failure = code, details
            self._failed.set_result(None)


@asynccontextmanager
async def translated(call: Call, translator: Translator) -> AsyncIterator[TranslatedCall]:
    """Translate a call's messages for as long as the block runs; its owner ends the call."""
    translating = TranslatedCall(call, translator)
    async with in_background(
        translating._write_owed(), name="xds-proxy: answers of the translator's own"
    ):
        yield translating
