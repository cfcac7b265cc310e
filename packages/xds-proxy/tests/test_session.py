"""A session between models of Envoy and of control planes that come and go."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from session_models import (
    CLUSTER,
    ENDPOINT,
    TYPES,
    Configuration,
    DeltaEnvoy,
    DeltaPlane,
    SotwEnvoy,
    SotwPlane,
    is_bad,
)
from xds_proxy.protocol._dialect import DELTA, STATE_OF_THE_WORLD, Response
from xds_proxy.session._held import contents_of
from xds_proxy.session._session import Session
from xds_proxy.status._acks_and_nacks import DeliveryStatus

NAMES = st.sampled_from("abcd")
TYPE_URLS = st.sampled_from(TYPES)


class _Taken(NamedTuple):
    raw: bytes
    peeked: Response
    generation: int


class SessionMachine(RuleBasedStateMachine):
    """One Envoy, one session, and streams of control planes one after the other."""

    @initialize(delta=st.booleans())
    def start(self, *, delta: bool) -> None:
        self.delta = delta
        dialect = DELTA if delta else STATE_OF_THE_WORLD
        self.configuration = Configuration()
        self.envoy: SotwEnvoy | DeltaEnvoy = DeltaEnvoy() if delta else SotwEnvoy()
        self.session = Session(
            dialect,
            delivery_status=DeliveryStatus(),
            now=lambda: 0.0,
            max_subscription_bytes=1 << 20,
            max_unanswered_bytes=1 << 20,
        )
        self.plane: SotwPlane | DeltaPlane | None = None
        self.streams = 0
        self.upward: deque[bytes] = deque()
        self.downward: deque[bytes] = deque()
        self.taken: deque[_Taken] = deque()
        self.verbatim = True

    # The control plane

    @rule(
        type_url=TYPE_URLS,
        name=NAMES,
        content=st.integers(1, 3),
        bad=st.sampled_from([False, False, False, True]),
    )
    def change(self, type_url: str, name: str, content: int, *, bad: bool) -> None:
        self.configuration.put(type_url, name, content, bad=bad and type_url == CLUSTER)
        self._push(type_url)

    @rule(type_url=TYPE_URLS, name=NAMES)
    def remove(self, type_url: str, name: str) -> None:
        self.configuration.remove(type_url, name)
        self._push(type_url)

    @precondition(lambda self: self.plane is None)
    @rule()
    def connect(self) -> None:
        plane_type = DeltaPlane if self.delta else SotwPlane
        self.plane = plane_type(self.configuration)
        self.streams += 1
        for _, request in self.session.on_upstream_open(self._on_the_way()):
            self.upward.append(request)

    def _on_the_way(self) -> dict[str, frozenset[str] | None]:
        dialect, names = self.session.dialect, dict[str, frozenset[str] | None]()
        raws = [(sent.type_url, sent.response) for sent in self.session.unanswered()]
        for type_url, raw in [*raws, *((each.peeked.type_url, each.raw) for each in self.taken)]:
            assert raw is not None
            versions, removed = contents_of(dialect, raw, "")
            names[type_url] = frozenset({*(names.get(type_url) or ()), *versions, *removed})
        return names

    @precondition(lambda self: self.plane is not None)
    @rule()
    def disconnect(self) -> None:
        self.plane = None
        self.session.on_upstream_end()
        self.upward.clear()
        self.downward.clear()

    @precondition(lambda self: self.upward)
    @rule()
    def plane_reads(self) -> None:
        assert self.plane is not None
        self.downward.extend(self.plane.handle(self.upward.popleft()))

    # The relay

    @precondition(lambda self: self.downward)
    @rule()
    def relay_reads(self) -> None:
        raw = self.downward.popleft()
        peeked = self.session.dialect.read_response(raw)
        self.taken.append(_Taken(raw, peeked, self.session.generation))

    @precondition(lambda self: self.taken)
    @rule()
    def relay_writes(self) -> None:
        raw, peeked, generation = self.taken.popleft()
        shown = self.session.response(raw, peeked, generation=generation, shown=raw)
        if self.streams <= 1 or self.delta:
            assert shown is raw
        self.envoy.inbox.append(shown)

    # Envoy

    @rule(type_url=TYPE_URLS, names=st.sets(NAMES, min_size=1))
    def subscribe(self, type_url: str, names: set[str]) -> None:
        self._requests(self.envoy.subscribe(type_url, names))

    @precondition(lambda self: self.envoy.inbox)
    @rule()
    def envoy_answers(self) -> None:
        self._requests(self.envoy.handle())

    @precondition(lambda self: "envoy" in self.__dict__)
    @rule()
    def settle(self) -> None:
        """After a connection and quiet, Envoy has what the control plane has."""
        if self.plane is None:
            self.connect()
        for _ in range(10_000):
            if self.upward:
                self.plane_reads()
            elif self.downward:
                self.relay_reads()
            elif self.taken:
                self.relay_writes()
            elif self.envoy.inbox:
                self.envoy_answers()
            else:
                break
        else:
            raise AssertionError("messages never cease")
        for type_url in self.envoy.wanted:
            self._check(type_url)

    @rule()
    def settle_again(self) -> None:
        """A control plane that is asked again by delta sends one resource that Envoy has."""
        self.settle()
        all_held = self.session.held().items()
        again = next(((of, next(iter(held))) for of, held in all_held if held), None)
        self.disconnect()
        self.connect()
        plane = self.plane
        assert plane is not None
        self.settle()
        assert plane.requests >= len([t for t in self.envoy.wanted if t == CLUSTER])
        if self.delta:
            there = self.configuration.resources[CLUSTER]
            sent = {
                (CLUSTER, name)
                for name, number in there.items()
                if is_bad(number) and CLUSTER in self.envoy.wanted
            }
            assert plane.resources_sent == len(sent | {again} - {None})

    @rule(type_url=TYPE_URLS, name=NAMES, content=st.integers(1, 3), written=st.booleans())
    def take_back(self, type_url: str, name: str, content: int, *, written: bool) -> None:
        """A change is taken back while Envoy has not answered it and no stream is open."""
        self.settle()
        resources = self.configuration.resources[type_url]
        before = dict(resources)
        if resources.get(name) == 2 * content:
            self.remove(type_url, name)
        else:
            self.change(type_url, name, content, bad=False)
        while self.downward:
            self.relay_reads()
        while written and self.taken:
            self.relay_writes()
        self.disconnect()
        resources.clear()
        resources.update(before)
        self.settle()

    @invariant()
    def envoy_is_known(self) -> None:
        if "envoy" in self.__dict__ and not self.taken and not self.envoy.inbox:
            for type_url, has in self.envoy.has.items():
                held = self.session.held().get(type_url, {})
                if self.delta:
                    assert {name: int(each.version) for name, each in held.items()} == has
                elif isinstance(self.envoy, SotwEnvoy) and not self.envoy.refused[type_url]:
                    assert set(has) <= set(held)

    def _check(self, type_url: str) -> None:
        there = self.configuration.resources[type_url]
        wanted = self.envoy.wanted[type_url]
        good = {
            name: number
            for name, number in there.items()
            if (type_url == CLUSTER or name in wanted) and not is_bad(number)
        }
        has = self.envoy.has.get(type_url, {})
        if self.delta:
            bad_names = {name for name, number in there.items() if is_bad(number)}
            assert {k: v for k, v in has.items() if k not in bad_names} == good
            refused = self.session.delivery_status.types.get(type_url)
            if refused is not None:
                bad = {n for n, number in there.items() if is_bad(number)}
                assert {each.name for each in refused.refused} == bad
        elif not any(map(is_bad, there.values())):
            gone = type_url == ENDPOINT  # which state of the world does not tell for endpoints
            assert {k: v for k, v in has.items() if k in there or not gone} == good
            status = self.session.delivery_status.types.get(type_url)
            assert status is None or status.nack is None

    def _push(self, type_url: str) -> None:
        if self.plane is not None:
            self.downward.extend(self.plane.push(type_url))

    def _requests(self, requests: list[bytes]) -> None:
        for raw in requests:
            requested = self.session.request(raw)
            for answered in requested.answered:
                assert answered.sent.response is not None
                contents = contents_of(
                    self.session.dialect, answered.sent.response, answered.sent.version
                )
                self.session.learn(answered, contents)
            if self.plane is not None and requested.upstream is not None:
                if self.streams == 1 and self.session.generation == 1:
                    assert requested.upstream is raw
                self.upward.append(requested.upstream)
            assert self.plane is not None or requested.upstream is None


TestSession = SessionMachine.TestCase
TestSession.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


class ManyMoreSessions(SessionMachine):
    """The same, with as many sessions as find what thirty do not."""


TestManyMoreSessions = pytest.mark.slow(ManyMoreSessions.TestCase)
TestManyMoreSessions.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
