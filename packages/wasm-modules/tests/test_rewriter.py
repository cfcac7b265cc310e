"""Responses with Wasm filters, from what the control plane sends to what Envoy gets."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.lua.v3.lua_pb2 import Lua
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC
from envoy.extensions.filters.http.wasm.v3.wasm_pb2 import Wasm
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message

from mesh_lifecycle import Backoff
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import until
from wasm_modules import EXTENSION_CONFIG, Conversion, WasmConfig, WasmRewriter, rewriting
from wasm_modules.testing import (
    MODULE,
    FakeRegistry,
    HttpServer,
    ReceivedRequest,
    Response,
    docker_config,
    docker_layer,
)

NODE = b""
QUICKLY = Backoff(initial_s=0.01, maximum_s=0.05)
NEVER = Backoff(initial_s=100_000.0, maximum_s=100_000.0)


def resource(config: Message, name: str) -> bytes:
    extension = TypedExtensionConfig(name=name)
    extension.typed_config.Pack(config)
    found = Any()
    found.Pack(extension)
    return found.SerializeToString()


def wasm(
    url: str, name: str = "filter", *, fail_open: bool = False, timeout_s: int = 60, **env: str
) -> bytes:
    message = Wasm()
    message.config.fail_open = fail_open
    vm = message.config.vm_config
    vm.runtime = "envoy.wasm.runtime.v8"
    vm.code.remote.http_uri.uri = url
    vm.code.remote.http_uri.timeout.seconds = timeout_s
    vm.environment_variables.key_values.update(env)
    return resource(message, name)


def config_of(body: bytes) -> Any:
    extension = TypedExtensionConfig()
    assert Any.FromString(body).Unpack(extension)
    config: Any = extension.typed_config
    return config


def file_of(body: bytes) -> Path | None:
    """Return the file that a filter names; None for a fallback."""
    message = Wasm()
    if not config_of(body).Unpack(message):
        return None
    return Path(message.config.vm_config.code.local.filename)


def allows_all(body: bytes) -> bool:
    rbac = RBAC()
    assert config_of(body).Unpack(rbac)
    return not rbac.HasField("rules")


class Server(HttpServer):
    """Answers 404 until it has a module."""

    def __init__(self) -> None:
        super().__init__(self._give)
        self.module: bytes | None = None

    async def _give(self, _request: ReceivedRequest, _writer: object) -> Response:
        if self.module is None:
            return Response(status=404)
        return Response(body=self.module)


async def rewrite(rewriter: WasmRewriter, *bodies: bytes) -> list[bytes]:
    return list(await rewriter.rewrite(NODE, EXTENSION_CONFIG, bodies))


async def test_mixed_resources_keep_their_order_and_those_without_wasm_are_the_same_objects(
    config: WasmConfig,
) -> None:
    async with Server() as server, rewriting(config) as rewriter:
        server.module = MODULE
        lua, broken = resource(Lua(), "lua"), b"\x0a\xff.wasm.v3.Wasm"
        bodies = [lua, wasm(f"{server.url}/a", "one"), broken, wasm(f"{server.url}/b", "two"), lua]
        found = await rewrite(rewriter, *bodies)
        assert [here is there for here, there in zip(found, bodies, strict=True)] == [
            True,
            False,
            True,
            False,
            True,
        ]
        files = [file_of(found[1]), file_of(found[3])]
        assert [path.read_bytes() for path in files if path is not None] == [MODULE, MODULE]
        assert rewriter.in_use == set(files)
        assert rewriter.counters.conversions == {
            Conversion.SUCCESS: 2,
            Conversion.UNMARSHAL_FAILURE: 1,
        }
        assert sum(rewriter.counters.durations.buckets) == 3


async def test_without_wasm_nothing_is_loaded_or_written(config: WasmConfig) -> None:
    async with rewriting(config) as rewriter:
        body = resource(Lua(), "lua")
        assert (await rewrite(rewriter, body))[0] is body
        assert not rewriter.concerns(NODE, "type.googleapis.com/envoy.config.cluster.v3.Cluster")
        assert rewriter.concerns(NODE, EXTENSION_CONFIG)
    assert not config.cache_root.exists()


@pytest.mark.parametrize("fail_open", [True, False], ids=["open", "closed"])
async def test_a_missing_module_lets_all_pass_or_nothing(
    config: WasmConfig, *, fail_open: bool
) -> None:
    async with Server() as server, rewriting(config, recovery=NEVER) as rewriter:
        (found,) = await rewrite(rewriter, wasm(f"{server.url}/a?b=c", fail_open=fail_open))
        assert allows_all(found) is fail_open
        status = rewriter.filters["filter"]
        assert status.file is None
        assert status.fail_open is fail_open
        assert status.reason == f"{server.url}/a: status 404"
        assert status.url == f"{server.url}/a"
        assert rewriter.counters.conversions == {Conversion.FETCH_FAILURE: 1}


async def test_a_module_that_comes_later_is_reported_and_then_used_at_once(
    config: WasmConfig,
) -> None:
    async with Server() as server, rewriting(config, recovery=QUICKLY) as rewriter:
        recovered: list[tuple[str, str]] = []
        rewriter.on_recovered(lambda type_url, name: recovered.append((type_url, name)))
        body = wasm(f"{server.url}/a", ISTIO_META_WASM_IMAGE_PULL_POLICY="Always")
        assert file_of((await rewrite(rewriter, body))[0]) is None
        server.module = MODULE
        await until(lambda: recovered, what="the recovery")
        assert recovered == [(EXTENSION_CONFIG, "filter")]
        asked = len(server.requests)
        (found,) = await rewrite(rewriter, body)
        path = file_of(found)
        assert path is not None
        assert path.read_bytes() == MODULE
        assert len(server.requests) == asked
        assert rewriter.filters["filter"].reason is None


async def test_a_module_that_only_takes_longer_is_used_as_soon_as_it_is_there(
    config: WasmConfig,
) -> None:
    may_answer = asyncio.Event()

    async def slow(_request: ReceivedRequest, _writer: object) -> Response:
        await may_answer.wait()
        return Response(body=MODULE)

    # A first pause would be longer than the test.
    async with HttpServer(slow) as server, rewriting(config, recovery=NEVER) as rewriter:
        recovered: list[tuple[str, str]] = []
        rewriter.on_recovered(lambda type_url, name: recovered.append((type_url, name)))
        body = wasm(f"{server.url}/a", timeout_s=1)
        assert file_of((await rewrite(rewriter, body))[0]) is None
        may_answer.set()
        await until(lambda: recovered, what="the module")
        assert file_of((await rewrite(rewriter, body))[0]) is not None
        assert len(server.requests) == 1


async def test_what_is_missing_holds_up_no_later_response(config: WasmConfig) -> None:
    """The same filter again does not wait for the same failure again."""

    async def hang(_request: ReceivedRequest, _writer: object) -> None:
        await asyncio.Event().wait()

    async with HttpServer(hang) as server, rewriting(config, recovery=NEVER) as rewriter:
        body = wasm(f"{server.url}/a", timeout_s=1)
        assert file_of((await rewrite(rewriter, body))[0]) is None
        # Were it fetched again in the foreground, this would take 200 s.
        for _ in range(200):
            assert file_of((await rewrite(rewriter, body))[0]) is None


async def test_another_resource_of_the_name_ends_the_recovery(config: WasmConfig) -> None:
    async with Server() as server, rewriting(config, recovery=QUICKLY) as rewriter:
        recovered: list[tuple[str, str]] = []
        rewriter.on_recovered(lambda *each: recovered.append(each))
        await rewrite(rewriter, wasm(f"{server.url}/a"))
        local = Wasm()
        local.config.vm_config.code.local.filename = "/own.wasm"
        body = resource(local, "filter")
        assert (await rewrite(rewriter, body))[0] is body
        assert rewriter.filters == {}
        server.module = MODULE
        asked = len(server.requests)
        await asyncio.sleep(0.2)
        assert len(server.requests) <= asked + 1
        assert recovered == []
        assert rewriter.counters.conversions[Conversion.NO_REMOTE_LOAD] == 1


async def test_an_empty_pull_secret_is_reported_and_never_asked_with(config: WasmConfig) -> None:
    async with FakeRegistry() as registry, rewriting(config, recovery=NEVER) as rewriter:
        registry.add_image("a/b", "c", [docker_layer(MODULE)])
        url = f"oci://{registry.address}/a/b:c"
        (found,) = await rewrite(
            rewriter, wasm(url, ISTIO_META_WASM_IMAGE_PULL_SECRET="", MODE="fast")
        )
        assert not allows_all(found)
        assert "ISTIO_META_WASM_IMAGE_PULL_SECRET is empty" in str(rewriter.filters["filter"])
        assert registry.requests == []


async def test_a_pull_secret_gets_the_image_and_reaches_no_other(
    config: WasmConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    async with (
        FakeRegistry(user="me", password="canary") as registry,
        rewriting(config) as rewriter,
    ):
        registry.add_image("a/b", "c", [docker_layer(MODULE)])
        secret = docker_config(registry.address, "me", "canary")
        url = f"oci://{registry.address}/a/b:c"
        (found,) = await rewrite(
            rewriter,
            wasm(url, ISTIO_META_WASM_IMAGE_PULL_SECRET=secret, MODE="fast"),
        )
        message = Wasm()
        assert config_of(found).Unpack(message)
        assert dict(message.config.vm_config.environment_variables.key_values) == {"MODE": "fast"}
        seen = caplog.text + str([vars(each) for each in caplog.records]) + str(rewriter.filters)
    kept = b"".join(each.read_bytes() for each in config.cache_root.rglob("*") if each.is_file())
    for shown in (seen.encode(), kept, found):
        assert b"canary" not in shown
        assert b"bWU6Y2FuYXJ5" not in shown  # me:canary


async def test_a_remote_module_without_a_url_is_missing(config: WasmConfig) -> None:
    message = Wasm()
    message.config.vm_config.code.remote.sha256 = "ab" * 32
    async with rewriting(config) as rewriter:
        (found,) = await rewrite(rewriter, resource(message, "filter"))
        assert not allows_all(found)
        assert rewriter.counters.conversions == {Conversion.MISS_REMOTE_FETCH_HINT: 1}


async def test_a_rewrite_that_is_superseded_leaves_nothing_behind(config: WasmConfig) -> None:
    arrived = asyncio.Event()

    async def hang(_request: ReceivedRequest, _writer: object) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with HttpServer(hang) as server, rewriting(config, recovery=NEVER) as rewriter:
        running = asyncio.create_task(rewrite(rewriter, wasm(f"{server.url}/a")))
        await arrived.wait()
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert rewriter.filters == {}
    assert list(config.cache_root.iterdir()) == []


async def test_a_file_that_a_filter_has_is_not_purged(
    config_with: Callable[..., WasmConfig],
) -> None:
    config, clock = config_with(expiry_s=100.0, purge_interval_s=10.0), ManualClock()
    async with Server() as server, rewriting(config, clock=clock) as rewriter:
        server.module = MODULE
        old = file_of((await rewrite(rewriter, wasm(f"{server.url}/old", "filter")))[0])
        newer = file_of((await rewrite(rewriter, wasm(f"{server.url}/new", "filter")))[0])
        assert old is not None
        assert newer is not None

        async def is_gone() -> bool:
            await clock.advance(10.0)
            return not old.exists()

        await until(is_gone, what="the end of the module that is not in use")
        assert newer.exists()
        await until(lambda: rewriter.counters.entries == 1, what="the count of one module")


async def test_after_a_restart_a_filter_has_its_module_while_the_server_is_away(
    config: WasmConfig,
) -> None:
    async with Server() as server:
        server.module = MODULE
        body = wasm(
            f"{server.url}/a",
            ISTIO_META_WASM_IMAGE_PULL_POLICY="Always",
            ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION="7",
        )
        async with rewriting(config) as rewriter:
            before = await rewrite(rewriter, body)
    async with rewriting(replace(config, default_timeout_s=1.0)) as rewriter:
        assert await rewrite(rewriter, body) == before
        assert rewriter.counters.hits == 1
