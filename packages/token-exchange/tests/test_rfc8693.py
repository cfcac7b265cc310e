import asyncio
import base64
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from mesh_lifecycle.testing import ManualClock
from mesh_testkit import find_free_port
from mesh_testkit.certificates import Authority
from mesh_token_exchange import (
    JWT,
    TOKEN_EXCHANGE,
    ExchangeRefused,
    ExchangeRequest,
    ExchangeUnavailable,
    InvalidConfig,
    Rfc8693Config,
    Rfc8693Exchanger,
)
from mesh_token_exchange.testing import FakeAuthorizationServer, Fault

GUARD_S = 60.0
"""For a server that answers, on a machine that is slow."""
REQUEST = ExchangeRequest(subject_token="e30.subject.e30", subject_token_type=JWT)


class Tls(NamedTuple):
    """The files of conftest, as the type checker sees them."""

    server: Path
    root: Path


@pytest.fixture
async def server(tls: Tls) -> AsyncIterator[FakeAuthorizationServer]:
    async with FakeAuthorizationServer(certificate=tls.server) as server:
        yield server


@pytest.fixture
def exchanger(server: FakeAuthorizationServer, tls: Tls) -> Rfc8693Exchanger:
    return Rfc8693Exchanger(config(server, tls))


def config(
    server: FakeAuthorizationServer, tls: Tls, *, timeout_s: float = GUARD_S, max_retries: int = 5
) -> Rfc8693Config:
    return Rfc8693Config(
        url=server.url,
        root_certificate=tls.root,
        timeout_s=timeout_s,
        deadline_s=GUARD_S,
        max_retries=max_retries,
    )


async def test_token_is_asked_for_by_https(
    server: FakeAuthorizationServer, exchanger: Rfc8693Exchanger
) -> None:
    assert server.url.startswith("https://")
    token = await exchanger.exchange(REQUEST)
    assert (token.value, token.token_type, token.expires_in_s) == ("issued-1", "Bearer", 3600)
    (received,) = server.requests
    assert received.content_type == "application/x-www-form-urlencoded"
    assert received.authorization == ""
    assert received.form == [
        ("grant_type", TOKEN_EXCHANGE),
        ("subject_token", "e30.subject.e30"),
        ("subject_token_type", JWT),
    ]


async def test_defaults_are_sent_where_the_request_has_none(
    server: FakeAuthorizationServer, tls: Tls
) -> None:
    exchanger = Rfc8693Exchanger(
        Rfc8693Config(
            url=server.url,
            root_certificate=tls.root,
            audience=("a", "b"),
            resource=("urn:c",),
            scope="d",
        )
    )
    await exchanger.exchange(REQUEST)
    await exchanger.exchange(
        ExchangeRequest(
            subject_token="s",
            subject_token_type=JWT,
            audience=("x & y",),
            resource=("urn:z",),
            scope="e f",
            requested_token_type="urn:r",
            actor_token="actor",
            actor_token_type="urn:t",
        )
    )
    names = ("audience", "resource", "scope", "requested_token_type", "actor_token")
    sent = [[each.values(name) for name in names] for each in server.requests]
    assert sent == [
        [["a", "b"], ["urn:c"], ["d"], [], []],
        [["x & y"], ["urn:z"], ["e f"], ["urn:r"], ["actor"]],
    ]


async def test_client_authenticates_itself_by_the_secret_of_the_file(
    server: FakeAuthorizationServer, tls: Tls, tmp_path: Path
) -> None:
    file = tmp_path / "secret"
    exchanger = Rfc8693Exchanger(
        Rfc8693Config(
            url=server.url, root_certificate=tls.root, client_id="me:1", client_secret_file=file
        )
    )
    for secret, encoded in (("p: %/\u007e", b"me%3A1:p%3A+%25%2F~"), ("new", b"me%3A1:new")):
        file.write_text(secret + "\n")
        await exchanger.exchange(REQUEST)
        kind, _, credentials = server.requests[-1].authorization.partition(" ")
        assert (kind, base64.b64decode(credentials)) == ("Basic", encoded)
    for content in ("", "two\nlines", "\u20ac"):
        file.write_text(content)
        with pytest.raises(ExchangeUnavailable, match="does not hold a secret"):
            await exchanger.exchange(REQUEST)
    file.unlink()
    with pytest.raises(ExchangeUnavailable, match="secret cannot be read: No such file"):
        await exchanger.exchange(REQUEST)
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", [Fault.SERVER_ERROR, Fault.DISCONNECT])
async def test_failure_that_passes_is_tried_again(
    server: FakeAuthorizationServer, exchanger: Rfc8693Exchanger, fault: Fault
) -> None:
    server.fail(fault, times=5)
    assert (await exchanger.exchange(REQUEST)).value == "issued-6"


async def test_retries_have_an_end(
    server: FakeAuthorizationServer, exchanger: Rfc8693Exchanger
) -> None:
    server.fail(Fault.SERVER_ERROR)
    with pytest.raises(ExchangeUnavailable, match="status 500"):
        await exchanger.exchange(REQUEST)
    assert len(server.requests) == 6


async def test_pauses_between_attempts_grow(server: FakeAuthorizationServer, tls: Tls) -> None:
    class Recording(ManualClock):
        def __init__(self) -> None:
            super().__init__()
            self.slept: list[float] = []

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    clock = Recording()
    server.fail(Fault.SERVER_ERROR)
    exchanger = Rfc8693Exchanger(config(server, tls), clock=clock, rng=random.Random(1))
    with pytest.raises(ExchangeUnavailable):
        await exchanger.exchange(REQUEST)
    expected = (0.01, 0.03, 0.09, 0.27, 0.81)
    assert len(clock.slept) == 5
    for slept, middle in zip(clock.slept, expected, strict=True):
        assert middle / 2 <= slept <= min(middle * 1.5, 1.0)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault.HUGE, "more than 1048576 bytes"),
        (Fault.COMPRESSED, "compressed"),
        (Fault.WRONG_TYPE, "no JSON object"),
        (Fault.NOT_JSON, "no JSON object"),
        (Fault.NO_TOKEN, "no usable access_token"),
        (Fault.REDIRECT, "status 307"),
        (Fault.CLIENT_REFUSED, "refuses this client: invalid_client"),
    ],
)
async def test_answer_without_a_token_is_final(
    server: FakeAuthorizationServer, exchanger: Rfc8693Exchanger, fault: Fault, reason: str
) -> None:
    server.fail(fault)
    with pytest.raises(ExchangeUnavailable, match=reason):
        await exchanger.exchange(REQUEST)
    assert len(server.requests) == 1


async def test_refusal_is_final_and_repeats_no_secret(
    server: FakeAuthorizationServer, exchanger: Rfc8693Exchanger
) -> None:
    server.fail(Fault.REFUSED)
    with pytest.raises(ExchangeRefused) as caught:
        await exchanger.exchange(REQUEST)
    assert caught.value.code == "invalid_grant"
    assert "('subject_token', '...')" in caught.value.description
    assert len(server.requests) == 1


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.SLOW])
async def test_server_that_takes_an_hour_is_given_up(
    server: FakeAuthorizationServer, tls: Tls, fault: Fault
) -> None:
    server.fail(fault)
    began = time.monotonic()
    exchanger = Rfc8693Exchanger(config(server, tls, timeout_s=0.3, max_retries=1))
    with pytest.raises(ExchangeUnavailable, match=r"no answer within 0\.3 s"):
        await exchanger.exchange(REQUEST)
    within = Rfc8693Config(url=server.url, root_certificate=tls.root, deadline_s=0.3)
    with pytest.raises(ExchangeUnavailable, match=r"no token within 0\.3 s"):
        await Rfc8693Exchanger(within).exchange(REQUEST)
    assert time.monotonic() - began < GUARD_S
    server.fail(None)
    assert (await Rfc8693Exchanger(config(server, tls)).exchange(REQUEST)).value


async def test_server_by_http_on_this_machine_needs_no_roots(tmp_path: Path) -> None:
    async with FakeAuthorizationServer() as server:
        config = Rfc8693Config(url=server.url, root_certificate=tmp_path / "none")
        assert (await Rfc8693Exchanger(config).exchange(REQUEST)).value


async def test_nothing_listens() -> None:
    url = f"http://127.0.0.1:{find_free_port()}/"
    with pytest.raises(ExchangeUnavailable, match="cannot be connected to: connection refused"):
        await Rfc8693Exchanger(Rfc8693Config(url=url, max_retries=1)).exchange(REQUEST)


async def test_root_file_is_read_anew_and_decides(
    server: FakeAuthorizationServer, tls: Tls, tmp_path: Path
) -> None:
    root = tmp_path / "root.pem"
    exchanger = Rfc8693Exchanger(Rfc8693Config(url=server.url, root_certificate=root))

    async def refused(reason: str) -> None:
        with pytest.raises(ExchangeUnavailable, match=reason):
            await exchanger.exchange(REQUEST)

    await refused(r"root\.pem cannot be read: No such file")
    for content in ("", "none here"):
        root.write_text(content)
        await refused(r"root\.pem holds no readable PEM certificate")
    root.write_bytes(Authority().root_pem)
    await refused("certificate does not verify")
    root.write_bytes("# r\u00f6\u00f6t\n".encode() + tls.root.read_bytes())
    assert (await exchanger.exchange(REQUEST)).value
    root.write_bytes(Authority().root_pem)
    await refused("certificate does not verify")
    assert len(server.requests) == 1


async def test_without_a_root_file_the_system_roots_decide(
    server: FakeAuthorizationServer, tls: Tls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exchanger = Rfc8693Exchanger(Rfc8693Config(url=server.url))
    monkeypatch.setenv("SSL_CERT_FILE", str(tls.root))
    assert (await exchanger.exchange(REQUEST)).value
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none"))
    with pytest.raises(ExchangeUnavailable, match="does not exist"):
        await exchanger.exchange(REQUEST)


async def test_certificate_of_another_name_is_refused(tmp_path: Path) -> None:
    authority = Authority()
    issued = authority.issue("elsewhere.example")
    (tmp_path / "server.pem").write_bytes(issued.chain_pem + issued.key_pem)
    (tmp_path / "root.pem").write_bytes(authority.root_pem)
    async with FakeAuthorizationServer(certificate=tmp_path / "server.pem") as server:
        config = Rfc8693Config(url=server.url, root_certificate=tmp_path / "root.pem")
        with pytest.raises(ExchangeUnavailable, match="certificate does not verify"):
            await Rfc8693Exchanger(config).exchange(REQUEST)
    assert not server.requests


async def test_proxies_of_the_environment_are_not_used(
    exchanger: Rfc8693Exchanger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{find_free_port()}")
    assert (await exchanger.exchange(REQUEST)).value


@pytest.mark.parametrize(
    "url",
    [
        "",
        "token",
        "ftp://a/",
        "https://",
        "http://[",
        "https://a:b/",
        "https://user@a/",
        "https://a/#b",
        "http://sts.example/",
        "http://127.evil.example/",
    ],
)
def test_url_that_can_not_be_right(url: str) -> None:
    with pytest.raises(InvalidConfig, match="url"):
        Rfc8693Config(url=url)


def test_settings_that_can_not_be_right() -> None:
    for url in ("https://a/x?y", "http://localhost:1", "http://[::1]/"):
        Rfc8693Config(url=url)
    with pytest.raises(InvalidConfig, match="together"):
        Rfc8693Config(url="https://a/", client_id="me")
    with pytest.raises(InvalidConfig, match="together"):
        Rfc8693Config(url="https://a/", client_secret_file=Path("x"))
    with pytest.raises(InvalidConfig, match="timeout_s"):
        Rfc8693Config(url="https://a/", timeout_s=0)


@pytest.mark.parametrize(
    "url", ["https://169.254.169.254/token", "https://0xa9fea9fe/", "https://[fd00:ec2::254]/"]
)
async def test_no_token_is_shown_to_a_metadata_service(url: str, tls: Tls) -> None:
    exchanger = Rfc8693Exchanger(Rfc8693Config(url=url, root_certificate=tls.root))
    with pytest.raises(ExchangeUnavailable, match="is at a blocked address"):
        await exchanger.exchange(REQUEST)


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HOSTILE = {
    "answers of status 1xx": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 100, "status 1xx"),
    "headers": (OK, b"X: y\r\n" * 1000, "a head of more than"),
    "chunks of a byte": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n",
        b"1\r\n \r\n" * 1000,
        "less than 64 bytes",
    ),
}


@pytest.mark.parametrize("what", HOSTILE)
async def test_a_server_that_sends_without_an_end_is_left_at_once(what: str) -> None:
    first, again, reason = HOSTILE[what]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(first)
            while not writer.transport.is_closing():
                writer.write(again)
                await writer.drain()
        writer.transport.abort()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(ExchangeUnavailable, match=reason):
            await Rfc8693Exchanger(Rfc8693Config(url=url)).exchange(REQUEST)
