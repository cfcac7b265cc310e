"""TLS and the token towards the control plane, with real handshakes."""

from __future__ import annotations

import logging
from pathlib import Path

import grpc
import pytest

from mesh_testkit.certificates import Authority
from relays import Messages, RelayStarter, RunningRelay, server_credentials
from xds_proxy import SYSTEM, OnDisconnect
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane, envoy_stream


@pytest.fixture
def start_relay(socket_dir: Path) -> RelayStarter:
    """Envoy's stream ends with the one to the control plane, so that its status has the reason."""
    return RelayStarter(socket_dir, on_disconnect=OnDisconnect.END)


def _write(path: Path, content: bytes | str | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)


async def _failure(running: RunningRelay) -> str:
    async with envoy_stream(running.socket_path) as envoy:
        assert await envoy.receive() is None
        code, details = await envoy.status()
        assert code is grpc.StatusCode.UNAVAILABLE
        return str(details)


async def _exchange(plane: ControlPlane, running: RunningRelay) -> ControlPlaneStream:
    async with envoy_stream(running.socket_path) as envoy:
        await envoy.send(Messages.request(Messages.cluster))
        upstream = await plane.accept()
        await upstream.send(
            Messages.response(Messages.cluster, version="v1", nonce="n1", bodies=(b"x",))
        )
        assert await envoy.receive() is not None
        return upstream


@pytest.fixture
def root(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "root-cert.pem"
    path.write_bytes(authority.root_pem)
    return path


async def test_token_and_metadata_go_with_every_stream_and_the_token_is_read_anew(
    start_relay: RelayStarter, authority: Authority, root: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    _write(token, "first\n")
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(
            plane.address,
            root_certificate=root,
            token_path=token,
            metadata=(("ClusterID", "Kubernetes"),),
        ) as running:
            upstream = await _exchange(plane, running)
            assert upstream.metadata["authorization"] == "Bearer first"
            assert upstream.metadata["clusterid"] == "Kubernetes"
            _write(token, "second\n")
            upstream = await _exchange(plane, running)
            assert upstream.metadata["authorization"] == "Bearer second"


async def test_a_client_certificate_is_shown_once_it_is_there(
    start_relay: RelayStarter, authority: Authority, root: Path, tmp_path: Path
) -> None:
    credentials = server_credentials(authority, "127.0.0.1", clients_show_theirs=True)
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    async with control_plane(credentials=credentials) as plane:
        async with start_relay(
            plane.address,
            root_certificate=root,
            client_certificate_path=chain,
            client_key_path=key,
        ) as running:
            await _failure(running)
            issued = authority.issue("workload.example")
            _write(key, issued.key_pem)
            _write(chain, issued.chain_pem)
            await _exchange(plane, running)


async def test_no_token_in_plaintext(start_relay: RelayStarter, tmp_path: Path) -> None:
    token = tmp_path / "token"
    _write(token, "secret")
    async with control_plane() as plane:
        async with start_relay(plane.address, token_path=token) as running:
            upstream = await _exchange(plane, running)
            assert "authorization" not in upstream.metadata


async def test_the_server_name_can_differ_from_the_address(
    start_relay: RelayStarter, authority: Authority, root: Path
) -> None:
    name = "istiod.istio-system.svc"
    async with control_plane(credentials=server_credentials(authority, name)) as plane:
        async with start_relay(plane.address, root_certificate=root, server_name=name) as running:
            await _exchange(plane, running)


async def test_a_name_mismatch_is_said_in_words(
    start_relay: RelayStarter, authority: Authority, root: Path
) -> None:
    async with control_plane(credentials=server_credentials(authority, "someone.else")) as plane:
        async with start_relay(
            plane.address, root_certificate=root, server_name="istiod.istio-system.svc"
        ) as running:
            reason = await _failure(running)
            assert (
                "name mismatch: its certificate is not for istiod.istio-system.svc, it is for "
                "someone.else; server_name sets the name that is expected"
            ) in reason


async def test_an_expired_certificate_is_said_in_words(
    start_relay: RelayStarter, authority: Authority, root: Path
) -> None:
    async with control_plane(
        credentials=server_credentials(authority, "127.0.0.1", expired=True)
    ) as plane:
        async with start_relay(plane.address, root_certificate=root) as running:
            assert "has expired" in await _failure(running)


async def test_a_wrong_root_is_said_in_words_and_a_corrected_one_is_used(
    start_relay: RelayStarter,
    authority: Authority,
    root: Path,
) -> None:
    _write(root, Authority().root_pem)
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=root) as running:
            reason = await _failure(running)
            assert f"wrong root certificate: its certificate is not signed by a root in {root}" in (
                reason
            )
            _write(root, authority.root_pem)
            await _exchange(plane, running)


async def test_the_systems_roots_do_not_trust_a_private_authority(
    start_relay: RelayStarter, authority: Authority
) -> None:
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=SYSTEM) as running:
            assert "wrong root certificate" in await _failure(running)


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
async def test_the_environment_says_where_the_systems_roots_are(
    variable: str,
    start_relay: RelayStarter,
    authority: Authority,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _write(root, authority.root_pem)
    monkeypatch.setenv(variable, str(root if variable == "SSL_CERT_FILE" else root.parent))
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=SYSTEM) as running:
            async with envoy_stream(running.socket_path):
                await plane.accept()
    monkeypatch.setenv("SSL_CERT_FILE", str(root.parent / "nowhere.pem"))
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=SYSTEM) as running:
            assert "nowhere.pem (SSL_CERT_FILE) does not exist" in await _failure(running)


async def test_a_missing_root_is_named_and_found_once_it_appears(
    start_relay: RelayStarter, authority: Authority, root: Path
) -> None:
    _write(root, None)
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=root) as running:
            assert f"root certificate file {root} does not exist" in await _failure(running)
            _write(root, "not PEM")
            assert f"{root} holds no PEM certificate" in await _failure(running)
            _write(root, authority.root_pem)
            await _exchange(plane, running)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "does not exist"), ("  \n", "is empty"), ("top\nsecret", "expected one word")],
)
async def test_a_bad_token_file_is_named_but_not_shown(
    *,
    start_relay: RelayStarter,
    authority: Authority,
    root: Path,
    tmp_path: Path,
    content: str | None,
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    token = tmp_path / "token"
    _write(token, content)
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address, root_certificate=root, token_path=token) as running:
            details = await _failure(running)
            assert f"token file {token}" in details
            assert reason in details
            assert "secret" not in details
    assert all("secret" not in str(record.__dict__) for record in caplog.records)


async def test_a_refused_token_is_said_in_words_and_never_logged(
    start_relay: RelayStarter,
    authority: Authority,
    root: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    token = tmp_path / "token"
    _write(token, "canary-token")
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        plane.refusal = (grpc.StatusCode.UNAUTHENTICATED, "token expired")
        async with start_relay(plane.address, root_certificate=root, token_path=token) as running:
            async with envoy_stream(running.socket_path) as envoy:
                assert await envoy.receive() is None
                code, details = await envoy.status()
                assert (code, details) == (grpc.StatusCode.UNAUTHENTICATED, "token expired")
            reason = running.relay.status.last_error
            assert reason == (
                "unauthenticated: it does not accept the credentials of this workload: "
                f"token expired (token {token} is no JSON Web Token)"
            )
    assert all("canary" not in str(record.__dict__) for record in caplog.records)


async def test_a_plaintext_port_is_recognised(start_relay: RelayStarter, root: Path) -> None:
    async with control_plane() as plane:
        async with start_relay(plane.address, root_certificate=root) as running:
            assert "does it speak TLS on this port?" in await _failure(running)


async def test_a_tls_port_called_in_plaintext_is_recognised(
    start_relay: RelayStarter, authority: Authority
) -> None:
    async with control_plane(credentials=server_credentials(authority, "127.0.0.1")) as plane:
        async with start_relay(plane.address) as running:
            assert "does it want TLS on this port?" in await _failure(running)
