"""Registries that lie: each costs its own image, little memory, and no secret."""

import asyncio
import hashlib
import json
from collections.abc import Callable

import pytest

from wasm_modules import FetchError, ModuleRequest, WasmConfig, getting_modules
from wasm_modules.oci._challenge import challenges
from wasm_modules.testing import HttpServer, ReceivedRequest, Response, docker_config

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
DIGEST = "sha256:" + "0" * 64
NESTED = b"[" * 100_000 + b"]" * 100_000


def _manifest(media_type: str, body: bytes) -> Response:
    return Response(headers={"Content-Type": media_type}, body=body)


def _listing(kind: str, number: int) -> bytes:
    return json.dumps({kind: [{"digest": DIGEST} for _ in range(number)]}).encode()


MANIFESTS = {
    "nested 100 000 deep": (_manifest(MANIFEST, NESTED), "no JSON"),
    "nested in layers": (_manifest(MANIFEST, b'{"layers": ' + NESTED + b"}"), "no JSON"),
    "10 000 layers": (_manifest(MANIFEST, _listing("layers", 10_000)), "no layers, or too many"),
    "10 000 images": (_manifest(INDEX, _listing("manifests", 10_000)), "no images, or too many"),
    "100 000 layers": (_manifest(MANIFEST, _listing("layers", 100_000)), "more than 1048576"),
    "a layer of a negative size": (
        _manifest(MANIFEST, b'{"layers": [{"digest": "%s", "size": -1}]}' % DIGEST.encode()),
        "status 404",
    ),
    "a layer of a size without an end": (
        _manifest(MANIFEST, b'{"layers": [{"size": 1%s}]}' % (b"0" * 5000)),
        "no JSON",
    ),
    "another digest than was asked for": (
        _manifest(INDEX, _listing("manifests", 1)),
        "another one",
    ),
    "compressed": (
        Response(headers={"Content-Type": MANIFEST, "Content-Encoding": "gzip"}, body=b"\x1f\x8b"),
        "no JSON",
    ),
}


@pytest.mark.parametrize("what", MANIFESTS)
async def test_a_manifest_that_lies_is_refused(config: WasmConfig, what: str) -> None:
    answer, reason = MANIFESTS[what]

    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        return answer if "/manifests/" in request.target else Response(status=404)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"oci://{server.address}/a/b:c"))
    assert list(config.cache_root.iterdir()) == []


async def test_an_index_that_leads_to_an_index_is_no_image(config: WasmConfig) -> None:
    inner = _listing("manifests", 1)
    digest = hashlib.sha256(inner).hexdigest()
    outer = json.dumps({"manifests": [{"digest": f"sha256:{digest}"}]}).encode()

    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        return _manifest(INDEX, inner if digest in request.target else outer)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match="no layers, or too many"):
            await modules.get(ModuleRequest(url=f"oci://{server.address}/a/b:c"))


TOKENS = {
    "nested 100 000 deep": (Response(body=NESTED), "more than 65536|has no token"),
    "nested": (Response(body=NESTED[70_000:130_000]), "has no token"),
    "20 MB": (Response(body=b" " * 20_000_000), "more than 65536"),
    "a header in it": (Response(body=b'{"token": "a\\r\\nX-Evil: b"}'), "has no token"),
    "a number": (Response(body=b'{"token": 1}'), "has no token"),
    "a redirect": (
        Response(status=302, headers={"Location": "http://169.254.169.254/"}),
        "status 302",
    ),
}


@pytest.mark.parametrize("what", TOKENS)
async def test_a_token_server_that_lies_is_refused(config: WasmConfig, what: str) -> None:
    answer, reason = TOKENS[what]

    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        if request.target.startswith("/token"):
            return answer
        realm = f'Bearer realm="http://{server.address}/token"'
        return Response(status=401, headers={"WWW-Authenticate": realm})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"oci://{server.address}/a/b:c"))


@pytest.mark.parametrize("realm", ["http://169.254.169.254/", "http://[::ffff:a9fe:a9fe]/"])
async def test_a_realm_at_a_metadata_service_is_not_shown_a_password(
    config: WasmConfig, realm: str
) -> None:
    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="{realm}"'})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        secret = docker_config(server.address, "me", "secret")
        request = ModuleRequest(url=f"oci://{server.address}/a/b:c", pull_secret=secret)
        with pytest.raises(FetchError, match="is at a blocked address"):
            await modules.get(request)


async def test_a_registry_that_always_wants_another_token_is_asked_twice(
    config: WasmConfig,
) -> None:
    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        if request.target.startswith("/token"):
            return Response(body=b'{"token": "issued"}')
        realm = f'Bearer realm="http://{server.address}/token"'
        return Response(status=401, headers={"WWW-Authenticate": realm})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match="status 401"):
            await modules.get(ModuleRequest(url=f"oci://{server.address}/a/b:c"))
    asked = [each.target for each in server.requests if "/manifests/" in each.target]
    assert len(asked) == 2


async def _chunks(
    _request: ReceivedRequest, writer: asyncio.StreamWriter, *, content: bytes, around: bytes
) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.transport.is_closing():
        writer.write((b"%x%b\r\n%b\r\n" % (len(content), around, content)) * 100)
        await writer.drain()


@pytest.mark.parametrize(
    ("content", "around", "reason"),
    [(b" ", b"", "less than 64 bytes"), (bytes(100), b";" + b"x" * 1000, "more bytes of chunks")],
)
async def test_chunks_that_cost_more_than_they_hold_are_refused(
    config: WasmConfig, content: bytes, around: bytes, reason: str
) -> None:
    async def handle(request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        await _chunks(request, writer, content=content, around=around)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))


CHALLENGES: list[Callable[[int], str]] = [
    lambda size: "A" + " " * size + "=",
    lambda size: "A" + "\t " * (size // 2) + "= =",
    lambda size: "A " + ", " * size,
    lambda size: 'A b="' + "\\" * size,
    lambda size: "A b = " * size,
]


@pytest.mark.parametrize("header", CHALLENGES)
def test_a_long_challenge_is_read_in_time_that_grows_with_it(
    header: Callable[[int], str],
) -> None:
    """Backtracking over thousands of spaces would take the event loop's time for seconds."""
    for _ in range(20):
        challenges([header(8000)] * 8)
