"""Servers that mean harm, or hang: each costs its own request, and little of anything else."""

import asyncio
import gzip
import hashlib
import io
import socket
import tarfile
import threading
from collections.abc import Callable
from ipaddress import ip_network
from pathlib import Path

import pytest

from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from wasm_modules import (
    ChecksumMismatch,
    DownloadError,
    FetchError,
    ModuleRequest,
    WasmConfig,
    getting_modules,
)
from wasm_modules._counters import Counters
from wasm_modules._modules import Modules
from wasm_modules.testing import (
    MODULE,
    FakeRegistry,
    HttpServer,
    ReceivedRequest,
    Response,
    tar_of,
)
from wasm_modules.unpacking._unpacking import unpack

LIMIT = 1_000_000


async def _hang(_request: ReceivedRequest, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def _drip(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n\0asm")
    while not writer.transport.is_closing():
        writer.write(b"\0")
        await writer.drain()
        await asyncio.sleep(0.01)


async def _endless(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n\0asm")
    while not writer.transport.is_closing():
        writer.write(bytes(100_000))
        await writer.drain()


async def _huge_header(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(200):
        writer.write(b"x" * 100_000)
        await writer.drain()


async def _endless_headers(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.transport.is_closing():
        writer.write(b"X: y\r\n" * 1000)
        await writer.drain()


async def _endless_chunks(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    writer.write(b"ffffffffffff\r\n" + bytes(LIMIT + 1))


async def _many_continues(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    while not writer.transport.is_closing():
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
        await writer.drain()


async def _no_http(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\0" * 1000 + b"\r\n\r\n")


async def _half(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n\0asm")


async def _too_long(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    await asyncio.Event().wait()


HOSTILE = {
    "never answers": (_hang, "not answered within"),
    "answers byte after byte": (_drip, "not answered within"),
    "endless body": (_endless, "more than 1000000 bytes"),
    "header of 20 MB": (_huge_header, "head of more than"),
    "endless headers": (_endless_headers, "head of more than"),
    "endless chunk": (_endless_chunks, "more than 1000000 bytes"),
    "endless continues": (_many_continues, "of status 1xx"),
    "no HTTP": (_no_http, "no HTTP/1.1"),
    "half an answer": (_half, "breaks off"),
    "announces too much": (_too_long, "99999999999 bytes, more than"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
async def test_a_hostile_server_is_refused(
    config_with: Callable[..., WasmConfig], name: str
) -> None:
    handle, reason = HOSTILE[name]
    patience_s = 1.0 if "within" in reason else 60.0
    config = config_with(max_module_bytes=LIMIT, request_timeout_s=patience_s)
    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert list(config.cache_root.iterdir()) == []


async def test_servers_that_hang_keep_no_other_module_away(
    config_with: Callable[..., WasmConfig],
) -> None:
    async def handle(request: ReceivedRequest, writer: asyncio.StreamWriter) -> Response | None:
        if request.target != "/good":
            await _hang(request, writer)
        return Response(body=MODULE)

    async with HttpServer(handle) as server, getting_modules(config_with()) as modules:
        waiting = [
            asyncio.create_task(modules.get(ModuleRequest(url=f"{server.url}/{number}")))
            for number in range(10)
        ]
        await until(lambda: len(server.requests) == 10, what="ten requests")
        assert (await modules.get(ModuleRequest(url=f"{server.url}/good"))).exists()
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)


async def test_a_redirect_loop_ends(config: WasmConfig) -> None:
    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(status=302, headers={"Location": "/again"})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(DownloadError, match="more than 10 redirects"):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert len(server.requests) == 11


@pytest.mark.parametrize(
    "where",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fe80::1]/",
        "http://100.100.100.200/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:169.254.169.254]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://2852039166/",
        "http://0xa9fea9fe/",
        "http://0251.0376.0251.0376/",
        "//169.254.169.254/",
    ],
)
async def test_neither_a_url_nor_a_redirect_leads_to_a_metadata_service(
    config: WasmConfig, where: str
) -> None:
    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(status=302, headers={"Location": where})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(DownloadError, match="is at a blocked address"):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))
        if where.startswith("http"):
            with pytest.raises(DownloadError, match="is at a blocked address"):
                await modules.get(ModuleRequest(url=where))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "127.1", "0", "[::]"])
async def test_a_name_is_judged_by_the_address_that_is_connected_to(
    config_with: Callable[..., WasmConfig], host: str
) -> None:
    blocked = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
    async with getting_modules(config_with(blocked_networks=blocked)) as modules:
        with pytest.raises(DownloadError, match="is at a blocked address"):
            await modules.get(ModuleRequest(url=f"http://{host}:1/a"))


async def test_of_a_name_s_addresses_only_the_allowed_ones_are_connected_to(
    config_with: Callable[..., WasmConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolver is asked once, so it cannot answer differently the second time."""
    asked: list[bytes] = []

    def resolve(host: bytes, *_: object, **__: object) -> list[object]:
        asked.append(host)
        places = ["169.254.169.254", "127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in places]

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=MODULE)

    async with HttpServer(handle) as server, getting_modules(config_with()) as modules:
        monkeypatch.setattr("mesh_identity._addresses.socket.getaddrinfo", resolve)
        path = await modules.get(ModuleRequest(url=f"http://rebinding.example:{server.port}/a"))
        monkeypatch.undo()
    assert path.exists()
    assert asked == [b"rebinding.example"]


async def test_layers_are_not_fetched_from_a_blocked_address(config: WasmConfig) -> None:
    async with (
        FakeRegistry(blobs_at="http://169.254.169.254") as registry,
        getting_modules(config) as modules,
    ):
        registry.add_image("a/b", "c", [])
        image = registry.add_manifest(
            "a/b",
            "c",
            {"layers": [{"digest": f"sha256:{hashlib.sha256(b'{}').hexdigest()}"}]},
        )
        with pytest.raises(DownloadError, match="is at a blocked address"):
            await modules.get(ModuleRequest(url=f"oci://{registry.address}/a/b@sha256:{image}"))


def _bomb() -> bytes:
    return gzip.compress(MODULE + bytes(100_000_000), 1)


def _tar(*entries: tarfile.TarInfo, module: bool = True) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in entries:
            archive.addfile(entry)
        if module:
            last = tarfile.TarInfo("last.wasm")
            last.size = len(MODULE)
            archive.addfile(last, io.BytesIO(MODULE))
    return buffer.getvalue()


def _entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, link
    return entry


def _huge_extension() -> bytes:
    header = bytearray(tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"00400000000\0"
    header[156:157] = b"x"
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + bytes(100_000)


def _header(kind: bytes, size: int, name: str = "x") -> bytes:
    header = bytearray(tarfile.TarInfo(name).tobuf(tarfile.USTAR_FORMAT))
    header[124:136] = b"%011o\0" % size
    header[156:157] = kind
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % 512)


def _extended_headers(number: int, *, each_for_a_file: bool) -> bytes:
    """Return an archive of so many extended headers, of 60 000 bytes and with keys of their own."""
    parts, key = [], 0
    for _ in range(number):
        records = []
        for _ in range(4000):
            key += 1
            records.append(b"15 k%09x=\n" % key)
        content = b"".join(records)
        parts.append(_header(b"x", len(content)) + _padded(content))
        if each_for_a_file:
            parts.append(_header(b"0", 0))
    return gzip.compress(b"".join(parts), 1)


def _headers_of_links(number: int) -> bytes:
    return gzip.compress(_header(b"K", 0) * number, 1)


ARCHIVES = {
    "extended headers without a file": (
        _extended_headers(2, each_for_a_file=False),
        "several extended headers for one entry",
    ),
    "extended headers without an end": (
        _extended_headers(80, each_for_a_file=True),
        "more than 4194304 bytes of extended headers",
    ),
    "headers without an end": (_headers_of_links(100_001), "more than 100000 entries"),
    "gzip bomb": (_bomb(), "more than 1000000 bytes come out"),
    "gzip cut short": (gzip.compress(MODULE * 1000)[:20], "damaged"),
    "gzip with a wrong sum": (gzip.compress(MODULE)[:-8] + bytes(8), "damaged"),
    "gzip in gzip": (gzip.compress(gzip.compress(MODULE)), "no Wasm module"),
    "tar cut short": (tar_of({"a.wasm": MODULE + bytes(3000)})[:1024], "cut short"),
    "tar without a module": (tar_of({"README": b"text"}), "has no Wasm module"),
    "tar of nothing": (bytes(10240), "no Wasm module"),
    "tar with a link only": (
        _tar(_entry("a.wasm", tarfile.SYMTYPE, "/etc/passwd"), module=False),
        "has no Wasm module",
    ),
    "tar with an endless header": (_huge_extension(), "a header of 67108864 bytes"),
    "module of four bytes": (b"\0asm", "no Wasm module: 4 bytes"),
    "a page": (b"<html>sign in</html>", "no Wasm module"),
    "nothing": (b"", "no Wasm module"),
}


@pytest.mark.parametrize("name", sorted(ARCHIVES))
async def test_a_hostile_archive_is_refused(
    config_with: Callable[..., WasmConfig], name: str
) -> None:
    content, reason = ARCHIVES[name]

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=content)

    most = LIMIT if "1000000" in reason else 100 * LIMIT
    config = config_with(max_module_bytes=most)
    async with HttpServer(handle) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert list(config.cache_root.iterdir()) == []


async def test_a_module_with_a_wrong_checksum_is_not_unpacked(config: WasmConfig) -> None:
    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=b"\0asm")

    wrong = hashlib.sha256(b"another").hexdigest()
    async with HttpServer(handle) as server, getting_modules(config) as modules:
        # It is too short for a module, which unpacking would tell.
        with pytest.raises(ChecksumMismatch, match=f"not {wrong}"):
            await modules.get(ModuleRequest(url=f"{server.url}/a", checksum=wrong))


async def test_what_extended_headers_hold_is_not_kept(
    config_with: Callable[..., WasmConfig],
) -> None:
    """A header that says a path and a size counts, however many other records are around them."""
    others = b"".join(b"15 k%09x=\n" % key for key in range(4000))
    path, size = b"18 path=real.wasm\n", b"10 size=8\n"
    content = others[:30] + path + size + others[30:]
    archive = _header(b"x", len(content)) + _padded(content) + _header(b"0", 0) + _padded(MODULE)

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=archive)

    async with HttpServer(handle) as server, getting_modules(config_with()) as modules:
        module = await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert module.read_bytes() == MODULE


async def test_a_fetch_that_ends_leaves_no_thread_at_its_archive(
    config_with: Callable[..., WasmConfig],
) -> None:
    archive = gzip.compress(_header(b"0", 200 * LIMIT) + bytes(200 * LIMIT), 1)

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=archive)

    config = config_with()
    modules = Modules(config, clock=ManualClock(), counters=Counters())

    def threads() -> list[str]:
        return [each.name for each in threading.enumerate() if str(config.cache_root) in each.name]

    def is_unpacking() -> bool:
        downloaded = next(iter(config.cache_root.glob(".fetch-*/answer")), None)
        whole = downloaded is not None and downloaded.stat().st_size == len(archive)
        return whole and any(each.endswith("cache") for each in threads())

    async with HttpServer(handle) as server:
        waiting = asyncio.create_task(modules.get(ModuleRequest(url=f"{server.url}/a")))
        await until(is_unpacking, what="a thread that unpacks")
        (fetch,) = [each for each in asyncio.all_tasks() if "wasm-fetch" in each.get_name()]
        fetch.cancel()  # as the end of its time does
        await asyncio.sleep(0)
        await modules.stop()
        with pytest.raises(FetchError, match="as the agent stops"):
            await waiting
    assert threads() == []
    assert list(config.cache_root.iterdir()) == []


@pytest.mark.parametrize("blocks", [0, 1, 50])
def test_unpacking_that_is_stopped_ends_at_its_next_block(tmp_path: Path, blocks: int) -> None:
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(_header(b"0", 100 * LIMIT) + bytes(100 * LIMIT), 1))
    asked: list[bool] = []

    def is_stopped() -> bool:
        asked.append(len(asked) >= blocks)
        return asked[-1]

    with pytest.raises(FetchError, match="no one waits"):
        unpack(packed, tmp_path / "module", most=200 * LIMIT, is_stopped=is_stopped)
    assert asked == [False] * blocks + [True]


async def test_entries_that_lead_out_of_an_archive_lead_nowhere(config: WasmConfig) -> None:
    archive = _tar(
        _entry("/../../../../tmp/out", tarfile.REGTYPE),
        _entry("dir", tarfile.SYMTYPE, "/"),
        _entry("hard", tarfile.LNKTYPE, "/etc/passwd"),
        _entry("pipe", tarfile.FIFOTYPE),
        _entry("device", tarfile.CHRTYPE),
        _entry("n" * 300, tarfile.REGTYPE),
    )

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=archive)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert path.read_bytes() == MODULE
    assert sorted(each.name for each in config.cache_root.rglob("*") if each.is_file()) == sorted(
        [path.name, "index.json"]
    )


async def test_a_large_module_is_never_in_memory_as_a_whole(
    config_with: Callable[..., WasmConfig],
) -> None:
    size = 120_000_000

    async def handle(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + MODULE)
        left = size - len(MODULE)
        while left:
            piece = bytes(min(left, 100_000))
            writer.write(piece)
            left -= len(piece)
            await writer.drain()

    modules = Modules(config_with(), clock=ManualClock(), counters=Counters())
    async with HttpServer(handle) as server:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = _peak_kb()
        path = await modules.get(ModuleRequest(url=f"{server.url}/a"))
        grown = _peak_kb() - before
    assert path.stat().st_size == size
    assert grown < 60_000


def _peak_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])
