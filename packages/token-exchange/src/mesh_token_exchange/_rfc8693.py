"""An `Exchanger` that asks an authorization server by RFC 8693."""

import asyncio
import base64
import ipaddress
import logging
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus, urlsplit

from mesh_filewatch import fetch_bytes
from mesh_lifecycle import Backoff, Clock, SystemClock, check_fields
from mesh_token_exchange._authorization_response import PassingFailure, token_of
from mesh_token_exchange._errors import ExchangeRefused, ExchangeUnavailable, InvalidConfig
from mesh_token_exchange._messages import TOKEN_EXCHANGE, AccessToken, ExchangeRequest

log = logging.getLogger("mesh_token_exchange")

_MAX_SECRET_BYTES: Final = 65_536
_SECRET = re.compile(rb"[\x20-\x7e]+")  # RFC 6749, appendix A.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Rfc8693Config:
    """Where the authorization server is, and how it is asked.

    url: of its token endpoint; https, or http to this machine.
    client_id, client_secret_file: both or neither. With them, this client authenticates itself by
        client_secret_basic (RFC 6749 section 2.3.1); the file is read anew for each exchange.
    audience, resource, scope: sent if the application's request has none of that name.
    root_certificate: PEM file of the roots that vouch for the server, read anew for each exchange;
        None: the system's.
    timeout_s: for one attempt, connecting included.
    deadline_s: for an exchange, with all attempts and the pauses between them.
    max_retries: further attempts after a connection failed or timed out, or after a status of 500
        and more. Other answers are final.
    backoff: the pauses between attempts.
    """

    url: str
    client_id: str = ""
    client_secret_file: Path | None = None
    audience: tuple[str, ...] = ()
    resource: tuple[str, ...] = ()
    scope: str = ""
    root_certificate: Path | None = None
    timeout_s: float = 5.0
    deadline_s: float = 15.0
    max_retries: int = 5
    backoff: Backoff = field(
        default_factory=lambda: Backoff(initial_s=0.01, maximum_s=1.0, multiplier=3.0)
    )

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        _check_url(self.url)
        if bool(self.client_id) != (self.client_secret_file is not None):
            raise InvalidConfig("client_id and client_secret_file must be given together")
        if min(self.timeout_s, self.deadline_s) <= 0 or self.max_retries < 0:
            raise InvalidConfig("timeout_s and deadline_s must be above 0, max_retries at least 0")


class Rfc8693Exchanger:
    """Asks an authorization server for a token, on a new connection for each attempt."""

    def __init__(
        self,
        config: Rfc8693Config,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        from mesh_token_exchange import _https

        self._post_form = _https.post_form
        self._roots = _https.Roots(config.root_certificate)
        self._config = config
        self._clock = clock or SystemClock()
        self._rng = rng

    async def exchange(self, request: ExchangeRequest) -> AccessToken:
        """Return a token of the server; raises ExchangeRefused or ExchangeUnavailable."""
        deadline_s = self._config.deadline_s
        try:
            async with asyncio.timeout(deadline_s):
                return await self._exchange(request)
        except TimeoutError:
            raise ExchangeUnavailable(
                f"{self._config.url}: no token within {deadline_s:g} s"
            ) from None

    async def _exchange(self, request: ExchangeRequest) -> AccessToken:
        delays = islice(self._config.backoff.delays(self._rng), self._config.max_retries)
        while True:
            try:
                return await self._attempt(request)
            except PassingFailure as error:
                delay_s = next(delays, None)
                if delay_s is None:
                    raise
                log.info(
                    "token exchange is tried again",
                    extra={"reason": error.reason, "delay_s": round(delay_s, 3)},
                )
            await self._clock.sleep(delay_s)

    async def _attempt(self, request: ExchangeRequest) -> AccessToken:
        # No roots are needed for a server on this machine that is asked by http.
        secure = urlsplit(self._config.url).scheme == "https"
        headers, private = await self._authentication()
        response = await self._post_form(
            self._config.url,
            self._fields(request),
            headers=headers,
            tls=await self._roots.fetch_context() if secure else None,
            timeout_s=self._config.timeout_s,
        )
        try:
            return token_of(response)
        except ExchangeRefused as error:
            hidden = (*private, request.subject_token, request.actor_token)
            refused = ExchangeRefused(error.code, _without(error.description, hidden))
        # Outside of the handler: the other error's description may repeat a token.
        raise refused

    def _fields(self, request: ExchangeRequest) -> list[tuple[str, str]]:
        config = self._config
        single = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": request.subject_token,
            "subject_token_type": request.subject_token_type,
            "scope": request.scope or config.scope,
            "requested_token_type": request.requested_token_type,
            "actor_token": request.actor_token,
            "actor_token_type": request.actor_token_type,
        }
        fields = [(name, value) for name, value in single.items() if value]
        fields += [("resource", each) for each in request.resource or config.resource]
        fields += [("audience", each) for each in request.audience or config.audience]
        return fields

    async def _authentication(self) -> tuple[Mapping[str, str], tuple[str, ...]]:
        """Return the headers by which this client authenticates itself, and the secrets in them."""
        file = self._config.client_secret_file
        if file is None:
            return {}, ()
        try:
            content = (await fetch_bytes(file, max_bytes=_MAX_SECRET_BYTES)).rstrip(b"\r\n")
        except OSError as error:
            raise ExchangeUnavailable(
                f"client secret file {file} cannot be read: {error.strerror}"
            ) from error
        if not _SECRET.fullmatch(content):
            raise ExchangeUnavailable(
                f"client secret file {file} does not hold a secret: one line of ASCII is right"
            )
        secret = content.decode("ascii")
        # RFC 6749 section 2.3.1: each part is form-encoded before it is joined.
        encoded = f"{quote_plus(self._config.client_id)}:{quote_plus(secret)}"
        credentials = base64.b64encode(encoded.encode("ascii")).decode("ascii")
        return (
            {"Authorization": f"Basic {credentials}"},
            (secret, quote_plus(secret), credentials),
        )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise InvalidConfig(f"url {url[:200]!r} is no URL") from error
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidConfig("url must have no user name, password or fragment")
    if not host or parts.scheme not in {"https", "http"}:
        raise InvalidConfig(f"url {url[:200]!r} is no token endpoint, https://host/path is right")
    if parts.scheme == "http" and not _is_loopback(host):
        raise InvalidConfig(f"url {url[:200]!r}: tokens go to other machines by https only")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _without(text: str, hidden: Iterable[str]) -> str:
    for each in sorted(filter(None, hidden), key=len, reverse=True):
        text = text.replace(each, "...")
    return text
