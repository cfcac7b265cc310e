"""A caller in plaintext reads what is exported to all, and nothing else, whatever its node says."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from documents import entry
from mesh_protos import type_urls
from planes import Plane
from xds_server.testing import SotwClient, StreamEnded, over_grpc

Start = Callable[..., Awaitable[Plane]]

CANARY = "canary-of-{}"
HOST = "hosts: [{0}.b.svc.cluster.local], resolution: STATIC, location: MESH_INTERNAL, "
PORTS = "ports: [{{number: 80, name: http, protocol: HTTP, targetPort: 8080}}], "
SERVICE = HOST + PORTS + "endpoints: [{{address: {2}, serviceAccount: s}}], exportTo: [{1}]"
PRIVATE = """\
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {{name: lua, namespace: {namespace}}}
spec:
  configPatches:
  - applyTo: HTTP_FILTER
    match:
      listener:
        filterChain: {{filter: {{name: envoy.filters.network.http_connection_manager}}}}
    patch:
      operation: INSERT_FIRST
      value:
        name: canary-of-filter-{namespace}
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {{inline_string: "-- canary-of-lua-{namespace}"}}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {{name: logs, namespace: {namespace}}}
spec:
  accessLogging: [{{providers: [{{name: logs}}]}}]
  tracing: [{{providers: [{{name: traces}}], randomSamplingPercentage: 100}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: private, namespace: {namespace}}}
spec:
  hosts: [everyone.b.svc.cluster.local]
  exportTo: ["."]
  http:
  - headers: {{request: {{set: {{authorization: canary-of-header-{namespace}}}}}}}
    route: [{{destination: {{host: everyone.b.svc.cluster.local}}}}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: some, namespace: {namespace}}}
spec: {{rules: [{{from: [{{source: {{principals: [canary-of-principal-{namespace}]}}}}]}}]}}
"""
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
metadata: {name: mesh}
spec:
  extensionProviders:
  - name: logs
    envoyHttpAls:
      service: b/everyone.b.svc.cluster.local
      port: 80
      additionalRequestHeadersToLog: [canary-of-log]
  - name: traces
    opentelemetry:
      service: b/everyone.b.svc.cluster.local
      port: 80
      http: {path: /v1/traces, headers: [{name: authorization, value: canary-of-tracer}]}
"""
NODE = {
    "NAMESPACE": "b",
    "SERVICE_ACCOUNT": "s",
    "LABELS": {"app": "s", "istio": "ingressgateway"},
    "INSTANCE_IPS": "10.0.0.1",
    "OUTBOUND_BIND_ADDRESS": "127.0.0.1",
    "DNS_CAPTURE": "true",
    "CLUSTER_ID": "Kubernetes",
    "PROXY_CONFIG": json.dumps({"proxyMetadata": {"A": "b"}}),
}
ASKED = (
    type_urls.CLUSTER,
    type_urls.LISTENER,
    type_urls.NAME_TABLE,
    type_urls.PROXY_CONFIG,
)
NAMED = {
    type_urls.ENDPOINT: (
        "outbound|80||own.b.svc.cluster.local",
        "outbound|80||some.b.svc.cluster.local",
        "outbound|80||everyone.b.svc.cluster.local",
    ),
    type_urls.ROUTE: ("80",),
    type_urls.EXTENSION_CONFIG: ("canary-of-filter-b",),
    type_urls.SECRET: ("kubernetes://shop", "kubernetes://b/shop", "default", "ROOTCA"),
}


@pytest.fixture
def mesh(config_dir: Path) -> Path:
    (config_dir / "mesh.yaml").write_text(
        "---\n".join(
            (
                MESH,
                PRIVATE.format(namespace="b"),
                PRIVATE.format(namespace="istio-system"),
                *(
                    entry(name, SERVICE.format(name, to, address), namespace="b")
                    for name, to, address in (
                        ("own", ".", "10.0.0.1"),
                        ("some", "c", "10.0.0.2"),
                        ("everyone", "'*'", "10.0.0.3"),
                    )
                ),
            )
        )
    )
    return config_dir


async def read(plane: Plane, kind: str = "sidecar", **metadata: Any) -> str:
    """Return all that a caller in plaintext is answered, one after the other."""
    found = []
    async with over_grpc(plane.grpc) as wire:
        node = f"{kind}~10.0.0.1~x.b~b.svc.cluster.local"
        client = SotwClient(wire, node_id=node, metadata=NODE | metadata)
        for url in ASKED:
            await client.subscribe(url)
            found.append(await client.next())
        for url, names in NAMED.items():
            await client.subscribe(url, *names)
        await client.subscribe("type.googleapis.com/a.type.without.a.server")
        while found[-1].type_url != "type.googleapis.com/a.type.without.a.server":
            found.append(await client.next())
    return "".join(repr(each) for each in found)


async def test_it_reads_what_is_exported_to_all_and_nothing_of_a_namespace(
    mesh: Path, start_plane: Start
) -> None:
    plane = await start_plane(mesh, believed=False)

    seen = await read(plane)

    assert "everyone.b.svc.cluster.local" in seen
    assert "10.0.0.3" in seen
    for private in ("canary", "own.b.svc.cluster.local:80", "10.0.0.1", "10.0.0.2", "PRIVATE"):
        assert private not in seen
    assert "inbound|" not in seen


async def test_believed_callers_read_their_namespace(mesh: Path, start_plane: Start) -> None:
    plane = await start_plane(mesh)

    seen = await read(plane)

    for each in ("lua-b", "lua-istio-system", "tracer", "log", "header-b", "principal-b"):
        assert f"canary-of-{each}" in seen
    assert "own.b.svc.cluster.local" in seen


@pytest.mark.parametrize(
    ("kind", "metadata"),
    [
        ("router", {}),
        ("sidecar", {"INTERCEPTION_MODE": "REDIRECT"}),
        ("sidecar", {"INTERCEPTION_MODE": "TPROXY"}),
    ],
)
async def test_one_that_would_be_open_to_others_is_refused(
    mesh: Path, start_plane: Start, kind: str, metadata: dict[str, str]
) -> None:
    plane = await start_plane(mesh, believed=False)

    with pytest.raises(StreamEnded, match="has to prove who it is: connect over TLS"):
        await read(plane, kind, **metadata)


async def test_the_port_is_off_unless_it_is_asked_for(mesh: Path, start_plane: Start) -> None:
    plane = await start_plane(mesh, "--grpc-addr=", believed=False)
    facts = json.loads(next(line for line in plane.process.output if "control plane ready" in line))

    assert (facts["grpc"], bool(facts["secure_grpc"])) == ("", True)
