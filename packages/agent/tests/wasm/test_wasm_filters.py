"""Wasm filters on their way from the control plane, through the relay, to an Envoy."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.lua.v3.lua_pb2 import Lua
from envoy.extensions.filters.http.rbac.v3.rbac_pb2 import RBAC
from envoy.extensions.filters.http.wasm.v3.wasm_pb2 import Wasm
from envoy.service.discovery.v3.discovery_pb2 import (
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Resource,
)
from google.protobuf.any_pb2 import Any
from google.protobuf.message import Message

import xds_proxy
from mesh_agent.status._wasm_metrics import wasm_metrics
from mesh_agent.wasm._wasm_config import WasmSettings
from mesh_agent.wasm._wasm_filters import WasmFilters, wasm_filters
from mesh_status_server import render
from wasm_modules.testing import MODULE, HttpServer, ReceivedRequest, Response
from xds_proxy.testing import ControlPlaneStream, EnvoyStream, control_plane, envoy_stream

ECDS = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"


def resource(config: Message, name: str) -> Any:
    extension = TypedExtensionConfig(name=name)
    extension.typed_config.Pack(config)
    packed = Any()
    packed.Pack(extension)
    return packed


def wasm(url: str, name: str) -> Any:
    message = Wasm()
    message.config.vm_config.runtime = "envoy.wasm.runtime.v8"
    message.config.vm_config.code.remote.http_uri.uri = url
    message.config.vm_config.code.remote.http_uri.timeout.seconds = 60
    message.config.vm_config.environment_variables.key_values["ISTIO_META_X"] = "canary"
    return resource(message, name)


def described(packed: Any) -> str:
    """Return the resource's name and its filter: a file, deny, allow, or another type."""
    extension, message, rbac = TypedExtensionConfig(), Wasm(), RBAC()
    assert packed.Unpack(extension)
    if extension.typed_config.Unpack(message):
        path = Path(message.config.vm_config.code.local.filename)
        what = "file" if path.read_bytes() == MODULE else "other"
    elif extension.typed_config.Unpack(rbac):
        what = "deny" if rbac.HasField("rules") else "allow"
    else:
        what = extension.typed_config.type_url.rpartition(".")[2]
    return f"{extension.name}: {what}"


class Server(HttpServer):
    """Has a module while `ready`."""

    def __init__(self) -> None:
        super().__init__(self._give)
        self.ready = True

    async def _give(self, _request: ReceivedRequest, _writer: object) -> Response:
        return Response(body=MODULE) if self.ready else Response(status=404)


@pytest.fixture
def settings(tmp_path: Path) -> WasmSettings:
    return WasmSettings(
        cache=tmp_path / "cache",
        expiry=timedelta(hours=1),
        purge_interval=timedelta(hours=1),
        request_timeout=timedelta(seconds=60),
        max_retries=0,
        max_module_bytes=1 << 20,
        blocked_networks=(),
        insecure_registries=frozenset(),
    )


@asynccontextmanager
async def relayed(
    settings: WasmSettings, directory: Path, method: str
) -> AsyncIterator[tuple[EnvoyStream, ControlPlaneStream, WasmFilters]]:
    async with control_plane() as plane, wasm_filters(settings) as filters:
        assert filters is not None
        config = xds_proxy.RelayConfig(
            socket_path=directory / "XDS",
            upstream=xds_proxy.UpstreamConfig(address=plane.address, root_certificate=None),
        )
        async with (
            xds_proxy.relaying(config, rewriters=[filters]) as relay,
            envoy_stream(config.socket_path, method=method) as envoy,
        ):
            filters.on_recovered(relay.rewrite_again)
            delta = "Delta" in method
            request = DeltaDiscoveryRequest if delta else DiscoveryRequest
            first = request(type_url=ECDS)
            first.node.id = "sidecar~1"
            await envoy.send(first.SerializeToString())
            upstream = await plane.accept()
            await upstream.receive()
            yield envoy, upstream, filters


async def test_a_remote_module_is_a_local_file_and_the_ack_goes_up(
    settings: WasmSettings, socket_dir: Path
) -> None:
    """Scenario 25."""
    async with (
        Server() as server,
        relayed(settings, socket_dir, "StreamAggregatedResources") as (envoy, upstream, _),
    ):
        sent = DiscoveryResponse(version_info="7", nonce="n1", type_url=ECDS)
        sent.resources.append(wasm(f"{server.url}/a", "one"))
        await upstream.send(sent.SerializeToString())
        got = DiscoveryResponse.FromString(await envoy.receive() or b"")
        assert (got.version_info, got.nonce, got.type_url) == ("7", "n1", ECDS)
        assert [described(each) for each in got.resources] == ["one: file"]
        assert b"canary" not in got.SerializeToString()
        ack = DiscoveryRequest(version_info="7", response_nonce="n1", type_url=ECDS)
        await envoy.send(ack.SerializeToString())
        assert DiscoveryRequest.FromString(await upstream.receive() or b"") == ack


async def test_resources_without_wasm_pass_byte_for_byte_and_mixed_ones_keep_their_order(
    settings: WasmSettings, socket_dir: Path
) -> None:
    """Scenario 27."""
    async with (
        Server() as server,
        relayed(settings, socket_dir, "StreamAggregatedResources") as (envoy, upstream, filters),
    ):
        plain = DiscoveryResponse(version_info="1", nonce="n1", type_url=ECDS)
        plain.resources.extend([resource(Lua(), "a"), resource(Lua(), "b")])
        raw = plain.SerializeToString() + b"\xfa\x3f\x03new"  # field 1023
        await upstream.send(raw)
        assert await envoy.receive() == raw
        assert filters.counters is None
        mixed = DiscoveryResponse(version_info="2", nonce="n2", type_url=ECDS)
        mixed.resources.extend(
            [
                resource(Lua(), "a"),
                wasm(f"{server.url}/b", "b"),
                resource(Lua(), "c"),
                wasm(f"{server.url}/d", "d"),
            ]
        )
        await upstream.send(mixed.SerializeToString())
        got = DiscoveryResponse.FromString(await envoy.receive() or b"")
        expected = ["a: Lua", "b: file", "c: Lua", "d: file"]
        assert [described(each) for each in got.resources] == expected


async def test_in_delta_it_is_the_same_for_each_resource(
    settings: WasmSettings, socket_dir: Path
) -> None:
    async with (
        Server() as server,
        relayed(settings, socket_dir, "DeltaAggregatedResources") as (envoy, upstream, _),
    ):
        sent = DeltaDiscoveryResponse(nonce="n1", type_url=ECDS, removed_resources=["gone"])
        for name, packed in (("a", resource(Lua(), "a")), ("b", wasm(f"{server.url}/b", "b"))):
            sent.resources.append(Resource(name=name, version=f"v-{name}", resource=packed))
        await upstream.send(sent.SerializeToString())
        got = DeltaDiscoveryResponse.FromString(await envoy.receive() or b"")
        assert [described(each.resource) for each in got.resources] == ["a: Lua", "b: file"]
        assert [(each.name, each.version) for each in got.resources] == [("a", "v-a"), ("b", "v-b")]
        assert (list(got.removed_resources), got.nonce) == (["gone"], "n1")


@pytest.mark.parametrize("method", ["StreamAggregatedResources", "DeltaAggregatedResources"])
async def test_a_module_that_comes_later_reaches_envoy_without_a_push(
    settings: WasmSettings, socket_dir: Path, method: str
) -> None:
    delta = "Delta" in method
    async with (
        Server() as server,
        relayed(settings, socket_dir, method) as (envoy, upstream, filters),
    ):
        server.ready = False
        others = [resource(Lua(), "a"), wasm(f"{server.url}/b", "b")]
        if delta:
            sent: Message = DeltaDiscoveryResponse(
                nonce="n1",
                type_url=ECDS,
                resources=[
                    Resource(name=name, version="7", resource=each)
                    for name, each in zip("ab", others, strict=True)
                ],
            )
        else:
            sent = DiscoveryResponse(version_info="7", nonce="n1", type_url=ECDS, resources=others)
        await upstream.send(sent.SerializeToString())
        assert _seen(await envoy.receive()) == (["a: Lua", "b: deny"], "n1")
        await envoy.send(_ack("7", "n1", delta=delta))
        assert await upstream.receive() == _ack("7", "n1", delta=delta)
        assert "status 404" in str(filters.describe())
        server.ready = True
        again, nonce = _seen(await envoy.receive())
        assert again == (["b: file"] if delta else ["a: Lua", "b: file"])
        assert nonce != "n1"
        assert "status 404" not in str(filters.describe())
        # The control plane knows nothing of this response, nor of its answer.
        await envoy.send(_ack("7", nonce, delta=delta))
        await envoy.send(_ack("7", nonce, delta=delta, error="no such file"))
        other = DeltaDiscoveryRequest if delta else DiscoveryRequest
        await envoy.send(other(type_url="type.googleapis.com/envoy.x").SerializeToString())
        last = other.FromString(await upstream.receive() or b"")
        assert last.type_url == "type.googleapis.com/envoy.x"


def _seen(response: bytes | None) -> tuple[list[str], str]:
    data = response or b""
    delta = DeltaDiscoveryResponse()
    try:
        delta.ParseFromString(data)
        found = [described(each.resource) for each in delta.resources]
    except Exception:  # noqa: BLE001 - it is of the other dialect
        found = []
    if found and delta.type_url == ECDS:
        return found, delta.nonce
    sotw = DiscoveryResponse.FromString(data)
    return [described(each) for each in sotw.resources], sotw.nonce


def _ack(version: str, nonce: str, *, delta: bool, error: str = "") -> bytes:
    if delta:
        request: Message = DeltaDiscoveryRequest(type_url=ECDS, response_nonce=nonce)
    else:
        request = DiscoveryRequest(type_url=ECDS, version_info=version, response_nonce=nonce)
    if error:
        request.error_detail.message = error  # type: ignore[attr-defined]
    return request.SerializeToString()


async def test_a_module_that_hangs_holds_up_no_other_type(
    settings: WasmSettings, socket_dir: Path
) -> None:
    async def hang(_request: ReceivedRequest, _writer: object) -> None:
        await asyncio.Event().wait()

    async with (
        HttpServer(hang) as server,
        relayed(settings, socket_dir, "StreamAggregatedResources") as (envoy, upstream, _),
    ):
        slow = DiscoveryResponse(version_info="1", nonce="n1", type_url=ECDS)
        slow.resources.append(wasm(f"{server.url}/a", "one"))
        await upstream.send(slow.SerializeToString())
        for number in range(10):
            other = DiscoveryResponse(nonce=str(number), type_url="type.googleapis.com/envoy.x")
            await upstream.send(other.SerializeToString())
            assert await envoy.receive() == other.SerializeToString()
        newer = DiscoveryResponse(version_info="2", nonce="n2", type_url=ECDS)
        newer.resources.append(resource(Lua(), "one"))
        await upstream.send(newer.SerializeToString())
        assert await envoy.receive() == newer.SerializeToString()


async def test_status_and_metrics_tell_of_filters(settings: WasmSettings) -> None:
    async with Server() as server, wasm_filters(settings) as filters:
        assert filters is not None
        assert (filters.describe(), filters.counters) == ({}, None)
        server.ready = False
        bodies = [wasm(f"{server.url}/a?token=canary", "one").SerializeToString()]
        await filters.rewrite(b"", ECDS, bodies)
        shown = json.dumps(filters.describe(), default=str)
        assert "status 404" in shown
        assert "requests are denied" in shown
        assert "canary" not in shown
        assert filters.counters is not None
        text = render(wasm_metrics(filters.counters)).decode()
    for line in (
        "istio_agent_wasm_cache_entries 0",
        'istio_agent_wasm_cache_lookup_count{hit="false"} 1',
        'istio_agent_wasm_remote_fetch_count{result="download_failure"} 1',
        'istio_agent_wasm_config_conversion_count{result="fetch_failure"} 1',
        "istio_agent_wasm_config_conversion_duration_count 1",
        'istio_agent_wasm_config_conversion_duration_bucket{le="16384"} 1',
    ):
        assert line in text.splitlines()


async def test_a_cache_from_before_is_looked_after_at_once(settings: WasmSettings) -> None:
    async with wasm_filters(settings) as filters:
        assert filters is not None
        assert filters.counters is None
    settings.cache.mkdir()
    async with wasm_filters(settings) as filters:
        assert filters is not None
        assert filters.counters is not None
    async with wasm_filters(None) as filters:
        assert filters is None
