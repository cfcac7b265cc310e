from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

from mesh_testkit.certificates import Authority
from mesh_token_exchange import JWT, TOKEN_EXCHANGE, Answer, TokenExchange


class Tls(NamedTuple):
    """Files: a server's certificate with its key, and the root that vouches for it."""

    server: Path
    root: Path


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority()
    issued = authority.issue("127.0.0.1")
    (directory / "server.pem").write_bytes(issued.chain_pem + issued.key_pem)
    (directory / "root.pem").write_bytes(authority.root_pem)
    return Tls(directory / "server.pem", directory / "root.pem")


class Application:
    """Posts what an application does."""

    def __init__(self, exchange: TokenExchange) -> None:
        self.exchange = exchange

    async def post(self, *further: tuple[str, str], without: str = "") -> Answer:
        form = [
            ("grant_type", TOKEN_EXCHANGE),
            ("subject_token", "e30.subject.e30"),
            ("subject_token_type", JWT),
        ]
        form = [*(pair for pair in form if pair[0] != without), *further]
        return await self.post_body(urlencode(form).encode())

    async def post_body(self, body: bytes) -> Answer:
        content_type = "application/x-www-form-urlencoded"
        return await self.exchange.answer("POST", "/token", content_type, body)


@pytest.fixture
def application_of() -> type[Application]:
    return Application
