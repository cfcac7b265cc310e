"""The URL of a request: what is connected to, and what is asked for there."""

from __future__ import annotations

import base64
from typing import NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

from wasm_modules._errors import DownloadError

_PORTS = {"http": 80, "https": 443}
_LONGEST = 8192
_SAFE = "!#$%&'()*+,/:;=?@[]~-._"


class Url(NamedTuple):
    """A URL of HTTP.

    host: a name or an address, without brackets.
    target: the path and the query.
    credentials: `user:password` that the URL had; they are not in its text.
    """

    scheme: str
    host: str
    port: int
    target: str
    credentials: str = ""

    @classmethod
    def parse(cls, text: str) -> Url:
        """Read a URL; raises DownloadError."""
        if len(text) > _LONGEST:
            raise DownloadError(f"a URL has more than {_LONGEST} characters")
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
            text.encode()
        except ValueError as error:
            raise DownloadError(f"{_shown(text)} is no URL: {error}") from None
        if parts.scheme not in _PORTS or not host:
            raise DownloadError(f"{_shown(text)} is no URL with http or https and a host")
        if not _is_host(host):
            raise DownloadError(f"{_shown(text)} has a host that cannot be looked up")
        target = quote(parts.path or "/", safe=_SAFE)
        if parts.query:
            target += "?" + quote(parts.query, safe=_SAFE)
        return cls(
            scheme=parts.scheme,
            host=host,
            port=port if port is not None else _PORTS[parts.scheme],
            target=target,
            credentials=_credentials(parts.username, parts.password),
        )

    @property
    def authority(self) -> str:
        """`host:port`; without the scheme's own port, as in the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """Of two URLs with one origin, the same server sees the credentials."""
        return self.scheme, self.host, self.port

    @property
    def basic_authorization(self) -> str:
        """The header for the URL's own credentials; empty without them."""
        if not self.credentials:
            return ""
        return "Basic " + base64.b64encode(self.credentials.encode()).decode("ascii")

    def __str__(self) -> str:
        # A query may hold a signature, as those of object stores do.
        return f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}"

    def joined(self, location: str) -> Url:
        """Return the URL that a redirect leads to; raises DownloadError."""
        try:
            return Url.parse(urljoin(f"{self.scheme}://{self.authority}{self.target}", location))
        except ValueError as error:
            raise DownloadError(f"{self} redirects to what is no URL: {error}") from None


def _is_host(host: str) -> bool:
    return len(host) <= 253 and all(each.isalnum() or each in "-._:%" for each in host)


def _credentials(username: str | None, password: str | None) -> str:
    if username is None and password is None:
        return ""
    return f"{unquote(username or '')}:{unquote(password or '')}"


def _shown(text: str) -> str:
    """Return the text without what may be a password in it."""
    scheme, separator, rest = text[:200].partition("://")
    return repr(scheme + separator + rest.rpartition("@")[2].partition("?")[0])
