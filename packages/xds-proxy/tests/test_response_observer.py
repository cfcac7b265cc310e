"""What an observer hears of the responses to Envoy and of its answers."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays import Messages, RelayStarter, relays_errors
from xds_proxy.answers._response_observer import Observation
from xds_proxy.testing import control_plane, envoy_stream


class RecordingObserver:
    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.error: Exception | None = None

    def on_response(self, type_url: str) -> None:
        self._record("arrived", type_url)

    def on_answer(self, type_url: str) -> None:
        self._record("answered", type_url)

    def _record(self, what: str, type_url: str) -> None:
        self.calls.append((what, type_url))
        if self.error is not None:
            raise self.error


def test_a_type_is_answered_when_its_last_response_is() -> None:
    observer = RecordingObserver()
    seen = Observation(observer)
    seen.on_response("a", "lds", "1")
    seen.on_response("a", "lds", "2")
    seen.on_answer("a", "lds", "1")
    assert observer.calls == [("arrived", "lds")] * 2
    seen.on_answer("a", "lds", "2")
    seen.on_answer("a", "lds", "2")  # a changed subscription
    assert observer.calls[2:] == [("answered", "lds")]


def test_of_two_envoys_both_must_have_answered() -> None:
    observer = RecordingObserver()
    seen = Observation(observer)
    seen.on_response("old", "lds", "1")
    seen.on_response("new", "lds", "1")
    seen.on_answer("new", "lds", "1")
    assert ("answered", "lds") not in observer.calls
    seen.on_answer("old", "lds", "1")
    assert observer.calls[-1] == ("answered", "lds")


def test_unanswered_responses_of_an_ended_stream_are_not_waited_for() -> None:
    observer = RecordingObserver()
    seen = Observation(observer)
    seen.on_response("old", "lds", "1")
    seen.on_stream_end("old")
    assert ("answered", "lds") not in observer.calls
    seen.on_response("new", "lds", "1")
    seen.on_answer("new", "lds", "1")
    assert observer.calls[-1] == ("answered", "lds")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["arrived", "request", "ended"]),
            st.sampled_from("ab"),
            st.sampled_from(["lds", "cds"]),
            st.integers(1, 3),
        )
    )
)
def test_the_observer_is_notified_exactly_when_no_response_is_unanswered(
    steps: list[tuple[str, str, str, int]],
) -> None:
    observer = RecordingObserver()
    seen = Observation(observer)
    newest: dict[tuple[str, str], int] = {}
    for what, stream, kind, nonce in steps:
        before = len(observer.calls)
        expected: list[tuple[str, str]] = []
        if what == "arrived":
            seen.on_response(stream, kind, str(nonce))
            newest[stream, kind] = nonce
            expected = [("arrived", kind)]
        elif what == "request":
            seen.on_answer(stream, kind, str(nonce))
            if newest.get((stream, kind)) == nonce:
                del newest[stream, kind]
                expected = [] if any(k == kind for _, k in newest) else [("answered", kind)]
        else:
            seen.on_stream_end(stream)
            newest = {key: value for key, value in newest.items() if key[0] != stream}
        assert observer.calls[before:] == expected


async def test_an_observer_is_notified_of_responses_before_envoy_and_of_its_answers(
    start_relay: RelayStarter,
) -> None:
    observer = RecordingObserver()
    async with control_plane() as plane, start_relay(plane.address, observer=observer) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.listener))
            upstream = await plane.accept()
            await upstream.receive()
            for version, error in (("v1", None), ("v2", "bad")):
                await upstream.send(
                    Messages.response(
                        Messages.listener, version=version, nonce=version, bodies=(b"x",)
                    )
                )
                await envoy.receive()
                assert observer.calls == [("arrived", Messages.listener)]
                await envoy.send(
                    Messages.request(Messages.listener, version="v1", nonce=version, error=error)
                )
                await upstream.receive()
                assert observer.calls[1:] == [("answered", Messages.listener)]
                observer.calls.clear()
            assert running.relay.counters.refused == 1


async def test_an_observer_that_fails_harms_no_stream(
    start_relay: RelayStarter, caplog: pytest.LogCaptureFixture
) -> None:
    observer = RecordingObserver()
    observer.error = RuntimeError("a fault")
    async with control_plane() as plane, start_relay(plane.address, observer=observer) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(Messages.request(Messages.cluster))
            upstream = await plane.accept()
            await upstream.receive()
            await upstream.send(
                Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=(b"x",))
            )
            assert await envoy.receive() is not None
            await envoy.send(Messages.request(Messages.cluster, version="v1", nonce="n1"))
            await upstream.receive()
            assert running.relay.status.types[Messages.cluster].acked
    failures = [(record.levelno, record.getMessage()) for record in relays_errors(caplog)]
    caplog.clear()  # the logged tracebacks hold on to this test's event loop
    assert failures == [(logging.ERROR, "an observer failed")] * 2
