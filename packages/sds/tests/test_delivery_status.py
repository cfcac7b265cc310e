"""The delivery status after any sequence of messages is what a simple model says."""

import asyncio
from dataclasses import dataclass, field

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2
from hypothesis import given
from hypothesis import strategies as st

from mesh_sds import TrustBundle
from mesh_sds.delivery._delivery_status import DeliveryStatus
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
    return Response(
        type_url=type_urls.SECRET,
        nonce=nonce,
        version="",
        body=b"",
        tail=b"",
        resources={
            name: secret_resource(name, TrustBundle(roots_pem=bytes([state])))
            for name, state in states.items()
        },
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


@dataclass(frozen=True)
class Send:
    states: dict[str, int]


@dataclass(frozen=True)
class Answer:
    position: int
    accepted: bool


class Stale:
    """An answer to a response of another stream."""


STEPS = st.lists(
    st.one_of(
        st.builds(Send, STATES),
        st.builds(Answer, st.integers(0, 3), st.booleans()),
        st.builds(Stale),
    ),
    max_size=30,
)


@given(steps=STEPS)
def test_sent_accepted_and_refused_are_what_was_said(steps: list[Send | Answer | Stale]) -> None:
    status, model = DeliveryStatus(now=lambda: 0.0), Model()
    status.on_open(CLIENT)
    status.on_request(CLIENT, request(""))
    refusals = 0
    for number, step in enumerate(steps):
        match step:
            case Send(states):
                nonce = f"n{number}"
                status.on_response(CLIENT, response(nonce, states))
                model.unanswered.append((nonce, states))
                model.sent |= states
            case Stale():
                status.on_request(CLIENT, request("of another stream"))
            case Answer(position, accepted) if model.unanswered:
                nonce = model.answer(min(position, len(model.unanswered) - 1), yes=accepted)
                status.on_request(CLIENT, request(nonce, error=None if accepted else "no"))
                refusals += not accepted
            case Answer():
                pass
    for delivery in status.deliveries(CLIENT.id):
        name = delivery.name
        for delivered, known in (
            (delivery.sent, model.sent),
            (delivery.accepted, model.accepted),
            (delivery.refused, model.refused),
        ):
            expected = VERSIONS[name, known[name]] if name in known else None
            assert (delivered and delivered.version) == expected
        if name in model.sent:
            version = VERSIONS[name, model.sent[name]]
            answered = {
                VERSIONS[name, known[name]]
                for known in (model.accepted, model.refused)
                if name in known
            }
            assert status.is_unanswered(CLIENT.id, {name: version}) is (version not in answered)
    assert status.refusals == refusals


def test_a_client_that_never_answers_takes_bounded_memory() -> None:
    status = DeliveryStatus()
    status.on_open(CLIENT)
    status.on_request(CLIENT, request(""))
    for number in range(1000):
        status.on_response(CLIENT, response(str(number), {"a": number % 256}))
    assert len(status._streams[CLIENT.id].unanswered) == 32
    # Of what was dropped nothing is known any more, of the last still everything.
    status.on_request(CLIENT, request("0"))
    assert status.deliveries(CLIENT.id)[0].accepted is None
    status.on_request(CLIENT, request("999"))
    assert status.deliveries(CLIENT.id)[0].in_sync


def test_a_name_given_up_is_forgotten() -> None:
    status = DeliveryStatus()
    status.on_open(CLIENT)
    subscribe = DeltaRequest(type_url=type_urls.SECRET, subscribe=frozenset({"a", "b"}))
    status.on_request(CLIENT, subscribe)
    assert status.names() == {"a", "b"}
    status.on_request(CLIENT, DeltaRequest(type_url=type_urls.SECRET, unsubscribe=frozenset({"a"})))
    assert [d.name for d in status.deliveries(CLIENT.id)] == ["b"]
    assert status.may_want(CLIENT.id, {"b"})
    assert not status.may_want(CLIENT.id, {"a"})
    status.on_close(CLIENT)
    assert status.names() == frozenset()
    assert not status.is_unanswered(CLIENT.id, {"b": "1"})


def test_requests_of_other_types_are_ignored() -> None:
    status = DeliveryStatus()
    status.on_open(CLIENT)
    status.on_request(CLIENT, SotwRequest(type_url=type_urls.CLUSTER, names=frozenset({"a"})))
    assert status.deliveries(CLIENT.id) == ()


async def admitted(_node: Node, _peer: Peer) -> Admission[None]:
    return Admission(context=None)


@pytest.mark.parametrize("delta", [False, True])
async def test_an_answer_that_comes_before_the_writing_is_done_is_not_lost(
    secrets: FakeSecrets, *, delta: bool
) -> None:
    """A subscriber may be so quick that it says yes before the server hears its write is done."""
    secrets.set(ROOTCA=TrustBundle(roots_pem=b"roots"))
    status = DeliveryStatus()
    generator = SecretGenerator(secrets, failures=asyncio.Event())
    server: XdsServer[None] = XdsServer(
        {type_urls.SECRET: generator}, admit=admitted, observer=status
    )
    server.set_ready()
    said: asyncio.Queue[bytes | None] = asyncio.Queue()
    known: list[tuple[bool, bool]] = []

    def encoded(name: str = "", nonce: str = "") -> bytes:
        names = [name] if name else []
        if delta:
            return discovery_pb2.DeltaDiscoveryRequest(
                node=base_pb2.Node(id="envoy"),
                type_url=type_urls.SECRET,
                resource_names_subscribe=names,
                response_nonce=nonce,
            ).SerializeToString()
        return discovery_pb2.DiscoveryRequest(
            node=base_pb2.Node(id="envoy"),
            type_url=type_urls.SECRET,
            resource_names=names,
            response_nonce=nonce,
        ).SerializeToString()

    def nonce_of(data: bytes) -> str:
        if delta:
            return discovery_pb2.DeltaDiscoveryResponse.FromString(data).nonce
        return discovery_pb2.DiscoveryResponse.FromString(data).nonce

    said.put_nowait(encoded("ROOTCA"))

    async def write(data: bytes) -> None:
        said.put_nowait(encoded("" if delta else "ROOTCA", nonce_of(data)))
        said.put_nowait(None)
        while said.qsize():  # noqa: ASYNC110 - the server reads in a task of its own
            await asyncio.sleep(0)

    with status.listener(
        lambda client: known.extend(
            (each.sent is not None, each.accepted is not None) for each in status.deliveries(client)
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
