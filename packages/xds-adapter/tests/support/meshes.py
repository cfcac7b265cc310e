"""Two Envoys that get what istiod sends to a server's and a client's sidecar."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adapted_envoys import FedEnvoy, application, fed_envoy
from mesh_testkit.certificates import Authority
from sidecar import (
    CLIENT_ID,
    CLUSTER,
    ENDPOINTS,
    LISTENER,
    ROUTES,
    SERVER_ID,
    TYPES,
    Dictionary,
    Release,
    Sidecar,
)
from xds_adapter import Adapter

FreePort = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A client's and a server's Envoy, and the ports of their listeners."""

    http_port: int
    tcp_port: int
    inbound_port: int
    client: FedEnvoy
    server: FedEnvoy


def sidecar(
    release: Release,
    directory: Path,
    authority: Authority,
    identity: str,
    rules: list[Dictionary] | None = None,
) -> Sidecar:
    """A sidecar that shows the certificate of an identity."""
    directory.mkdir()
    issued = authority.issue(identity)
    pair = {
        "certificate_chain": {"inline_string": issued.chain_pem.decode()},
        "private_key": {"inline_string": issued.key_pem.decode()},
    }
    roots = {"trusted_ca": {"inline_string": authority.root_pem.decode()}}
    for name, content in (
        ("default", {"tls_certificate": pair}),
        ("ROOTCA", {"validation_context": roots}),
    ):
        kind = f"{TYPES}envoy.extensions.transport_sockets.tls.v3.Secret"
        resource = {"@type": kind, "name": name, **content}
        (directory / f"{name}.yaml").write_text(json.dumps({"resources": [resource]}))
    return Sidecar(release=release, certificates=directory, rules=rules or [])


@asynccontextmanager
async def mesh(
    *,
    release: Release,
    binary: Path,
    adapter: Adapter | None,
    authority: Authority,
    directory: Path,
    free_port: FreePort,
    rules: list[Dictionary] | None = None,
) -> AsyncIterator[Mesh]:
    """Run a client's and a server's Envoy. rules: further HTTP filters of the server."""
    server = sidecar(release, directory / "server", authority, SERVER_ID, rules)
    client = sidecar(release, directory / "client", authority, CLIENT_ID)
    inbound, http, tcp = free_port(), free_port(), free_port()
    async with application() as port:
        of_server = {
            LISTENER: [server.inbound_listener(port=inbound)],
            CLUSTER: server.inbound_clusters(application_port=port),
        }
        of_client = {
            LISTENER: client.outbound_listeners(http_port=http, tcp_port=tcp),
            CLUSTER: client.outbound_clusters(),
            ROUTES: [client.routes()],
            ENDPOINTS: client.endpoints(server_port=inbound),
        }
        async with (
            fed_envoy(binary, server.certificates, of_server, adapter=adapter) as server_envoy,
            fed_envoy(binary, client.certificates, of_client, adapter=adapter) as client_envoy,
        ):
            yield Mesh(
                http_port=http,
                tcp_port=tcp,
                inbound_port=inbound,
                client=client_envoy,
                server=server_envoy,
            )
