"""Envoy's socket file: private, replaced when stale, and errors that say what is in the way."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import grpc.aio
import pytest

from mesh_listening import listening_at
from mesh_testkit import PATIENCE_S
from relays import UpstreamSettings
from xds_proxy import ConfigError, RelayConfig, SocketError, UpstreamConfig, relaying


def _make(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _config(
    path: Path, address: str = "127.0.0.1:15012", **upstream: Unpack[UpstreamSettings]
) -> RelayConfig:
    plain = UpstreamConfig(address=address, root_certificate=None)
    upstream_config = replace(plain, **upstream)
    return RelayConfig(socket_path=path, upstream=upstream_config)


async def test_the_socket_s_mode_is_a_setting(socket_dir: Path) -> None:
    path = socket_dir / "XDS"
    async with relaying(replace(_config(path), socket_mode=0o666)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o666


async def test_directory_and_socket_belong_to_this_user_alone(socket_dir: Path) -> None:
    path = socket_dir / "etc" / "proxy" / "XDS"
    umask = os.umask(0)
    try:
        async with relaying(_config(path)):
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert os.umask(0) == 0
    finally:
        os.umask(umask)
    assert not path.exists()


async def test_a_relative_path_works_however_deep_the_working_directory_is(
    socket_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = _make(socket_dir / ("d" * 90))
    monkeypatch.chdir(deep)
    path = Path("./etc/istio/proxy/XDS")
    async with relaying(_config(path)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert not (deep / path).exists()


async def test_a_stale_socket_is_replaced(socket_dir: Path) -> None:
    path = socket_dir / "XDS"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with relaying(_config(path)):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
    assert not path.exists()


async def test_a_live_socket_is_left_alone(socket_dir: Path) -> None:
    path = socket_dir / "XDS"
    async with relaying(_config(path)):
        with pytest.raises(SocketError, match="another process listens on it"):
            async with relaying(_config(path)):
                pass
        assert path.exists()


async def test_a_file_in_its_place_is_an_error(socket_dir: Path) -> None:
    path = socket_dir / "XDS"
    path.write_text("mine")
    with pytest.raises(SocketError, match="is in the way: it exists and is not a socket"):
        async with relaying(_config(path)):
            pass
    assert path.read_text() == "mine"


async def test_a_file_in_the_directorys_place_is_an_error(socket_dir: Path) -> None:
    (socket_dir / "proxy").write_text("mine")
    with pytest.raises(SocketError, match=r"cannot make the socket directory .*proxy: File exists"):
        async with relaying(_config(socket_dir / "proxy" / "XDS")):
            pass


async def test_a_path_too_long_for_a_socket_is_an_error(socket_dir: Path) -> None:
    path = socket_dir / ("d" * 90) / ("x" * 30)
    with pytest.raises(SocketError, match="at most 107 are possible"):
        async with relaying(_config(path)):
            pass


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("istiod", "is not host:port"),
        (":15012", "is not host:port"),
        ("::1:15012", "is not host:port"),
        ("istiod:http", "is not host:port"),
        ("istiod:0", "between 1 and 65535"),
        ("[::1]:70000", "between 1 and 65535"),
    ],
)
async def test_a_bad_address_is_one_sentence(socket_dir: Path, address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        async with relaying(_config(socket_dir / "XDS", address)):
            pass


@pytest.mark.parametrize("metadata", [(("bad name", "x"),), (("name", "line\nbreak"),)])
async def test_bad_metadata_is_refused_at_the_start(
    socket_dir: Path, metadata: tuple[tuple[str, str], ...]
) -> None:
    with pytest.raises(ConfigError, match="header"):
        async with relaying(_config(socket_dir / "XDS", metadata=metadata)):
            pass


async def test_a_socket_that_listens_already_is_served_and_stays(socket_dir: Path) -> None:
    path = socket_dir / "XDS"
    with listening_at(path) as listening:
        async with grpc.aio.insecure_channel(f"unix:{path}") as early:
            ready = asyncio.ensure_future(early.channel_ready())
            await asyncio.sleep(0)  # its connection waits
            async with relaying(_config(path), listening=listening), asyncio.timeout(PATIENCE_S):
                await ready
        assert listening.fileno() >= 0
        assert path.is_socket()
    assert not path.exists()
