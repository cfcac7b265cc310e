"""Issues service account tokens as Kubernetes does, for machines without Kubernetes."""

import hashlib
import json
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from secrets import token_hex

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from mesh_ca._errors import LifetimeError, StorageError
from mesh_ca._files import create_files, read_file, write_file
from mesh_ca.authority._identity import service_account_identity
from mesh_ca.authority._keys import KeyType, UnacceptableKey, accepted_signing_key, key_pem, new_key

_KEY_FILE = "token-key.pem"


class TokenIssuer:
    """Issues tokens with a key kept in a directory; the key is generated at first use.

    RS256, because that is the one algorithm every OpenID Connect verifier takes, istiod's too.
    """

    def __init__(
        self, directory: Path, issuer: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        """Keep the key in `directory` (mode 0700, the key's 0600); `issuer` goes to claim `iss`."""
        self._directory = directory
        self._issuer = issuer
        self._clock = clock

    @property
    def issuer(self) -> str:
        """The value of claim `iss`, which verifiers must expect."""
        return self._issuer

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        """Return the key set that verifies the tokens; raises StorageError."""
        return {"keys": [{**self._public_jwk, "kid": self._kid, "alg": "RS256", "use": "sig"}]}

    def write_jwks(self, file: Path) -> None:
        """Put the key set in a file, replaced atomically; raises StorageError."""
        write_file(file, json.dumps(self.jwks()).encode(), mode=0o644)

    def issue(
        self,
        namespace: str,
        service_account: str,
        audience: str = "istio-ca",
        lifetime: timedelta = timedelta(hours=1),
    ) -> str:
        """Return a token for one service account.

        Raises StorageError, IdentityError, LifetimeError.
        """
        service_account_identity("checked", namespace, service_account)
        if lifetime < timedelta(seconds=1):
            raise LifetimeError(f"token lifetime of {lifetime.total_seconds():g} s, 1 s at least")
        now = int(self._clock())
        claims = {
            "iss": self._issuer,
            "sub": f"system:serviceaccount:{namespace}:{service_account}",
            "aud": [audience],
            "iat": now,
            "nbf": now,
            "exp": now + int(lifetime.total_seconds()),
            "jti": token_hex(16),
        }
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": self._kid})

    def write_token(
        self,
        file: Path,
        namespace: str,
        service_account: str,
        audience: str = "istio-ca",
        lifetime: timedelta = timedelta(hours=1),
    ) -> None:
        """Issue a token into a file of mode 0600, replaced atomically; raises as `issue` does."""
        token = self.issue(namespace, service_account, audience, lifetime)
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"can't make {file.parent}: {error.strerror}") from error
        write_file(file, token.encode(), mode=0o600)

    @cached_property
    def _key(self) -> rsa.RSAPrivateKey:
        create_files(
            self._directory,
            last=_KEY_FILE,
            make=lambda: {_KEY_FILE: key_pem(new_key(KeyType.RSA_2048))},
            private=frozenset({_KEY_FILE}),
        )
        path = self._directory / _KEY_FILE
        try:
            unchecked_key = serialization.load_pem_private_key(read_file(path), password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise StorageError(f"{path} holds no readable PEM private key") from None
        try:
            key = accepted_signing_key(unchecked_key)
        except UnacceptableKey as error:
            raise StorageError(f"{path} holds a {error}") from error
        if not isinstance(key, rsa.RSAPrivateKey):
            raise StorageError(f"{path} is not an RSA key, which RS256 needs")
        return key

    @cached_property
    def _public_jwk(self) -> dict[str, str]:
        numbers = RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return {name: str(numbers[name]) for name in ("kty", "n", "e")}

    @cached_property
    def _kid(self) -> str:
        # The key's thumbprint, RFC 7638.
        thumbprint_input = json.dumps(self._public_jwk, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(thumbprint_input.encode()).hexdigest()
