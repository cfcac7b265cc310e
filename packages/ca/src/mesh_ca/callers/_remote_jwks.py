"""Key sets fetched from the issuer of tokens: by URL, or found by OpenID Connect discovery.

Keys are fetched again at an interval, and when a token names an unknown key. If a fetch fails, the
keys of the last one stay in use.
"""

import asyncio
import ipaddress
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from mesh_address_guard import AddressBlocked, AddressGuard, FetchFailed, fetch_bounded
from mesh_ca._errors import CaError, FetchError, StorageError
from mesh_ca._files import fetch_file
from mesh_ca.callers._jwks import VerificationKey, parse_jwks
from mesh_identity import (
    HostNotResolved,
    NoSystemRoots,
    NoUsableRoots,
    TokenFileError,
    fetch_addresses,
    fetch_system_roots,
    fetch_token,
    roots_context,
)
from mesh_lifecycle import check_fields

log = logging.getLogger("mesh_ca")

DISCOVERY_PATH = "/.well-known/openid-configuration"
_AGAIN_AFTER_S = 1.0
_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJwksConfig:
    """Where a key set is, and how it is fetched.

    url: of the key set. Empty: the issuer's OpenID Connect discovery document tells it.
    issuer: of the tokens; needed if `url` is empty.
    refresh_s: keys are fetched anew after this time. A key that its issuer has withdrawn is
        accepted for that long.
    timeout_s: for one fetch, connecting and discovery included.
    root_certificate: PEM file of the roots that vouch for the server; None: the system's.
    token_path: a bearer token to show, read anew for each fetch; Kubernetes asks for one. It is
        shown to the host of `url`, or without `url` to the issuer's, and to no other: where the
        issuer's document names another host, that one gets no token.
    allow_http: fetch keys from plain http URLs of other machines too. An attacker on the network
        who changes the answer can then make tokens for any identity.
    guard: which addresses are connected to, whatever name leads there; without it, all but those of
        metadata services.
    for_whom: the one who named the server, if there are several: each has threads of its own for
        names whose servers do not answer.
    max_bytes: of a key set, and of a discovery document.
    """

    url: str = ""
    issuer: str = ""
    refresh_s: float = 300.0
    timeout_s: float = 5.0
    root_certificate: Path | None = None
    token_path: Path | None = None
    allow_http: bool = False
    guard: AddressGuard = field(default_factory=AddressGuard)
    for_whom: str = ""
    max_bytes: int = 1024 * 1024

    def __post_init__(self) -> None:
        check_fields(self)


class Fetch(Protocol):
    """Fetches a URL."""

    async def __call__(self, url: str) -> bytes:
        """Return the body, within its bound; raises FetchError with the reason."""
        ...


class RemoteJwks:
    """The keys of a key set that is fetched over the network; created by `remote_jwks`."""

    def __init__(
        self,
        config: RemoteJwksConfig,
        fetch: Fetch,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._fetch = fetch
        self._monotonic = monotonic
        self._keys: tuple[VerificationKey, ...] = ()
        self._problem = "no keys have been fetched yet"
        self._tried_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def find(self, kid: str | None) -> Sequence[VerificationKey]:
        """Return the keys of this id, all for None; raises FetchError if none were ever fetched."""
        found = self._matching(kid)
        if not found:
            # Any client may send an unknown id: all of them together cause one fetch a second.
            await self.refresh()
            found = self._matching(kid)
        if not self._keys:
            raise FetchError(self._problem)
        return found

    async def refresh(self) -> bool:
        """Fetch the keys unless that was tried a second ago or less; return whether it worked."""
        asked_at = self._monotonic()
        async with self._fetching:
            if self._tried_at > asked_at or self._monotonic() - self._tried_at < _AGAIN_AFTER_S:
                return bool(self._keys)
            try:
                self._keys = await self._fetch_keys()
            except CaError as error:
                self._problem = str(error)
                log.warning(
                    "key set not fetched, the last good keys stay",
                    extra={"reason": self._problem, "keys": len(self._keys)},
                )
                return False
            finally:
                self._tried_at = self._monotonic()
            return True

    def _matching(self, kid: str | None) -> tuple[VerificationKey, ...]:
        return tuple(key for key in self._keys if kid is None or key.kid == kid)

    async def _fetch_keys(self) -> tuple[VerificationKey, ...]:
        url, text = await _fetched(self._config, self._fetch)
        try:
            return parse_jwks(text)
        except StorageError as error:
            raise FetchError(f"{url}: {error}") from error


async def fetch_key_set(config: RemoteJwksConfig) -> bytes:
    """Fetch a key set once, and return it as it came.

    Raises FetchError with the reason if there is none, or StorageError for wrong roots. What comes
    is not looked at: for proxies that check tokens by keys of more kinds than this package.
    """
    async with _http(config) as fetch:
        _, text = await _fetched(config, fetch)
    return text


async def _fetched(config: RemoteJwksConfig, fetch: Fetch) -> tuple[str, bytes]:
    """Return the URL of a key set, and what is there."""
    url = config.url
    try:
        async with asyncio.timeout(config.timeout_s):
            url = url or await _discovered(config, fetch)
            return url, await fetch(checked_url(url, allow_http=config.allow_http))
    except TimeoutError:
        raise FetchError(
            f"{url or config.issuer}: no answer within {config.timeout_s:g} s"
        ) from None


async def _discovered(config: RemoteJwksConfig, fetch: Fetch) -> str:
    issuer = config.issuer
    url = issuer.rstrip("/") + DISCOVERY_PATH
    text = await fetch(checked_url(url, allow_http=config.allow_http))
    try:
        document = json.loads(text)
        claimed, found = document["issuer"], document["jwks_uri"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise FetchError(f"{url}: no discovery document with issuer and jwks_uri") from error
    # OpenID Connect Discovery 1.0, section 4.3
    if claimed != issuer:
        raise FetchError(f"{url}: it is of issuer {str(claimed)[:200]!r}, not {issuer!r}")
    if not isinstance(found, str):
        raise FetchError(f"{url}: jwks_uri is not a string")
    return found


@asynccontextmanager
async def remote_jwks(
    config: RemoteJwksConfig, *, monotonic: Callable[[], float] = time.monotonic
) -> AsyncIterator[RemoteJwks]:
    """Keep a remote key set fresh until the context is left; a failed first fetch is tried again.

    Raises FetchError for a URL that can't be right.
    """
    checked_url(config.url or config.issuer, allow_http=config.allow_http)
    async with _http(config) as fetch:
        keys = RemoteJwks(config, fetch, monotonic=monotonic)
        await keys.refresh()
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_refreshing(keys, config.refresh_s), name="key set")
            try:
                yield keys
            finally:
                task.cancel()


async def _refreshing(keys: RemoteJwks, refresh_s: float) -> None:
    while True:
        await asyncio.sleep(refresh_s)
        await keys.refresh()


@asynccontextmanager
async def _http(config: RemoteJwksConfig) -> AsyncIterator[Fetch]:
    trusted = _origin(config.url or config.issuer)

    async def fetch(url: str) -> bytes:
        headers = {"Accept": "application/json"}
        if config.token_path is not None and _origin(url) == trusted:
            headers["Authorization"] = f"Bearer {await _token(config.token_path)}"
        try:
            answer = await fetch_bounded(
                url,
                guard=config.guard,
                look_up=look_up,
                max_bytes=config.max_bytes,
                tls=await tls() if urlsplit(url).scheme == "https" else None,
                headers=headers,
            )
        except (AddressBlocked, HostNotResolved, FetchFailed) as error:
            raise FetchError(f"{url}: {error}") from error
        if answer.status != _OK:
            raise FetchError(f"{url}: answered with status {answer.status}, not 200{hint(url)}")
        return answer.body

    def hint(url: str) -> str:
        if config.token_path is None or _origin(url) == trusted:
            return ""
        return "; the token is not shown to another host than the issuer's, give the key set's URL"

    async def tls() -> ssl.SSLContext:
        contexts = verified or [await _tls_context(config.root_certificate)]
        verified[:] = contexts
        return contexts[0]

    look_up = partial(fetch_addresses, for_whom=config.for_whom)
    verified: list[ssl.SSLContext] = []
    # No roots are needed for a key set that this machine serves itself, by http.
    if trusted[0] == "https":
        await tls()
    yield fetch


def checked_url(url: str, *, allow_http: bool) -> str:
    """Return `url` if keys may be fetched there, else raise FetchError."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise FetchError(f"{url[:200]!r} is no URL") from error
    if not host or parts.scheme not in {"https", "http"} or parts.username is not None:
        raise FetchError(f"{url[:200]!r} is no URL to fetch keys from, https://host/path is right")
    if parts.scheme == "http" and not (allow_http or _is_loopback(host)):
        raise FetchError(f"{url[:200]!r}: keys are only fetched by https from other machines")
    return url


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port, with the port that the scheme implies (RFC 6454 section 4)."""
    parts = urlsplit(url)
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _token(path: Path) -> str:
    try:
        token = await fetch_token(path)
    except TokenFileError as error:
        raise FetchError(str(error)) from error
    if not token:
        said = "does not exist" if token is None else "is empty"
        raise FetchError(f"token file {path} {said}")
    return token


async def _tls_context(root_certificate: Path | None) -> ssl.SSLContext:
    if root_certificate is None:
        try:
            roots_pem = (await fetch_system_roots()).roots_pem
        except NoSystemRoots as error:
            raise FetchError(str(error)) from error
        return roots_context(roots_pem)
    try:
        return roots_context(await fetch_file(root_certificate))
    except NoUsableRoots as error:
        raise StorageError(f"{root_certificate} holds no readable PEM certificates") from error
