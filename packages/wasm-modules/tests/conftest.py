import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_testkit.certificates import Authority
from wasm_modules import ModuleRequest, WasmConfig


class Tls(NamedTuple):
    """The settings of a server at 127.0.0.1, and the file of the root that vouches for it."""

    server: ssl.SSLContext
    root: Path


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    issued = authority.issue("127.0.0.1", "localhost")
    (directory / "server.pem").write_bytes(issued.chain_pem + issued.key_pem)
    (directory / "root.pem").write_bytes(authority.root_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "server.pem")
    return Tls(context, directory / "root.pem")


@pytest.fixture
def config(tmp_path: Path) -> WasmConfig:
    """Without retries, and with patience."""
    return WasmConfig(
        cache_root=tmp_path / "cache", max_retries=0, default_timeout_s=60.0, request_timeout_s=60.0
    )


@pytest.fixture
def config_with(config: WasmConfig) -> Callable[..., WasmConfig]:
    return lambda **changes: replace(config, **changes)


Get = Callable[[ModuleRequest], Awaitable[Path]]
