"""What several packages read or make behaves alike in all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

import pytest

import mesh_sds
import xds_proxy
import xds_server
from certclient.testing import FakeAuthority
from mesh_agent import ConfigError, Flags, load_config
from mesh_discovery import check_configuration
from mesh_local import MeshFileError, parse_mesh_file
from mesh_sds.testing import FakeSecrets

DURATIONS = {
    "0": 0.0,
    "0s": 0.0,
    ".5s": 0.5,
    "1us": 1e-6,
    "1h1m1.5s": 3661.5,
    "45s": 45.0,
    "9999999h": None,
    "1d": None,
    "10": None,
    "-1s": None,
    "20 s": None,
    "soon": None,
}
MESH_CONFIG = """
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  defaultConfig:
    drainDuration: "{text}"
"""
MESH_FILE = """
mesh: {{drain: "{text}"}}
workloads:
  - {{name: backend, namespace: shop, serviceAccount: backend, command: [sleep, "1"]}}
"""


def read_by_the_agent(text: str, directory: Path) -> timedelta:
    (directory / "root-cert.pem").write_bytes(FakeAuthority().root_pem)
    token = directory / "var" / "run" / "secrets" / "tokens" / "istio-token"
    token.parent.mkdir(parents=True)
    token.write_text("e30.e30.e30")
    environ = {
        "PROXY_CONFIG": f'{{"drainDuration": "{text}"}}',
        "XDS_ROOT_CA": "root-cert.pem",
        "CA_ROOT_CA": "root-cert.pem",
    }
    config = load_config(Flags(), environ=environ, directory=directory, version="test")
    return config.envoy.drain_time


def read_by_mesh_local(text: str, directory: Path) -> timedelta:
    return parse_mesh_file(MESH_FILE.format(text=text), path=directory / "mesh.yaml").drain


@pytest.mark.parametrize("read", [read_by_the_agent, read_by_mesh_local])
@pytest.mark.parametrize("text", DURATIONS)
def test_a_duration_means_the_same_to_every_program(
    read: Callable[[str, Path], timedelta], text: str, tmp_path: Path
) -> None:
    seconds = DURATIONS[text]
    if seconds is None:
        with pytest.raises((ConfigError, MeshFileError), match=r"drain"):
            read(text, tmp_path)
    else:
        assert read(text, tmp_path) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", DURATIONS)
def test_the_control_plane_accepts_the_durations_that_its_agents_accept(
    text: str, tmp_path: Path
) -> None:
    (tmp_path / "mesh.yaml").write_text(MESH_CONFIG.format(text=text))
    problems = [str(each) for each in check_configuration(tmp_path).problems]
    assert all("drainDuration" in each for each in problems)
    assert bool(problems) == (DURATIONS[text] is None)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """Of a length that leaves room for a socket's path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        yield Path(directory)


async def admit_none(node: xds_server.Node, peer: xds_server.Peer) -> xds_server.Admission[None]:
    del node, peer
    return xds_server.Admission(context=None)


Serve = Callable[[Path], AbstractAsyncContextManager[object]]


def secrets_at(path: Path) -> AbstractAsyncContextManager[object]:
    return mesh_sds.serving(mesh_sds.SdsConfig(socket_path=path), FakeSecrets())


def relay_at(path: Path) -> AbstractAsyncContextManager[object]:
    upstream = xds_proxy.UpstreamConfig(address="127.0.0.1:9", root_certificate=None)
    return xds_proxy.relaying(xds_proxy.RelayConfig(socket_path=path, upstream=upstream))


def xds_at(path: Path) -> AbstractAsyncContextManager[object]:
    server: xds_server.XdsServer[None] = xds_server.XdsServer({}, admit=admit_none)
    return xds_server.serving(server, [xds_server.UnixListener(path=path)])


@pytest.mark.parametrize("serve", [secrets_at, relay_at, xds_at])
async def test_a_socket_in_use_is_refused_and_the_file_of_a_newer_server_is_kept(
    serve: Serve, short_dir: Path
) -> None:
    socket_path = short_dir / "sockets" / "socket"
    async with serve(socket_path):
        with pytest.raises(Exception, match=r"in use|listens"):
            async with serve(socket_path):
                pass
        assert socket_path.is_socket()
        assert socket_path.parent.stat().st_mode & 0o777 == 0o700
        socket_path.unlink()
        async with serve(socket_path):
            younger = socket_path.stat().st_ino
        assert not socket_path.exists()
        socket_path.touch()
        younger = socket_path.stat().st_ino
    assert socket_path.stat().st_ino == younger
