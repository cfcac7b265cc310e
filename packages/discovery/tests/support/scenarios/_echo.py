"""An HTTP server that answers with what it was asked, and does as the test tells it."""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from scenarios._answers import Seen


@dataclass(frozen=True)
class Behaviour:
    """How an echo server answers."""

    status: int = 200
    delay_s: float = 0.0
    headers: Mapping[str, str] = field(default_factory=dict)
    times: int | None = None
    """How many requests are answered so, before it is 200 again; None: all."""


@dataclass
class Echo:
    """An HTTP upstream."""

    version: str
    address: str
    port: int
    server_names: list[str | None] = field(default_factory=list)
    """The SNI of each TLS handshake."""
    requests: list[Seen] = field(default_factory=list)
    _behaviour: Behaviour = field(default_factory=Behaviour)
    _context: ssl.SSLContext | None = None
    _runner: web.AppRunner | None = None

    @property
    def count(self) -> int:
        """How many requests came."""
        return len(self.requests)

    def answer(
        self,
        *,
        status: int = 200,
        delay_s: float = 0.0,
        headers: Mapping[str, str] | None = None,
        times: int | None = None,
    ) -> None:
        """Answer so from now on, or so many times."""
        self._behaviour = Behaviour(status, delay_s, headers or {}, times)

    def reset(self) -> None:
        """Answer 200 again, and forget the requests."""
        self.answer()
        self.requests.clear()
        self.server_names.clear()

    async def accept(self) -> None:
        """Open the port."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._respond)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
        await self._runner.setup()
        site = web.TCPSite(
            self._runner, self.address, self.port, ssl_context=self._context, reuse_address=True
        )
        await site.start()

    async def refuse(self) -> None:
        """Close the port and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _respond(self, request: web.Request) -> web.Response:
        peer = request.transport.get_extra_info("peername") if request.transport else None
        listed = tuple(request.headers.items())
        seen = Seen(
            method=request.method,
            path=request.raw_path,
            headers={name.lower(): value for name, value in listed},
            header_list=listed,
            peer=f"{peer[0]}:{peer[1]}" if peer else "",
            body=await request.text(),
        )
        self.requests.append(seen)
        now = self._behaviour
        if now.times is not None:
            left = now.times - 1
            self._behaviour = (
                Behaviour(now.status, now.delay_s, now.headers, left) if left > 0 else Behaviour()
            )
        if now.delay_s:
            await asyncio.sleep(now.delay_s)
        return web.json_response(
            {
                "version": self.version,
                "method": seen.method,
                "path": seen.path,
                "headers": listed,
                "peer": seen.peer,
                "body": seen.body,
            },
            status=now.status,
            headers=now.headers,
        )
