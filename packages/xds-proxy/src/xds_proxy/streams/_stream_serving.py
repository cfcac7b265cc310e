"""Serving the streams of Envoys: each is relayed until it ends, beside the others.

For as long as Envoy's stream lasts there is one upstream stream after the other.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import grpc
import grpc.aio

from mesh_lifecycle import Clock, RepeatLog
from xds_proxy._config import OnDisconnect
from xds_proxy.protocol._dialect import DIALECTS, SERVICE, Dialect
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.streams._ends import End, Side
from xds_proxy.streams._leading_stream import EnvoyStreams
from xds_proxy.streams._stream import Stream
from xds_proxy.streams._surroundings import Surroundings
from xds_proxy.upstream._control_planes import ControlPlanes
from xds_proxy.upstream._upstream_error import UpstreamError

log = logging.getLogger("xds_proxy")

_LONGEST_DETAILS = 1024


class StreamServing:
    """The streams of all Envoys. max_streams: at a time; with one more, another one ends."""

    def __init__(
        self,
        around: Surroundings,
        *,
        planes: ControlPlanes,
        on_disconnect: OnDisconnect,
        max_streams: int,
        clock: Clock,
    ) -> None:
        self.delivery_status = DeliveryStatus()
        """Of the leading stream; without one, of the last."""
        self._around = around
        self._planes = planes
        self._on_disconnect = on_disconnect
        self._max_streams = max_streams
        self._streams: EnvoyStreams[Stream] = EnvoyStreams(most=max_streams)
        self._crowding = RepeatLog(log, "ending streams of Envoy's", now=clock.monotonic)
        self._stopping = False

    @property
    def all(self) -> tuple[Stream, ...]:
        """Every stream, the oldest first."""
        return self._streams.all

    @property
    def leading(self) -> Stream | None:
        """The stream that leads; None when there is none."""
        return self._streams.leading

    @property
    def handler(self) -> grpc.GenericRpcHandler[bytes, bytes]:
        """Both ADS methods, without serialisers, so that messages stay bytes."""

        def method(dialect: Dialect) -> grpc.RpcMethodHandler[bytes, bytes]:
            async def serve(_: object, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
                await self._serve(dialect, envoy)

            return grpc.stream_stream_rpc_method_handler(serve)

        return grpc.method_handlers_generic_handler(
            SERVICE, {dialect.method: method(dialect) for dialect in DIALECTS}
        )

    async def stop(self) -> None:
        """End every stream, and each one that comes from now on."""
        self._stopping = True
        while streams := self._streams.all:
            for stream in streams:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            for stream in streams:
                await stream.closed.wait()

    async def _serve(self, dialect: Dialect, envoy: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        stream = Stream(
            dialect=dialect, envoy=envoy, known=self.delivery_status, around=self._around
        )
        async with asyncio.TaskGroup() as group:
            responses = stream.writing.run()
            writing = group.create_task(responses, name="xds-proxy: responses to Envoy")
            try:
                end = await self._relay_among_others(stream, dialect)
                if not stream.writing.is_writing:
                    writing.cancel()
                await asyncio.wait([writing])
            finally:
                stream.writing.forget()
        if end.code is not grpc.StatusCode.OK:
            await _send_status(envoy, end)

    async def _relay_among_others(self, stream: Stream, dialect: Dialect) -> End:
        """Relay a stream, which leads until a newer one comes, and return its end."""
        crowded_out = self._streams.add(stream)
        self.delivery_status = stream.session.delivery_status
        try:
            if crowded_out is not None:
                await self._end_crowded_out(crowded_out)
            if self._stopping:
                stream.end(_relay_end(grpc.StatusCode.UNAVAILABLE, "the agent is stopping"))
            end = await self._relay_until_end(stream, dialect)
            self._record_end(stream, end)
        except asyncio.CancelledError:
            self._record_end(stream, End(by=Side.ENVOY, code=grpc.StatusCode.CANCELLED))
            raise
        finally:
            self._around.observation.on_stream_end(stream.session)
            if self._streams.remove(stream) and (successor := self._streams.leading) is not None:
                self.delivery_status = successor.session.delivery_status
                log.info("an older stream of Envoy's leads again")
            stream.closed.set()
        return end

    async def _relay_until_end(self, stream: Stream, dialect: Dialect) -> End:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(stream.run(), name="xds-proxy: stream"),
                group.create_task(self._keep_upstream(stream, dialect), name="xds-proxy: upstream"),
            ]
            end = await stream.wait_end()
            for task in tasks:
                task.cancel()
        return end

    async def _keep_upstream(self, stream: Stream, dialect: Dialect) -> None:
        """Open upstream streams, one after the other, as long as Envoy's stream lasts."""
        while True:
            try:
                async with self._planes.call(dialect) as control_plane:
                    ended = await stream.relay(control_plane)
                end = End(by=Side.CONTROL_PLANE, code=ended.code, details=ended.details)
            except UpstreamError as error:
                self._around.reachability.on_failure(error.reason, leading=stream.leading)
                end = self._unreachable(error)
            if self._on_disconnect is OnDisconnect.END:
                await stream.end_after_responses(end)
                return
            await self._planes.wait_to_retry()

    def _unreachable(self, error: UpstreamError) -> End:
        details = f"cannot reach the control plane at {self._planes.description}: {error.reason}"
        return End(by=Side.CONTROL_PLANE, code=error.code, details=details)

    def _record_end(self, stream: Stream, end: End) -> None:
        if end.by is Side.ENVOY:
            self._around.counters.envoy_ended += 1
        if end.by is not Side.CONTROL_PLANE and stream.leading:
            self._around.reachability.no_answer_yet()
        log.debug(
            "stream ended",
            extra={"by": end.by.value, "status": end.code.name, "reason": end.details},
        )

    async def _end_crowded_out(self, stream: Stream) -> None:
        self._around.counters.crowded_out += 1
        most = self._max_streams
        details = f"more than {most} streams at once: the oldest makes way for a newer one"
        facts = {"pid": stream.process}
        self._crowding.happened(str(stream.process), reason=details, facts=facts)
        stream.end(_relay_end(grpc.StatusCode.RESOURCE_EXHAUSTED, details))
        await stream.closed.wait()


async def _send_status(envoy: grpc.aio.ServicerContext[bytes, bytes], end: End) -> None:
    with suppress(grpc.aio.InternalError):  # Envoy's connection ended meanwhile
        await envoy.abort(end.code, end.details[:_LONGEST_DETAILS])


def _relay_end(code: grpc.StatusCode, details: str) -> End:
    return End(by=Side.RELAY, code=code, details=details)
