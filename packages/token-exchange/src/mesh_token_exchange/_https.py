"""Sends a form over HTTPS and reads the response within bounds.

Redirects are not followed, proxies of the environment not used, and compression is not accepted.
aiohttp is an optional dependency: `mesh-token-exchange[http]`.
"""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import aiohttp

from mesh_filewatch import fetch_bytes
from mesh_identity import NoSystemRoots, NoUsableRoots, fetch_system_roots, roots_context
from mesh_token_exchange._authorization_response import AuthorizationResponse, PassingFailure
from mesh_token_exchange._errors import ExchangeUnavailable

MAX_RESPONSE_BYTES: Final = 1 << 20
_MAX_ROOTS_BYTES: Final = 4 << 20
_CHUNK_BYTES = 65_536


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
            return await _post_form(url, fields, headers=headers, tls=tls)
    except TimeoutError:
        problem: ExchangeUnavailable = PassingFailure(f"{url}: no answer within {timeout_s:g} s")
    except aiohttp.ClientConnectorCertificateError as error:
        problem = ExchangeUnavailable(f"{url}: {error}")
    except aiohttp.ClientResponseError:
        # The error has the request's headers and parts of the response, so nothing of it is told.
        problem = ExchangeUnavailable(f"{url}: the response is not HTTP")
    except (aiohttp.ClientError, OSError) as error:
        problem = PassingFailure(f"{url}: {error}")
    # Outside of the handler, so that the other error and its headers are not kept as its context.
    raise problem


async def _post_form(
    url: str,
    fields: list[tuple[str, str]],
    *,
    headers: Mapping[str, str],
    tls: ssl.SSLContext | None,
) -> AuthorizationResponse:
    asked = {
        **headers,
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    form = urlencode(fields).encode("ascii")
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls or True, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        ) as session,
        session.post(url, data=form, headers=asked, allow_redirects=False) as response,
    ):
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise ExchangeUnavailable(f"{url}: the response is compressed")
        body = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
            body += chunk
            if len(body) > MAX_RESPONSE_BYTES:
                response.close()
                raise ExchangeUnavailable(f"{url}: more than {MAX_RESPONSE_BYTES} bytes")
        content_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
        return AuthorizationResponse(
            status=response.status, content_type=content_type, body=bytes(body)
        )
