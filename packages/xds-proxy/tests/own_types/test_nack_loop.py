"""A control plane that sends a refused response again at once, over and over."""

import asyncio
from collections.abc import Sequence

import pytest

from relays import Messages, RecordingInterceptor, RelayStarter, relays_errors
from xds_proxy import InterceptorRefused
from xds_proxy.protocol._dialect import DELTA, DIALECTS, Dialect, Request
from xds_proxy.testing import ControlPlaneStream, control_plane, envoy_stream

by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=("sotw", "delta"))


class Sender:
    """The responses of one stream to the relay."""

    def __init__(self, stream: ControlPlaneStream, dialect: Dialect) -> None:
        self._stream = stream
        self._dialect = dialect
        self._number = 0

    async def send(self, type_url: str, *bodies: bytes) -> bytes:
        self._number += 1
        build = Messages.delta_response if self._dialect is DELTA else Messages.response
        name = str(self._number)
        response = build(type_url, version=name, nonce=name, bodies=bodies)
        await self._stream.send(response)
        return response

    async def answer(self) -> Request:
        raw = await self._stream.receive()
        assert raw is not None
        return self._dialect.read_request(raw)

    async def answers(self, nonces: Sequence[str]) -> list[Request]:
        """Return the answers that come, and check to which responses."""
        found = [await self.answer() for _ in nonces]
        assert [each.nonce for each in found] == list(nonces)
        return found


def _listeners(dialect: Dialect) -> bytes:
    build = Messages.delta_request if dialect is DELTA else Messages.request
    return build(Messages.listener)


@by_dialect
async def test_it_is_answered_ever_later_and_logged_once(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture, dialect: Dialect
) -> None:
    loop, recorder = asyncio.get_running_loop(), RecordingInterceptor()
    recorder.error = InterceptorRefused("no table")
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(recorder,)) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        await envoy.send(_listeners(dialect))
        stream = await plane.accept()
        upstream = Sender(stream, dialect)
        await upstream.answers(("", ""))  # the subscriptions
        began = loop.time()
        for number in range(1, 6):
            await upstream.send(Messages.name_table, b"bad")
            (nack,) = await upstream.answers((str(number),))
            assert nack.error == "no table"
        # 0.1, 0.2, 0.4 and 0.8 s, each a fifth less at least.
        assert loop.time() - began >= 0.8 * 1.5
        assert running.relay.counters.refused == 5
        # What waits holds up neither Envoy's types nor a better response of its own.
        await upstream.send(Messages.name_table, b"bad")
        passed = await upstream.send(Messages.cluster, b"a cluster")
        assert await envoy.receive() == passed
        recorder.error = None
        await upstream.send(Messages.name_table, b"good")
        nack, ack = await upstream.answers(("6", "8"))
        assert (nack.error, ack.error) == ("no table", None)
        assert recorder.taken == [b"good"]
    (record,) = relays_errors(caplog)
    assert vars(record)["reason"] == "no table"


@by_dialect
async def test_a_waiting_nack_does_not_reach_the_next_stream(
    start_relay: RelayStarter, dialect: Dialect
) -> None:
    recorder = RecordingInterceptor()
    recorder.error = InterceptorRefused("no table")
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(recorder,)) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        await envoy.send(_listeners(dialect))
        stream = await plane.accept()
        upstream = Sender(stream, dialect)
        await upstream.answers(("", ""))
        for number in range(1, 4):
            await upstream.send(Messages.name_table, b"bad")
            await upstream.answers((str(number),))
        await upstream.send(Messages.name_table, b"bad")
        await running.until(lambda relay: relay.counters.refused == 4, what="the refusal")
        stream.end()
        again = Sender(await plane.accept(), dialect)
        await again.answers(("", ""))
        recorder.error = None
        await again.send(Messages.name_table, b"good")
        (ack,) = await again.answers(("1",))
        assert ack.error is None
