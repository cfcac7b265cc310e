"""Who hears of what passes to Envoy, and when a type is settled."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.streams._observation import Observation
from xds_proxy.testing import control_plane, envoy_stream


class Witness:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []
        self.error: Exception | None = None

    def passing(self, type_url: str) -> None:
        self._hear("passing", type_url)

    def settled(self, type_url: str) -> None:
        self._hear("settled", type_url)

    def _hear(self, what: str, type_url: str) -> None:
        self.heard.append((what, type_url))
        if self.error is not None:
            raise self.error


def test_a_type_is_settled_when_the_last_response_is_answered() -> None:
    witness = Witness()
    seen = Observation(witness)
    seen.passing("a", "lds", "1")
    seen.passing("a", "lds", "2")
    seen.answered("a", "lds", "1")
    assert witness.heard == [("passing", "lds")] * 2
    seen.answered("a", "lds", "2")
    seen.answered("a", "lds", "2")  # a changed subscription
    assert witness.heard[2:] == [("settled", "lds")]


def test_of_two_envoys_both_must_have_answered() -> None:
    witness = Witness()
    seen = Observation(witness)
    seen.passing("old", "lds", "1")
    seen.passing("new", "lds", "1")
    seen.answered("new", "lds", "1")
    assert ("settled", "lds") not in witness.heard
    seen.answered("old", "lds", "1")
    assert witness.heard[-1] == ("settled", "lds")


def test_what_a_stream_left_open_is_not_waited_for() -> None:
    witness = Witness()
    seen = Observation(witness)
    seen.passing("old", "lds", "1")
    seen.ended("old")
    assert ("settled", "lds") not in witness.heard
    seen.passing("new", "lds", "1")
    seen.answered("new", "lds", "1")
    assert witness.heard[-1] == ("settled", "lds")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["passing", "answered", "ended"]),
            st.sampled_from("ab"),
            st.sampled_from(["lds", "cds"]),
            st.integers(1, 3),
        )
    )
)
def test_settled_is_told_exactly_when_nothing_is_open(
    steps: list[tuple[str, str, str, int]],
) -> None:
    witness = Witness()
    seen = Observation(witness)
    newest: dict[tuple[str, str], int] = {}
    for what, stream, kind, nonce in steps:
        told = len(witness.heard)
        expected: list[tuple[str, str]] = []
        if what == "passing":
            seen.passing(stream, kind, str(nonce))
            newest[stream, kind] = nonce
            expected = [("passing", kind)]
        elif what == "answered":
            seen.answered(stream, kind, str(nonce))
            if newest.get((stream, kind)) == nonce:
                del newest[stream, kind]
                expected = [] if any(k == kind for _, k in newest) else [("settled", kind)]
        else:
            seen.ended(stream)
            newest = {key: value for key, value in newest.items() if key[0] != stream}
        assert witness.heard[told:] == expected


async def test_an_observer_hears_of_responses_before_envoy_and_of_its_answers(
    start_relay: Any, messages: Any
) -> None:
    witness = Witness()
    async with control_plane() as plane, start_relay(plane.address, observer=witness) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(messages.request(messages.listener))
            upstream = await plane.accept()
            await upstream.receive()
            for version, error in (("v1", None), ("v2", "bad")):
                await upstream.send(
                    messages.response(
                        messages.listener, version=version, nonce=version, bodies=(b"x",)
                    )
                )
                await envoy.receive()
                assert witness.heard == [("passing", messages.listener)]
                await envoy.send(
                    messages.request(messages.listener, version="v1", nonce=version, error=error)
                )
                await upstream.receive()
                assert witness.heard[1:] == [("settled", messages.listener)]
                witness.heard.clear()
            assert running.relay.counters.refused == 1


async def test_an_observer_that_fails_harms_no_stream(
    start_relay: Any, messages: Any, relays_errors: Any, caplog: pytest.LogCaptureFixture
) -> None:
    witness = Witness()
    witness.error = RuntimeError("a fault")
    async with control_plane() as plane, start_relay(plane.address, observer=witness) as running:
        async with envoy_stream(running.socket_path) as envoy:
            await envoy.send(messages.request(messages.cluster))
            upstream = await plane.accept()
            await upstream.receive()
            await upstream.send(
                messages.response(messages.cluster, version="v1", nonce="n1", bodies=(b"x",))
            )
            assert await envoy.receive() is not None
            await envoy.send(messages.request(messages.cluster, version="v1", nonce="n1"))
            await upstream.receive()
            assert running.relay.status.types[messages.cluster].acked
    failures = [(record.levelno, record.getMessage()) for record in relays_errors(caplog)]
    caplog.clear()  # the logged tracebacks hold on to this test's event loop
    assert failures == [(logging.ERROR, "an observer failed")] * 2
