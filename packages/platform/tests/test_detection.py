"""Metadata servers that are there, that are not, and that mean harm."""

import asyncio
from collections.abc import Callable

import pytest

from mesh_platform import MetadataServers, NoMetadata, Platform, Provider, detect
from mesh_platform._http import MetadataAddress
from mesh_platform.testing import (
    aws_server,
    azure_server,
    gcp_server,
    listening,
    metadata_server,
)

AWS = Platform(
    name="aws",
    region="eu-west-1",
    zone="eu-west-1b",
    metadata={
        "aws_region": "eu-west-1",
        "aws_availability_zone": "eu-west-1b",
        "aws_instance_id": "i-0123456789abcdef0",
        "aws_account_id": "123456789012",
    },
)


async def test_aws_is_asked_by_imdsv2() -> None:
    async with metadata_server(aws_server()) as server:
        assert await detect("aws", servers=server.servers) == AWS
        assert [each.partition(" ")[0] for each in server.requests] == ["PUT", "GET"]


async def test_aws_without_tokens_is_asked_by_imdsv1() -> None:
    async with metadata_server(aws_server(tokens=False)) as server:
        assert await detect("aws", servers=server.servers) == AWS


async def test_aws_whose_token_never_arrives_is_asked_by_imdsv1() -> None:
    good = aws_server(tokens=False)

    async def lose_tokens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        if line.startswith(b"PUT"):
            await asyncio.sleep(3600)
        _, body = good.answer("GET", line.split()[1].decode(), {})
        writer.write(f"HTTP/1.1 200 x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    async with listening(lose_tokens) as address:
        assert await detect("aws", servers=MetadataServers(aws=address), timeout_s=60) == AWS


async def test_azure_is_asked_with_its_header() -> None:
    async with metadata_server(azure_server()) as server:
        found = await detect("azure", servers=server.servers)
    assert (found.region, found.zone) == ("westeurope", "2")
    assert found.metadata == {
        "azure_location": "westeurope",
        "azure_name": "web-1",
        "azure_vmid": "02aab8a4-74ef",
    }


@pytest.mark.parametrize("cluster", ["shop", None])
async def test_gcp_is_asked_page_by_page(cluster: str | None) -> None:
    async with metadata_server(gcp_server(cluster=cluster)) as server:
        found = await detect("gcp", servers=server.servers)
    assert (found.region, found.zone) == ("europe-west1", "europe-west1-b")
    assert found.metadata.get("gcp_gke_cluster_name") == cluster
    assert found.metadata["gcp_project"] == "shop-project"
    assert not any("recursive" in each for each in server.requests)


async def test_a_server_that_is_not_googles_is_not_believed() -> None:
    server = gcp_server()
    server.headers = {}
    async with metadata_server(server):
        with pytest.raises(NoMetadata, match="is not Google's metadata server"):
            await detect("gcp", servers=server.servers)


async def test_no_server_is_reported(free_port: Callable[[], int]) -> None:
    nowhere = MetadataAddress("127.0.0.1", free_port())
    with pytest.raises(NoMetadata, match="can't be reached"):
        await detect("azure", servers=MetadataServers(azure=nowhere))


BAD: dict[str, tuple[bytes, str]] = {
    "garbage": (b"\x00\xff" * 100, "did not answer in HTTP"),
    "nothing": (b"", "ended the connection|did not answer in HTTP"),
    "half": (b"HTTP/1.1 200 x\r\nContent-Length: 50\r\n\r\nhalf", "ended the conn|did not answer"),
    "endless headers": (b"HTTP/1.1 200 x\r\n" + b"A: " + b"b" * 200_000, "did not answer in HTTP"),
    "20 MB": (
        b"HTTP/1.1 200 x\r\nContent-Length: 20000000\r\n\r\n" + b"x" * 20_000_000,
        "more than 65536 bytes",
    ),
    "answers of status 1xx without an end": (
        b"HTTP/1.1 103 x\r\n\r\n" * 10_000,
        "sent more than 131072 bytes",
    ),
    "redirect": (
        b"HTTP/1.1 302 x\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n",
        "answered 302",
    ),
    "no JSON": (b"HTTP/1.1 200 x\r\nContent-Length: 1\r\n\r\n{", "is not JSON"),
    "a list": (b"HTTP/1.1 200 x\r\nContent-Length: 2\r\n\r\n[]", "is not a JSON object"),
    "deep": (b"HTTP/1.1 200 x\r\nContent-Length: 50000\r\n\r\n" + b"[" * 50000, "is not JSON"),
    "no text": (b"HTTP/1.1 200 x\r\nContent-Length: 1\r\n\r\n\xff", "is not text"),
    "a path": (
        b'HTTP/1.1 200 x\r\nContent-Length: 22\r\n\r\n{"location": "../../"}',
        "location is '../../', which is no name",
    ),
    "an object": (
        b'HTTP/1.1 200 x\r\nContent-Length: 16\r\n\r\n{"location": {}}',
        "location is {}, which is no name",
    ),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_useless_answer_is_reported_in_one_sentence(name: str) -> None:
    answer, complaint = BAD[name]

    async def answer_badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    async with listening(answer_badly) as address:
        with pytest.raises(NoMetadata, match=complaint) as caught:
            await detect("azure", servers=MetadataServers(azure=address), timeout_s=60)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("provider", ["aws", "azure", "gcp"])
async def test_a_server_that_hangs_is_given_up_in_time(provider: Provider) -> None:
    async def hang(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.sleep(3600)

    async with listening(hang) as address:
        with pytest.raises(NoMetadata, match=r"did not answer within 0\.2 s"):
            await detect(
                provider,
                servers=MetadataServers(aws=address, azure=address, gcp=address),
                timeout_s=0.2,
            )
