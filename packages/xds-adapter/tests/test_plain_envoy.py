"""Plain Envoys fed with what istiod sends to its own, in the forms of Istio 1.11 and of today."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envoys import FedEnvoy, application, fed_envoy, http_get, line_back
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
from xds_adapter import Action, Adapter

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


async def serves_mutual_tls(
    release: Release,
    binary: Path,
    authority: Authority,
    directory: Path,
    free_port: FreePort,
) -> Adapter:
    """Two plain Envoys become ready and speak as two of Istio's would."""
    adapter = Adapter()
    async with mesh(
        release=release,
        binary=binary,
        adapter=adapter,
        authority=authority,
        directory=directory,
        free_port=free_port,
    ) as found:
        for envoy in (found.client, found.server):
            await envoy.wait_ready()
            assert not envoy.refusals
        answer = await http_get(found.http_port, x_envoy_peer_metadata="forged")
        assert " 200 OK" in answer, answer
        # The server's HTTP chain took it, which it chooses by the protocol that the client offers.
        assert "x-chain: http" in answer
        assert f"URI={CLIENT_ID}" in answer  # x-forwarded-client-cert: mutual TLS
        assert "x-envoy-peer-metadata" not in answer, answer
        # A TCP connection takes the TCP chain, and nothing is sent before its first bytes.
        assert await line_back(found.tcp_port, b"hello\n") == b"hello\n"
        # In mode PERMISSIVE plaintext is taken, too.
        assert "x-chain: http" in await http_get(found.inbound_port)
    return adapter


EVERYWHERE = {
    ("istio.alpn", Action.TRANSLATED),
    ("istio.metadata_exchange (HTTP)", Action.TRANSLATED),
    ("istio.metadata_exchange (TCP)", Action.REMOVED),
}
TODAY = {*EVERYWHERE, ("istio.stats", Action.REMOVED)}
OLD = {
    *EVERYWHERE,
    ("istio.stats (Wasm)", Action.REMOVED),
    ("istio_authn", Action.REMOVED),
    *(
        (name, Action.TRANSLATED)
        for name in (
            "envoy.filters.http.cors",
            "envoy.filters.http.fault",
            "envoy.filters.listener.http_inspector",
            "envoy.filters.listener.original_dst",
            "envoy.filters.listener.tls_inspector",
            "envoy.retry_host_predicates.previous_hosts",
            "envoy.transport_sockets.raw_buffer",
        )
    ),
}


def told(adapter: Adapter) -> set[tuple[str, Action]]:
    return {(each.extension, each.action) for each in adapter.adaptations}


@pytest.mark.parametrize(("release", "adapted"), [("1.11", OLD), ("today", TODAY)])
async def test_plain_envoys_serve_mutual_tls_with_istios_configuration(
    *,
    release: Release,
    adapted: set[tuple[str, Action]],
    envoy_binary: Path,
    authority: Authority,
    socket_dir: Path,
    free_port: FreePort,
) -> None:
    adapter = await serves_mutual_tls(release, envoy_binary, authority, socket_dir, free_port)
    assert told(adapter) == adapted


@pytest.mark.slow
@pytest.mark.parametrize(("release", "adapted"), [("1.11", OLD), ("today", TODAY)])
async def test_plain_envoys_of_an_older_release_serve_mutual_tls_with_istios_configuration(
    *,
    release: Release,
    adapted: set[tuple[str, Action]],
    older_envoy_binary: Path,
    authority: Authority,
    socket_dir: Path,
    free_port: FreePort,
) -> None:
    adapter = await serves_mutual_tls(release, older_envoy_binary, authority, socket_dir, free_port)
    assert told(adapter) == adapted


@pytest.mark.parametrize("release", ["1.11", "today"])
async def test_without_the_adapter_a_plain_envoy_refuses_the_same(
    *,
    release: Release,
    envoy_binary: Path,
    authority: Authority,
    socket_dir: Path,
    free_port: FreePort,
) -> None:
    async with mesh(
        release=release,
        binary=envoy_binary,
        adapter=None,
        authority=authority,
        directory=socket_dir,
        free_port=free_port,
    ) as found:
        assert "registered implementation" in await found.server.wait_refused(LISTENER)
        assert "registered implementation" in await found.client.wait_refused(CLUSTER)
