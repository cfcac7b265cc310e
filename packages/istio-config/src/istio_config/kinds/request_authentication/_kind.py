"""RequestAuthentication: the tokens that some workloads validate, by their issuers.

Source: Istio's API, security/v1, and its validation.
"""

from collections.abc import Iterator
from enum import StrEnum
from urllib.parse import urlsplit

from istio_config.kinds.checks import (
    duration_mistake,
    has_control_characters,
    is_header_name,
    is_plain_header_name,
)
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.kind import Kind
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.request_authentication._key_sets import (
    MOST_BYTES,
    KeySetError,
    check_key_set,
    has_private_parts,
)
from istio_config.kinds.selection import (
    Selection,
    TargetRef,
    WorkloadSelector,
    selection_mistakes,
    selection_of,
    selection_warnings,
)
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding

MOST_PATIENCE_S = 10.0
"""The longest that a key set is waited for, whatever the timeout of a rule says."""


class FromHeader(SpecFields, frozen=True):
    """A header that a token stands in, after a prefix such as `Bearer `."""

    name: str = ""
    prefix: str = ""


class ClaimToHeader(SpecFields, frozen=True):
    """A header in which the workload gets a claim of the token; `a.b` names a nested one."""

    header: str = ""
    claim: str = ""


class Presence(StrEnum):
    """Whether a request needs a token of a rule."""

    OPTIONAL = "OPTIONAL"
    REQUIRED = "REQUIRED"


class JwtRule(SpecFields, frozen=True):
    """The tokens of one issuer, and what becomes of them."""

    issuer: str = ""
    """May be left out beside `jwksUri`: tokens of every issuer are accepted then."""
    audiences: tuple[str, ...] = ()
    """A token must be for one of them; without any, it may be for everyone."""
    jwks_uri: str = ""
    jwks: str = ""
    """The key set itself. Without either field, the issuer's OpenID configuration names it."""
    from_headers: tuple[FromHeader, ...] = ()
    from_params: tuple[str, ...] = ()
    from_cookies: tuple[str, ...] = ()
    output_payload_to_header: str = ""
    forward_original_token: bool = False
    output_claim_to_headers: tuple[ClaimToHeader, ...] = ()
    timeout: Duration | None = None
    """For fetching the key set."""
    space_delimited_claims: tuple[str, ...] = ()
    """Claims that hold several values in one text, beside `scope` and `permission`."""
    presence: Presence = Presence.OPTIONAL


class RequestAuthenticationSpec(SpecFields, frozen=True):
    """The tokens that workloads validate.

    A wrong one is refused, and so is a missing one that a rule requires.
    """

    selector: WorkloadSelector | None = None
    target_ref: TargetRef | None = None
    """The older way to give one of `target_refs`."""
    target_refs: tuple[TargetRef, ...] = ()
    jwt_rules: tuple[JwtRule, ...] = ()

    @property
    def refs(self) -> tuple[TargetRef, ...]:
        """All Gateways that it refers to."""
        return self.target_refs if self.target_ref is None else (self.target_ref,)

    @property
    def selection(self) -> Selection:
        """The workloads that it is for."""
        return selection_of(self.selector, self.refs)


def _mistakes(spec: RequestAuthenticationSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is wrong with a RequestAuthentication; paths start below its spec."""
    labels = spec.selector.match_labels if spec.selector is not None else None
    yield from selection_mistakes(
        labels, spec.target_refs, metadata.namespace, single=spec.target_ref
    )
    for index, rule in enumerate(spec.jwt_rules):
        for path, text in _rule_mistakes(rule):
            yield ("jwtRules", index, *path), text


def _warnings(spec: RequestAuthenticationSpec, metadata: Metadata) -> Iterator[Finding]:
    """Yield what is accepted and probably not meant; paths start below the spec."""
    del metadata
    yield from selection_warnings(spec.target_refs, spec.target_ref)
    if spec.selector is not None and not spec.selector.match_labels:
        yield ("selector",), "has no labels: it is for all workloads of the namespace"
    if not spec.jwt_rules:
        yield ("jwtRules",), "is empty: no token is looked at"
    for index, rule in enumerate(spec.jwt_rules):
        if rule.jwks and rule.jwks_uri:
            yield ("jwtRules", index, "jwksUri"), "has no effect beside jwks"
        if rule.timeout is not None and float(rule.timeout) > MOST_PATIENCE_S:
            yield (
                ("jwtRules", index, "timeout"),
                f"has no effect above {MOST_PATIENCE_S:g}s: a key set is waited for no longer",
            )
        if rule.jwks and has_private_parts(rule.jwks):
            yield (
                ("jwtRules", index, "jwks"),
                "has parts of private keys, and is sent to every proxy that it is for",
            )
        elif rule.jwks_uri.startswith("http://"):
            yield (
                ("jwtRules", index, "jwksUri"),
                "is fetched in plaintext: others can put their keys in its place; use https",
            )


def _rule_mistakes(rule: JwtRule) -> Iterator[Finding]:
    yield from _issuer_mistakes(rule)
    yield from _token_mistakes(rule)
    if rule.output_payload_to_header:
        yield from _header_mistakes(rule.output_payload_to_header, ("outputPayloadToHeader",))
    for index, each in enumerate(rule.output_claim_to_headers):
        here = ("outputClaimToHeaders", index, "header")
        yield from _header_mistakes(each.header, here)
        if is_header_name(each.header) and not is_plain_header_name(each.header):
            yield here, f'"{each.header}" has other characters than letters, digits, "-" and "_"'
        if not each.claim:
            yield ("outputClaimToHeaders", index, "claim"), "is missing"
    if rule.timeout is not None and (text := duration_mistake(rule.timeout)) is not None:
        yield ("timeout",), text


def _issuer_mistakes(rule: JwtRule) -> Iterator[Finding]:
    if not rule.issuer and not rule.jwks_uri:
        yield ("issuer",), "is missing; it may be left out beside jwksUri alone"
    if rule.issuer and not rule.jwks and not rule.jwks_uri and _uri_mistake(rule.issuer):
        yield (
            ("issuer",),
            (
                f'"{rule.issuer}" is no address of an OpenID configuration; give jwksUri or jwks '
                "beside it"
            ),
        )
    if rule.jwks_uri and (text := _uri_mistake(rule.jwks_uri)) is not None:
        yield ("jwksUri",), text
    if rule.jwks:
        yield from _key_set_mistakes(rule.jwks)


def _token_mistakes(rule: JwtRule) -> Iterator[Finding]:
    for name, values in (
        ("audiences", rule.audiences),
        ("fromParams", rule.from_params),
        ("fromCookies", rule.from_cookies),
        ("spaceDelimitedClaims", rule.space_delimited_claims),
    ):
        for index, each in enumerate(values):
            if not each:
                yield (name, index), "is empty"
    for index, header in enumerate(rule.from_headers):
        yield from _header_mistakes(header.name, ("fromHeaders", index, "name"))
        if has_control_characters(header.prefix):
            yield ("fromHeaders", index, "prefix"), "has control characters"


def _key_set_mistakes(text: str) -> Iterator[Finding]:
    if len(text) > MOST_BYTES:
        yield ("jwks",), f"is longer than {MOST_BYTES} bytes"
        return
    try:
        check_key_set(text)
    except KeySetError as error:
        yield ("jwks",), str(error)


def _header_mistakes(name: str, path: FieldPath) -> Iterator[Finding]:
    if not name:
        yield path, "is missing"
    elif not is_header_name(name):
        yield path, f'"{name}" is not the name of a header'


def _uri_mistake(text: str) -> str | None:
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError as error:
        return f'"{text}" is not an address: {error}'
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return f'"{text}" is not an address such as https://issuer.example/keys'
    if has_control_characters(text) or " " in text:
        return f'"{text}" has characters that an address can\'t have'
    return None


REQUEST_AUTHENTICATION = Kind(
    name="RequestAuthentication",
    group="security.istio.io",
    versions=("v1", "v1beta1"),
    spec=RequestAuthenticationSpec,
    validate=_mistakes,
    warn=_warnings,
)
