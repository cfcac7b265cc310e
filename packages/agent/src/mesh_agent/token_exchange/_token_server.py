"""The port where the application exchanges its token; answers callers on this machine only."""

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from mesh_agent.token_exchange._token_exchange_config import TokenExchangeConfig
from mesh_status_server import Request, Response, http_server

if TYPE_CHECKING:
    from mesh_listening import Port
    from mesh_token_exchange import Answer, Exchanger, TokenExchange

log = logging.getLogger(__name__)

RESULTS = ("issued", "refused", "failed")


class TokenServer:
    """Answers requests for tokens, and counts how they ended."""

    def __init__(self, config: TokenExchangeConfig, exchange: "TokenExchange") -> None:
        self._config = config
        self._exchange = exchange
        self._counts: Counter[str] = Counter()
        self._last_failure = ""
        self.port: Port | None = None
        """Counts the connections; None before the server listens."""

    @property
    def counts(self) -> Mapping[str, int]:
        """How many requests for tokens ended how, by the name of the result."""
        return {result: self._counts[result] for result in RESULTS}

    def describe(self) -> Mapping[str, object]:
        """Return where tokens are exchanged and how that went; no token and no secret."""
        return {
            "address": f"{self._config.host}:{self._config.port}",
            "plugin": self._config.plugin,
            "url": self._config.server.url if self._config.server is not None else "",
            **self.counts,
            "last_failure": self._last_failure,
        }

    async def __call__(self, request: Request) -> Response:
        if (refused := request.local_page_refusal()) is not None:
            return refused
        content_type = request.header("content-type")
        answer = await self._exchange.answer(
            request.method, request.path, content_type, request.body
        )
        self._count(request, answer)
        return Response(
            status=HTTPStatus(answer.status),
            body=answer.body,
            content_type=answer.content_type,
            headers=answer.headers,
        )

    def _count(self, request: Request, answer: "Answer") -> None:
        from mesh_token_exchange import TOKEN_PATH

        if request.path != TOKEN_PATH:
            return
        if answer.status < HTTPStatus.BAD_REQUEST:
            self._counts["issued"] += 1
        elif answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._counts["refused"] += 1
        else:
            self._counts["failed"] += 1
            self._last_failure = str(json.loads(answer.body).get("error_description", ""))


@asynccontextmanager
async def token_server(config: TokenExchangeConfig | None) -> AsyncIterator[TokenServer | None]:
    """Exchange tokens while the block runs; without a config, yields None. Raises `ListenError`."""
    if config is None:
        yield None
        return
    from mesh_token_exchange import TokenExchange

    server = TokenServer(config, TokenExchange(_exchanger(config)))
    async with http_server(config.host, config.port, server) as (_, port):
        server.port = port
        log.info("tokens are exchanged", extra={"host": config.host, "port": config.port})
        yield server


def _exchanger(config: TokenExchangeConfig) -> "Exchanger":
    if config.exchanger is not None:
        return config.exchanger
    if config.server is None:
        raise ValueError("an exchange has a server or an exchanger, this one has neither")
    from mesh_token_exchange import Rfc8693Exchanger

    return Rfc8693Exchanger(config.server)
