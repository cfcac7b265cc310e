"""Key sets (JWKS, RFC 7517), as far as Envoy can use them.

Envoy refuses a whole listener for a set without a usable key, so that a set is looked at before it
is sent. Of a set that has one, Envoy leaves out the others.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from istio_config.kinds._extras import of_extra

_CURVES = ("P-256", "P-384", "P-521")
"""Those that Envoy accepts."""
_PRIVATE = {"d", "p", "q", "dp", "dq", "qi", "k"}
MOST_BYTES = 1024 * 1024
_Key: TypeAlias = Mapping[str, object]


class KeySetError(ValueError):
    """A text that is no usable key set; the message says why."""


def check_key_set(text: str | bytes) -> None:
    """Make sure that a text is a key set with a key that Envoy can use; raises `KeySetError`."""
    why = ""
    for key in _keys(text):
        problem = _key_mistake(key)
        if problem is None:
            return
        why = why or problem
    raise KeySetError(f"has no usable key: {why}" if why else "has no keys")


def has_private_parts(text: str) -> bool:
    """Return whether a key set, which anyone may read, has parts of private keys in it."""
    try:
        return any(not _PRIVATE.isdisjoint(key) for key in _keys(text))
    except KeySetError:
        return False


def _keys(text: str | bytes) -> Iterator[_Key]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KeySetError("is not JSON") from error
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise KeySetError('is not a key set: expected a mapping with the list "keys"')
    for key in keys:
        if not isinstance(key, dict):
            raise KeySetError("is not a key set: each of its keys is a mapping")
        yield key


def _key_mistake(key: _Key) -> str | None:
    with of_extra("keys"):
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    kind = key.get("kty")
    try:
        if kind == "RSA":
            rsa.RSAPublicNumbers(_number(key, "e"), _number(key, "n")).public_key()
        elif kind == "EC":
            curves = dict(
                zip(_CURVES, (ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()), strict=True)
            )
            curve = curves.get(str(key.get("crv")))
            if curve is None:
                return f"the curve {key.get('crv')} is none of {', '.join(_CURVES)}"
            ec.EllipticCurvePublicNumbers(_number(key, "x"), _number(key, "y"), curve).public_key()
        elif kind == "OKP":
            if key.get("crv") != "Ed25519":
                return f"the curve {key.get('crv')} is not Ed25519"
            ed25519.Ed25519PublicKey.from_public_bytes(_bytes(key, "x"))
        elif kind == "oct":
            _bytes(key, "k")
        else:
            return f"the type {kind} is none of RSA, EC, OKP, oct"
    except (ValueError, TypeError) as error:
        return f"a key of type {kind} is wrong: {error}"
    return None


def _bytes(key: _Key, name: str) -> bytes:
    value = key.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is missing")
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{name} is not base64url") from error


def _number(key: _Key, name: str) -> int:
    return int.from_bytes(_bytes(key, name), "big")
