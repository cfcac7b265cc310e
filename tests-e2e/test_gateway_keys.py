"""A gateway of mesh-local gets the key that its Gateway names, by the account that it has."""

import base64
import ssl
from pathlib import Path

import aiohttp

from mesh_e2e import mesh_of
from mesh_testkit import find_free_port, until
from mesh_testkit.certificates import Authority

MESH = """\
workloads:
- {{name: backend, ports: [{{port: 8080}}], command: ECHO}}
- {{name: edge, gateway: {{ports: [{port}]}}}}
config:
- apiVersion: v1
  kind: Secret
  metadata: {{name: shop, namespace: default}}
  type: kubernetes.io/tls
  data: {{tls.crt: {chain}, tls.key: {key}}}
- apiVersion: networking.istio.io/v1
  kind: Gateway
  metadata: {{name: edge, namespace: default}}
  spec:
    selector: {{istio: ingressgateway}}
    servers:
    - port: {{number: {port}, name: https, protocol: HTTPS}}
      hosts: [shop.example]
      tls: {{mode: SIMPLE, credentialName: shop}}
- apiVersion: networking.istio.io/v1
  kind: VirtualService
  metadata: {{name: shop, namespace: default}}
  spec:
    hosts: [shop.example]
    gateways: [edge]
    http: [{{route: [{{destination: {{host: backend}}}}]}}]
"""


async def test_a_call_over_tls_ends_at_the_gateway_with_the_certificate_of_the_secret(
    tmp_path: Path,
) -> None:
    authority = Authority()
    issued = authority.issue("shop.example")
    port = find_free_port()
    chain, key = (base64.b64encode(each).decode() for each in (issued.chain_pem, issued.key_pem))
    context = ssl.create_default_context(cadata=authority.root_pem.decode())
    status = 0
    async with (
        mesh_of(MESH.format(port=port, chain=chain, key=key), tmp_path) as mesh,
        aiohttp.ClientSession() as session,
    ):

        async def is_served() -> bool:
            nonlocal status
            try:
                async with session.get(
                    f"https://127.0.0.1:{port}/",
                    ssl=context,
                    server_hostname="shop.example",
                    headers={"host": "shop.example"},
                ) as response:
                    status = response.status
            except aiohttp.ClientError:
                return False
            return status == 200

        await until(is_served, what="the call through the gateway", seen=lambda: status)
        assert not [each for each in mesh.findings if "Secret" in each]
