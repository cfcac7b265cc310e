"""Plain Envoys fed with what istiod sends to its own, in the forms of Istio 1.11 and of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapted_envoys import http_get, line_back
from mesh_testkit.certificates import Authority
from meshes import FreePort, mesh
from sidecar import CLIENT_ID, CLUSTER, LISTENER, Release
from xds_adapter import Action, Adapter


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


def adaptations(adapter: Adapter) -> set[tuple[str, Action]]:
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
    assert adaptations(adapter) == adapted


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
    assert adaptations(adapter) == adapted


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
