"""A stream to a control plane that does not speak Envoy's dialect."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager, suppress

import grpc
import grpc.aio

from mesh_lifecycle import in_background
from mesh_protowire import WireError
from xds_proxy._errors import TranslationError
from xds_proxy.translation._translator import Translator
from xds_proxy.upstream._call import ControlPlaneCall, Outcome

_LARGE_BYTES = 1 << 20
"""A message of more bytes is translated in a thread, as the event loop has other streams."""


class TranslatedCall(ControlPlaneCall):
    """Reads and writes messages in Envoy's dialect.

    A message that has no translation ends the stream, with a status that says so.
    """

    def __init__(
        self,
        call: grpc.aio.StreamStreamCall[bytes, bytes],
        translator: Translator,
        *,
        address: str,
        shown: str,
        outcome: Outcome,
        answer_timeout_s: float | None,
    ) -> None:
        super().__init__(
            call,
            address=address,
            shown=shown,
            outcome=outcome,
            answer_timeout_s=answer_timeout_s,
        )
        self._translator = translator
        self._translating = asyncio.Lock()
        self._writing = asyncio.Lock()
        self._owes = asyncio.Event()

    async def read(self) -> bytes | None:
        """Return the next message that Envoy gets, None at the end; raises as its base."""
        while (response := await super().read()) is not None:
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
        """Send a message of Envoy's; returns when the network has taken all that it comes to."""
        async with self._writing:
            try:
                async with self._translating:
                    requests = self._translator.request(message)
            except WireError as error:
                self._fail(grpc.StatusCode.INTERNAL, f"Envoy's request is malformed: {error}")
                return
            for request in requests:
                await super().write(request)

    def at_work(self) -> AbstractAsyncContextManager[object]:
        """Send the requests that the translator makes of its own, as long as the block runs."""
        return in_background(self._write_owed(), name="xds-proxy: requests of a translator")

    async def _write_owed(self) -> None:
        while True:
            await self._owes.wait()
            self._owes.clear()
            async with self._writing:
                async with self._translating:
                    requests = self._translator.take_owed()
                for request in requests:
                    # Once the call has ended, its reader learns how.
                    with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                        await super().write(request)

    def _fail(self, code: grpc.StatusCode, reason: str) -> None:
        self._give_up(code, reason, failure=reason)
