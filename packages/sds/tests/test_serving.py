"""Every promise over a real socket: with gRPC at the door, and with the check in front of it."""

import asyncio
from pathlib import Path

import grpc.aio
import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_listening import listening_at
from mesh_sds import SdsConfig, SdsServer, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets, subscriber
from xds_server import type_urls

FETCH = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets"
BUNDLE = TrustBundle(roots_pem=b"roots")


def certificate(text: bytes) -> TlsCertificate:
    return TlsCertificate(chain_pem=text, private_key_pem=b"key of " + text)


async def fetch(server: SdsServer, *names: str) -> discovery_pb2.DiscoveryResponse:
    request = discovery_pb2.DiscoveryRequest(node=base_pb2.Node(id="envoy"), resource_names=names)
    async with grpc.aio.insecure_channel(f"unix:{server.socket_path}") as channel:
        call = channel.unary_unary(
            FETCH,
            request_serializer=discovery_pb2.DiscoveryRequest.SerializeToString,
            response_deserializer=discovery_pb2.DiscoveryResponse.FromString,
        )
        response: discovery_pb2.DiscoveryResponse = await call(request)
        return response


# Scenarios of Istio's agent; where this server differs on purpose, the name says how.


async def test_one_stream_many_names_the_root_first(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with subscriber(server.socket_path) as stream:
        await stream.ask("default", "ROOTCA")
        first = await stream.read()
        assert list(first.secrets) == ["ROOTCA", "default"]
        await stream.accept(first)
        secrets.set(default=certificate(b"two"))
        assert (await stream.read()).secrets == {"default": b"two"}


async def test_many_streams_of_one_name_each(server: SdsServer, secrets: FakeSecrets) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with (
        subscriber(server.socket_path) as root,
        subscriber(server.socket_path) as leaf,
    ):
        await root.ask("ROOTCA")
        assert (await root.read()).secrets == {"ROOTCA": b"roots"}
        await leaf.ask("default")
        assert (await leaf.read()).secrets == {"default": b"one"}


async def test_a_name_added_on_a_stream_is_answered_alone(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with subscriber(server.socket_path) as stream:
        await stream.ask("ROOTCA")
        first = await stream.read()
        await stream.ask("ROOTCA", "default", version=first.version, nonce=first.nonce)
        assert (await stream.read()).secrets == {"default": b"one"}


@pytest.mark.parametrize("delta", [False, True])
async def test_an_unknown_name_is_answered_when_it_exists_and_stops_no_other(
    server: SdsServer, secrets: FakeSecrets, *, delta: bool
) -> None:
    secrets.set(default=certificate(b"one"))
    async with subscriber(server.socket_path, delta=delta) as stream:
        await stream.ask("default", "not-yet")
        assert (await stream.read()).secrets == {"default": b"one"}
        secrets.set(**{"not-yet": BUNDLE})
        assert (await stream.read()).secrets == {"not-yet": b"roots"}


@pytest.mark.parametrize("delta", [False, True])
async def test_an_empty_list_of_names_unsubscribes_and_pushes_pass_it_by(
    server: SdsServer, secrets: FakeSecrets, *, delta: bool
) -> None:
    secrets.set(default=certificate(b"one"))
    async with (
        subscriber(server.socket_path, delta=delta) as stream,
        subscriber(server.socket_path, delta=delta, node_id="other") as other,
    ):
        await stream.ask("default")
        first = await stream.read()
        await stream.ask(version=first.version, nonce=first.nonce)
        await server.wait_until(
            lambda subscribers: (
                [s.names for s in subscribers if s.node_id == "envoy"] == [frozenset()]
            )
        )
        await other.ask("default")
        await other.accept(await other.read())
        for text in (b"two", b"three"):
            secrets.set(default=certificate(text))
            pushed = await other.read()
            assert pushed.secrets == {"default": text}
            await other.accept(pushed)
        await stream.ask("default")
        assert (await stream.read()).secrets == {"default": b"three"}


@pytest.mark.parametrize("delta", [False, True])
async def test_a_refusal_is_counted_shown_and_not_answered(
    server: SdsServer, secrets: FakeSecrets, *, delta: bool
) -> None:
    secrets.set(default=certificate(b"bad"))
    async with subscriber(server.socket_path, delta=delta) as stream:
        await stream.ask("default")
        await stream.refuse(await stream.read(), "no PEM at all")
        await server.wait_until(lambda subscribers: subscribers[0].refusals == 1)
        (shown,) = server.subscribers()
        assert shown.node_id == "envoy"
        assert shown.names == {"default"}
        assert shown.delta is delta
        assert not shown.in_sync
        assert shown.refusal == "no PEM at all"
        # The refused one was not sent again: the next response is the next secret.
        secrets.set(default=certificate(b"good"))
        good = await stream.read()
        assert good.secrets == {"default": b"good"}
        await stream.accept(good)
        await server.wait_until(lambda subscribers: subscribers[0].in_sync)
        assert server.subscribers()[0].refusal is None
    await server.wait_until(lambda subscribers: not subscribers)
    assert server.refusals == 1


async def test_a_reconnect_with_old_nonce_and_version_is_answered_afresh(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"))
    async with subscriber(server.socket_path) as stream:
        await stream.ask("default")
        old = await stream.read()
    async with subscriber(server.socket_path) as stream:
        await stream.ask("default", version=old.version, nonce=old.nonce)
        assert (await stream.read()).secrets == {"default": b"one"}


@pytest.mark.parametrize("delta", [False, True])
async def test_a_push_reaches_only_those_who_ask_for_the_name(
    server: SdsServer, secrets: FakeSecrets, *, delta: bool
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with (
        subscriber(server.socket_path, delta=delta) as leaf,
        subscriber(server.socket_path, delta=delta) as root,
    ):
        await leaf.ask("default")
        await root.ask("ROOTCA")
        assert (await leaf.read()).secrets == {"default": b"one"}
        assert (await root.read()).secrets == {"ROOTCA": b"roots"}
        secrets.set(default=certificate(b"two"))
        assert (await leaf.read()).secrets == {"default": b"two"}
        secrets.set(ROOTCA=TrustBundle(roots_pem=b"more roots"))
        assert (await root.read()).secrets == {"ROOTCA": b"more roots"}


async def test_a_stream_whose_secrets_are_all_missing_stays_and_gets_them_later(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    async with subscriber(server.socket_path) as stream:
        await stream.ask("default")
        await server.wait_until(lambda subscribers: any(s.names for s in subscribers))
        secrets.set(default=certificate(b"one"))
        assert (await stream.read()).secrets == {"default": b"one"}


@pytest.mark.parametrize("delta", [False, True])
async def test_a_source_that_raises_for_a_name_is_asked_again_and_other_names_are_served(
    server: SdsServer,
    secrets: FakeSecrets,
    caplog: pytest.LogCaptureFixture,
    *,
    delta: bool,
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    secrets.fail("default", ValueError("source bug"))
    async with subscriber(server.socket_path, delta=delta) as stream:
        await stream.ask("default", "ROOTCA")
        assert (await stream.read()).secrets == {"ROOTCA": b"roots"}
        secrets.fail("default", None)
        # No change was notified: it is found because it was asked for again.
        assert (await stream.read()).secrets == {"default": b"one"}
    message = "secret source raised, asking again"
    assert [r.message for r in caplog.records if r.name == "mesh_sds"].count(message) == 1


async def test_a_removal_reaches_a_delta_client(server: SdsServer, secrets: FakeSecrets) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with subscriber(server.socket_path, delta=True) as stream:
        await stream.ask("default", "ROOTCA")
        assert set((await stream.read()).secrets) == {"default", "ROOTCA"}
        secrets.remove("default")
        assert (await stream.read()).removed == ("default",)
        secrets.set(default=certificate(b"two"))
        assert (await stream.read()).secrets == {"default": b"two"}


async def test_a_poll_gets_what_exists_of_what_it_asks_for(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    response = await fetch(server, "default", "ROOTCA", "not-yet")
    assert response.type_url == type_urls.SECRET
    assert len(response.resources) == 2
    assert response.version_info
    nothing = await fetch(server, "not-yet")
    assert (nothing.type_url, len(nothing.resources)) == (type_urls.SECRET, 0)
    assert server.subscribers() == ()


async def test_a_poll_without_a_node_is_refused_as_a_stream_is(server: SdsServer) -> None:
    async with grpc.aio.insecure_channel(f"unix:{server.socket_path}") as channel:
        call = channel.unary_unary(FETCH, None, None)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(b"")
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_source_that_fails_is_subscribed_to_again_and_nothing_is_lost(
    server: SdsServer, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.set(default=certificate(b"one"))
    async with subscriber(server.socket_path) as stream:
        await stream.ask("default")
        await stream.read()
        secrets.break_off(RuntimeError("source bug"))
        secrets.set(default=certificate(b"two"))
        assert (await stream.read()).secrets == {"default": b"two"}
    assert secrets.subscriptions == 2
    assert "secret source failed, subscribing again" in caplog.messages


async def test_a_socket_that_listens_already_is_served_and_stays(
    socket_dir: Path, secrets: FakeSecrets
) -> None:
    secrets.set(ROOTCA=BUNDLE)
    path = socket_dir / "early"
    with listening_at(path) as listening:
        async with subscriber(path) as stream:  # connects before there is a server
            asked = asyncio.ensure_future(stream.ask("ROOTCA"))
            async with serving(SdsConfig(socket_path=path), secrets, listening=listening):
                await asked
                assert (await stream.read()).secrets == {"ROOTCA": b"roots"}
        assert path.is_socket()
    assert not path.exists()
