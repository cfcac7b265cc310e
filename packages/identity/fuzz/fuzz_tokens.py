"""Any text as a token and as a SPIFFE id: refused in words, or read and written again."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from mesh_identity import InvalidSpiffeId, SpiffeId, token_claims, token_facts, token_fault

_NOW = 1.8e9


def check(data: bytes) -> None:
    """A token always has claims or none, and sentences about it; an id is itself again."""
    kind, text = data[:1], data[1:].decode("utf-8", "surrogateescape")
    if kind == b"i":
        try:
            assert str(SpiffeId.parse(text)) == text
        except InvalidSpiffeId as error:
            assert str(error)
        return
    if kind == b"c":  # claims, so that base64 is not in the way
        text = f"e30.{base64.urlsafe_b64encode(data[1:]).decode().rstrip('=')}.x"
    token_claims(text)
    fault = token_fault(text, now=_NOW)
    facts = token_facts(text, now=_NOW)
    assert fault is None or fault
    assert text.strip() in ("", "..") or len(text) < 8 or text not in facts


def originals() -> Iterator[bytes]:
    """Claims of Kubernetes' tokens, and such as no issuer makes."""
    yield (
        b'c{"iss":"https://k8s","sub":"system:serviceaccount:a:b","aud":["istio-ca"],'
        b'"exp":1800003600,"nbf":1799990000,"iat":1799990000}'
    )
    yield b'c{"exp":1e300,"nbf":-1,"aud":"x","iat":99999999999999999999}'
    yield b'c{"exp":' + b"9" * 400 + b"}"
    yield b"te30.e30.e30"
    yield b"ispiffe://cluster.local/ns/default/sa/web"
    yield b"ispiffe://td/a%2fb/../c"
