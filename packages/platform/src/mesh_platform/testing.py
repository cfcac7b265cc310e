"""Metadata servers to test with, good ones and bad ones, on this machine."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11

from mesh_platform._detection import MetadataServers
from mesh_platform._http import MetadataAddress

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_AWS_DOCUMENT = "/latest/dynamic/instance-identity/document"
_AWS_TOKEN = "/latest/api/token"  # noqa: S105 - a path


_NOT_YET = MetadataAddress("127.0.0.1", 0)


@dataclass(slots=True)
class FakeMetadataServer:
    """A server that answers with `pages`; remembers the requests as `METHOD path`.

    needs: a header that each GET must have, and its value.
    """

    pages: dict[str, str]
    needs: tuple[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str | None = None
    requests: list[str] = field(default_factory=list)
    address: MetadataAddress = _NOT_YET

    @property
    def servers(self) -> MetadataServers:
        """This server in the place of every provider's."""
        return MetadataServers(aws=self.address, azure=self.address, gcp=self.address)

    def answer(self, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, str]:
        """Return the status and the body of an answer."""
        self.requests.append(f"{method} {path}")
        if method == "PUT":
            return (200, self.token) if path == _AWS_TOKEN and self.token else (404, "")
        if self.needs is not None and headers.get(self.needs[0]) != self.needs[1]:
            return 401, ""
        return (200, self.pages[path]) if path in self.pages else (404, "")


@asynccontextmanager
async def metadata_server(server: FakeMetadataServer) -> AsyncIterator[FakeMetadataServer]:
    """Serve while the block runs; sets `server.address`."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _request(reader)
        headers = {name.decode(): value.decode() for name, value in request.headers}
        status, body = server.answer(request.method.decode(), request.target.decode(), headers)
        lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", "Connection: close"]
        lines += [f"{name}: {value}" for name, value in server.headers.items()]
        writer.write("\r\n".join([*lines, "", body]).encode())
        await writer.drain()

    async with listening(handle) as address:
        server.address = address
        yield server


@asynccontextmanager
async def listening(handle: Handler) -> AsyncIterator[MetadataAddress]:
    """Serve connections by a function while the block runs; for servers that behave badly."""
    tasks: set[asyncio.Task[None]] = set()

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError):
                await handle(reader, writer)
        finally:
            writer.transport.abort()
            if task is not None:
                tasks.discard(task)

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    try:
        yield MetadataAddress(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tuple(tasks), return_exceptions=True)
        await server.wait_closed()


async def _request(reader: asyncio.StreamReader) -> h11.Request:
    connection = h11.Connection(h11.SERVER)
    while not isinstance(event := connection.next_event(), h11.Request):
        if event is not h11.NEED_DATA:
            raise ConnectionError("no request")
        connection.receive_data(await reader.read(4096))
    return event


def aws_server(*, tokens: bool = True) -> FakeMetadataServer:
    """Return a server as AWS has it; without `tokens` it knows IMDSv1 only."""
    document = {
        "region": "eu-west-1",
        "availabilityZone": "eu-west-1b",
        "instanceId": "i-0123456789abcdef0",
        "accountId": "123456789012",
    }
    return FakeMetadataServer(
        pages={_AWS_DOCUMENT: json.dumps(document)},
        token="AQAAAtoken==" if tokens else None,
        needs=("x-aws-ec2-metadata-token", "AQAAAtoken==") if tokens else None,
    )


def azure_server() -> FakeMetadataServer:
    """Return a server as Azure has it."""
    compute = {"location": "westeurope", "zone": "2", "name": "web-1", "vmId": "02aab8a4-74ef"}
    return FakeMetadataServer(
        pages={"/metadata/instance/compute?api-version=2021-02-01": json.dumps(compute)},
        needs=("metadata", "true"),
    )


def gcp_server(*, cluster: str | None = "shop") -> FakeMetadataServer:
    """Return a server as Google has it, of a machine in a cluster or in none."""
    pages = {
        "instance/zone": "projects/1234/zones/europe-west1-b",
        "project/project-id": "shop-project",
        "project/numeric-project-id": "1234",
        "instance/id": "5678",
    }
    if cluster is not None:
        pages["instance/attributes/cluster-name"] = cluster
    return FakeMetadataServer(
        pages={f"/computeMetadata/v1/{page}": text for page, text in pages.items()},
        needs=("metadata-flavor", "Google"),
        headers={"Metadata-Flavor": "Google"},
    )
