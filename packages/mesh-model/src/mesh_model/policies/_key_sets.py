"""The JSON Web Key Sets by which RequestAuthentications check tokens, and those to be fetched."""

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from typing import NamedTuple

from istio_config.kinds.request_authentication import (
    MOST_PATIENCE_S,
    REQUEST_AUTHENTICATION,
    JwtRule,
)
from mesh_model.policies._workload_rules import WorkloadRules

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
_WORDS = "a key that has no private half"


class KeySource(NamedTuple):
    """Where a key set is fetched: its own address, or else the issuer's OpenID configuration."""

    uri: str
    issuer: str = ""


def source_of(rule: JwtRule) -> KeySource | None:
    """Return where the keys of a rule are; None if the rule has them."""
    if rule.jwks:
        return None
    return KeySource(rule.jwks_uri) if rule.jwks_uri else KeySource("", rule.issuer)


class KeySets:
    """The fetched key sets of a model."""

    def __init__(self, fetched: Mapping[KeySource, str] | None = None) -> None:
        """fetched: texts that were looked at (`check_key_set`)."""
        self._fetched = dict(fetched or {})

    def get(self, rule: JwtRule) -> str:
        """Return the key set of a rule, or one by which no token is right."""
        source = source_of(rule)
        return rule.jwks if source is None else self._fetched.get(source) or no_keys()

    def differing(self, other: "KeySets") -> frozenset[KeySource]:
        """Return the sources of which two models do not have the same keys."""
        if self._fetched == other._fetched:
            return frozenset()
        return frozenset(source for source, _ in self._fetched.items() ^ other._fetched.items())


NO_KEY_SETS = KeySets()


@functools.cache
def no_keys() -> str:
    """Return a key set of one key on the curve P-256 of which there is no private half.

    Its point is found by hashing words: the first hash that is an x on the curve.
    """
    seed = _WORDS.encode()
    while True:
        seed = hashlib.sha256(seed).digest()
        x = int.from_bytes(seed, "big")
        square = (x**3 - 3 * x + _B) % _P
        y = pow(square, (_P + 1) // 4, _P)
        if x < _P and y * y % _P == square:
            break
    key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "x": _text(x), "y": _text(y)}
    return json.dumps({"keys": [key]})


def _text(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(32, "big")).rstrip(b"=").decode()


_PATIENCE_S = 5.0


class WantedKeySet(NamedTuple):
    """The time and the askers of a key set's fetch.

    timeout_s: the most seconds that it may take.
    namespaces: those whose objects want it, one at least.
    """

    timeout_s: float
    namespaces: frozenset[str]


def wanted_key_sets(rules: WorkloadRules) -> Mapping[KeySource, WantedKeySet]:
    """Return where they are, and what is asked of their fetches."""
    found: dict[KeySource, WantedKeySet] = {}
    for each in rules.of_kind(REQUEST_AUTHENTICATION):
        for rule in each.spec.jwt_rules:
            source = source_of(rule)
            if source is not None:
                own = float(rule.timeout) if rule.timeout is not None else _PATIENCE_S
                timeout_s, namespaces = found.get(source, (0.0, frozenset[str]()))
                found[source] = WantedKeySet(
                    min(max(timeout_s, own), MOST_PATIENCE_S), namespaces | {each.namespace}
                )
    return found
