"""Writing the responses of one stream to Envoy, in their order, until the stream ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

import grpc
import grpc.aio

from mesh_listening import disconnect
from xds_proxy.answers._response_observer import Observation
from xds_proxy.quarantine._quarantining import Quarantining
from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.saved._stale_start import Feeding
from xds_proxy.session._session import Session
from xds_proxy.status._counters import Counters
from xds_proxy.streams._ends import End, FirstEnd, Side
from xds_proxy.streams._response_queue import ResponseQueue
from xds_proxy.writing._message_writer import MessageWriter, WriteBounds

log = logging.getLogger("xds_proxy")


class ResponseWriting:
    """Writes to one Envoy, and ends its stream if it does not read.

    end: of the stream. process: returns the Envoy's process id, None if it is unknown.
    feeding: from saved configuration, None without.
    """

    def __init__(
        self,
        envoy: grpc.aio.ServicerContext[bytes, bytes],
        session: Session,
        *,
        responses: ResponseQueue,
        end: FirstEnd,
        process: Callable[[], int | None],
        feeding: Feeding | None,
        quarantining: Quarantining | None,
        observation: Observation,
        counters: Counters,
        bounds: WriteBounds,
    ) -> None:
        self._envoy = envoy
        self._session = session
        self._responses = responses
        self._end = end
        self._process = process
        self._feeding = feeding
        self._quarantining = quarantining
        self._observation = observation
        self._counters = counters
        self._writer = MessageWriter(bounds.to_envoys, self._overdue)

    @property
    def is_writing(self) -> bool:
        """Whether a response to Envoy is pending."""
        return self._writer.is_writing

    def forget(self) -> None:
        """The call is over, and its pending response with it."""
        self._writer.forget()

    async def run(self) -> None:
        """Write responses until the stream has ended, and then until a pending one is taken.

        gRPC can't end a call while a response is pending: it would send the headers again. An Envoy
        that does not read loses its connection in time, and gRPC then cancels this coroutine.
        """
        while not self._end.has_come:
            response = await self._responses.get()
            if isinstance(response, End):
                self._end.put(response)
                return
            quarantining = self._quarantining
            if quarantining is not None and isinstance(response, PartsOf):
                while (part := await quarantining.next_part(response.type_url)) is not None:
                    await self._write(part)
            elif isinstance(response, PartsOf):
                pass
            elif quarantining is not None and quarantining.concerns(response):
                for each in await quarantining.before(response):
                    await self._write(each)
            else:
                await self._write(response)

    async def _write(self, response: ToEnvoy) -> None:
        if self._end.has_come:
            return
        raw, peeked, generation, shown = response
        type_url, session = peeked.type_url, self._session
        if self._feeding is not None and generation:
            self._feeding.on_response(type_url)
        message = session.response(raw, peeked, generation=generation, shown=shown)
        self._observation.on_response(session, type_url, session.newest_sent(type_url))
        try:
            await self._writer.write(self._envoy, message)
        except grpc.aio.InternalError:
            self._end.put(End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))

    def _overdue(self, waited_s: float, size: int, reason: str) -> None:
        """End the connection; a status could not be sent behind the response that is not read."""
        self._counters.envoy_not_reading += 1
        log.warning(
            "Envoy's connection is ended, it does not read",
            extra={
                "pid": self._process(),
                "waited_s": round(waited_s, 1),
                "bytes": size,
                "reason": reason,
            },
        )
        details = f"a response of {size} bytes was not read for {waited_s:.0f} s: {reason}"
        self._end.put(End(by=Side.RELAY, code=grpc.StatusCode.DEADLINE_EXCEEDED, details=details))
        disconnect(self._envoy.peer())
