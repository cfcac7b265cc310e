"""Whatever is pushed and refused, and whichever Envoy is fresh: what each of them has then."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from model_envoys import BAD, ROUTE
from quarantining_models import NAMES, Plane, Saved, Stream
from xds_proxy.protocol._dialect import DELTA, DIALECTS, Dialect
from xds_proxy.quarantine._quarantine import Quarantine

Push = tuple[frozenset[str], frozenset[str]]
"""The routes that change, and those of them that are bad then."""
PUSHES = st.tuples(
    st.frozensets(st.sampled_from(NAMES), min_size=1), st.frozensets(st.sampled_from(NAMES))
)
STEPS = st.lists(st.one_of(st.just("fresh"), PUSHES), min_size=1, max_size=6)


class Mesh:
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.quarantine = Quarantine(lambda: 0.0)
        self.saved = Saved()
        self.plane = Plane(dialect)
        self.stream = self._fresh_stream()

    def _fresh_stream(self) -> Stream:
        stream = Stream(self.dialect, self.quarantine, self.saved)
        stream.envoy.subscribe(ROUTE, *NAMES)
        return stream

    def change(self, push: Push) -> bytes:
        changed, bad = push
        for name in sorted(changed):
            self.plane.change(name, bad=name in bad)
        return self.plane.response(set(changed))

    async def do(self, step: str | Push) -> None:
        if isinstance(step, str):
            self.stream = self._fresh_stream()
            raw = self.plane.response(set(NAMES))
        else:
            raw = self.change(step)
        stream = self.stream
        running = asyncio.create_task(stream.quarantining.run())
        try:
            await stream.settle()
            had = dict(self.saved.resources)
            if self.plane.routes:
                stream.push(raw)
            await stream.settle()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if self.plane.routes:
            self.check(raw)
            if isinstance(step, str):
                self.check_fresh(set(had))

    def check(self, raw: bytes) -> None:
        have = self.stream.envoy.have.get(ROUTE, {})
        bad = {name for name, (_, is_bad) in self.plane.routes.items() if is_bad}
        for name in self.plane.routes:
            good = self.saved.body(name) if name in bad else self.plane.body(name)
            assert have.get(name) == good, name
        status = self.stream.status.types[ROUTE]
        assert {each.name for each in status.refused} == bad
        assert {each.name for each in self.quarantine.resources} == bad
        assert not any(BAD in each.body for each in self.saved.resources.values())
        refused_now = bool(bad & _names(self.dialect, raw))
        assert _answers(self.dialect, self.stream.upstream) == _nonces(
            self.dialect, raw, refused_now
        )

    def check_fresh(self, good: set[str]) -> None:
        """No bad route went to an Envoy for which there was a good one in its place."""
        bad = {name for name, (_, is_bad) in self.plane.routes.items() if is_bad}
        if bad <= good:
            assert not any(BAD in each for each in self.stream.given)


def _names(dialect: Dialect, raw: bytes) -> set[str]:
    if dialect is DELTA:
        delta = discovery_pb2.DeltaDiscoveryResponse.FromString(raw)
        return {each.name for each in delta.resources}
    response = discovery_pb2.DiscoveryResponse.FromString(raw)
    return {discovery_pb2.ResourceName.FromString(each.value).name for each in response.resources}


def _nonces(dialect: Dialect, raw: bytes, refused: bool) -> tuple[str, bool]:  # noqa: FBT001
    return dialect.read_response(raw).nonce, refused


def _answers(dialect: Dialect, requests: Iterable[bytes]) -> tuple[str, bool]:
    """The nonce of the last answer, and whether it is a refusal; no nonce is the relay's own."""
    answers = [dialect.read_request(each) for each in requests]
    assert not any(each.nonce.startswith("part") for each in answers)
    last = [each for each in answers if each.nonce][-1]
    return last.nonce, last.error is not None


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.method)
@given(steps=STEPS)
def test_good_routes_are_in_force_and_bad_ones_are_known(
    dialect: Dialect, steps: list[str | Push]
) -> None:
    async def run() -> None:
        mesh = Mesh(dialect)
        for step in steps:
            await mesh.do(step)

    asyncio.run(run())


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: each.method)
@given(pushes=st.lists(PUSHES, min_size=2, max_size=5))
def test_pushes_in_a_row_leave_the_newest_in_force(dialect: Dialect, pushes: list[Push]) -> None:
    async def run() -> None:
        mesh = Mesh(dialect)
        stream = mesh.stream
        running = asyncio.create_task(stream.quarantining.run())
        try:
            await stream.settle()
            for push in pushes:
                stream.push(mesh.change(push))
            await stream.settle()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        have = stream.envoy.have.get(ROUTE, {})
        for name, (_, is_bad) in mesh.plane.routes.items():
            if not is_bad:
                assert have.get(name) == mesh.plane.body(name), name
        assert not any(BAD in body for body in have.values())

    asyncio.run(run())
