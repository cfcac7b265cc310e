"""The gRPC health check against grpcio's own server, and its messages against protobuf's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from hypothesis import given
from hypothesis import strategies as st

from mesh_probes import GrpcHealth, Outcome, Probe, check
from mesh_probes._errors import CheckFailed
from mesh_probes.checking._grpc import decode_response, encode_request
from probe_peers import Http2Application, Serve


@pytest.fixture
async def server() -> AsyncIterator[int]:
    servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # not in the stubs
    running = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, running)
    port = running.add_insecure_port("127.0.0.1:0")
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    await servicer.set("down", health_pb2.HealthCheckResponse.NOT_SERVING)
    await servicer.set("odd é", health_pb2.HealthCheckResponse.UNKNOWN)
    await running.start()
    yield port
    await running.stop(None)


async def ask(port: int, service: str = "") -> Outcome:
    probe = Probe(action=GrpcHealth(port=port, service=service), timeout_s=10)
    return await check(probe, host="127.0.0.1", sources=("127.0.0.6", "::6"))


async def test_a_server_that_serves_is_healthy(server: int) -> None:
    assert await ask(server) == Outcome(healthy=True, status=200)


@pytest.mark.parametrize(
    ("service", "reason"),
    [
        ("down", "the service is NOT_SERVING"),
        ("odd é", "the service is UNKNOWN"),
        ("other", "gRPC status NOT_FOUND, the server does not know this service"),
    ],
)
async def test_any_other_status_is_unhealthy_with_text(
    server: int, service: str, reason: str
) -> None:
    outcome = await ask(server, service)
    assert outcome == Outcome(
        healthy=False, status=500, reason=f"gRPC 127.0.0.1:{server} {service}: {reason}"
    )


async def test_a_server_without_the_service_is_named() -> None:
    running = grpc.aio.server()
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    try:
        outcome = await ask(port)
        assert "UNIMPLEMENTED, the server has no health service: " in outcome.reason
    finally:
        await running.stop(None)


async def test_a_server_that_is_no_grpc_server_is_named(serve: Serve) -> None:
    outcome = await ask(await serve(Http2Application("404")))
    assert outcome.reason.endswith("HTTP status 404, this is no gRPC server")
    assert (await ask(await serve(Http2Application("200")))).reason.endswith("gRPC status ''")


async def test_a_service_that_does_not_answer_ends(serve: Serve) -> None:
    async def is_silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    port = await serve(is_silent)
    probe = Probe(action=GrpcHealth(port=port), timeout_s=0.3)
    outcome = await check(probe, host="127.0.0.1")
    assert outcome.reason == f"gRPC 127.0.0.1:{port}: no answer within 0.3 s"


@given(st.text())
def test_the_request_is_that_of_protobuf(service: str) -> None:
    expected = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    assert encode_request(service) == expected


@given(st.integers(0, 2**31 - 1), st.binary(max_size=300))
def test_the_status_is_found_among_fields_that_are_not_known(status: int, unknown: bytes) -> None:
    known = health_pb2.HealthCheckResponse(status=status).SerializeToString()
    other = (
        b"\x12" + health_pb2.HealthCheckRequest(service="x" * len(unknown)).SerializeToString()[1:]
    )
    for message in (
        known,
        known + (other if unknown else b""),
        b"\x1d1234" + known + b"\x2112345678",
    ):
        assert decode_response(message) == status


@given(st.binary(max_size=50))
def test_any_bytes_are_a_status_or_a_reason(message: bytes) -> None:
    with suppress(CheckFailed):
        assert decode_response(message) >= 0
