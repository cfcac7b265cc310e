"""Real Envoys, and the secrets that an agent would serve them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2

from mesh_ca import Authority
from mesh_ca.testing import signing_request
from planes._processes import Process
from xds_server import Client, Generated, PushRequest, Resource, Watch


def bootstrap(
    node: dict[str, Any], *, admin: str, xds: str, sds: Path | None, delta: bool = False
) -> dict[str, Any]:
    """Make the smallest bootstrap that takes everything over ADS, of the delta dialect or not."""
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }

    def address(text: str) -> dict[str, Any]:
        if text.startswith("/"):
            return {"pipe": {"path": text}}
        host, _, port = text.rpartition(":")
        return {"socket_address": {"address": host, "port_value": int(port)}}

    def cluster(name: str, where: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": name,
            "type": "STATIC",
            "connect_timeout": "1s",
            "typed_extension_protocol_options": http2,
            "load_assignment": {
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": where}}]}],
            },
        }

    source = {"ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0s"}
    clusters = [cluster("xds-grpc", address(xds))]
    if sds is not None:
        clusters.append(cluster("sds-grpc", {"pipe": {"path": str(sds)}}))
    return {
        "node": node,
        "admin": {"address": address(admin)},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "DELTA_GRPC" if delta else "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
            "lds_config": source,
            "cds_config": source,
        },
        "static_resources": {"clusters": clusters},
        # As the bootstraps of mesh-agent and of Istio's agent have it.
        "stats_config": {
            "use_all_default_tags": False,
            "stats_tags": [{"tag_name": "cluster_name", "regex": r"^cluster\.(([^;]+);\.)"}],
        },
    }


@dataclass
class Envoy:
    """A real Envoy."""

    process: Process
    admin: str
    node_id: str

    async def get(self, path: str) -> Any:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.admin}{path}") as response,
        ):
            if response.content_type == "application/json":
                return await response.json(content_type=None)
            return await response.text()

    async def listeners(self) -> set[str]:
        text: str = await self.get("/listeners")
        return {line.partition("::")[0] for line in text.splitlines()}

    async def stat(self, name: str) -> int:
        found: str = await self.get(f"/stats?filter=^{name}$")
        return int(found.rpartition(":")[2]) if found.strip() else 0


class WorkloadSecrets:
    """The SDS of a workload agent: one certificate and the roots, and those in files by name."""

    def __init__(self, authority: Authority, identity: str, roots: bytes) -> None:
        key, csr = signing_request()
        chain = authority.sign(csr, identities=[identity]).chain_pem
        certificate = secret_pb2.Secret(name="default")
        certificate.tls_certificate.certificate_chain.inline_bytes = b"".join(chain[:-1])
        certificate.tls_certificate.private_key.inline_bytes = key
        bundle = secret_pb2.Secret(name="ROOTCA")
        bundle.validation_context.trusted_ca.inline_bytes = roots
        self._resources = [Resource.pack(each, name=each.name) for each in (certificate, bundle)]

    def generate(
        self,
        client: Client[None],  # noqa: ARG002
        watch: Watch,
        push: PushRequest | None,  # noqa: ARG002
    ) -> Generated:
        found = [each for each in self._resources if watch.covers(each.name)]
        found += [
            resource for name in sorted(watch.names) if (resource := _in_files(name)) is not None
        ]
        return Generated(resources=found)


def _in_files(name: str) -> Resource | None:
    """Return the secret of a name such as `file-root:PATH` or `file-cert:CHAIN~KEY`."""
    kind, _, paths = name.partition(":")
    secret = secret_pb2.Secret(name=name)
    if kind == "file-root" and Path(paths).is_file():
        secret.validation_context.trusted_ca.inline_bytes = Path(paths).read_bytes()
    elif kind == "file-cert":
        chain, _, key = paths.partition("~")
        secret.tls_certificate.certificate_chain.inline_bytes = Path(chain).read_bytes()
        secret.tls_certificate.private_key.inline_bytes = Path(key).read_bytes()
    else:
        return None
    return Resource.pack(secret, name=name)
