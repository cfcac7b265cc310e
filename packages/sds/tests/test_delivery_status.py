"""The book kept over any conversation says what a plain reading of that conversation says."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_sds import TrustBundle
from mesh_sds.delivery._delivery_status import Ledger
from mesh_sds.delivery._generator import SecretGenerator
from mesh_sds.secrets._envoy_secret import secret_resource
from mesh_sds.testing import FakeSecrets
from xds_server import (
    Admission,
    Client,
    ClientError,
    DeltaRequest,
    Node,
    Peer,
    Response,
    SotwRequest,
    XdsServer,
    type_urls,
)

CLIENT = Client(id="1", node=Node(id="envoy", cluster=""), identities=(), context=None)
NAMES = ("a", "b")
VERSIONS = {
    (name, state): secret_resource(name, TrustBundle(roots_pem=bytes([state]))).version
    for name in NAMES
    for state in range(256)
}


def response(nonce: str, states: dict[str, int]) -> Response:
    message: Any = discovery_pb2.DiscoveryResponse(nonce=nonce, type_url=type_urls.SECRET)
    resources = {
        name: secret_resource(name, TrustBundle(roots_pem=bytes([state])))
        for name, state in states.items()
    }
    for resource in resources.values():
        message.resources.add(type_url=type_urls.SECRET, value=resource.body)
    return Response(
        type_url=type_urls.SECRET,
        nonce=nonce,
        version="",
        data=message.SerializeToString(),
        resources=resources,
    )


def request(nonce: str, *, error: str | None = None) -> SotwRequest:
    return SotwRequest(
        type_url=type_urls.SECRET,
        names=frozenset(NAMES),
        nonce=nonce,
        error=None if error is None else ClientError(code=13, message=error),
    )


@dataclass
class Model:
    """What a subscriber has, kept in the simplest way."""

    unanswered: list[tuple[str, dict[str, int]]] = field(default_factory=list)
    sent: dict[str, int] = field(default_factory=dict)
    accepted: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def answer(self, position: int, *, yes: bool) -> str:
        nonce, states = self.unanswered[position]
        del self.unanswered[: position + 1]
        if yes:
            self.accepted |= states
            self.refused = {name: s for name, s in self.refused.items() if name not in states}
        else:
            self.refused |= states
        return nonce


STATES = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 255), min_size=1)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), STATES),
        st.tuples(st.sampled_from(["yes", "no", "stale"]), st.integers(0, 3)),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_sent_accepted_and_refused_are_what_was_said(steps: list[tuple[str, Any]]) -> None:
    ledger, model = Ledger(now=lambda: 0.0), Model()
    ledger.opened(CLIENT)
    ledger.received(CLIENT, request(""))
    refusals = 0
    for number, (what, fact) in enumerate(steps):
        if what == "send":
            nonce = f"n{number}"
            ledger.sent(CLIENT, response(nonce, fact))
            model.unanswered.append((nonce, fact))
            model.sent |= fact
        elif what == "stale":
            ledger.received(CLIENT, request("of another stream"))
        elif model.unanswered:
            yes = what == "yes"
            nonce = model.answer(min(fact, len(model.unanswered) - 1), yes=yes)
            ledger.received(CLIENT, request(nonce, error=None if yes else "no"))
            refusals += not yes
    for delivery in ledger.deliveries(CLIENT.id):
        name = delivery.name
        for told, known in (
            (delivery.sent, model.sent),
            (delivery.accepted, model.accepted),
            (delivery.refused, model.refused),
        ):
            expected = VERSIONS[name, known[name]] if name in known else None
            assert (told and told.version) == expected
        if name in model.sent:
            version = VERSIONS[name, model.sent[name]]
            answered = {
                VERSIONS[name, known[name]]
                for known in (model.accepted, model.refused)
                if name in known
            }
            assert ledger.owes_answer(CLIENT.id, {name: version}) is (version not in answered)
    assert ledger.refusals == refusals


def test_a_client_that_never_answers_does_not_fill_the_book() -> None:
    ledger = Ledger()
    ledger.opened(CLIENT)
    ledger.received(CLIENT, request(""))
    for number in range(1000):
        ledger.sent(CLIENT, response(str(number), {"a": number % 256}))
    assert len(ledger._streams[CLIENT.id].unanswered) == 32
    # Of what was dropped nothing is known any more, of the last still everything.
    ledger.received(CLIENT, request("0"))
    assert ledger.deliveries(CLIENT.id)[0].accepted is None
    ledger.received(CLIENT, request("999"))
    assert ledger.deliveries(CLIENT.id)[0].in_sync


def test_a_name_given_up_is_forgotten() -> None:
    ledger = Ledger()
    ledger.opened(CLIENT)
    subscribe = DeltaRequest(type_url=type_urls.SECRET, subscribe=frozenset({"a", "b"}))
    ledger.received(CLIENT, subscribe)
    assert ledger.names() == {"a", "b"}
    ledger.received(CLIENT, DeltaRequest(type_url=type_urls.SECRET, unsubscribe=frozenset({"a"})))
    assert [d.name for d in ledger.deliveries(CLIENT.id)] == ["b"]
    assert ledger.asks_for(CLIENT.id, {"b"})
    assert not ledger.asks_for(CLIENT.id, {"a"})
    ledger.closed(CLIENT)
    assert ledger.names() == frozenset()
    assert not ledger.owes_answer(CLIENT.id, {"b": "1"})


def test_requests_of_other_types_are_no_business_of_the_book() -> None:
    ledger = Ledger()
    ledger.opened(CLIENT)
    ledger.received(CLIENT, SotwRequest(type_url=type_urls.CLUSTER, names=frozenset({"a"})))
    assert ledger.deliveries(CLIENT.id) == ()


async def admitted(_node: Node, _peer: Peer) -> Admission[None]:
    return Admission(context=None)


@pytest.mark.parametrize("delta", [False, True])
async def test_an_answer_that_comes_before_the_writing_is_done_is_not_lost(
    secrets: FakeSecrets, *, delta: bool
) -> None:
    """A subscriber may be so quick that it says yes before the server hears its write is done."""
    secrets.set(ROOTCA=TrustBundle(roots_pem=b"roots"))
    ledger = Ledger()
    generator = SecretGenerator(secrets, failures=asyncio.Event())
    server: XdsServer[None] = XdsServer(
        {type_urls.SECRET: generator}, admit=admitted, observer=ledger
    )
    server.mark_ready()
    said: asyncio.Queue[bytes | None] = asyncio.Queue()
    known: list[tuple[bool, bool]] = []
    request = partial(
        discovery_pb2.DeltaDiscoveryRequest if delta else discovery_pb2.DiscoveryRequest,
        node={"id": "envoy"},
        type_url=type_urls.SECRET,
    )
    names = {"resource_names_subscribe" if delta else "resource_names": ["ROOTCA"]}
    said.put_nowait(request(**names).SerializeToString())

    async def write(data: bytes) -> None:
        kind: Any = (
            discovery_pb2.DeltaDiscoveryResponse if delta else discovery_pb2.DiscoveryResponse
        )
        answer = {} if delta else names
        yes = request(response_nonce=kind.FromString(data).nonce, **answer)
        said.put_nowait(yes.SerializeToString())
        said.put_nowait(None)
        while said.qsize():  # noqa: ASYNC110 - the server reads in a task of its own
            await asyncio.sleep(0)

    with ledger.telling(
        lambda client: known.extend(
            (each.sent is not None, each.accepted is not None) for each in ledger.deliveries(client)
        )
    ):
        await server.serve_stream(
            Peer(address="memory", encrypted=False, certificate_chain=(), metadata={}),
            said.get,
            write,
            delta=delta,
            type_url=type_urls.SECRET,
        )
    # First asked for, then sent, then accepted: in that order, and nothing else in between.
    assert known == [(False, False), (True, False), (True, True)]
