"""Proxies over TLS that prove who they are by a certificate of the mesh."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc

from mesh_ca import Authority
from mesh_ca.testing import signing_request
from mesh_protos import type_urls
from xds_server.testing import SotwClient, over_grpc

OPTIONS = (("grpc.ssl_target_name_override", "localhost"),)


def shown(authority: Authority, namespace: str, account: str) -> grpc.ChannelCredentials:
    """Return the credentials of a workload's certificate."""
    key, csr = signing_request()
    identity = f"spiffe://{authority.trust_domain}/ns/{namespace}/sa/{account}"
    chain = b"".join(authority.sign(csr, identities=[identity]).chain_pem)
    return grpc.ssl_channel_credentials(authority.root_pem, key, chain)


@asynccontextmanager
async def connected(
    server: str,
    address: str,
    *,
    namespace: str,
    credentials: grpc.ChannelCredentials | None = None,
    metadata: Mapping[str, Any],
) -> AsyncIterator[SotwClient]:
    """Hold the stream of a proxy at an address while the block runs; None: in plaintext."""
    node = f"sidecar~{address}~vm.{namespace}~{namespace}.svc.cluster.local"
    options = list(OPTIONS) if credentials is not None else []
    async with over_grpc(server, credentials=credentials, options=options) as wire:
        client = SotwClient(wire, node_id=node, metadata=dict(metadata))
        await client.subscribe(type_urls.CLUSTER)
        await client.next()
        yield client
