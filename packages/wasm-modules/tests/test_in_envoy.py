"""A module that was fetched, in a real Envoy."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.wasm.v3.wasm_pb2 import Wasm
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryResponse
from google.protobuf.any_pb2 import Any

from mesh_testkit import until
from wasm_modules import EXTENSION_CONFIG, WasmConfig, rewriting
from wasm_modules.testing import ADD_HEADER, FakeRegistry, docker_layer


def _resource(url: str, *, fail_open: bool) -> bytes:
    wasm = Wasm()
    wasm.config.fail_open = fail_open
    wasm.config.vm_config.runtime = "envoy.wasm.runtime.v8"
    wasm.config.vm_config.code.remote.http_uri.uri = url
    wasm.config.vm_config.code.remote.http_uri.timeout.seconds = 60
    extension = TypedExtensionConfig(name="the-filter")
    extension.typed_config.Pack(wasm)
    packed = Any()
    packed.Pack(extension)
    return packed.SerializeToString()


def _bootstrap(port: int, ecds: Path) -> str:
    prefix = "type.googleapis.com/envoy.extensions.filters"
    manager = {
        "@type": f"{prefix}.network.http_connection_manager.v3.HttpConnectionManager",
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
            {
                "name": "the-filter",
                "config_discovery": {
                    "config_source": {"path_config_source": {"path": str(ecds)}},
                    "type_urls": [
                        f"{prefix}.http.wasm.v3.Wasm",
                        f"{prefix}.http.rbac.v3.RBAC",
                    ],
                },
            },
            {"name": "router", "typed_config": {"@type": f"{prefix}.http.router.v3.Router"}},
        ],
    }
    listener = {
        "name": "in",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [{"filters": [{"name": "hcm", "typed_config": manager}]}],
    }
    return json.dumps(
        {
            "node": {"id": "a", "cluster": "b"},
            "static_resources": {"listeners": [listener]},
        }
    )


async def _answer(port: int) -> str:
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return ""
    try:
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return (await reader.read()).decode()
    finally:
        writer.close()


@pytest.mark.parametrize("present", ["present", "fail open", "fail closed"])
async def test_envoy_runs_the_module_of_an_image_or_what_stands_in_for_it(
    config: WasmConfig,
    tmp_path: Path,
    free_port: Callable[[], int],
    envoy_binary: Path,
    present: str,
) -> None:
    async with FakeRegistry() as registry, rewriting(config) as rewriter:
        if present == "present":
            registry.add_image("team/plugin", "v1", [docker_layer(ADD_HEADER)])
        url = f"oci://{registry.address}/team/plugin:v1"
        body = _resource(url, fail_open=present == "fail open")
        (rewritten,) = await rewriter.rewrite(b"", EXTENSION_CONFIG, [body])
    ecds, port = tmp_path / "ecds.pb", free_port()
    response = DiscoveryResponse(version_info="1", resources=[Any.FromString(rewritten)])
    ecds.write_bytes(response.SerializeToString())
    bootstrap = tmp_path / "bootstrap.json"
    bootstrap.write_text(_bootstrap(port, ecds))
    envoy = await asyncio.create_subprocess_exec(
        envoy_binary,
        *("-c", str(bootstrap), "--use-dynamic-base-id", "--concurrency", "1", "-l", "error"),
    )
    try:
        await until(lambda: _answered(port), what="an answer of Envoy")
        answer = await _answer(port)
    finally:
        envoy.terminate()
        await envoy.wait()
    if present == "fail closed":
        assert answer.startswith("HTTP/1.1 403 ")
    else:
        assert answer.startswith("HTTP/1.1 200 ")
    assert ("x-wasm: from a local file" in answer) is (present == "present")


async def _answered(port: int) -> bool:
    return bool(await _answer(port))
