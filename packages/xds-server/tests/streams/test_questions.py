"""Types that are asked and not watched: each request is answered once, in either dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from xds_server import (
    Client,
    PlainListener,
    Refused,
    Resource,
    XdsServer,
    content_version,
    serving,
)
from xds_server import type_urls as types
from xds_server.protocol._request import ClientError, SotwRequest
from xds_server.streams._questions import Question, Questions
from xds_server.testing import (
    ADS_DELTA,
    ADS_SOTW,
    SotwClient,
    StreamEnded,
    admit_all,
    over_grpc,
)
from xds_state import Make, State

ASKED = "example.com/asked"


class Answers:
    """Answers with what was asked, twice; refuses `secret`."""

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []

    def answer(self, _client: Client[None], names: frozenset[str], /) -> Sequence[Resource]:
        self.asked.append(names)
        if "secret" in names:
            raise Refused(grpc.StatusCode.PERMISSION_DENIED, "that is a secret")
        body = ",".join(sorted(names)).encode()
        version = content_version(body)
        one = Resource(name="same", type_url="example.com/t", body=body, version=version)
        return [one, one]


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
async def address(state: State, answers: Answers) -> AsyncIterator[str]:
    server: XdsServer[None] = XdsServer(
        {types.CLUSTER: state}, admit=admit_all, answerers={ASKED: answers}
    )
    server.set_ready()
    async with serving(server, [PlainListener()]) as bound:
        yield bound.addresses[0]


def sotw(*names: str, nonce: str = "") -> bytes:
    message: Any = discovery_pb2.DiscoveryRequest(
        type_url=ASKED, resource_names=names, response_nonce=nonce
    )
    message.node.id = "n"
    data: bytes = message.SerializeToString()
    return data


def delta(*names: str, nonce: str = "") -> bytes:
    message: Any = discovery_pb2.DeltaDiscoveryRequest(
        type_url=ASKED, resource_names_subscribe=names, response_nonce=nonce
    )
    message.node.id = "n"
    data: bytes = message.SerializeToString()
    return data


async def test_each_question_is_answered_with_all_that_the_answerer_returns(
    address: str, answers: Answers
) -> None:
    async with over_grpc(address, path=ADS_SOTW) as wire:
        # istioctl's first request names a nonce that no response had.
        await wire.send(sotw("a", nonce="2026-11-29 16:00:00"))
        first = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
        await wire.send(sotw("a", nonce=first.nonce))
        await wire.send(sotw("b", nonce=first.nonce))
        second = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
    assert (first.type_url, [each.value for each in first.resources]) == (ASKED, [b"a", b"a"])
    assert [each.value for each in second.resources] == [b"b", b"b"]
    assert first.nonce != second.nonce
    assert answers.asked == [{"a"}, {"b"}]


async def test_a_delta_client_asks_the_same_again_and_its_ack_asks_nothing(
    address: str, answers: Answers
) -> None:
    async with over_grpc(address, path=ADS_DELTA) as wire:
        await wire.send(delta("a"))
        first = discovery_pb2.DeltaDiscoveryResponse.FromString(await wire.receive())
        await wire.send(delta(nonce=first.nonce))
        await wire.send(delta("a"))
        await wire.receive()
    assert [each.resource.value for each in first.resources] == [b"a", b"a"]
    assert answers.asked == [{"a"}, {"a"}]


async def test_a_question_on_a_stream_of_watches_leaves_them_as_they_are(
    address: str, state: State, make: Make
) -> None:
    state.set(make.cluster("c"))
    async with over_grpc(address) as wire:
        client = SotwClient(wire)
        await client.subscribe(types.CLUSTER)
        watched = await client.next()
        await wire.send(sotw("a"))
        asked = discovery_pb2.DiscoveryResponse.FromString(await wire.receive())
        await client.subscribe(types.CLUSTER, "c")
        again = await client.next()
    assert list(watched.resources) == list(again.resources) == ["c"]
    assert asked.type_url == ASKED


async def test_a_question_that_is_refused_ends_its_stream_with_the_status(address: str) -> None:
    async with over_grpc(address) as wire:
        await wire.send(sotw("secret"))
        with pytest.raises(StreamEnded) as ended:
            await wire.receive()
    assert ended.value.code is grpc.StatusCode.PERMISSION_DENIED
    assert ended.value.message == "that is a secret"


def test_nothing_waits_after_a_nack_or_for_a_type_that_is_watched() -> None:
    questions = Questions({ASKED}, nonce_prefix="p")
    error = ClientError(code=3, message="no")
    assert questions.take(SotwRequest(type_url=ASKED, nonce="p-1", error=error))
    assert questions.pop() is None
    assert not questions.take(SotwRequest(type_url=types.CLUSTER))
    assert questions.take(SotwRequest(type_url=ASKED, names=frozenset({"a"})))
    assert questions.pop() == Question(ASKED, frozenset({"a"}))
    assert questions.pop() is None
