"""The `istio_authn` filter of Istio before 1.20: what it decides, and what takes its place.

It stands in every inbound chain there. Usually it only copies: the peer's identity and the claims
of a token that `jwt_authn` has verified go to its own metadata, for the RBAC filters behind it.
Then nothing is lost with it: rules that read this metadata are translated (`_authn_rules`). If one
can't be, it would find nothing; and a rule that should deny would let requests pass. So all are
denied then, rather than some allowed by mistake.

security/proto/envoy/config/filter/http/authn/v2alpha1/config.proto and
authentication/v1alpha1/policy.proto of Istio's API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from mesh_protowire import (
    merged,
    number_of,
    numbers,
    type_name,
    unpack,
    value_of,
    values_of,
)
from xds_adapter import _authn_rules as authn_rules
from xds_adapter import _stock as stock
from xds_adapter._adaptation import Action

EXTENSION: Final = "istio_authn"

_POLICY = 1
_PEERS, _PEER_IS_OPTIONAL, _ORIGINS, _ORIGIN_IS_OPTIONAL = 2, 3, 4, 5
_MTLS, _JWT = 1, 2
_ALLOW_TLS, _MODE = 1, 2
_PERMISSIVE = 1
_HTTP_FILTERS, _TYPED_CONFIG = 5, 4  # of the manager; of a filter


class Verdict(NamedTuple):
    """The outcome: what takes the place of the filter.

    substitute: a stock filter's configuration; None: nothing is needed.
    """

    substitute: bytes | None
    action: Action
    lost: str


def verdict_on(config: bytes, other_filters: bytes) -> Verdict:
    """Decide about a filter. other_filters: the message that it stands in, with all filters.

    Raises WireError.
    """
    policy = merged(config, _POLICY) or b""
    try:
        for rules in _rules_of(other_filters):
            authn_rules.translated(rules, _keys(other_filters))
    except authn_rules.NotTranslatable as error:
        lost = f"{error}: all requests to these listeners are denied (403)"
        return Verdict(stock.deny_all(), Action.DENIED, lost)
    if _needs_token(policy):
        return Verdict(
            stock.deny_all(), Action.DENIED, "a policy requires a token: all requests are denied"
        )
    if _needs_certificate(policy):
        return Verdict(stock.require_client_certificate(), Action.TRANSLATED, "")
    return Verdict(None, Action.REMOVED, "")


def rules_without_it(rbac: bytes, other_filters: bytes) -> bytes | None:
    """Return an RBAC filter beside it whose rules do without it; None where all are denied anyway.

    Raises WireError.
    """
    try:
        return authn_rules.translated(rbac, _keys(other_filters))
    except authn_rules.NotTranslatable:
        return None


def _rules_of(manager: bytes) -> Iterator[bytes]:
    """Yield the RBAC filters of an HTTP connection manager that name this one."""
    for kind, config in _configured(manager):
        if kind == stock.RBAC and authn_rules.METADATA in config:
            yield config


def _keys(manager: bytes) -> tuple[str, ...]:
    """Return under which keys the claims of tokens are in `jwt_authn`'s metadata."""
    found = [
        key
        for kind, config in _configured(manager)
        if kind == authn_rules.JWT_TYPE
        for key in authn_rules.payload_keys(config)
    ]
    return tuple(dict.fromkeys(found))


def _configured(manager: bytes) -> Iterator[tuple[str, bytes]]:
    for each in values_of(manager, _HTTP_FILTERS):
        if (config := merged(each, _TYPED_CONFIG)) is not None:
            type_url, value = unpack(config)
            yield type_name(type_url), value


def _needs_token(policy: bytes) -> bool:
    origins = values_of(policy, _ORIGINS)
    peers = values_of(policy, _PEERS)
    by_peer = any(value_of(each, _JWT) is not None for each in peers)
    return by_peer or (bool(origins) and not number_of(policy, _ORIGIN_IS_OPTIONAL))


def _needs_certificate(policy: bytes) -> bool:
    if number_of(policy, _PEER_IS_OPTIONAL):
        return False
    return any(_is_strict(each) for each in values_of(policy, _PEERS))


def _is_strict(peer: bytes) -> bool:
    mtls = merged(peer, _MTLS)
    if mtls is None:
        return False
    said = numbers(mtls)
    return said.get(_MODE, 0) != _PERMISSIVE and not said.get(_ALLOW_TLS, 0)
