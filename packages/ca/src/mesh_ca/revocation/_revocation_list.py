"""The revocation list (CRL) of an authority, and the file of all that an operator has revoked.

The list is signed anew when the file changes, when the signing certificate changes, and when half
of the list's own life is over. A list names serial numbers only: a revoked key or identity is
refused by this authority, and by servers that ask `is_revoked`.
"""

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from mesh_ca._errors import StorageError
from mesh_ca._files import file_exists, finish_replacement, read_file, replacing_files
from mesh_ca.authority._authority import Authority
from mesh_ca.authority._identity import checked_identity
from mesh_ca.authority._profile import whole_second
from mesh_ca.authority._signer import Signer
from mesh_ca.revocation._crl import signed_list
from mesh_ca.revocation._revoked import REASONS, Entry, Revoked, from_json, to_json

log = logging.getLogger("mesh_ca")

REVOKED = "revoked.json"
REVOCATION_LIST = "ca-crl.pem"

_LIFETIME = timedelta(hours=24)
_KEPT = timedelta(days=90)
_MAX_SERIAL_BITS = 160  # RFC 5280 section 4.1.2.2
_MAX_REVOKED = 10_000
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    list: x509.CertificateRevocationList
    entries: tuple[Entry, ...]
    signer: Signer
    renew_at: datetime


class RevocationList:
    """The revoked certificates of an authority, kept in a directory."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        *,
        lifetime: timedelta = _LIFETIME,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep `revoked.json` and `ca-crl.pem` in `directory`; a list is good for `lifetime`."""
        self._directory = directory
        self._authority = authority
        self._lifetime = lifetime
        self._clock = clock
        self._signed: _Signed | None = None
        self._revoked = Revoked(identities={})
        self._serials: frozenset[int] = frozenset()

    @property
    def file(self) -> Path:
        """The file of all that is revoked."""
        return self._directory / REVOKED

    @property
    def pem(self) -> bytes:
        """The list; raises StorageError before the first `refresh`."""
        return self._list.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        """The list; raises StorageError before the first `refresh`."""
        return self._list.public_bytes(Encoding.DER)

    @property
    def serials(self) -> frozenset[int]:
        """The serial numbers on the list, as of the last `refresh` or `revoke`."""
        return self._serials

    def is_revoked(self, leaf: x509.Certificate) -> bool:
        """Return whether a certificate is revoked, by its serial number, its key or an identity.

        As of the last `refresh` or `revoke`.
        """
        return self._revoked.covers(leaf, serials=self._serials)

    def is_key_revoked(self, sha256: str) -> bool:
        """Return whether a key is revoked, by the SHA-256 (hex) of its SubjectPublicKeyInfo."""
        return sha256 in self._revoked.keys

    def revoke(
        self, serial: int, *, reason: str = "unspecified", not_after: datetime | None = None
    ) -> None:
        """Revoke a certificate, for good; `not_after` is when it expires, if that is known.

        `reason` is one of RFC 5280, as `keyCompromise`. Returns when the list is on disk. Raises
        StorageError, and ValueError for a serial number or a reason that there can't be.
        """
        if not 0 < serial < 1 << _MAX_SERIAL_BITS:
            raise ValueError("serial number out of range, 1 to 2**160 - 1 is right")
        if reason not in REASONS:
            raise ValueError(f"reason {reason!r}, one of {', '.join(REASONS)} is right")
        now = whole_second(self._clock())
        entry = Entry(serial=serial, at=now, until=not_after or now + _KEPT, reason=REASONS[reason])
        with self._changing() as files:
            revoked = self._read()
            if serial in {known.serial for known in revoked.entries}:
                return
            self._sign(replace(revoked, entries=(*revoked.entries, entry)), files)
        log.warning("certificate revoked", extra={"serial": f"{serial:x}", "reason": reason})

    def revoke_identity(self, identity: str) -> None:
        """Revoke all certificates of an identity that was last proved before now.

        A caller that proves the identity anew, by a token for example, gets certificates again.
        Returns when it is on disk. Raises StorageError, and IdentityError for no identity.
        """
        checked_identity(identity)
        now = whole_second(self._clock())
        self._add(
            lambda revoked: replace(revoked, identities={**revoked.identities, identity: now})
        )
        log.warning("identity revoked", extra={"identity": identity})

    def revoke_key(self, sha256: str) -> None:
        """Revoke a key, by the SHA-256 of its DER SubjectPublicKeyInfo, hexadecimal; for good.

        A client certificate with this key is no proof, and no certificate is issued for it,
        whatever the caller shows. Returns when it is on disk. Raises StorageError, and ValueError
        for no such fingerprint.
        """
        if not _SHA256.fullmatch(sha256):
            raise ValueError("64 hexadecimal digits, a SHA-256, are right")
        self._add(lambda revoked: replace(revoked, keys=revoked.keys | {sha256}))
        log.warning("key revoked", extra={"public_key_sha256": sha256})

    def _add(self, change: Callable[[Revoked], Revoked]) -> None:
        with self._changing() as files:
            self._sign(change(self._read()), files)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, bytes]]:
        """Replace the files by those that the block puts into the dict.

        Raises StorageError; then nothing is revoked, as its caller knows by it and will try again.
        """
        before = self._revoked, self._serials, self._signed
        try:
            with replacing_files(self._directory, private=frozenset()) as files:
                yield files
        except StorageError:
            self._revoked, self._serials, self._signed = before
            raise

    def refresh(self) -> bool:
        """Read the file again and sign a new list if it is time; return whether there is a new one.

        Raises StorageError. What another process revoked counts all the same, as it is in the
        file: only the new list is not on disk.
        """
        finish_replacement(self._directory)
        if not self._is_due(self._read()):
            return False
        with replacing_files(self._directory, private=frozenset()) as files:
            self._sign(self._read(), files)
        return True

    @property
    def _list(self) -> x509.CertificateRevocationList:
        if self._signed is None:
            raise StorageError("no revocation list has been signed yet")
        return self._signed.list

    def _is_due(self, revoked: Revoked) -> bool:
        signed, now = self._signed, whole_second(self._clock())
        return (
            signed is None
            or now >= signed.renew_at
            or self._current(revoked, now) != signed.entries
            or (revoked.identities, revoked.keys) != (self._revoked.identities, self._revoked.keys)
            or not signed.signer.same_as(self._authority.signer)
        )

    def _current(self, revoked: Revoked, now: datetime) -> tuple[Entry, ...]:
        return tuple(entry for entry in revoked.entries if entry.until > now)

    def _sign(self, revoked: Revoked, files: dict[str, bytes]) -> None:
        now, signer = whole_second(self._clock()), self._authority.signer
        entries = self._current(revoked, now)
        if max(map(len, (entries, revoked.identities, revoked.keys))) > _MAX_REVOKED:
            raise StorageError(
                f"more than {_MAX_REVOKED} certificates, identities or keys are revoked: "
                "replace the root"
            )
        number = revoked.number + 1
        signed = signed_list(signer, entries, number=number, now=now, lifetime=self._lifetime)
        kept = replace(revoked, number=number, entries=entries)
        files[REVOKED] = to_json(kept)
        files[REVOCATION_LIST] = signed.public_bytes(Encoding.PEM)
        # Before it is on disk: a certificate that was just revoked must be refused meanwhile.
        self._revoked = kept
        self._serials = frozenset(entry.serial for entry in entries)
        self._signed = _Signed(
            list=signed, entries=entries, signer=signer, renew_at=now + self._lifetime / 2
        )

    def _read(self) -> Revoked:
        if not file_exists(self.file):
            return Revoked(identities={})
        try:
            return from_json(read_file(self.file))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise StorageError(
                f"{self.file} is damaged: put it back from a backup; without it revoked "
                "certificates would be accepted again"
            ) from error
