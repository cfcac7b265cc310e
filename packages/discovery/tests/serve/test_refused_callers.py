"""Callers that are refused come back again and again: the log has few lines, which name them."""

import json
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from mesh_ca import load_or_create_authority
from mesh_ca.testing import signing_request
from mesh_protos import CREATE_CERTIFICATE
from mesh_protos.ca_pb2 import IstioCertificateRequest, IstioCertificateResponse
from planes import Plane
from xds_server import type_urls
from xds_server.testing import SotwClient, over_grpc

Start = Callable[..., Awaitable[Plane]]
OPTIONS = [("grpc.ssl_target_name_override", "localhost")]
TIMES = 20


def shown(plane: Plane, *, certificate: bool) -> grpc.ChannelCredentials:
    authority = load_or_create_authority(plane.ca_dir, trust_domain="cluster.local")
    if not certificate:
        return grpc.ssl_channel_credentials(authority.root_pem)
    key, csr = signing_request()
    identities = ["spiffe://cluster.local/ns/shop/sa/web"]
    chain = b"".join(authority.sign(csr, identities=identities).chain_pem)
    return grpc.ssl_channel_credentials(authority.root_pem, key, chain)


async def watch(plane: Plane, *, certificate: bool, group: str = "") -> None:
    """Open a stream and wait for its first answer. group: as which the proxy registers."""
    node_id = "sidecar~10.0.0.1~web.shop~shop.svc.cluster.local"
    credentials = shown(plane, certificate=certificate)
    async with over_grpc(plane.secure_grpc, credentials=credentials, options=OPTIONS) as wire:
        metadata = {"AUTO_REGISTER_GROUP": group} if group else None
        client = SotwClient(wire, node_id=node_id, metadata=metadata)
        await client.subscribe(type_urls.CLUSTER)
        await client.next()


def called(
    plane: Plane, *, certificate: bool = False
) -> AbstractAsyncContextManager[grpc.aio.Channel]:
    return grpc.aio.secure_channel(
        plane.secure_grpc, shown(plane, certificate=certificate), options=OPTIONS
    )


async def certify(channel: grpc.aio.Channel) -> None:
    create = channel.unary_unary(
        CREATE_CERTIFICATE,
        request_serializer=IstioCertificateRequest.SerializeToString,
        response_deserializer=IstioCertificateResponse.FromString,
    )
    await create(IstioCertificateRequest(csr=signing_request()[1].decode()))


async def lines(plane: Plane, eventually: Start, message: str) -> list[dict[str, Any]]:
    """Return the log's lines with facts that tell of callers, once there is one of `message`."""

    def found() -> list[dict[str, Any]]:
        parsed = [json.loads(line) for line in plane.process.output if line.startswith("{")]
        return [line for line in parsed if {"peer", "address"} & set(line)]

    async def are_logged() -> bool:
        return any(line["msg"] == message for line in found())

    await eventually(are_logged, what=f"a line {message!r}")
    return found()


async def test_a_stream_that_is_refused_again_and_again_has_one_line_and_one_at_its_end(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    for _ in range(TIMES):
        with pytest.raises(Exception, match="UNAUTHENTICATED"):
            await watch(plane, certificate=False)
    await watch(plane, certificate=True)
    logged = await lines(plane, eventually, "client refused, no longer")
    refused = [line for line in logged if line["level"] == "warning"]
    assert [line["msg"] for line in refused] == ["client refused"]
    assert refused[0]["address"].startswith("ipv4:127.0.0.1:")
    assert refused[0]["reason"].startswith("not authenticated: ")
    (over,) = (line for line in logged if line["msg"] == "client refused, no longer")
    assert over["times"] == TIMES


async def test_a_proxy_that_may_not_register_has_no_lines_for_each_of_its_streams(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    for _ in range(TIMES):
        with pytest.raises(Exception, match="there is no WorkloadGroup shop/none"):
            await watch(plane, certificate=True, group="none")
    await watch(plane, certificate=True)
    logged = await lines(plane, eventually, "client disconnected")
    assert [line["msg"] for line in logged] == [
        "client refused",
        "client refused, no longer",
        "client connected",
        "client disconnected",
    ]
    assert logged[0]["reason"].startswith("there is no WorkloadGroup shop/none")
    assert logged[1]["times"] == TIMES


async def test_a_caller_that_gets_no_certificate_has_one_line_with_its_address(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    async with called(plane) as channel:
        for _ in range(TIMES):
            with pytest.raises(grpc.aio.AioRpcError):
                await certify(channel)
    async with called(plane, certificate=True) as channel:
        await certify(channel)
    logged = await lines(plane, eventually, "caller not authenticated, no longer")
    refused = [line for line in logged if line["level"] == "warning"]
    assert [line["msg"] for line in refused] == ["caller not authenticated"]
    assert refused[0]["peer"].startswith("ipv4:127.0.0.1:")


async def test_the_audit_record_of_a_certificate_has_the_address_of_its_caller(
    config_dir: Path, start_plane: Start, eventually: Start
) -> None:
    plane = await start_plane(config_dir)
    async with called(plane, certificate=True) as channel:
        await certify(channel)
    logged = await lines(plane, eventually, "certificate issued")
    (record,) = (line for line in logged if line["msg"] == "certificate issued")
    assert record["peer"].startswith("ipv4:127.0.0.1:")
