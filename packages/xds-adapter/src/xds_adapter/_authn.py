"""The `istio_authn` filter of Istio before 1.20: what it decides, and what denies in its place.

It stands in every inbound chain there. Usually it only copies: the peer's identity and the claims
of a token that `jwt_authn` has verified go to its own metadata, for the RBAC filters behind it.
Then nothing is lost with it, unless such a filter reads them. A rule that finds no metadata does
not match, and a rule that should deny would let requests pass: so all are denied then, rather than
some allowed by mistake.

security/proto/envoy/config/filter/http/authn/v2alpha1/config.proto and
authentication/v1alpha1/policy.proto of Istio's API.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mesh_protowire import merged, number_of, numbers, value_of, values_of
from xds_adapter import _stock as stock
from xds_adapter._adaptation import Action

EXTENSION: Final = "istio_authn"

_POLICY = 1
_PEERS, _PEER_IS_OPTIONAL, _ORIGINS, _ORIGIN_IS_OPTIONAL = 2, 3, 4, 5
_MTLS, _JWT = 1, 2
_ALLOW_TLS, _MODE = 1, 2
_PERMISSIVE = 1
_METADATA = b"istio_authn"


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
    if _METADATA in _rbac_filters(other_filters):
        return Verdict(
            stock.deny_all(),
            Action.DENIED,
            "authorization rules read the claims that this filter provides: all requests to these"
            " listeners are denied (403)",
        )
    if _needs_token(policy):
        return Verdict(
            stock.deny_all(), Action.DENIED, "a policy requires a token: all requests are denied"
        )
    if _needs_certificate(policy):
        return Verdict(stock.require_client_certificate(), Action.TRANSLATED, "")
    return Verdict(None, Action.REMOVED, "")


def _rbac_filters(manager: bytes) -> bytes:
    """Return those filters of an HTTP connection manager that decide by rules."""
    types = (stock.RBAC.encode(), b"envoy.config.filter.http.rbac")
    filters = values_of(manager, 5)
    return b"\0".join(each for each in filters if any(name in each for name in types))


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
