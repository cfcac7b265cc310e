"""The certificates, keys and identities that an operator has revoked, and their file format."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography import x509

from mesh_ca.authority._keys import public_key_sha256
from mesh_ca.authority._serial_number import proven_at

Reason = x509.ReasonFlags

REASONS: Mapping[str, x509.ReasonFlags] = {
    reason.value: reason for reason in Reason if reason is not Reason.remove_from_crl
}
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A revoked certificate. at: when it was revoked. until: when it expires."""

    serial: int
    at: datetime
    until: datetime
    reason: x509.ReasonFlags


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoked:
    """All that is revoked.

    number: of the list that was signed last. identities: each with the moment at which it
    was revoked; older proofs of it are no longer accepted. keys: the SHA-256 of each (DER
    SubjectPublicKeyInfo), in hexadecimal.
    """

    number: int = 0
    entries: tuple[Entry, ...] = ()
    identities: Mapping[str, datetime]
    keys: frozenset[str] = frozenset()

    def covers(self, leaf: x509.Certificate, *, serials: frozenset[int]) -> bool:
        """Return whether this certificate is revoked by its serial number, key or identities.

        serials: the serial numbers of the entries.
        """
        if leaf.serial_number in serials:
            return True
        if self.keys and public_key_sha256(leaf.public_key()) in self.keys:
            return True
        if not self.identities:
            return False
        proven = proven_at(leaf)
        return any(proven <= self.identities.get(name, _NEVER) for name in _names(leaf))


_NEVER = datetime.min.replace(tzinfo=UTC)


def _names(leaf: x509.Certificate) -> list[str]:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [
        *names.get_values_for_type(x509.UniformResourceIdentifier),
        *names.get_values_for_type(x509.DNSName),
    ]


def to_json(revoked: Revoked) -> bytes:
    """Return the contents of the file."""
    entries = [
        {
            "serial": f"{entry.serial:x}",
            "at": int(entry.at.timestamp()),
            "until": int(entry.until.timestamp()),
            "reason": entry.reason.value,
        }
        for entry in revoked.entries
    ]
    document = {
        "version": _VERSION,
        "number": revoked.number,
        "revoked": entries,
        "identities": {name: int(at.timestamp()) for name, at in revoked.identities.items()},
        "keys": sorted(revoked.keys),
    }
    return json.dumps(document, indent=1).encode() + b"\n"


def from_json(text: bytes) -> Revoked:
    """Read the file; raises ValueError, TypeError, KeyError, OverflowError, RecursionError."""
    document = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(document["version"])
    return Revoked(
        number=int(document["number"]),
        entries=tuple(
            Entry(
                serial=int(entry["serial"], 16),
                at=datetime.fromtimestamp(entry["at"], UTC),
                until=datetime.fromtimestamp(entry["until"], UTC),
                reason=REASONS[entry["reason"]],
            )
            for entry in document["revoked"]
        ),
        identities={
            str(name): datetime.fromtimestamp(at, UTC)
            for name, at in dict(document.get("identities", {})).items()
        },
        keys=frozenset(map(str, document.get("keys", ()))),
    )
