"""JSON web tokens (ES256), and the keys that they are verified by."""

from __future__ import annotations

import base64
import json
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


class Issuer:
    """Signs tokens."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())

    @property
    def jwks(self) -> str:
        numbers = self._key.public_key().public_numbers()
        x, y = (_base64(each.to_bytes(32, "big")) for each in (numbers.x, numbers.y))
        key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "a", "x": x, "y": y}
        return json.dumps({"keys": [key]})

    def token(self, **claims: object) -> str:
        """A token that is valid for an hour."""
        header = {"alg": "ES256", "typ": "JWT", "kid": "a"}
        content = {"iss": self.name, "exp": int(time.time()) + 3600, **claims}
        signed = ".".join(_base64(json.dumps(each).encode()) for each in (header, content))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
