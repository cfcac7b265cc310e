"""Sends a form over HTTPS and reads the response within bounds.

Redirects are not followed, proxies of the environment not used, and compression is not accepted.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from mesh_address_guard import (
    AddressBlocked,
    AddressGuard,
    ConnectFailed,
    FetchFailed,
    fetch_bounded,
)
from mesh_filewatch import fetch_bytes
from mesh_identity import (
    HostNotResolved,
    NoSystemRoots,
    NoUsableRoots,
    fetch_addresses,
    fetch_system_roots,
    roots_context,
)
from mesh_token_exchange._authorization_response import AuthorizationResponse, PassingFailure
from mesh_token_exchange._errors import ExchangeUnavailable

MAX_RESPONSE_BYTES: Final = 1 << 20
_MAX_ROOTS_BYTES: Final = 4 << 20


class Roots:
    """The roots that vouch for the server, read anew at each use; the system's without a file."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._pem = b""
        self._context: ssl.SSLContext | None = None

    async def fetch_context(self) -> ssl.SSLContext:
        """Return the settings of a connection; raises ExchangeUnavailable."""
        pem = await self._fetch_pem()
        if self._context is None or pem != self._pem:
            self._context, self._pem = self._context_of(pem), pem
        return self._context

    async def _fetch_pem(self) -> bytes:
        try:
            if self._file is None:
                return (await fetch_system_roots()).roots_pem
            return await fetch_bytes(self._file, max_bytes=_MAX_ROOTS_BYTES)
        except NoSystemRoots as error:
            raise ExchangeUnavailable(str(error)) from error
        except OSError as error:
            raise ExchangeUnavailable(
                f"root certificate file {self._file} cannot be read: {error.strerror}"
            ) from error

    def _context_of(self, pem: bytes) -> ssl.SSLContext:
        try:
            return roots_context(pem)
        except NoUsableRoots as error:
            where = self._file or "the system's root file"
            raise ExchangeUnavailable(f"{where} holds no readable PEM certificate") from error


async def post_form(
    url: str,
    fields: list[tuple[str, str]],
    *,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
    timeout_s: float,
) -> AuthorizationResponse:
    """Send a form on a new connection and return the response.

    Raises PassingFailure if it may work the next time, else ExchangeUnavailable.
    """
    try:
        async with asyncio.timeout(timeout_s):
            answer = await fetch_bounded(
                url,
                guard=AddressGuard(),
                look_up=fetch_addresses,
                max_bytes=MAX_RESPONSE_BYTES,
                tls=tls,
                headers={**headers, "Accept": "application/json"},
                form=urlencode(fields).encode("ascii"),
            )
    except TimeoutError:
        raise PassingFailure(f"{url}: no answer within {timeout_s:g} s") from None
    except (HostNotResolved, ConnectFailed) as error:
        raise PassingFailure(f"{url}: {error}") from error
    except (AddressBlocked, FetchFailed) as error:
        raise ExchangeUnavailable(f"{url}: {error}") from error
    return AuthorizationResponse(
        status=answer.status,
        content_type=answer.headers.get("content-type", "").partition(";")[0].strip(),
        body=answer.body,
    )
