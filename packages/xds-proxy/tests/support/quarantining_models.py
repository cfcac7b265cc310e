"""A stream with a quarantine between a model of Envoy and one of a control plane."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2

from mesh_protowire import string_field
from model_envoys import BAD, ROUTE, DeltaEnvoy, ModelEnvoy, SotwEnvoy
from xds_proxy.protocol._dialect import DELTA, Dialect
from xds_proxy.protocol._resources import Resource, resources_of
from xds_proxy.quarantine._quarantine import Quarantine
from xds_proxy.quarantine._quarantining import Quarantining
from xds_proxy.quarantine._to_envoy import PartsOf, ToEnvoy
from xds_proxy.rewriting._rewriting import Rewriting
from xds_proxy.session._held import contents_of
from xds_proxy.session._outcomes import Answered
from xds_proxy.session._session import Session
from xds_proxy.status._acks_and_nacks import DeliveryStatus
from xds_proxy.status._counters import Counters

NAMES = tuple(f"route-{number}" for number in range(12))


def route(name: str, number: int, *, bad: bool) -> bytes:
    """A resource by its name, with something to tell it from others."""
    return string_field(1, name) + string_field(15, f"{BAD.decode() if bad else 'good'} {number}")


@dataclass
class Saved:
    """What Envoys accepted last."""

    resources: dict[str, Resource] = field(default_factory=dict)

    async def newest(self, type_url: str, node: bytes) -> dict[str, Resource]:
        del type_url, node
        return dict(self.resources)

    def body(self, name: str) -> bytes | None:
        known = self.resources.get(name)
        if known is None:
            return None
        return bytes(any_pb2.Any.FromString(known.body).value)


class Stream:
    """One Envoy's stream, as the relay runs it, over one stream to the control plane."""

    def __init__(self, dialect: Dialect, quarantine: Quarantine, saved: Saved) -> None:
        self.dialect = dialect
        self.status = DeliveryStatus()
        self.session = Session(
            dialect,
            delivery_status=self.status,
            now=lambda: 0.0,
            max_subscription_bytes=1 << 20,
            max_unanswered_bytes=1 << 20,
        )
        self.session.on_upstream_open()
        self.saved = saved
        self.counters = Counters()
        self.upstream: list[bytes] = []
        """The requests to the control plane."""
        self.given: list[bytes] = []
        """The responses to Envoy."""
        self._row: deque[ToEnvoy | PartsOf] = deque()
        self._from_envoy: deque[bytes] = deque()
        self.quarantining = Quarantining(
            quarantine,
            self.session,
            saved=saved,
            rewriting=Rewriting((), dialect=dialect, on_rewrite=_never, on_refusal=_never_refused),
            counters=self.counters,
            now=lambda: 0.0,
            leading=lambda: True,
            put=self._put,
            send=self.upstream.append,
        )
        envoy_type = DeltaEnvoy if dialect is DELTA else SotwEnvoy
        self.envoy: ModelEnvoy = envoy_type(self._from_envoy.append, all_or_nothing=True)

    async def _put(self, item: PartsOf) -> None:
        self._row.append(item)

    def push(self, raw: bytes) -> None:
        peeked = self.dialect.read_response(raw)
        self._row.append(ToEnvoy(raw, peeked, self.session.generation, raw))

    async def settle(self) -> None:
        """Let everything happen that is under way."""
        quiet = 0
        while quiet < 3:
            quiet += 1
            if self._from_envoy:
                self._request(self._from_envoy.popleft())
                quiet = 0
            elif self._row:
                await self._write(self._row.popleft())
                quiet = 0
            await asyncio.sleep(0)

    async def _write(self, item: ToEnvoy | PartsOf) -> None:
        if isinstance(item, PartsOf):
            while (part := await self.quarantining.next_part(item.type_url)) is not None:
                self._give(part)
        elif self.quarantining.concerns(item):
            for each in await self.quarantining.before(item):
                self._give(each)
        else:
            self._give(item)

    def _give(self, item: ToEnvoy) -> None:
        raw, peeked, generation, shown = item
        message = self.session.response(raw, peeked, generation=generation, shown=shown)
        self.given.append(message)
        self.envoy.response(message)

    def _request(self, raw: bytes) -> None:
        requested = self.session.request(raw)
        for answered in requested.answered:
            self.quarantining.on_answer(answered)
            self._learn(answered)
        if requested.upstream is not None:
            self.upstream.append(requested.upstream)

    def _learn(self, answered: Answered) -> None:
        sent = answered.sent
        assert sent.response is not None
        contents = contents_of(self.dialect, sent.response, sent.version)
        reasons = self.session.learn(answered, contents)
        self.quarantining.on_contents(answered, reasons)
        if answered.error is None:
            for each in resources_of(self.dialect, sent.response):
                self.saved.resources[each.name] = each


class Plane:
    """A control plane's routes, and the responses that tell of them."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.routes: dict[str, tuple[int, bool]] = {}
        self.count = 0

    def change(self, name: str, *, bad: bool) -> None:
        self.count += 1
        self.routes[name] = self.count, bad

    def body(self, name: str) -> bytes:
        number, bad = self.routes[name]
        return route(name, number, bad=bad)

    def response(self, names: set[str]) -> bytes:
        """Return a response with all routes, or in delta with these."""
        self.count += 1
        nonce = str(self.count)
        if self.dialect is DELTA:
            delta = discovery_pb2.DeltaDiscoveryResponse(type_url=ROUTE, nonce=nonce)
            for name in sorted(names & self.routes.keys()):
                added = delta.resources.add(name=name, version=str(self.routes[name][0]))
                added.resource.type_url, added.resource.value = ROUTE, self.body(name)
            return bytes(delta.SerializeToString())
        sotw = discovery_pb2.DiscoveryResponse(type_url=ROUTE, nonce=nonce, version_info=nonce)
        for name in sorted(self.routes):
            sotw.resources.add(type_url=ROUTE, value=self.body(name))
        return bytes(sotw.SerializeToString())


async def _never(*_: object) -> None:
    raise AssertionError("there are no rewriters")


def _never_refused(*_: object) -> None:
    raise AssertionError("there are no rewriters")
