import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from mesh_ca import (
    Authority,
    Credentials,
    FetchError,
    JwtAuthenticator,
    NotAuthenticated,
    RemoteJwks,
    RemoteJwksConfig,
    StorageError,
    TokenIssuer,
    fetch_key_set,
    remote_jwks,
)
from mesh_ca.callers._remote_jwks import checked_url
from mesh_ca.testing import throwaway_authority

KEY = ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), as_dict=True)
URL = "https://issuer.example/keys"
GUARD_S = 60.0
"""For a server that answers, on a machine that is slow."""


def key_set(*kids: str) -> bytes:
    return json.dumps({"keys": [{**KEY, "kid": kid} for kid in kids]}).encode()


class Somewhere:
    """Bodies by URL; what has none fails. Counts what was asked for."""

    def __init__(self, bodies: dict[str, bytes]) -> None:
        self.bodies = bodies
        self.asked: list[str] = []
        self.began = asyncio.Event()
        self.hold: asyncio.Event | None = None

    async def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        self.began.set()
        if self.hold is not None:
            await self.hold.wait()
        if url not in self.bodies:
            raise FetchError(f"{url}: answered with status 503, not 200")
        return self.bodies[url]


class Monotonic:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def remote(
    fetch: Somewhere,
    monotonic: Monotonic,
    *,
    url: str = URL,
    issuer: str = "",
    timeout_s: float = GUARD_S,
) -> RemoteJwks:
    config = RemoteJwksConfig(url=url, issuer=issuer, timeout_s=timeout_s)
    return RemoteJwks(config, fetch, monotonic=monotonic)


async def test_unknown_id_fetches_the_keys_again_at_most_once_a_second() -> None:
    fetch, monotonic = Somewhere({URL: key_set("a")}), Monotonic()
    keys = remote(fetch, monotonic)
    assert await keys.find("a")
    assert len(fetch.asked) == 1
    fetch.bodies[URL] = key_set("a", "b")
    for _ in range(100):
        assert await keys.find("b") == ()
    assert len(fetch.asked) == 1
    monotonic.now = 1.0
    assert await keys.find("b")
    assert await keys.find("a")
    assert len(fetch.asked) == 2


async def test_callers_at_once_share_one_fetch() -> None:
    fetch, monotonic = Somewhere({URL: key_set("a")}), Monotonic()
    fetch.hold = asyncio.Event()
    keys = remote(fetch, monotonic)
    waiting = [asyncio.ensure_future(keys.find("a")) for _ in range(20)]
    await fetch.began.wait()
    monotonic.now = 0.1
    fetch.hold.set()
    assert all(await asyncio.gather(*waiting))
    assert len(fetch.asked) == 1


@pytest.mark.parametrize("failure", [None, b"", b"{}", b'{"keys": []}', b"[" * 9000])
async def test_failure_keeps_the_old_keys(failure: bytes | None) -> None:
    fetch, monotonic = Somewhere({URL: key_set("a")}), Monotonic()
    keys = remote(fetch, monotonic)
    assert await keys.find("a")
    if failure is None:
        del fetch.bodies[URL]
    else:
        fetch.bodies[URL] = failure
    monotonic.now = 10.0
    assert not await keys.refresh()
    assert await keys.find("a")
    assert await keys.find("b") == ()


async def test_known_id_is_answered_while_a_fetch_hangs() -> None:
    fetch, monotonic = Somewhere({URL: key_set("a")}), Monotonic()
    keys = remote(fetch, monotonic)
    assert await keys.find("a")
    fetch.hold, monotonic.now = asyncio.Event(), 10.0
    fetch.began.clear()
    hanging = asyncio.ensure_future(keys.find("b"))
    await fetch.began.wait()
    assert await keys.find("a")
    fetch.hold.set()
    assert await hanging == ()


async def test_without_any_keys_the_reason_is_reported() -> None:
    keys = remote(Somewhere({}), Monotonic())
    for _ in range(2):
        with pytest.raises(FetchError, match="answered with status 503"):
            await keys.find("a")


async def test_server_that_does_not_answer_is_given_up() -> None:
    fetch = Somewhere({URL: b""})
    fetch.hold = asyncio.Event()
    keys = remote(fetch, Monotonic(), timeout_s=0.01)
    with pytest.raises(FetchError, match=r"no answer within 0\.01 s"):
        await keys.find("a")


ISSUER = "https://issuer.example/tenant"
DOCUMENT = f"{ISSUER}/.well-known/openid-configuration"


async def test_keys_are_found_by_the_discovery_document() -> None:
    document = json.dumps({"issuer": ISSUER, "jwks_uri": URL}).encode()
    fetch = Somewhere({DOCUMENT: document, URL: key_set("a")})
    keys = remote(fetch, Monotonic(), url="", issuer=ISSUER)
    assert await keys.find("a")
    assert fetch.asked == [DOCUMENT, URL]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"{", "no discovery document"),
        (b"[]", "no discovery document"),
        (b'{"issuer": "https://issuer.example/tenant"}', "no discovery document"),
        (b'{"issuer": "https://other", "jwks_uri": "https://x/"}', "it is of issuer"),
        (b'{"issuer": "https://issuer.example/tenant", "jwks_uri": 1}', "not a string"),
        (
            b'{"issuer": "https://issuer.example/tenant", "jwks_uri": "http://far.example/"}',
            "only fetched by https",
        ),
        (
            b'{"issuer": "https://issuer.example/tenant", "jwks_uri": "file:///etc/passwd"}',
            "no URL to fetch keys from",
        ),
    ],
)
async def test_wrong_discovery_document_gives_no_keys(document: bytes, reason: str) -> None:
    keys = remote(Somewhere({DOCUMENT: document}), Monotonic(), url="", issuer=ISSUER)
    with pytest.raises(FetchError, match=reason):
        await keys.find("a")


@pytest.mark.parametrize(
    "url",
    ["", "keys", "ftp://a/", "https://", "http://[", "https://user@a/", "http://127.evil.example/"],
)
async def test_wrong_url_is_an_error_at_the_start(url: str) -> None:
    with pytest.raises(FetchError):
        async with remote_jwks(RemoteJwksConfig(url=url)):
            pass


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]/x"])
def test_this_machine_may_be_asked_by_http(url: str) -> None:
    assert checked_url(url, allow_http=False) == url


@asynccontextmanager
async def answering(
    handler: Handler, authority: Authority | None = None, directory: Path | None = None
) -> AsyncIterator[str]:
    """A real HTTP server, with TLS if there is an authority."""
    import ssl

    app = web.Application()
    app.router.add_get("/{path:.*}", handler)
    context = None
    if authority is not None and directory is not None:
        key, chain = authority.issue_server_certificate(["localhost", "127.0.0.1"])
        (directory / "server.pem").write_bytes(key + chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.pem")
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        scheme = "http" if context is None else "https"
        yield f"{scheme}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_token_is_checked_with_keys_fetched_over_tls(tmp_path: Path) -> None:
    authority = throwaway_authority()
    tokens = TokenIssuer(tmp_path / "tokens", "https://issuer.example")
    shown: list[str | None] = []

    async def keys(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization"))
        return web.json_response(tokens.jwks())

    (tmp_path / "root.pem").write_bytes(authority.root_pem)
    (tmp_path / "token").write_text("canary\n")
    async with answering(keys, authority, tmp_path) as base:
        config = RemoteJwksConfig(
            url=f"{base}/keys",
            root_certificate=tmp_path / "root.pem",
            token_path=tmp_path / "token",
            timeout_s=GUARD_S,
        )
        async with remote_jwks(config) as source:
            callers = JwtAuthenticator(
                tokens.issuer, ["istio-ca"], jwks=source, trust_domain="cluster.local"
            )
            bearer = f"Bearer {tokens.issue('shop', 'cart')}"
            caller = await callers.authenticate(
                Credentials(metadata={"authorization": bearer}, encrypted=True)
            )
        assert caller.identities == ("spiffe://cluster.local/ns/shop/sa/cart",)
        assert shown == ["Bearer canary"]
        (tmp_path / "root.pem").write_bytes(throwaway_authority().root_pem)
        async with remote_jwks(config) as source:
            with pytest.raises(FetchError, match="certificate does not verify"):
                await source.find("x")


async def redirect(_: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere")


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(64):
        await response.write(b" " * 65536)
    return response


async def broken(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.close()
    return web.Response()


@pytest.mark.parametrize(
    ("handler", "reason"),
    [(redirect, "status 302"), (endless, "more than 1048576 bytes"), (broken, "127.0.0.1")],
)
async def test_server_that_misbehaves_gives_no_keys(handler: Handler, reason: str) -> None:
    async with (
        answering(handler) as base,
        remote_jwks(RemoteJwksConfig(url=f"{base}/keys", timeout_s=GUARD_S)) as source,
    ):
        with pytest.raises(FetchError, match=reason):
            await source.find("a")
        callers = JwtAuthenticator(
            "https://issuer.example", ["istio-ca"], jwks=source, trust_domain="cluster.local"
        )
        token = "e30.e30.e30"
        with pytest.raises(NotAuthenticated):
            await callers.authenticate(
                Credentials(metadata={"authorization": f"Bearer {token}"}, encrypted=True)
            )


@pytest.mark.parametrize("content", ["none here", "", "\n"])
async def test_root_file_without_certificates_is_reported(tmp_path: Path, content: str) -> None:
    (tmp_path / "root.pem").write_text(content)
    config = RemoteJwksConfig(url=URL, root_certificate=tmp_path / "root.pem")
    with pytest.raises(StorageError, match=r"root\.pem holds no readable PEM"):
        async with remote_jwks(config):
            pass


async def test_the_token_is_shown_to_the_issuer_and_to_no_other_host(tmp_path: Path) -> None:
    shown: dict[str, str | None] = {}
    (tmp_path / "token").write_text("canary")

    async def elsewhere(request: web.Request) -> web.Response:
        shown["elsewhere"] = request.headers.get("Authorization")
        return web.Response(status=401)

    async with answering(elsewhere) as other:

        async def document(request: web.Request) -> web.Response:
            shown["issuer"] = request.headers.get("Authorization")
            return web.json_response({"issuer": issuer, "jwks_uri": f"{other}/keys"})

        async with answering(document) as issuer:
            config = RemoteJwksConfig(
                issuer=issuer, token_path=tmp_path / "token", timeout_s=GUARD_S
            )
            async with remote_jwks(config) as source:
                with pytest.raises(FetchError, match="401, not 200; the token is not shown to"):
                    await source.find("a")
    assert shown == {"issuer": "Bearer canary", "elsewhere": None}


async def test_key_set_is_fetched_once_as_it_is() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=b'{"keys": [], "more": 1}')

    async with answering(answer) as base:
        config = RemoteJwksConfig(url=f"{base}/keys", timeout_s=GUARD_S)
        assert await fetch_key_set(config) == b'{"keys": [], "more": 1}'
