"""The secret server over its Unix socket, asked by a plain gRPC client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_sds import SdsConfig, SdsServer, TlsCertificate, TrustBundle, serving
from mesh_sds.testing import FakeSecrets
from xds_server import type_urls

SERVICE = "/envoy.service.secret.v3.SecretDiscoveryService/"
BUNDLE = TrustBundle(roots_pem=b"roots")


def certificate(text: bytes) -> TlsCertificate:
    return TlsCertificate(chain_pem=text, private_key_pem=b"key of " + text)


class Stream:
    """One stream of either dialect."""

    def __init__(self, channel: Any, *, delta: bool) -> None:
        method, request, response = (
            ("DeltaSecrets", "DeltaDiscoveryRequest", "DeltaDiscoveryResponse")
            if delta
            else ("StreamSecrets", "DiscoveryRequest", "DiscoveryResponse")
        )
        self._request: Any = getattr(discovery_pb2, request)
        self._call: Any = channel.stream_stream(
            SERVICE + method,
            request_serializer=self._request.SerializeToString,
            response_deserializer=getattr(discovery_pb2, response).FromString,
        )()

    async def send(self, **fields: Any) -> None:
        await self._call.write(
            self._request(node={"id": "envoy"}, type_url=type_urls.SECRET, **fields)
        )

    async def read(self) -> Any:
        async with asyncio.timeout(10):
            return await self._call.read()

    async def close(self) -> None:
        await self._call.done_writing()
        end: Any = vars(grpc.aio)["EOF"]
        while await self._call.read() is not end:
            pass


def secrets_in(response: Any) -> dict[str, bytes]:
    """The names in a response, in order, and the PEM of each."""
    found = {}
    for resource in response.resources:
        body = resource.resource.value if hasattr(resource, "resource") else resource.value
        secret = secret_pb2.Secret.FromString(body)
        found[secret.name] = (
            secret.tls_certificate.certificate_chain.inline_bytes
            or secret.validation_context.trusted_ca.inline_bytes
        )
    return found


@pytest.fixture
async def server(socket_dir: Path, secrets: FakeSecrets) -> AsyncIterator[SdsServer]:
    async with serving(SdsConfig(socket_path=socket_dir / "sds" / "socket"), secrets) as server:
        yield server


@asynccontextmanager
async def stream_to(server: SdsServer, *, delta: bool = False) -> AsyncIterator[Stream]:
    async with grpc.aio.insecure_channel(f"unix:{server.socket_path}") as channel:
        stream = Stream(channel, delta=delta)
        yield stream
        await stream.close()


async def test_one_stream_gets_many_names_and_each_rotation(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with stream_to(server) as stream:
        await stream.send(resource_names=["default", "ROOTCA"])
        first = await stream.read()
        assert list(secrets_in(first)) == ["ROOTCA", "default"]
        await stream.send(
            resource_names=["default", "ROOTCA"],
            version_info=first.version_info,
            response_nonce=first.nonce,
        )
        secrets.set(default=certificate(b"two"))
        assert secrets_in(await stream.read()) == {"default": b"two"}


async def test_a_rotation_reaches_only_those_who_ask_for_the_name(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with stream_to(server) as leaf, stream_to(server) as root:
        await leaf.send(resource_names=["default"])
        await root.send(resource_names=["ROOTCA"])
        assert secrets_in(await leaf.read()) == {"default": b"one"}
        assert secrets_in(await root.read()) == {"ROOTCA": b"roots"}
        secrets.set(default=certificate(b"two"))
        assert secrets_in(await leaf.read()) == {"default": b"two"}
        secrets.set(ROOTCA=TrustBundle(roots_pem=b"more roots"))
        assert secrets_in(await root.read()) == {"ROOTCA": b"more roots"}


@pytest.mark.parametrize("delta", [False, True])
async def test_an_unknown_name_is_answered_when_it_exists_and_stops_no_other(
    server: SdsServer, secrets: FakeSecrets, *, delta: bool
) -> None:
    secrets.set(default=certificate(b"one"))
    names = ["default", "not-yet"]
    async with stream_to(server, delta=delta) as stream:
        await stream.send(**{"resource_names_subscribe" if delta else "resource_names": names})
        assert secrets_in(await stream.read()) == {"default": b"one"}
        secrets.set(**{"not-yet": BUNDLE})
        assert secrets_in(await stream.read()) == {"not-yet": b"roots"}


async def test_a_removal_reaches_a_delta_client(server: SdsServer, secrets: FakeSecrets) -> None:
    secrets.set(default=certificate(b"one"), ROOTCA=BUNDLE)
    async with stream_to(server, delta=True) as stream:
        await stream.send(resource_names_subscribe=["default", "ROOTCA"])
        assert set(secrets_in(await stream.read())) == {"default", "ROOTCA"}
        secrets.remove("default")
        response = await stream.read()
        assert list(response.removed_resources) == ["default"]
        secrets.set(default=certificate(b"two"))
        assert secrets_in(await stream.read()) == {"default": b"two"}


async def test_a_client_that_comes_back_is_answered_afresh(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"one"))
    async with stream_to(server) as stream:
        await stream.send(resource_names=["default"])
        old = await stream.read()
    async with stream_to(server) as stream:
        await stream.send(
            resource_names=["default"], version_info=old.version_info, response_nonce=old.nonce
        )
        assert secrets_in(await stream.read()) == {"default": b"one"}


async def test_a_refusal_is_counted_shown_and_not_answered(
    server: SdsServer, secrets: FakeSecrets
) -> None:
    secrets.set(default=certificate(b"bad"))
    async with stream_to(server) as stream:
        await stream.send(resource_names=["default"])
        response = await stream.read()
        await stream.send(
            resource_names=["default"],
            response_nonce=response.nonce,
            error_detail={"code": 13, "message": "no PEM at all"},
        )
        secrets.set(default=certificate(b"good"))
        response = await stream.read()
        assert secrets_in(response) == {"default": b"good"}
        (subscriber,) = server.subscribers()
        assert subscriber.node_id == "envoy"
        assert subscriber.names == {"default"}
        assert not subscriber.delta
        assert not subscriber.in_sync
        assert subscriber.refusal == "no PEM at all"
        assert subscriber.refusals == 1


async def test_a_source_that_fails_is_subscribed_to_again_and_nothing_is_lost(
    server: SdsServer, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.set(default=certificate(b"one"))
    async with stream_to(server) as stream:
        await stream.send(resource_names=["default"])
        await stream.read()
        secrets.break_off(RuntimeError("source bug"))
        secrets.set(default=certificate(b"two"))
        assert secrets_in(await stream.read()) == {"default": b"two"}
    assert secrets.subscriptions == 2
    assert "secret source failed, subscribing again" in caplog.messages
