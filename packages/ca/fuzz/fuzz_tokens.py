"""Any token and any claims, as a caller shows them: a caller, or a refusal that says why."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress

from cryptography.hazmat.primitives.asymmetric import ec

from mesh_ca import Credentials, JwtAuthenticator, NotAuthenticated, VerificationKey
from mesh_ca.callers._jwt import _claims, service_account_of, validity_of

_AUDIENCES = frozenset({"istio-ca"})
_PUBLIC_KEY = ec.generate_private_key(ec.SECP256R1()).public_key()


class _OneKey:
    async def find(self, kid: str | None) -> Sequence[VerificationKey]:  # noqa: ARG002
        return (VerificationKey(kid=None, algorithm="ES256", key=_PUBLIC_KEY),)


_AUTHENTICATOR = JwtAuthenticator("k8s", _AUDIENCES, jwks=_OneKey(), trust_domain="td")


def check(data: bytes) -> None:
    """No token passes, as the key signed none; the claims of a signed one are all checked."""
    kind, content = data[:1], data[1:]
    try:
        if kind == b"c":
            claims = _claims(content)
            namespace, account = service_account_of(
                claims, issuer="k8s", audiences=_AUDIENCES, now=1.8e9
            )
            begins, expires = validity_of(claims)
            assert begins <= 1.8e9 < expires
            assert ":" not in namespace + account
        else:
            text = content.decode("latin-1")
            credentials = Credentials(metadata={"authorization": text}, encrypted=True)
            with suppress(StopIteration):  # nothing in it waits
                _AUTHENTICATOR.authenticate(credentials).send(None)
            raise AssertionError("a token without a signature was accepted")
    except NotAuthenticated as error:
        assert str(error)


def originals() -> Iterator[bytes]:
    """Good claims, claims at the edges, and a token with a wrong signature."""
    claims = {
        "iss": "k8s",
        "aud": ["istio-ca"],
        "exp": 1.9e9,
        "nbf": 1,
        "sub": "system:serviceaccount:a:b",
    }
    yield b"c" + json.dumps(claims).encode()
    for name, value in (("exp", 10**400), ("exp", 1e308), ("aud", "istio-ca"), ("nbf", 10**400)):
        yield b"c" + json.dumps({**claims, name: value}).encode()
    parts = [json.dumps(each).encode() for each in ({"alg": "ES256", "kid": "x"}, claims)]
    encoded = [base64.urlsafe_b64encode(each).rstrip(b"=") for each in (*parts, b"x" * 64)]
    yield b"tBearer " + b".".join(encoded)
