"""A registry: its API, and the token that it may ask for.

https://distribution.github.io/distribution/spec/auth/token/
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from wasm_modules._errors import ChecksumMismatch, DownloadError, PassingFailure
from wasm_modules.fetching._downloading import download
from wasm_modules.fetching._http import Answer, fetching
from wasm_modules.fetching._network import Network
from wasm_modules.fetching._url import Url
from wasm_modules.oci._challenge import Challenge, challenges
from wasm_modules.oci._manifest import ACCEPT, Layer
from wasm_modules.oci._pull_secret import Credentials
from wasm_modules.oci._reference import Reference

_MAX_MANIFEST_BYTES = 1 << 20
"""It is parsed at once, so other work waits for that; of 128 layers it has a twentieth of this."""
_MAX_TOKEN_BYTES = 64 << 10
_CLIENT_ID = "wasm-modules"
_HTTPS_FIRST_S = 0.5


class Manifest(NamedTuple):
    """A manifest as it came; digest: SHA-256 of the body, in hex."""

    digest: str
    media_type: str
    body: bytes


class Registry:
    """One image's registry, for one fetch.

    request_timeout_s: of each request, the body included.
    """

    def __init__(
        self,
        reference: Reference,
        *,
        network: Network,
        credentials: Credentials | None,
        request_timeout_s: float,
    ) -> None:
        self._reference = reference
        self._network = network
        self._credentials = credentials
        self._timeout_s = request_timeout_s
        self._authorization = ""
        self._base: Url | None = None

    async def manifest(self, which: str) -> Manifest:
        """Return a manifest by tag or `sha256:DIGEST`; raises FetchError.

        It is checked that the digest, if `which` is one, is that of what came.
        """
        async with self._getting(f"manifests/{which}", {"accept": ACCEPT}) as answer:
            body = await answer.body(_MAX_MANIFEST_BYTES)
            media_type = answer.header("content-type").partition(";")[0].strip()
        digest = hashlib.sha256(body).hexdigest()
        if which.startswith("sha256:") and which != f"sha256:{digest}":
            raise ChecksumMismatch(f"{self._reference}: the manifest for {which} is another one")
        return Manifest(digest, media_type, body)

    async def download_layer(self, layer: Layer, path: Path, *, most: int) -> None:
        """Write a layer to a new file; raises FetchError, and OSError for the file.

        It is checked that the layer's digest is that of what came.
        """
        if layer.size > most:
            raise DownloadError(
                f"{self._reference}: a layer has {layer.size} bytes, more than {most}"
            )
        async with self._getting(f"blobs/sha256:{layer.digest}", {}) as answer:
            digest = await download(answer, path, most=most)
        if digest != layer.digest:
            raise ChecksumMismatch(f"{self._reference}: a layer is not what its digest says")

    @asynccontextmanager
    async def _getting(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Answer]:
        """Ask for a part of the repository, with a token if the registry wants one."""
        base = await self._found()
        url = base._replace(target=f"/v2/{self._reference.repository}/{path}")
        async with self._timed(url):
            for last in (False, True):
                authorized = self._authorized(headers)
                async with fetching(self._network, url, headers=authorized) as answer:
                    if answer.status != 401 or last or answer.url.origin != url.origin:
                        answer.check_status()
                        yield answer
                        return
                    asked = challenges(answer.headers("www-authenticate"))
                self._authorization = await self._authorize(url, asked)

    def _authorized(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        if not self._authorization:
            return headers
        return {**headers, "authorization": self._authorization}

    async def _found(self) -> Url:
        """Return how the registry is reached: by https, or where that may be by http."""
        if self._base is None:
            https = Url.parse(f"https://{self._reference.server}/v2/")
            if self._network.is_insecure(https) or _is_this_machine(https.host):
                http = Url.parse(f"http://{self._reference.server}/v2/")
                self._base = await self._chosen(https, http)
            else:
                self._base = https
        return self._base

    async def _chosen(self, https: Url, http: Url) -> Url:
        """Return http if the server answers by it, and not by https shortly after.

        Both are tried at once, because a server without TLS may wait for the rest of what it takes
        for a request. Raises DownloadError.
        """
        secure = asyncio.create_task(self._answers(https), name=f"wasm-probe {https}")
        plain = asyncio.create_task(self._answers(http), name=f"wasm-probe {http}")
        try:
            await asyncio.wait({secure, plain}, return_when=asyncio.FIRST_COMPLETED)
            if not secure.done() and await plain:
                await asyncio.wait({secure}, timeout=_HTTPS_FIRST_S)
                return https if secure.done() and secure.result() else http
            return https if await secure or not await plain else http
        finally:
            secure.cancel()
            plain.cancel()
            await asyncio.gather(secure, plain, return_exceptions=True)

    async def _answers(self, url: Url) -> bool:
        try:
            async with self._timed(url), fetching(self._network, url) as answer:
                # So servers answer whose port wants TLS.
                return answer.status != 400 or url.scheme == "https"
        except PassingFailure:
            return False

    async def _authorize(self, url: Url, asked: tuple[Challenge, ...]) -> str:
        """Return the header Authorization that the registry wants; raises DownloadError."""
        credentials = self._credentials
        if credentials is not None and credentials.registry_token:
            return f"Bearer {credentials.registry_token}"
        for challenge in asked:
            if challenge.scheme == "bearer":
                return f"Bearer {await self._token(url, challenge.parameters)}"
        if any(each.scheme == "basic" for each in asked):
            if credentials is not None and credentials.basic:
                return credentials.basic
            raise DownloadError(
                f"{self._reference}: the registry wants credentials, and the image pull secret "
                f"has none for {self._reference.registry}"
            )
        raise DownloadError(
            f"{self._reference}: the registry answers 401 and does not say what it wants"
        )

    async def _token(self, url: Url, parameters: Mapping[str, str]) -> str:
        realm = Url.parse(parameters.get("realm", ""))
        if (
            realm.scheme != "https"
            and url.scheme == "https"
            and not self._network.is_insecure(realm)
        ):
            raise DownloadError(f"{self._reference}: the realm {realm} is not https")
        if realm.credentials:
            raise DownloadError(f"{self._reference}: the realm {realm} has credentials in it")
        asked = {
            "service": parameters.get("service", ""),
            "scope": f"repository:{self._reference.repository}:pull",
        }
        fields = urlencode({name: value for name, value in asked.items() if value})
        credentials = self._credentials
        headers: dict[str, str] = {}
        form: bytes | None = None
        if credentials is not None and credentials.identity_token:
            secret = {
                "grant_type": "refresh_token",
                "refresh_token": credentials.identity_token,
                "client_id": _CLIENT_ID,
            }
            form = f"{fields}&{urlencode(secret)}".encode("ascii")
        else:
            mark = "&" if "?" in realm.target else "?"
            realm = realm._replace(target=f"{realm.target}{mark}{fields}")
            if credentials is not None and credentials.basic:
                headers["authorization"] = credentials.basic
        async with fetching(
            self._network, realm, headers=headers, form=form, follow_redirects=False
        ) as answer:
            if answer.status in (400, 401, 403):
                shown = "without credentials" if credentials is None else "with this pull secret"
                raise DownloadError(
                    f"{self._reference}: {answer.url} gives no token {shown}: "
                    f"status {answer.status}"
                )
            answer.check_status()
            body = await answer.body(_MAX_TOKEN_BYTES)
        return _token_in(body, str(answer.url))

    @asynccontextmanager
    async def _timed(self, url: Url) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except TimeoutError:
            raise PassingFailure(f"{url}: not answered within {self._timeout_s:g} s") from None


def _token_in(body: bytes, where: str) -> str:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        for key in ("token", "access_token"):
            token = answer.get(key)
            if isinstance(token, str) and token.isascii() and token.isprintable() and token:
                return token
    raise DownloadError(f"{where}: the answer has no token")


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
