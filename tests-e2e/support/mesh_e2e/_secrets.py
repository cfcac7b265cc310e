"""Secrets, and every form in which somebody might have written them down."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_SHORTEST = 20  # of a needle: shorter ones might turn up by chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Something that must not be found where it does not belong."""

    name: str
    needles: frozenset[bytes] = field(repr=False)

    def is_in(self, content: bytes) -> bool:
        return any(needle in content for needle in self.needles)


def secret_key(name: str, pem: bytes) -> Secret:
    """A private key: as PEM, DER, hexadecimal, base64, and its secret numbers alone."""
    key = load_pem_private_key(pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    needles: set[bytes] = set()
    for form in (PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL):
        needles |= _written(key.private_bytes(Encoding.DER, form, NoEncryption()))
        lines = key.private_bytes(Encoding.PEM, form, NoEncryption()).splitlines()[1:-1]
        for line in _secret_lines(key, lines, form):
            needles |= {line, *_base64_anywhere(line)}  # base64 again: as Envoy's JSON has bytes
    for number in _secret_numbers(key):
        raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
        needles |= {str(number).encode(), *_written(raw)}
        needles.add(base64.urlsafe_b64encode(raw).rstrip(b"="))
    return Secret(name=name, needles=frozenset(each for each in needles if len(each) >= _SHORTEST))


def _secret_lines(key: PrivateKey, lines: list[bytes], form: PrivateFormat) -> list[bytes]:
    """The lines of a PEM that aren't the public half: an RSA modulus stands first, a point last."""
    if isinstance(key, rsa.RSAPrivateKey):
        return lines[7:]
    return lines[: 2 if form is PrivateFormat.PKCS8 else 1]


def _secret_numbers(key: PrivateKey) -> tuple[int, ...]:
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.private_numbers()
        return (numbers.d, numbers.p, numbers.q)
    return (key.private_numbers().private_value,)


def secret_token(name: str, token: str) -> Secret:
    """A JSON Web Token: whole, and each part of it that makes it worth anything."""
    _, claims, signature = token.strip().split(".")
    written = {part for text in (claims, signature) for part in _base64_anywhere(text.encode())}
    return Secret(name=name, needles=frozenset({claims.encode(), signature.encode(), *written}))


def secrets_on_disk(folder: Path) -> Iterator[Secret]:
    """Every private key and token in the files below a folder."""
    for file in sorted(folder.rglob("*")):
        if not file.is_file() or file.is_symlink():
            continue
        content = file.read_bytes()
        if re.match(rb"-----BEGIN (?:EC |RSA )?PRIVATE KEY-----", content):
            yield secret_key(str(file), content)
        elif file.name == "istio-token":
            yield secret_token(str(file), content.decode())


def _written(raw: bytes) -> set[bytes]:
    digits = raw.hex()
    colons = ":".join(digits[index : index + 2] for index in range(0, len(digits), 2))
    forms = {digits, digits.upper(), colons, colons.upper(), repr(raw)[2:-1]}
    return {raw, *(form.encode() for form in forms), *_base64_anywhere(raw)}


def _base64_anywhere(raw: bytes) -> set[bytes]:
    """The base64 of bytes that stand anywhere within others: whatever comes before and after."""
    found = set()
    for before in range(3):
        text = base64.b64encode(b"\0" * before + raw)
        found.add(text[4 if before else 0 : -4])
    return found
