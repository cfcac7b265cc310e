"""Names, hosts and durations as the Gateway API spells them, and what is wrong with others.

Source: the validation of the Gateway API's CRDs.
"""

import re

from mesh_configfile import Duration

GROUP = "gateway.networking.k8s.io"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_HOSTNAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
_KIND = re.compile(r"[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+\-.^_`|~]+")
_DURATION = re.compile(r"([0-9]{1,5}(h|m|s|ms)){1,4}")
_ALL_NUMBERS = re.compile(r"[0-9.]+")


def wrong_section_name(name: str) -> str | None:
    """Return what is wrong with the name of a listener, a rule or an object."""
    if len(name) <= 253 and _SUBDOMAIN.fullmatch(name):
        return None
    return f'"{name}" is not a name: lower case letters, digits, "-" and "."'


def wrong_namespace(name: str) -> str | None:
    """Return what is wrong with the name of a namespace."""
    if len(name) <= 63 and _NAMESPACE.fullmatch(name):
        return None
    return f'"{name}" is not the name of a namespace: lower case letters, digits and "-"'


def wrong_group(group: str) -> str | None:
    """Return what is wrong with an API group; the core group is empty."""
    if not group or (len(group) <= 253 and _SUBDOMAIN.fullmatch(group)):
        return None
    return f'"{group}" is not an API group such as networking.istio.io, or "" for Kubernetes\' own'


def wrong_kind(kind: str) -> str | None:
    """Return what is wrong with the name of a kind."""
    if len(kind) <= 63 and _KIND.fullmatch(kind):
        return None
    return f'"{kind}" is not a kind such as Service'


def wrong_hostname(host: str, *, allow_wildcard: bool = True) -> str | None:
    """Return what is wrong with a host; a wildcard is the whole first label."""
    fits = len(host) <= 253 and _HOSTNAME.fullmatch(host) and not _ALL_NUMBERS.fullmatch(host)
    if fits and (allow_wildcard or not host.startswith("*")):
        return None
    wildcard = " or *.example.com" if allow_wildcard else ", without a wildcard"
    return f'"{host}" is not a host name in lower case such as shop.example.com{wildcard}'


def wrong_header_name(name: str) -> str | None:
    """Return what is wrong with the name of a header or a query parameter."""
    if 1 <= len(name) <= 256 and _HEADER.fullmatch(name):
        return None
    return f'"{name}" can\'t be the name of a header'


def wrong_duration(text: str) -> str | None:
    """Return what is wrong with a duration, which has no fractions in the Gateway API."""
    if _DURATION.fullmatch(text):
        return None
    return f'"{text}" is not a duration such as 10s, 1m30s or 250ms, in whole numbers'


def seconds(text: str) -> Duration:
    """Read a valid duration (`wrong_duration`)."""
    return Duration.parse(text)
