"""The rules of the matches of HTTP routes."""

from collections.abc import Iterator

from istio_config.kinds._regular_expressions import regex_mistake
from istio_config.kinds.checks import (
    has_control_characters,
    is_dns_label,
    label_mistakes,
    several_given,
)
from istio_config.kinds.virtual_service._header_mistakes import header_name_mistake
from istio_config.kinds.virtual_service._matches import HttpMatch, StringMatch
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding

CLAIMS = "@request.auth.claims"
_PSEUDO = (":authority", ":method", ":path", ":scheme")


def claim_path(name: str) -> tuple[str, ...] | None:
    """Take `@request.auth.claims.a.b` or `@request.auth.claims[a][b]` apart; None if malformed."""
    rest = name[len(CLAIMS) :]
    if rest.startswith(".") and all(parts := rest[1:].split(".")):
        return tuple(parts)
    if rest.startswith("[") and rest.endswith("]") and all(parts := rest[1:-1].split("][")):
        return None if any(set(each) & set("[]") for each in parts) else tuple(parts)
    return None


def names_claim(name: str) -> bool:
    """Return whether a header of this name in a match means a claim of a token."""
    return name.lower().startswith(CLAIMS)


def match_mistakes(match: HttpMatch, path: FieldPath, *, at_gateway: bool) -> Iterator[Finding]:
    """Yield what is wrong with a match of a VirtualService that is (also) for gateways, or not."""
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
            place = (*path, field, name)
            if names_claim(name):
                if claim_path(name) is None:
                    yield place, f"names no claim; write {CLAIMS}.name or {CLAIMS}[name]"
                elif not at_gateway:
                    yield place, "claims are looked at by gateways only, and gateways names none"
            elif name not in _PSEUDO and (wrong := header_name_mistake(name)) is not None:
                yield place, wrong
            if field == "headers" or condition.regex != "*":
                yield from string_match_mistakes(condition, place)


def string_match_mistakes(match: StringMatch, path: FieldPath) -> Iterator[Finding]:
    """Yield what is wrong with a condition on a text."""
    given = {"exact": match.exact, "prefix": match.prefix, "regex": match.regex}
    yield from several_given(path, given)
    if match.prefix is not None and not match.prefix:
        yield (*path, "prefix"), "must not be empty"
    if match.regex is not None and (wrong := regex_mistake(match.regex)) is not None:
        yield (*path, "regex"), wrong
    for name, value in (("exact", match.exact), ("prefix", match.prefix)):
        if value is not None and has_control_characters(value):
            yield (*path, name), "must not have control characters"
