"""Which HTTP requests the pages for this machine only answer.

That the connection comes from this machine is not enough: a browser on it connects for whatever web
page is open. A page of another site may send a form to us without being asked, and one whose name
leads to 127.0.0.1 for a moment (DNS rebinding) may read what we answer. The browser tells both: the
first by `Origin` and `Sec-Fetch-Site`, the second by the page's name in `Host`.

Sources: RFC 6454 section 7 (Origin), the W3C's Fetch Metadata Request Headers, and RFC 9110 section
7.2 (Host).
"""

import ipaddress
import re
from collections.abc import Iterable

_HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?", re.ASCII)
_OF_A_SIDECAR = "127.0.0.6"
"""Envoy passes on from this address what comes to a sidecar from other machines, as in Istio."""
_ASKED_BY_A_PERSON = frozenset({"none", "same-origin"})
"""An address that was typed into the browser, and its reload. Other ports are `same-site`."""


def is_loopback(address: str) -> bool:
    """Return whether an IP address is this machine's own; False for what is no IP address."""
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def local_page_refusal(
    *, peer: str, own_address: str, headers: Iterable[tuple[str, str]]
) -> str | None:
    """Return why a page for this machine only does not answer a request; None if it does.

    A request without `Host` is answered: every browser sends one. Any port in it is taken, as a
    forwarded port has another number than ours (`ssh -L`, `kubectl port-forward`).

    peer, own_address: the IP addresses of the connection's two ends.
    headers: all of them; names in any case.
    """
    if not is_loopback(peer) or peer == _OF_A_SIDECAR:
        return "only for callers on this machine"
    for name, value in headers:
        match name.lower():
            case "origin":
                return "not for web pages: a request with the header Origin is refused"
            case "sec-fetch-site" if value.strip().lower() not in _ASKED_BY_A_PERSON:
                return f"not for web pages: a request with Sec-Fetch-Site {value!r} is refused"
            case "host" if not _is_ours(value.strip(), own_address):
                return (
                    f"Host {value!r} is not this machine: "
                    "ask at localhost, a loopback address or the address that is listened on"
                )
            case _:
                pass
    return None


def _is_ours(host: str, own_address: str) -> bool:
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    if (name := found["name"]) is not None and name.lower() == "localhost":
        return True
    address = _parsed(name if name is not None else found["ipv6"])
    return address is not None and (address.is_loopback or address == _parsed(own_address))


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address without its zone; one of IPv4 that IPv6 carries as that of IPv4."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
