"""Modules by http and https, and the cache before them."""

import asyncio
import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_lifecycle.testing import ManualClock
from mesh_testkit import small_disk, until
from wasm_modules import (
    ChecksumMismatch,
    DownloadError,
    FetchError,
    FetchResult,
    ModuleRequest,
    PullPolicy,
    WasmConfig,
    getting_modules,
)
from wasm_modules._counters import Counters
from wasm_modules._modules import Modules
from wasm_modules.testing import MODULE, HttpServer, ReceivedRequest, Response, tar_of

SHA256 = hashlib.sha256(MODULE).hexdigest()
OTHER = MODULE + b"\0\1\0"


class WithoutPauses(ManualClock):
    """Time passes as soon as something waits for it."""

    async def sleep(self, seconds: float) -> None:
        self.jump(seconds)


def serving(*bodies: bytes, status: int = 200) -> HttpServer:
    """Each request gets the next body, those after the last one the last."""
    left = list(bodies)

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        return Response(status=status, body=left.pop(0) if len(left) > 1 else left[0])

    return HttpServer(handle)


async def test_a_module_is_fetched_once_and_then_found(config: WasmConfig) -> None:
    async with serving(MODULE) as server, getting_modules(config) as modules:
        first = await modules.get(ModuleRequest(url=f"{server.url}/a.wasm", checksum=SHA256))
        second = await modules.get(ModuleRequest(url=f"{server.url}/a.wasm", checksum=SHA256))
    assert first == second
    assert first.read_bytes() == MODULE
    assert first.name == f"{SHA256}.wasm"
    name = hashlib.sha256(f"{server.url}/a.wasm".encode()).hexdigest()
    assert first.parent == config.cache_root / name
    assert len(server.requests) == 1


async def test_only_this_user_reads_the_cache(config: WasmConfig) -> None:
    async with serving(MODULE) as server, getting_modules(config) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a.wasm"))
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(config.cache_root.stat().st_mode & 0o777) == "0o700"
    assert sorted(each.name for each in config.cache_root.iterdir()) == [path.parent.name]


async def test_requests_at_once_are_one_fetch(config: WasmConfig) -> None:
    may_answer = asyncio.Event()

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        await may_answer.wait()
        return Response(body=MODULE)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        request = ModuleRequest(url=f"{server.url}/a.wasm")
        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(modules.get(request)) for _ in range(20)]
            await until(lambda: server.requests, what="a request")
            may_answer.set()
    assert len({task.result() for task in asked}) == 1
    assert len(server.requests) == 1


async def test_another_checksum_is_refused_and_nothing_is_kept(config: WasmConfig) -> None:
    async with serving(OTHER) as server, getting_modules(config) as modules:
        with pytest.raises(ChecksumMismatch, match=SHA256):
            await modules.get(ModuleRequest(url=f"{server.url}/a.wasm", checksum=SHA256))
    assert list(config.cache_root.iterdir()) == []


async def test_two_checksums_of_one_url_are_two_modules(config: WasmConfig) -> None:
    async with serving(MODULE, OTHER) as server, getting_modules(config) as modules:
        url = f"{server.url}/a.wasm"
        first = await modules.get(ModuleRequest(url=url, checksum=SHA256))
        other = hashlib.sha256(OTHER).hexdigest()
        second = await modules.get(ModuleRequest(url=url, checksum=other))
        assert await modules.get(ModuleRequest(url=url, checksum=SHA256)) == first
    assert first.parent == second.parent
    assert len(server.requests) == 2


@pytest.mark.parametrize("checksum", ["", "nil", SHA256.upper()])
async def test_these_checksums_are_read(config: WasmConfig, checksum: str) -> None:
    async with serving(MODULE) as server, getting_modules(config) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a.wasm", checksum=checksum))
    assert path.read_bytes() == MODULE


PACKED = {
    "gzip": gzip.compress(MODULE),
    "tar": tar_of({"README": b"text", "a.wasm": MODULE}),
    "tar.gz": tar_of({"a/b/c.wasm": MODULE}, compressed=True),
}


@pytest.mark.parametrize("form", sorted(PACKED))
async def test_an_archive_is_unpacked(config: WasmConfig, form: str) -> None:
    async with serving(PACKED[form]) as server, getting_modules(config) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/{form}", checksum=SHA256))
    assert path.read_bytes() == MODULE


async def test_the_checksum_may_be_the_archive_s(config: WasmConfig) -> None:
    archive = PACKED["tar.gz"]
    checksum = hashlib.sha256(archive).hexdigest()
    async with serving(archive) as server, getting_modules(config) as modules:
        request = ModuleRequest(url=f"{server.url}/a", checksum=checksum)
        path = await modules.get(request)
        assert await modules.get(request) == path
    assert path.name == f"{SHA256}.wasm"
    assert len(server.requests) == 1


async def _asked(
    config: WasmConfig, *requests: tuple[PullPolicy, str], path: str = "/a.wasm"
) -> int:
    """Return how many fetches requests of a policy and a resource version make."""
    async with serving(MODULE, OTHER) as server, getting_modules(config) as modules:
        for policy, version in requests:
            await modules.get(
                ModuleRequest(url=server.url + path, policy=policy, resource_version=version)
            )
        return len(server.requests)


NEVER, ALWAYS, UNSPECIFIED = PullPolicy.IF_NOT_PRESENT, PullPolicy.ALWAYS, PullPolicy.UNSPECIFIED


@pytest.mark.parametrize(
    ("requests", "fetches"),
    [
        ([(NEVER, "1"), (NEVER, "2")], 1),
        ([(UNSPECIFIED, "1"), (UNSPECIFIED, "2")], 1),
        ([(ALWAYS, "1"), (ALWAYS, "1")], 1),
        ([(ALWAYS, "1"), (ALWAYS, "2")], 2),
        ([(ALWAYS, ""), (ALWAYS, "")], 2),
        ([(NEVER, "1"), (ALWAYS, "2"), (NEVER, "3")], 2),
    ],
    ids=[
        "present",
        "unspecified is if not present",
        "always, one version",
        "always, two versions",
        "always, no version",
        "policy changes",
    ],
)
async def test_the_policy_decides_about_a_module_without_a_checksum(
    config: WasmConfig, requests: list[tuple[PullPolicy, str]], fetches: int
) -> None:
    assert await _asked(config, *requests) == fetches


async def test_a_module_with_its_checksum_is_never_fetched_again(config: WasmConfig) -> None:
    async with serving(MODULE) as server, getting_modules(config) as modules:
        for version in "12":
            await modules.get(
                ModuleRequest(
                    url=f"{server.url}/a.wasm",
                    checksum=SHA256,
                    policy=ALWAYS,
                    resource_version=version,
                )
            )
    assert len(server.requests) == 1


async def test_a_restart_finds_the_module_without_the_server(config: WasmConfig) -> None:
    async with serving(MODULE) as server:
        url = f"{server.url}/a.wasm"
        async with getting_modules(config) as modules:
            path = await modules.get(ModuleRequest(url=url))
    async with getting_modules(config) as modules:
        assert await modules.get(ModuleRequest(url=url)) == path
        assert await modules.get(ModuleRequest(url=url, checksum=SHA256)) == path


def _flip(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")


def _link(path: Path) -> None:
    elsewhere = path.with_suffix(".moved")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _truncate(path: Path) -> None:
    os.truncate(path, 3)


@pytest.mark.parametrize("damage", [_flip, _truncate, _link, _fifo])
@pytest.mark.parametrize("restart", [False, True], ids=["running", "restart"])
async def test_a_file_that_is_not_what_was_fetched_is_not_used(
    config: WasmConfig, damage: Callable[[Path], None], *, restart: bool
) -> None:
    async with serving(MODULE) as server:
        request = ModuleRequest(url=f"{server.url}/a.wasm")
        async with getting_modules(config) as modules:
            path = await modules.get(request)
            damage(path)
            if not restart:
                assert (await modules.get(request)).read_bytes() == MODULE
        async with getting_modules(config) as modules:
            path = await modules.get(request)
        assert path.read_bytes() == MODULE
        assert path.is_file()
        assert not path.is_symlink()
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"name": 1}', b"[" * 100_000, b'{"name":"%s","references":{"a":1}}'],
    ids=["empty", "half", "list", "other", "nested", "wrong"],
)
async def test_a_damaged_index_costs_a_fetch(config: WasmConfig, content: bytes) -> None:
    async with serving(MODULE) as server:
        request = ModuleRequest(url=f"{server.url}/a.wasm")
        async with getting_modules(config) as modules:
            path = await modules.get(request)
            (path.parent / "index.json").write_bytes(content)
            assert await modules.get(request) == path
    assert len(server.requests) == 2


async def test_an_index_leads_to_no_other_file(config: WasmConfig) -> None:
    async with serving(MODULE) as server, getting_modules(config) as modules:
        request = ModuleRequest(url=f"{server.url}/a.wasm")
        path = await modules.get(request)
        index = path.parent / "index.json"
        index.write_text(index.read_text().replace(SHA256, "../../../etc/passwd"))
        assert await modules.get(request) == path
    assert len(server.requests) == 2


async def test_modules_that_nothing_used_are_purged(config_with: Callable[..., WasmConfig]) -> None:
    clock, counters = ManualClock(), Counters()
    config = config_with(expiry_s=1000.0)
    modules = Modules(config, clock=clock, counters=counters)
    async with serving(MODULE) as server:
        old, used, open_ = [
            await modules.get(ModuleRequest(url=f"{server.url}/{name}")) for name in "abc"
        ]
        assert counters.entries == 3
        await clock.advance(900.0)
        await modules.get(ModuleRequest(url=f"{server.url}/b"))
        await clock.advance(200.0)
        await modules.purge({open_})
        assert counters.entries == 2
        assert [each.exists() for each in (old, used, open_)] == [False, True, True]
        # One that is in use is used, also for those who come after a restart.
        await modules.purge()
        assert open_.exists()
        await clock.advance(1001.0)
        await modules.purge()
        assert counters.entries == 0
        assert list(config.cache_root.iterdir()) == []
        await modules.get(ModuleRequest(url=f"{server.url}/a"))
        assert (counters.hits, counters.misses) == (1, 4)
    await modules.stop()


async def test_what_a_crash_left_behind_is_purged(config: WasmConfig) -> None:
    clock = ManualClock()
    modules = Modules(config, clock=clock, counters=Counters())
    abandoned, fetching = config.cache_root / ".fetch-1", config.cache_root / ".fetch-2"
    for each in (abandoned, fetching):
        each.mkdir(parents=True)
        (each / "answer").write_bytes(b"half")
    os.utime(fetching, (clock.now(), clock.now()))
    os.utime(abandoned, (clock.now() - 4000, clock.now() - 4000))
    await modules.purge()
    assert not abandoned.exists()
    assert fetching.exists()


async def test_expired_modules_are_looked_for_again_and_again(
    config_with: Callable[..., WasmConfig],
) -> None:
    config, clock = config_with(expiry_s=100.0, purge_interval_s=10.0), ManualClock()
    async with serving(MODULE) as server, getting_modules(config, clock=clock) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a"))

        async def is_gone() -> bool:
            await clock.advance(10.0)
            return not path.exists()

        await until(is_gone, what="the module's end")


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (503, 3), (501, 1), (404, 1), (511, 1)])
async def test_failures_of_a_server_are_tried_again(
    config_with: Callable[..., WasmConfig], status: int, requests: int
) -> None:
    counters = Counters()
    modules = Modules(config_with(max_retries=2), clock=WithoutPauses(), counters=counters)
    async with serving(b"", status=status) as server:
        with pytest.raises(DownloadError, match=f"status {status}"):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))
        assert len(server.requests) == requests
    assert counters.fetches == {FetchResult.DOWNLOAD_FAILURE: 1}


async def test_a_server_that_recovers_is_waited_for(
    config_with: Callable[..., WasmConfig], free_port: Callable[[], int]
) -> None:
    answers = [Response(status=503), None, Response(body=MODULE)]

    async def handle(_request: ReceivedRequest, writer: asyncio.StreamWriter) -> Response | None:
        answer = answers.pop(0)
        if answer is None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n\0asm")
        return answer

    modules = Modules(config_with(max_retries=5), clock=WithoutPauses(), counters=Counters())
    async with HttpServer(handle) as server:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a"))
    assert path.read_bytes() == MODULE
    with pytest.raises(DownloadError, match="cannot be connected to"):
        await modules.get(ModuleRequest(url=f"http://127.0.0.1:{free_port()}/a"))


async def test_who_waits_no_longer_finds_the_module_later(config: WasmConfig) -> None:
    may_answer = asyncio.Event()

    async def handle(_request: ReceivedRequest, _writer: object) -> Response:
        await may_answer.wait()
        return Response(body=MODULE)

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        url = f"{server.url}/a.wasm"
        with pytest.raises(DownloadError, match=r"not fetched within 0\.01 s"):
            await modules.get(ModuleRequest(url=url, timeout_s=0.01))
        may_answer.set()
        assert (await modules.get(ModuleRequest(url=url))).read_bytes() == MODULE
    assert len(server.requests) == 1


async def test_redirects_are_followed(config: WasmConfig) -> None:
    async def handle(request: ReceivedRequest, _writer: object) -> Response:
        if request.target == "/b/c.wasm?d=e":
            return Response(body=MODULE)
        return Response(status=302, headers={"Location": "b/c.wasm?d=e"})

    async with HttpServer(handle) as server, getting_modules(config) as modules:
        path = await modules.get(ModuleRequest(url=f"{server.url}/a.wasm"))
    assert path.read_bytes() == MODULE


async def test_a_password_in_the_url_is_sent_there_and_nowhere_else(
    config: WasmConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with serving(MODULE) as last:

        async def handle(_request: ReceivedRequest, _writer: object) -> Response:
            return Response(status=307, headers={"Location": f"{last.url}/b?signature=hidden"})

        async with HttpServer(handle) as first, getting_modules(config) as modules:
            url = f"http://user:canary@{first.address}/a.wasm"
            path = await modules.get(ModuleRequest(url=url))
            assert first.requests[0].headers["authorization"] == "Basic dXNlcjpjYW5hcnk="
    assert "authorization" not in last.requests[0].headers
    written = caplog.text + str([vars(each) for each in caplog.records])
    assert "canary" not in written
    assert "canary" not in (path.parent / "index.json").read_text()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://host/a", "'ftp' is no scheme"),
        ("file:///etc/passwd", "'file' is no scheme"),
        ("", "no scheme"),
        ("http://", "no URL with http or https and a host"),
        ("http://host:99999/a", "is no URL"),
        ("http://[::1/a", "is no URL"),
        ("http://host/\ud800", "is no URL"),
        ("http://ho st/a", "cannot be looked up"),
        ("http://" + "a" * 9000, "more than 8192"),
        ("http://a.b\r\nX: y/c", "cannot be looked up|no URL|resolved"),
    ],
    ids=lambda each: each[:20] if isinstance(each, str) else None,
)
async def test_a_url_that_can_never_work_is_refused(
    config: WasmConfig, url: str, reason: str
) -> None:
    async with getting_modules(config) as modules:
        with pytest.raises(FetchError, match=reason):
            await modules.get(ModuleRequest(url=url))


async def test_a_cache_that_cannot_be_written_is_reported(
    config_with: Callable[..., WasmConfig], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    config = config_with(cache_root=tmp_path / "file" / "cache")
    async with serving(MODULE) as server, getting_modules(config) as modules:
        with pytest.raises(FetchError, match=r"the cache .* cannot be"):
            await modules.get(ModuleRequest(url=f"{server.url}/a"))


async def test_a_module_that_finds_no_room_is_reported_and_comes_once_there_is(
    config_with: Callable[..., WasmConfig], tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        config = config_with(cache_root=disk.path / "cache")
        async with serving(MODULE + bytes(9000)) as server, getting_modules(config) as modules:
            disk.fill(but_bytes=8192)
            with pytest.raises(FetchError, match="No space left on device"):
                await modules.get(ModuleRequest(url=f"{server.url}/a"))
            left = [each for each in (disk.path / "cache").rglob("*") if each.is_file()]
            assert sum(each.stat().st_size for each in left) < 4096
            disk.free()
            module = await modules.get(ModuleRequest(url=f"{server.url}/a"))
            assert module.read_bytes() == MODULE + bytes(9000)
            disk.make_read_only()
            with pytest.raises(FetchError, match="Read-only file system"):
                await modules.get(ModuleRequest(url=f"{server.url}/b"))
            assert (await modules.get(ModuleRequest(url=f"{server.url}/a"))) == module
            disk.make_writable()
