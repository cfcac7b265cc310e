"""Servers of modules for tests: plain HTTP, and an OCI registry that may want credentials.

Both listen on 127.0.0.1 while a block runs.

    async with FakeRegistry(user="me", password="secret") as registry:
        registry.add_image("team/plugin", "v1", [docker_layer(module)])
        ... f"oci://{registry.address}/team/plugin:v1"
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import io
import json
import ssl
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Self
from urllib.parse import parse_qs, urlsplit

__all__ = [
    "ADD_HEADER",
    "MODULE",
    "FakeRegistry",
    "HttpServer",
    "ReceivedRequest",
    "Response",
    "docker_config",
    "docker_layer",
    "module_layer",
    "oci_layer",
    "tar_of",
]

MODULE = b"\0asm\x01\0\0\0"
"""The smallest module there is: it has no sections."""

ADD_HEADER = base64.b64decode(
    b"AGFzbQEAAAABJAZgBX9/f39/AX9gAABgAX8Bf2ACf38Bf2ACf38AYAN/f38BfwIiAQNlbnYacHJveHlfYWRkX2hlYW"
    b"Rlcl9tYXBfdmFsdWUAAAMHBgECAwMEBQUDAQABB54BBwZtZW1vcnkCABdwcm94eV9hYmlfdmVyc2lvbl8wXzJfMQAB"
    b"GHByb3h5X29uX21lbW9yeV9hbGxvY2F0ZQACEXByb3h5X29uX3ZtX3N0YXJ0AAMScHJveHlfb25fY29uZmlndXJlAA"
    b"QXcHJveHlfb25fY29udGV4dF9jcmVhdGUABRlwcm94eV9vbl9yZXNwb25zZV9oZWFkZXJzAAYKKQYCAAsFAEGACAsE"
    b"AEEBCwQAQQELAgALEQBBAkEQQQZBIEEREAAaQQALCyICAEEQCwZ4LXdhc20AQSALEWZyb20gYSBsb2NhbCBmaWxlAB"
    b"QEbmFtZQENAQAKYWRkX2hlYWRlcg=="
)
"""A filter of Envoy that adds `x-wasm: from a local file` to responses (tests/add_header.wat)."""

_DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
_OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_OCI_INDEX = "application/vnd.oci.image.index.v1+json"
_OCI_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_MODULE_LAYER = "application/vnd.module.wasm.content.layer.v1+wasm"
_CONFIG_LAYER = "application/vnd.module.wasm.config.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One request that came; target: path and query."""

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """An answer."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Handler = Callable[[ReceivedRequest, asyncio.StreamWriter], Awaitable[Response | None]]


class HttpServer:
    """An HTTP/1.1 server whose answers a function gives.

    handle: returns the answer, or None if it has written to the connection itself.
    tls: for https.
    requests: all that came, in order.
    """

    def __init__(self, handle: Handler, *, tls: ssl.SSLContext | None = None) -> None:
        self._handle = handle
        self._tls = tls
        self.requests: list[ReceivedRequest] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The root, without a slash at its end."""
        return f"{'http' if self._tls is None else 'https'}://{self.address}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._on_connection, "127.0.0.1", 0, ssl=self._tls, backlog=64
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections)

    async def _on_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            if self._server is not None and self._server.is_serving():
                raise
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = ReceivedRequest(method=method, target=target, headers=headers, body=body)
        self.requests.append(request)
        response = await self._handle(request, writer)
        if response is not None:
            head = {"Content-Length": str(len(response.body)), **response.headers}
            text = "".join(f"{name}: {value}\r\n" for name, value in head.items())
            writer.write(f"HTTP/1.1 {response.status} Status\r\n{text}\r\n".encode("latin-1"))
            writer.write(response.body)
        await writer.drain()
        # The client closes; were it done here, what was written last might be lost.
        if writer.can_write_eof():
            writer.write_eof()
        await reader.read()


class Layer(NamedTuple):
    """A layer of an image."""

    media_type: str
    content: bytes


def tar_of(files: Mapping[str, bytes], *, compressed: bool = False) -> bytes:
    """Return an archive of files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0) if compressed else buffer.getvalue()


def docker_layer(module: bytes, *, name: str = "plugin.wasm") -> Layer:
    """Return the layer of an image that Docker has built."""
    return Layer(_DOCKER_LAYER, tar_of({name: module}, compressed=True))


def oci_layer(module: bytes, *, name: str = "./plugin.wasm") -> Layer:
    """Return the layer of a standard OCI image."""
    return Layer(_OCI_LAYER, tar_of({name: module}, compressed=True))


def module_layer(module: bytes) -> tuple[Layer, Layer]:
    """Return the two layers of an artifact: a module and its configuration."""
    return Layer(_CONFIG_LAYER, b"{}"), Layer(_MODULE_LAYER, module)


def docker_config(registry: str, user: str, password: str) -> str:
    """Return a pull secret."""
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return json.dumps({"auths": {registry: {"auth": pair}}})


class FakeRegistry(HttpServer):
    """An OCI registry.

    user, password: which it wants for a token; without a user it wants no token.
    realm: where tokens are had; None: here.
    basic: the user and the password themselves are wanted, and no token.
    blobs_at: blobs are redirected below this URL.
    """

    def __init__(
        self,
        *,
        user: str = "",
        password: str = "",
        realm: str | None = None,
        basic: bool = False,
        blobs_at: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(self._answer, tls=tls)
        self._user = user
        self._password = password
        self._realm = realm
        self._basic = basic
        self._blobs_at = blobs_at
        self.blobs: dict[str, bytes] = {}
        self._manifests: dict[str, tuple[str, bytes]] = {}

    def add_image(
        self, repository: str, tag: str, layers: Sequence[Layer], *, docker: bool = False
    ) -> str:
        """Add an image; return its manifest's SHA-256 in hex."""
        config = self._add_blob(b"{}")
        manifest = {
            "schemaVersion": 2,
            "mediaType": _DOCKER_MANIFEST if docker else _OCI_MANIFEST,
            "config": {"mediaType": "application/json", "size": 2, "digest": config},
            "layers": [
                {
                    "mediaType": each.media_type,
                    "size": len(each.content),
                    "digest": self._add_blob(each.content),
                }
                for each in layers
            ],
        }
        return self.add_manifest(repository, tag, manifest)

    def add_index(self, repository: str, tag: str, images: Sequence[str]) -> str:
        """Add an index of images that were added; return its SHA-256 in hex."""
        listed = [
            {
                "mediaType": _OCI_MANIFEST,
                "size": 0,
                "digest": f"sha256:{each}",
                "platform": {"os": "linux", "architecture": f"processor-{number}"},
            }
            for number, each in enumerate(images)
        ]
        index = {"schemaVersion": 2, "mediaType": _OCI_INDEX, "manifests": listed}
        return self.add_manifest(repository, tag, index)

    def add_manifest(self, repository: str, tag: str, manifest: Mapping[str, object]) -> str:
        """Add any manifest; return its SHA-256 in hex."""
        body = json.dumps(manifest).encode()
        digest = hashlib.sha256(body).hexdigest()
        kept = (str(manifest.get("mediaType", _OCI_MANIFEST)), body)
        self._manifests[f"{repository}/{tag}"] = kept
        self._manifests[f"{repository}/sha256:{digest}"] = kept
        return digest

    def _add_blob(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest

    async def _answer(self, request: ReceivedRequest, _: asyncio.StreamWriter) -> Response:
        path = urlsplit(request.target).path
        if path == "/token":
            return self._token(request)
        if (refusal := self._refusal(request)) is not None:
            return refusal
        repository, _slash, what = path.removeprefix("/v2/").rpartition("/")
        repository, _slash, kind = repository.rpartition("/")
        if kind == "manifests" and (found := self._manifests.get(f"{repository}/{what}")):
            return Response(headers={"Content-Type": found[0]}, body=found[1])
        if kind == "blobs" and what in self.blobs:
            if self._blobs_at is not None:
                return Response(status=307, headers={"Location": f"{self._blobs_at}/{what}"})
            return Response(body=self.blobs[what])
        return Response(status=404 if kind else 200)

    def _refusal(self, request: ReceivedRequest) -> Response | None:
        given = request.headers.get("authorization", "")
        if not self._user or given == (self._pair if self._basic else "Bearer issued"):
            return None
        realm = self._realm or f"{self.url}/token"
        wanted = f'Bearer realm="{realm}",service="registry",scope="repository:x:pull"'
        if self._basic:
            wanted = 'Basic realm="registry"'
        return Response(status=401, headers={"WWW-Authenticate": wanted})

    def _token(self, request: ReceivedRequest) -> Response:
        form = parse_qs(request.body.decode())
        refreshed = form.get("refresh_token") == [self._password]
        if not refreshed and request.headers.get("authorization") != self._pair:
            return Response(status=401)
        return Response(body=b'{"token": "issued"}')

    @property
    def _pair(self) -> str:
        pair = f"{self._user}:{self._password}"
        return "Basic " + base64.b64encode(pair.encode()).decode()
