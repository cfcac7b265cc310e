"""A check's request, as it is written in a mesh file: `GET http://backend.shop:8080/path`."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH")
_PRINTABLE = re.compile(r"[!-~]+")


class RequestError(ValueError):
    """A text is no request; the message says what would be one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to a service of the mesh."""

    method: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `METHOD http://host:port/path`; raises `RequestError`."""
        method, _, url = text.strip().partition(" ")
        url = url.strip()
        if method not in _METHODS or not _PRINTABLE.fullmatch(url):
            raise RequestError(f'expected "GET http://host:port/path", found "{text}"')
        try:
            parts = urlsplit(url)
            port = parts.port or 80
        except ValueError:
            raise RequestError(f'"{url}" is not a URL') from None
        if parts.scheme != "http" or not parts.hostname:
            raise RequestError(
                f'"{url}" must begin with http:// and a host; Envoy makes it mutual TLS'
            )
        path = parts.path or "/"
        if parts.query:
            path += f"?{parts.query}"
        return cls(method=method, host=parts.hostname, port=port, path=path)

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        return self.host if self.port == 80 else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.authority}{self.path}"

    def __str__(self) -> str:
        return f"{self.method} {self.url}"
