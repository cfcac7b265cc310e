"""A WasmPlugin from its file to Envoy: its agent pulls the module with the secret of a registry."""

import base64
from pathlib import Path

import aiohttp

from mesh_e2e import mesh_of
from mesh_testkit import find_free_port, until
from wasm_modules.testing import ADD_HEADER, FakeRegistry, docker_config, oci_layer

MESH = """\
workloads:
- name: backend
  ports: [{{port: 8080}}]
  command: ECHO
  agentEnv: {{WASM_INSECURE_REGISTRIES: "{registry}"}}
- {{name: edge, gateway: {{ports: [{port}]}}}}
config:
- apiVersion: v1
  kind: Secret
  metadata: {{name: registry, namespace: default}}
  type: kubernetes.io/dockerconfigjson
  data: {{.dockerconfigjson: {secret}}}
- apiVersion: extensions.istio.io/v1alpha1
  kind: WasmPlugin
  metadata: {{name: plugin, namespace: default}}
  spec:
    selector: {{matchLabels: {{app: backend}}}}
    url: {registry}/team/plugin:v1
    imagePullSecret: registry
- apiVersion: networking.istio.io/v1
  kind: Gateway
  metadata: {{name: edge, namespace: default}}
  spec:
    selector: {{istio: ingressgateway}}
    servers: [{{port: {{number: {port}, name: http, protocol: HTTP}}, hosts: ["*"]}}]
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {{name: edge, namespace: default}}
  spec:
    hosts: ["*"]
    gateways: [edge]
    http: [{{route: [{{destination: {{host: backend}}}}]}}]
"""


async def test_an_agent_pulls_a_module_with_the_secret_that_its_object_names(
    tmp_path: Path,
) -> None:
    port = find_free_port()
    async with FakeRegistry(user="me", password="canary-of-a-secret") as registry:
        registry.add_image("team/plugin", "v1", [oci_layer(ADD_HEADER)])
        pair = docker_config(registry.address, "me", "canary-of-a-secret")
        secret = base64.b64encode(pair.encode()).decode()
        text = MESH.format(port=port, registry=registry.address, secret=secret)
        async with mesh_of(text, tmp_path) as mesh, aiohttp.ClientSession() as session:
            said = ""

            async def is_served() -> bool:
                nonlocal said
                try:
                    async with session.get(f"http://127.0.0.1:{port}/") as response:
                        said = f"{response.status} {dict(response.headers)}"
                        return response.headers.get("x-wasm") == "from a local file"
                except aiohttp.ClientError as error:
                    said = str(error)
                    return False

            await until(is_served, what="the module at the backend", seen=lambda: said)
            assert not mesh.findings
