"""Tokens are exchanged on a port of this machine, by an authorization server that is configured."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import urlencode

import pytest

from mesh_agent import AgentConfig, ConfigError, Flags
from mesh_agent.token_exchange import _token_exchange_config as config
from mesh_agent.token_exchange._token_exchange_config import TokenExchangeConfig
from mesh_agent.token_exchange._token_server import TokenServer, token_server
from mesh_token_exchange import JWT, TOKEN_EXCHANGE
from mesh_token_exchange.testing import FakeAuthorizationServer, FakeExchanger

Load = Callable[..., AgentConfig]

FORM = {"grant_type": TOKEN_EXCHANGE, "subject_token": "e30.e30.e30", "subject_token_type": JWT}
SECRET = "canary-of-the-client-secret"


async def post(
    port: int,
    form: Mapping[str, str],
    *,
    path: str = "/token",
    method: str = "POST",
    host: str = "127.0.0.1",
    headers: str = "host: localhost",
) -> tuple[int, dict[str, object]]:
    body = urlencode(form)
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(
                f"{method} {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\n"
                "content-type: application/x-www-form-urlencoded\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}".encode()
            )
            answer = await reader.read()
        finally:
            writer.close()
    head, _, text = answer.decode().partition("\r\n\r\n")
    return int(head.split()[1]), json.loads(text) if text.startswith("{") else {}


def described(server: TokenServer) -> tuple[object, ...]:
    counts = server.describe()
    return tuple(counts[name] for name in ("issued", "refused", "failed"))


async def test_a_token_is_exchanged_at_the_server_that_the_environment_names(
    load: Load, workload: Path, free_port: Callable[[], int]
) -> None:
    secret = workload / "secret"
    secret.write_text(f"{SECRET}\n")
    async with FakeAuthorizationServer() as authorization:
        loaded = load(
            {
                "MESH_AGENT_STS_URL": authorization.url,
                "MESH_AGENT_STS_AUDIENCE": "orders, payments",
                "MESH_AGENT_STS_SCOPE": "read",
                "MESH_AGENT_STS_CLIENT_ID": "web",
                "MESH_AGENT_STS_CLIENT_SECRET_FILE": "secret",
            },
            sts_port=(port := free_port()),
        )
        async with token_server(loaded.token_exchange) as server:
            assert server is not None
            status, answer = await post(port, FORM)
            assert (status, answer["token_type"]) == (200, "Bearer")
            assert (await post(port, {}))[0] == HTTPStatus.BAD_REQUEST
            assert described(server) == (1, 1, 0)
            status, kept = await post(port, {}, path="/stsStatus", method="GET")
            assert status == HTTPStatus.OK
            assert described(server) == (1, 1, 0), "a look at the status is no exchange"
            shown = f"{server.describe()} {kept} {loaded}"
            assert SECRET not in shown
            assert str(answer["access_token"]) not in shown
        with pytest.raises(OSError, match="refused"):
            await post(port, FORM)


async def test_an_authorization_server_that_is_not_there_is_reported(
    load: Load, free_port: Callable[[], int]
) -> None:
    loaded = load(
        {"MESH_AGENT_STS_URL": "http://127.0.0.1:1/token"}, sts_port=(port := free_port())
    )
    async with token_server(loaded.token_exchange) as server:
        assert server is not None
        status, answer = await post(port, FORM)
        assert (status, answer["error"]) == (500, "invalid_target")
        assert described(server) == (0, 0, 1)
        assert "127.0.0.1:1" in str(server.describe()["last_failure"])


def test_without_a_port_nothing_is_read_and_nothing_loaded(load: Load) -> None:
    loaded = load({"MESH_AGENT_STS_URL": "nonsense"}, token_manager_plugin="GoogleTokenExchange")
    assert loaded.token_exchange is None


def problems(load: Load, environ: Mapping[str, str], **flags: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        load(environ, **flags)
    return raised.value.problems


def test_a_port_without_a_server_is_one_clear_problem(load: Load) -> None:
    (problem,) = problems(load, {}, sts_port=15463)
    assert problem.startswith("--stsPort is given, but MESH_AGENT_STS_URL is not set: ")


def test_google_s_exchange_is_refused_with_what_to_do(load: Load) -> None:
    (problem,) = problems(load, {}, sts_port=15463, token_manager_plugin="GoogleTokenExchange")
    assert "Google's own service, which the agent does not have: leave it out and name" in problem
    assert "MESH_AGENT_STS_URL" in problem


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"MESH_AGENT_STS_URL": "http://example.com/token"}, "by https only"),
        ({"MESH_AGENT_STS_URL": "nonsense"}, "no token endpoint"),
        (
            {"MESH_AGENT_STS_URL": "https://a/t", "MESH_AGENT_STS_CLIENT_ID": "web"},
            "must be given together",
        ),
    ],
)
def test_mistakes_about_the_server_are_reported(
    load: Load, environ: Mapping[str, str], said: str
) -> None:
    (problem,) = problems(load, environ, sts_port=15463)
    assert said in problem
    assert problem.startswith("MESH_AGENT_STS_")


def test_a_port_that_is_none_is_reported(load: Load) -> None:
    (problem,) = problems(load, {}, sts_port=70000)
    assert problem == "--stsPort is 70000, it must be a port, 1 to 65535"


def fake_exchanger(environ: Mapping[str, str]) -> FakeExchanger:
    """A plugin of another package."""
    if "VAULT" not in environ:
        raise ValueError("VAULT is not set")
    return FakeExchanger()


async def test_other_packages_offer_sources_of_tokens_by_name(
    load: Load, free_port: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint(name="Vault", value=f"{__name__}:fake_exchanger", group=config.GROUP)
    sys.modules.setdefault(__name__, sys.modules[fake_exchanger.__module__])
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [entry])
    (problem,) = problems(load, {}, sts_port=(port := free_port()), token_manager_plugin="Vault")
    assert problem == "--tokenManagerPlugin Vault can't be used: VAULT is not set"
    loaded = load({"VAULT": "here"}, sts_port=port, token_manager_plugin="Vault")
    async with token_server(loaded.token_exchange) as server:
        assert server is not None
        assert (await post(port, FORM))[0] == HTTPStatus.OK


@pytest.mark.parametrize(
    ("bound", "host"),
    [("", "localhost"), ("127.1.2.3", "127.1.2.3"), ("::1", "::1"), ("10.0.0.1", "localhost")],
)
def test_the_port_is_of_this_machine_only(load: Load, bound: str, host: str) -> None:
    loaded = load(
        {"MESH_AGENT_STS_URL": "https://a/t", "MESH_AGENT_BIND_ADDRESS": bound}, sts_port=15463
    )
    assert isinstance(loaded.token_exchange, TokenExchangeConfig)
    assert loaded.token_exchange.host == host


def test_the_control_plane_is_sent_the_port(load: Load) -> None:
    loaded = load({"MESH_AGENT_STS_URL": "https://a/t"}, sts_port=15463)
    bootstrap = loaded.envoy.bootstrap
    assert not isinstance(bootstrap, Path)
    assert bootstrap.node_metadata["STS_PORT"] == "15463"
    assert Flags().sts_port == 0


@pytest.mark.parametrize(
    "headers",
    [
        "host: localhost\r\norigin: http://evil.example",
        "host: localhost\r\nsec-fetch-site: same-site",
        "host: evil.example",
    ],
)
async def test_a_web_page_on_the_machine_gets_no_token(
    load: Load, free_port: Callable[[], int], headers: str
) -> None:
    async with FakeAuthorizationServer() as authorization:
        environ = {"MESH_AGENT_STS_URL": authorization.url}
        loaded = load(environ, sts_port=(port := free_port()))
        async with token_server(loaded.token_exchange) as server:
            assert server is not None
            assert (await post(port, FORM, headers=headers))[0] == HTTPStatus.FORBIDDEN
            assert (await post(port, FORM))[0] == HTTPStatus.OK
            assert described(server) == (1, 0, 0)
