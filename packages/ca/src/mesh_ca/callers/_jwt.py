"""Authenticates callers by service account tokens, the JWTs that Kubernetes projects into pods.

Verifying the signature needs keys; checking the claims is a pure function beside it.
"""

import base64
import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

import jwt
from jwt.exceptions import PyJWTError

from mesh_ca._errors import FetchError, IdentityError, NotAuthenticated, StorageError
from mesh_ca.authority._identity import checked_trust_domain, service_account_identity
from mesh_ca.callers._authenticator import Caller, Credentials
from mesh_ca.callers._jwks import VerificationKey, VerificationKeys

_MAX_TOKEN_BYTES = 16 * 1024
_MAX_KEYS_TRIED = 8
_CLOCK_SKEW_S = 60
_LATEST_TIME_S = 1e12
"""Some 30 000 years away: a token has no later times."""
_ALGORITHMS = ("RS256", "ES256")
_SIGNATURES = jwt.PyJWS(algorithms=_ALGORITHMS)
_BEGINNINGS = ("nbf", "iat")
_SUBJECT_PARTS = 4  # system:serviceaccount:<namespace>:<name>


class JwtAuthenticator:
    """Authenticates callers by `authorization: Bearer <token>`, signed with a key of a key set."""

    def __init__(
        self,
        issuer: str,
        audiences: Collection[str],
        *,
        jwks: VerificationKeys,
        trust_domain: str,
        allow_plaintext: bool = False,
        remembered_tokens: int = 1024,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Accept tokens of `issuer` that are meant for one of `audiences`.

        Callers become service accounts of `trust_domain`. A token sent over plaintext may have
        been read on its way, so it is accepted only with `allow_plaintext`. Up to
        `remembered_tokens` tokens are verified once; that the key is still one of the set, and the
        times of the token, are checked at every call.
        """
        if isinstance(audiences, str):
            raise TypeError("audiences is one string, a collection of strings is right")
        self._issuer = issuer
        self._audiences = frozenset(audiences)
        self._jwks = jwks
        self._trust_domain = checked_trust_domain(trust_domain)
        self._allow_plaintext = allow_plaintext
        self._clock = clock
        self._verified_tokens = VerifiedTokens(remembered_tokens)

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the service account named by the token."""
        token = bearer_token(credentials.metadata)
        if not (credentials.encrypted or self._allow_plaintext):
            raise NotAuthenticated.public("token over a plaintext connection")
        digest = _digest(token)
        known = self._verified_tokens.find(digest)
        if known is None or known.key not in await self._keys(known.key.algorithm, known.kid):
            known = await self._verified(token)
            self._verified_tokens.add(digest, known)
        now = self._clock()
        if known.caller is None or not known.begins <= now < known.expires:
            known.caller = self._caller(known.claims, now)
            known.begins, known.expires = validity_of(known.claims)
        return known.caller

    def _caller(self, claims: Mapping[str, object], now: float) -> Caller:
        namespace, service_account = service_account_of(
            claims, issuer=self._issuer, audiences=self._audiences, now=now
        )
        try:
            identity = service_account_identity(self._trust_domain, namespace, service_account)
        except IdentityError as error:
            raise NotAuthenticated(
                f"token subject: {error}", public_reason="token subject makes no SPIFFE id"
            ) from error
        return Caller(identities=(identity,), method="token")

    async def _keys(self, algorithm: object, kid: str | None) -> Sequence[VerificationKey]:
        """Return the keys that are trusted now for tokens of this header."""
        try:
            keys = await self._jwks.find(kid)
        except (StorageError, FetchError) as error:
            raise NotAuthenticated(
                f"no keys to check tokens with: {error}",
                public_reason="the control plane has no keys to check tokens with",
            ) from error
        return [key for key in keys if key.algorithm == algorithm]

    async def _verified(self, token: str) -> "_VerifiedToken":
        algorithm, kid = _signed_with(token)
        if algorithm not in _ALGORITHMS:
            raise NotAuthenticated.public("token is signed with neither RS256 nor ES256")
        fitting = await self._keys(algorithm, kid)
        if not fitting:
            raise NotAuthenticated(
                f"token is signed with an unknown key {str(kid)[:100]!r}",
                public_reason="token is signed with a key that is not known here",
            )
        for key in fitting[:_MAX_KEYS_TRIED]:
            try:
                verified = _SIGNATURES.decode_complete(token, key.key, algorithms=[key.algorithm])
            except (PyJWTError, ValueError, RecursionError):
                continue
            return _VerifiedToken(key, kid, _claims(verified["payload"]))
        raise NotAuthenticated.public("token signature is wrong")


@dataclass(slots=True)
class _VerifiedToken:
    """A token whose signature is right by `key`, and its caller between two times, once checked."""

    key: VerificationKey
    kid: str | None
    claims: Mapping[str, object]
    caller: Caller | None = None
    begins: float = 0.0
    expires: float = 0.0


class VerifiedTokens:
    """The tokens whose signature was verified before, as a workload shows one many times.

    A signature over the same bytes by the same key stays good, and so do all claims but the times:
    both are checked once. A caller of `find` has yet to ask whether the key is still trusted and
    whether the token's time has come or is over. Tokens are kept as their SHA-256, and only
    after their signature was verified, so that a caller without a valid token can't push out those
    of others.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[bytes, _VerifiedToken] = {}

    def find(self, digest: bytes) -> _VerifiedToken | None:
        return self._known.get(digest)

    def add(self, digest: bytes, token: _VerifiedToken) -> None:
        self._known[digest] = token
        if len(self._known) > self._most:
            del self._known[next(iter(self._known))]  # the oldest


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _signed_with(token: str) -> tuple[object, str | None]:
    """Return the algorithm and the key id of a token's header, which is not verified yet.

    PyJWT reads the header again when it verifies the signature; asking PyJWT for the header alone
    would decode the whole token twice.
    """
    encoded = token.partition(".")[0]
    try:
        header = json.loads(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        # The cause may quote the token.
        raise NotAuthenticated.public("token is not a JSON Web Token") from None
    kid = header.get("kid") if isinstance(header, dict) else 0
    if not isinstance(kid, str | None):
        raise NotAuthenticated.public("token is not a JSON Web Token")
    return header.get("alg"), kid


def bearer_token(metadata: Mapping[str, str]) -> str:
    """Return the token of an `authorization` header; raises NotAuthenticated without one."""
    scheme, _, token = metadata.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise NotAuthenticated.public("no bearer token")
    if len(token) > _MAX_TOKEN_BYTES:
        raise NotAuthenticated.public(
            f"token of {len(token)} bytes, {_MAX_TOKEN_BYTES} are allowed"
        )
    return token


def service_account_of(
    claims: Mapping[str, object], *, issuer: str, audiences: frozenset[str], now: float
) -> tuple[str, str]:
    """Return namespace and name of the service account in `claims`, after checking all claims.

    `aud` must be a JSON array, as Kubernetes writes it: a single string is refused, as Istio does.
    Clocks may differ by a minute at the beginning of a token's life, not at its end. Raises
    NotAuthenticated.
    """
    if claims.get("iss") != issuer:
        raise NotAuthenticated.public("token of another issuer")
    audience = claims.get("aud")
    if not isinstance(audience, list):
        raise NotAuthenticated.public("token audience is not an array")
    if audiences.isdisjoint(value for value in audience if isinstance(value, str)):
        raise NotAuthenticated.public("token for another audience")
    if now >= _time(claims, "exp"):
        raise NotAuthenticated.public("token has expired")
    for name in _BEGINNINGS:
        if name in claims and _time(claims, name) > now + _CLOCK_SKEW_S:
            raise NotAuthenticated.public(f"token is not valid yet ({name})")
    subject = claims.get("sub")
    parts = subject.split(":") if isinstance(subject, str) else []
    if len(parts) != _SUBJECT_PARTS or parts[:2] != ["system", "serviceaccount"]:
        raise NotAuthenticated.public(
            "token subject is not system:serviceaccount:<namespace>:<name>"
        )
    return parts[2], parts[3]


def validity_of(claims: Mapping[str, object]) -> tuple[float, float]:
    """Return from when on, and until when, `service_account_of` accepts claims by their times."""
    begins = [_time(claims, name) - _CLOCK_SKEW_S for name in _BEGINNINGS if name in claims]
    return max(begins, default=-math.inf), _time(claims, "exp")


def _time(claims: Mapping[str, object], name: str) -> float:
    value = claims.get(name)
    # JSON has whole numbers of any length, which no float holds; NaN is in no order to others.
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not abs(value) < _LATEST_TIME_S
    ):
        raise NotAuthenticated.public(f"token without a proper time of {name}")
    return value


def _claims(payload: bytes) -> Mapping[str, object]:
    try:
        claims = json.loads(payload, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise NotAuthenticated.public("token claims are not JSON") from None
    if not isinstance(claims, dict):
        raise NotAuthenticated.public("token claims are not an object")
    return claims


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
