"""HTTP requests and redirects as values: where a request goes and what it says.

The rules for headers and redirects are those of Istio's agent, which relays the kubelet's probes.
Source: https://istio.io/latest/docs/ops/configuration/mesh/app-health-check/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote, urljoin, urlsplit

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import quoted
from mesh_probes._probe import HttpGet

Headers = Sequence[tuple[str, str]]

DEFAULT_HEADERS = (("User-Agent", "istio-probe/1.0"), ("Accept", "*/*"))
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SENT_AS_IT_IS = "/%:?[]@!$&'()*+,;=~"
_OF_ONE_CONNECTION = frozenset(
    {
        "connection",
        "content-length",
        "expect",
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""RFC 9110, sections 7.6.1 and 10.1; a GET here has no content."""


class Response(NamedTuple):
    """The head of a response that is final, and the first bytes of its body."""

    status: int
    location: str | None
    body: bytes


class Request(NamedTuple):
    """One GET request."""

    scheme: str
    host: str
    port: int
    target: str
    authority: str
    """The Host header, or HTTP/2's `:authority`."""
    headers: Headers
    """All other headers."""

    @property
    def url(self) -> str:
        return f"{self.scheme}://{netloc(self.scheme, self.host, self.port)}{self.target}"


def first_request(
    action: HttpGet, *, host: str, forwarded: Headers, status_port: int | None
) -> Request:
    """Return the request of an action.

    forwarded: the headers of the request that is passed through. Its `Host` is honoured; where it
    names `status_port`, on which that request arrived, it gets the application's port instead.
    """
    authority = netloc(action.scheme, host, action.port)
    for name, value in forwarded:
        if name.lower() == "host":
            authority = _with_port_replaced(value, status_port, action.port)
    for name, value in action.headers:
        if _is_host(name):
            authority = value
    own = tuple(each for each in action.headers if not _is_host(each[0]))
    return Request(
        scheme=action.scheme,
        host=host,
        port=action.port,
        target=_target(action.path),
        authority=authority,
        headers=_merged(forwarded, own),
    )


def redirected(request: Request, response: Response) -> Request | None:
    """Return the request that follows, or None if the response is the last.

    A redirect to another host is not followed. A `Host` that is not the URL's own stays while
    redirects are relative. Raises `CheckFailed` for a redirect that leads nowhere.
    """
    if response.status not in (301, 302, 303, 307, 308) or not response.location:
        return None
    try:
        url = urlsplit(urljoin(request.url, response.location))
        host, port, relative = url.hostname, url.port, not urlsplit(response.location).scheme
    except ValueError as error:
        place = quoted(response.location)
        raise CheckFailed(f"it redirects to {place}, which is no URL: {error}") from error
    if (host or "").lower() != request.host.lower():
        return None
    if url.scheme not in _DEFAULT_PORTS or port == 0:
        raise CheckFailed(f"it redirects to {quoted(response.location)}, which is not for HTTP")
    port = port or _DEFAULT_PORTS[url.scheme]
    path = f"{url.path}?{url.query}" if url.query else url.path
    return Request(
        scheme=url.scheme,
        host=request.host,
        port=port,
        target=_target(path),
        authority=request.authority if relative else netloc(url.scheme, request.host, port),
        headers=request.headers,
    )


def netloc(scheme: str, host: str, port: int) -> str:
    """Return host and port as in a URL, without a port that the scheme implies."""
    bracketed = f"[{host}]" if ":" in host else host
    return bracketed if port == _DEFAULT_PORTS.get(scheme) else f"{bracketed}:{port}"


def _target(path: str) -> str:
    """Return a path and query with all that can't stand in a request percent-encoded."""
    plain = quote(path.partition("#")[0], safe=_SENT_AS_IT_IS, errors="replace")
    return plain if plain.startswith("/") else f"/{plain}"


def _with_port_replaced(authority: str, status_port: int | None, port: int) -> str:
    host, colon, given = authority.rpartition(":")
    if not colon or status_port is None or given != str(status_port):
        return authority
    return f"{host}:{port}"


def _merged(forwarded: Headers, own: Headers) -> Headers:
    """Return the forwarded headers with those of the probe in place of the same names."""
    listed = [value for name, value in forwarded if name.lower() == "connection"]
    named = {token.strip().lower() for value in listed for token in value.split(",")}
    left_out = _OF_ONE_CONNECTION | named | {"host"} | {name.lower() for name, _ in own}
    kept = [each for each in forwarded if each[0].lower() not in left_out]
    kept += [each for each in own if each[0].lower() not in _OF_ONE_CONNECTION]
    present = {name.lower() for name, _ in kept}
    return (*kept, *(each for each in DEFAULT_HEADERS if each[0].lower() not in present))


def _is_host(name: str) -> bool:
    return name.lower() in ("host", ":authority")


def encoded(value: str) -> bytes:
    """Return a header's value as it was received: HTTP has bytes, which servers read as Latin-1."""
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode(errors="replace")
