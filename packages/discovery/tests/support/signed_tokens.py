"""Tokens (JWT) that a test signs, and the key sets by which they are right."""

import json
import time
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class Issuer:
    """An issuer of tokens, with a key of its own."""

    def __init__(self, name: str, *, algorithm: str = "RS256") -> None:
        self.name = name
        self.algorithm = algorithm
        self.private: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
        if algorithm == "RS256":
            self.private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            self._public = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            self.private = ec.generate_private_key(ec.SECP256R1())
            self._public = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)

    @property
    def key_set(self) -> str:
        """The key set, as it is published."""
        return json.dumps({"keys": [{**self._public, "kid": "1", "alg": self.algorithm}]})

    def token(self, *, expires_in_s: float = 3600, **claims: Any) -> str:
        """Sign a token; of subject `sub` unless another is given."""
        said = {"iss": self.name, "sub": "sub", "exp": int(time.time() + expires_in_s), **claims}
        return jwt.encode(said, self.private, self.algorithm, headers={"kid": "1"})

    def rule(self, more: str = "") -> str:
        """A jwtRule of a RequestAuthentication with the key set in it."""
        return f"{{issuer: '{self.name}', jwks: '{self.key_set}'{more}}}"
