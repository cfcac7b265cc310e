"""A real Envoy behind the relay: its filter's module is fetched, and recovers by itself."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.wasm.v3.wasm_pb2 import Wasm
from envoy.service.discovery.v3.discovery_pb2 import (
    DeltaDiscoveryRequest,
    DeltaDiscoveryResponse,
    DiscoveryRequest,
    DiscoveryResponse,
    Resource,
)
from google.protobuf.any_pb2 import Any

import xds_proxy
from mesh_agent.wasm._wasm_config import WasmSettings
from mesh_agent.wasm._wasm_filters import wasm_filters
from mesh_testkit import until
from wasm_modules.testing import ADD_HEADER, HttpServer, ReceivedRequest, Response
from xds_proxy.testing import ControlPlaneStream, control_plane

ECDS = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
METHODS = {"GRPC": "StreamAggregatedResources", "DELTA_GRPC": "DeltaAggregatedResources"}


class Server(HttpServer):
    """Has the module while `ready`."""

    def __init__(self) -> None:
        super().__init__(self._give)
        self.ready = True

    async def _give(self, _request: ReceivedRequest, _writer: object) -> Response:
        if not self.ready:
            return Response(status=404)
        return Response(body=ADD_HEADER)


def _resource(url: str) -> Any:
    wasm = Wasm()
    wasm.config.vm_config.runtime = "envoy.wasm.runtime.v8"
    wasm.config.vm_config.code.remote.http_uri.uri = url
    wasm.config.vm_config.code.remote.http_uri.timeout.seconds = 60
    extension = TypedExtensionConfig(name="the-filter")
    extension.typed_config.Pack(wasm)
    packed = Any()
    packed.Pack(extension)
    return packed


def _bootstrap(port: int, relay: Path, api_type: str) -> str:
    prefix = "type.googleapis.com/envoy.extensions"
    discovery = {
        "config_source": {"ads": {}, "resource_api_version": "V3"},
        "type_urls": [
            f"{prefix}.filters.http.wasm.v3.Wasm",
            f"{prefix}.filters.http.rbac.v3.RBAC",
        ],
    }
    manager = {
        "@type": f"{prefix}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "test",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}],
                }
            ]
        },
        "http_filters": [
            {"name": "the-filter", "config_discovery": discovery},
            {
                "name": "router",
                "typed_config": {"@type": f"{prefix}.filters.http.router.v3.Router"},
            },
        ],
    }
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": f"{prefix}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(relay)}}}}
    cluster = {
        "name": "relay",
        "connect_timeout": "60s",
        "typed_extension_protocol_options": http2,
        "load_assignment": {"cluster_name": "relay", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    listener = {
        "name": "in",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": manager}]}],
    }
    return json.dumps(
        {
            "node": {"id": "sidecar~a", "cluster": "b"},
            "static_resources": {"listeners": [listener], "clusters": [cluster]},
            "dynamic_resources": {
                "ads_config": {
                    "api_type": api_type,
                    "transport_api_version": "V3",
                    "grpc_services": [{"envoy_grpc": {"cluster_name": "relay"}}],
                }
            },
        }
    )


@asynccontextmanager
async def _envoy(binary: Path, bootstrap: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(
        binary,
        *("-c", str(bootstrap), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"),
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def _push(stream: ControlPlaneStream, url: str, *, delta: bool) -> None:
    """Answer Envoy's subscription once."""
    while True:
        raw = await stream.receive() or b""
        request = (DeltaDiscoveryRequest if delta else DiscoveryRequest).FromString(raw)
        if request.type_url == ECDS:
            break
    if delta:
        one = Resource(name="the-filter", version="1", resource=_resource(url))
        response = DeltaDiscoveryResponse(nonce="n1", type_url=ECDS, resources=[one])
        await stream.send(response.SerializeToString())
    else:
        whole = DiscoveryResponse(version_info="1", nonce="n1", type_url=ECDS)
        whole.resources.append(_resource(url))
        await stream.send(whole.SerializeToString())


async def _answer(port: int) -> str:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return (await reader.read()).decode()
    except OSError:
        return ""
    finally:
        writer.close()


@pytest.mark.parametrize("api_type", sorted(METHODS))
async def test_envoy_s_filter_denies_until_its_module_can_be_fetched_and_then_runs_it(
    tmp_path: Path,
    socket_dir: Path,
    free_port: Callable[[], int],
    envoy_binary: Path,
    api_type: str,
) -> None:
    port, bootstrap = free_port(), tmp_path / "bootstrap.json"
    bootstrap.write_text(_bootstrap(port, socket_dir / "XDS", api_type))
    settings = WasmSettings(
        cache=tmp_path / "cache",
        expiry=timedelta(hours=1),
        purge_interval=timedelta(hours=1),
        request_timeout=timedelta(seconds=60),
        max_retries=0,
        max_module_bytes=1 << 20,
        blocked_networks=(),
        insecure_registries=frozenset(),
    )
    async with Server() as server, control_plane() as plane, wasm_filters(settings) as filters:
        server.ready = False
        assert filters is not None
        config = xds_proxy.RelayConfig(
            socket_path=socket_dir / "XDS",
            upstream=xds_proxy.UpstreamConfig(address=plane.address, root_certificate=None),
        )
        async with xds_proxy.relaying(config, rewriters=[filters]) as relay:
            filters.on_recovered(relay.rewrite_again)
            async with _envoy(envoy_binary, bootstrap):
                stream = await plane.accept()
                assert stream.method == METHODS[api_type]
                await _push(stream, f"{server.url}/plugin.wasm", delta=api_type == "DELTA_GRPC")

                async def answers(start: str, *, with_header: bool) -> bool:
                    answer = await _answer(port)
                    has_header = "x-wasm: from a local file" in answer
                    return answer.startswith(start) and has_header is with_header

                await until(
                    lambda: answers("HTTP/1.1 403", with_header=False), what="a denied request"
                )
                server.ready = True
                await until(
                    lambda: answers("HTTP/1.1 200", with_header=True), what="the module's header"
                )
    assert "status 404" not in str(filters.describe())
