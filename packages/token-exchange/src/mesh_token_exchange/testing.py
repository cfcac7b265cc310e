"""For tests of programs that exchange tokens: an exchanger, and an authorization server over HTTP.

async with FakeAuthorizationServer() as server:
    exchanger = Rfc8693Exchanger(Rfc8693Config(url=server.url))
    server.fail(Fault.SERVER_ERROR, times=2)

The server needs aiohttp: `mesh-token-exchange[testing]`.
"""

import asyncio
import ssl
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mesh_token_exchange._errors import TokenExchangeError
from mesh_token_exchange._form import parse_form
from mesh_token_exchange._messages import ACCESS_TOKEN, AccessToken, ExchangeRequest

if TYPE_CHECKING:
    from aiohttp import web

__all__ = ["FakeAuthorizationServer", "FakeExchanger", "Fault", "ReceivedRequest"]

HUGE_BYTES = 20_000_000
_PATH = "/oauth2/token"
_STOP_S = 0.1


class FakeExchanger:
    """An `Exchanger` that makes a new token for each call, or raises `error`.

    requests: every call, in order.
    lifetime_s: of the tokens; None: not in the answer.
    may_answer: while this event is clear, calls wait.
    """

    def __init__(self, *, lifetime_s: float | None = 3600.0) -> None:
        self.lifetime_s = lifetime_s
        self.error: TokenExchangeError | None = None
        self.requests: list[ExchangeRequest] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def exchange(self, request: ExchangeRequest) -> AccessToken:
        """Return the token `issued-N` for the N-th call."""
        self.requests.append(request)
        number = len(self.requests)
        await self.may_answer.wait()
        if self.error is not None:
            raise self.error
        return AccessToken(value=f"issued-{number}", expires_in_s=self.lifetime_s)


class Fault(StrEnum):
    """A fault of the server."""

    HANG = "never answers"
    SLOW = "answers a byte at a time, without an end"
    HUGE = "20 MB"
    COMPRESSED = "compressed"
    WRONG_TYPE = "a web page"
    NOT_JSON = "no JSON"
    NO_TOKEN = "an object without a token"  # noqa: S105 - a description
    SERVER_ERROR = "status 500"
    REDIRECT = "a redirect to another path"
    DISCONNECT = "closes the connection"
    REFUSED = "invalid_grant, with all that was sent in the description"
    CLIENT_REFUSED = "invalid_client"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One request that reached the server.

    form: names and values, in order.
    authorization: the header, "" without one.
    """

    form: list[tuple[str, str]] = field(repr=False)
    authorization: str = field(repr=False)
    content_type: str

    def values(self, name: str) -> list[str]:
        """Return the values of a parameter."""
        return [value for each, value in self.form if each == name]


class FakeAuthorizationServer:
    """A token endpoint on 127.0.0.1 while a block runs; the N-th request gets the token `issued-N`.

    certificate: PEM file of a chain and its key, for https.
    lifetime_s: of the tokens.
    requests: every request, in order, those that a fault answers too.
    url: of the endpoint, inside of the block.
    """

    def __init__(self, *, certificate: Path | None = None, lifetime_s: int = 3600) -> None:
        self._certificate = certificate
        self.lifetime_s = lifetime_s
        self.requests: list[ReceivedRequest] = []
        self.url = ""
        self._fault: Fault | None = None
        self._times: int | None = None
        self._stopping = asyncio.Event()
        self._stack = AsyncExitStack()

    def fail(self, fault: Fault | None, *, times: int | None = None) -> None:
        """Answer with a fault from now on, or so many times; None: without."""
        self._fault, self._times = fault, times

    async def __aenter__(self) -> Self:
        from aiohttp import web

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        tls = None
        if self._certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(self._certificate)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_S)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        self._stack.callback(self._stopping.set)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{runner.addresses[0][1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _handle(self, request: "web.Request") -> "web.StreamResponse":
        from aiohttp import web

        if request.path != _PATH:
            return web.Response(status=404)
        received = ReceivedRequest(
            form=parse_form(await request.read(), max_parameters=64),
            authorization=request.headers.get("Authorization", ""),
            content_type=request.headers.get("Content-Type", ""),
        )
        self.requests.append(received)
        fault = self._next_fault()
        if fault in {Fault.HANG, Fault.SLOW, Fault.HUGE}:
            return await self._stream(request, fault)
        if fault is Fault.DISCONNECT:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        # A response is a mapping, and false without entries.
        faulty = _faulty(fault, received)
        return self._token() if faulty is None else faulty

    def _next_fault(self) -> Fault | None:
        fault = self._fault
        if fault is not None and self._times is not None:
            self._times -= 1
            if self._times <= 0:
                self._fault = None
        return fault

    def _token(self) -> "web.Response":
        from aiohttp import web

        return web.json_response(
            {
                "access_token": f"issued-{len(self.requests)}",
                "issued_token_type": ACCESS_TOKEN,
                "token_type": "Bearer",
                "expires_in": self.lifetime_s,
            }
        )

    async def _stream(self, request: "web.Request", fault: Fault) -> "web.StreamResponse":
        from aiohttp import web

        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        with suppress(ConnectionError):  # the client may go away
            if fault is Fault.HANG:
                await self._stopping.wait()
            await response.prepare(request)
            if fault is Fault.HUGE:
                for _ in range(HUGE_BYTES // 100_000):
                    await response.write(b" " * 100_000)
            while fault is Fault.SLOW and not self._stopping.is_set():
                await response.write(b" ")
                await asyncio.sleep(0.01)
        return response


def _faulty(fault: Fault | None, received: ReceivedRequest) -> "web.Response | None":
    """Return the answer of a fault that is a whole answer."""
    from aiohttp import web

    echo = f"{received.form} {received.authorization}"
    answers = {
        Fault.COMPRESSED: lambda: web.json_response({}, headers={"Content-Encoding": "gzip"}),
        Fault.WRONG_TYPE: lambda: web.Response(text="<p>sign in</p>", content_type="text/html"),
        Fault.NOT_JSON: lambda: web.Response(text="[" * 9000, content_type="application/json"),
        Fault.NO_TOKEN: lambda: web.json_response({"token_type": "Bearer"}),
        Fault.SERVER_ERROR: lambda: web.Response(status=500, text=echo),
        Fault.REDIRECT: lambda: web.Response(status=307, headers={"Location": "/elsewhere"}),
        Fault.REFUSED: lambda: web.json_response(
            {"error": "invalid_grant", "error_description": echo}, status=400
        ),
        Fault.CLIENT_REFUSED: lambda: web.json_response({"error": "invalid_client"}, status=401),
    }
    answer = answers.get(fault) if fault is not None else None
    return answer() if answer is not None else None
