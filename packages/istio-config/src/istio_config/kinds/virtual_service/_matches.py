"""Matches: the conditions under which a route applies.

Source: Istio's API, networking/v1.
"""

from collections.abc import Iterable, Iterator

import msgspec

from istio_config.addresses import is_ip, is_network
from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.checks import (
    control_character_mistakes,
    is_dns_label,
    label_mistakes,
    several_given_mistakes,
)
from istio_config.kinds.fields import Labels, PortNumber, SpecFields
from istio_config.kinds.virtual_service._headers import header_name_mistake
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class StringMatch(SpecFields, frozen=True):
    """A condition on a text; an empty one is met by every text, though not by a missing one."""

    exact: str | None = None
    prefix: str | None = None
    regex: str | None = None


class HttpMatch(SpecFields, frozen=True):
    """A condition on requests (Istio's HTTPMatchRequest): all that is given must hold."""

    name: str = ""
    uri: StringMatch | None = None
    scheme: StringMatch | None = None
    method: StringMatch | None = None
    authority: StringMatch | None = None
    headers: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    without_headers: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    query_params: dict[str, StringMatch] = msgspec.field(default_factory=dict)
    ignore_uri_case: bool = False
    port: PortNumber | None = None
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()
    stat_prefix: str = ""


class TlsMatch(SpecFields, frozen=True):
    """A condition on TLS connections (Istio's TLSMatchAttributes)."""

    sni_hosts: tuple[str, ...] = ()
    destination_subnets: tuple[str, ...] = ()
    port: PortNumber | None = None
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()


class TcpMatch(SpecFields, frozen=True):
    """A condition on connections (Istio's L4MatchAttributes)."""

    destination_subnets: tuple[str, ...] = ()
    port: PortNumber | None = None
    source_subnet: str = ""
    source_labels: Labels = msgspec.field(default_factory=dict)
    source_namespace: str = ""
    gateways: tuple[str, ...] = ()


CLAIMS = "@request.auth.claims"
_PSEUDO = (":authority", ":method", ":path", ":scheme")


def claim_path(name: str) -> tuple[str, ...] | None:
    """Return the path of `@request.auth.claims.a.b` or `...claims[a][b]`; None if malformed."""
    rest = name[len(CLAIMS) :]
    if rest.startswith(".") and all(parts := rest[1:].split(".")):
        return tuple(parts)
    if rest.startswith("[") and rest.endswith("]") and all(parts := rest[1:-1].split("][")):
        return None if any(set(each) & set("[]") for each in parts) else tuple(parts)
    return None


def names_claim(name: str) -> bool:
    """Return whether this name of a header stands for a claim of a token."""
    return name.lower().startswith(CLAIMS)


def http_match_mistakes(
    match: HttpMatch, path: FieldPath, *, at_gateway: bool
) -> Iterator[Finding]:
    """Yield what is wrong with a match; at_gateway: whether it is for gateways, or for them too."""
    for field, condition in (
        ("uri", match.uri),
        ("scheme", match.scheme),
        ("method", match.method),
        ("authority", match.authority),
    ):
        if condition is not None:
            yield from string_match_mistakes(condition, (*path, field))
    yield from _header_mistakes(match, path, at_gateway=at_gateway)
    for name, condition in match.query_params.items():
        if not name:
            yield (*path, "queryParams", name), "must have a name"
        yield from string_match_mistakes(condition, (*path, "queryParams", name))
    yield from label_mistakes(match.source_labels, (*path, "sourceLabels"))
    if match.source_namespace and not is_dns_label(match.source_namespace):
        yield (*path, "sourceNamespace"), f'"{match.source_namespace}" is not a namespace'


def _header_mistakes(match: HttpMatch, path: FieldPath, *, at_gateway: bool) -> Iterator[Finding]:
    for field, conditions in (
        ("headers", match.headers),
        ("withoutHeaders", match.without_headers),
    ):
        for name, condition in conditions.items():
            here = (*path, field, name)
            if names_claim(name):
                if claim_path(name) is None:
                    yield here, f"names no claim; write {CLAIMS}.name or {CLAIMS}[name]"
                elif not at_gateway:
                    yield here, "claims are looked at by gateways only, and gateways names none"
            elif name not in _PSEUDO and (wrong := header_name_mistake(name)) is not None:
                yield here, wrong
            if field == "headers" or condition.regex != "*":
                yield from string_match_mistakes(condition, here)


def string_match_mistakes(match: StringMatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a condition on a text."""
    given = {"exact": match.exact, "prefix": match.prefix, "regex": match.regex}
    yield from several_given_mistakes(path, given)
    if match.prefix is not None and not match.prefix:
        yield (*path, "prefix"), "must not be empty"
    if match.regex is not None and (wrong := regex_mistake(match.regex)) is not None:
        yield (*path, "regex"), wrong
    for name, value in (("exact", match.exact), ("prefix", match.prefix)):
        yield from control_character_mistakes((*path, name), value or "")


def connection_match_mistakes(match: TlsMatch | TcpMatch, path: FieldPath) -> Iterator[Finding]:
    yield from subnet_mistakes(match.destination_subnets, (*path, "destinationSubnets"))
    yield from label_mistakes(match.source_labels, (*path, "sourceLabels"))
    if match.source_namespace and not is_dns_label(match.source_namespace):
        yield (*path, "sourceNamespace"), f'"{match.source_namespace}" is not a namespace'


def subnet_mistakes(subnets: Iterable[str], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(subnets):
        if not is_ip(each) and not is_network(each):
            yield (*path, index), f'"{each}" is not an IP address or a range in CIDR form'
