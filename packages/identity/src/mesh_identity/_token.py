"""Reads the claims of a bearer token without verifying it, for error messages.

This proves nothing: the control plane verifies the token. It lets the sender predict a refusal, and
after a refusal shows what to compare. The token itself is in no message. Claims as in RFC 7519,
section 4.1, which Kubernetes' tokens have.
"""

import base64
import json
import math
from typing import NamedTuple

from mesh_identity._words import duration, listed, shown

_MAX_TOKEN_BYTES = 16 * 1024
_PARTS = 3
_CLOCK_SKEW_S = 60  # control planes tolerate this much at the beginning of a token's life


class TokenClaims(NamedTuple):
    """The claims that are used here; None or empty if missing or of another type.

    expires_at, not_before, issued_at: Unix time in seconds.
    """

    issuer: str
    subject: str
    audiences: tuple[str, ...]
    expires_at: float | None
    not_before: float | None
    issued_at: float | None = None


def token_claims(token: str) -> TokenClaims | None:
    """Return a token's claims; None if it is no JSON Web Token, or too long for one."""
    parts = token.strip().split(".", _PARTS)
    if len(parts) != _PARTS or len(token) > _MAX_TOKEN_BYTES:
        return None
    try:
        encoded = parts[1].encode("ascii")
        claims = json.loads(base64.urlsafe_b64decode(encoded + b"=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        return None
    if not isinstance(claims, dict):
        return None
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    return TokenClaims(
        issuer=_text(claims.get("iss")),
        subject=_text(claims.get("sub")),
        audiences=tuple(each for each in audiences if isinstance(each, str)),
        expires_at=_time(claims.get("exp")),
        not_before=_time(claims.get("nbf")),
        issued_at=_time(claims.get("iat")),
    )


def token_fault(token: str, *, now: float) -> str | None:
    """Return why a token can't be valid, as the rest of a sentence after "the token"; None if it
    may be.

    now: Unix time in seconds.
    """
    if not token.strip():
        return "is empty"
    if (claims := token_claims(token)) is None:
        return "is no JSON Web Token"
    if claims.expires_at is not None and claims.expires_at <= now:
        return f"expired {duration(now - claims.expires_at)} ago"
    if claims.not_before is not None and claims.not_before > now + _CLOCK_SKEW_S:
        return (
            f"is not valid for another {duration(claims.not_before - now)}: is this machine's "
            "clock right?"
        )
    return None


def token_facts(token: str, *, now: float) -> str:
    """Describe a token by its claims, to compare with what the control plane accepts."""
    if (fault := token_fault(token, now=now)) in {"is empty", "is no JSON Web Token"}:
        return str(fault)
    claims = token_claims(token)
    if claims is None:
        return "is no JSON Web Token"
    ends = claims.expires_at
    life = fault or ("does not expire" if ends is None else f"expires in {duration(ends - now)}")
    return (
        f"{life}, is from issuer {shown(claims.issuer) or '(none)'} "
        f"for audience {listed(claims.audiences, none='(none)')} "
        f"and of subject {shown(claims.subject) or '(none)'}"
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _time(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return seconds if math.isfinite(seconds) else None
