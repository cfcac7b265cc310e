"""Certificates that are not to be believed any more, and the list (CRL) that says so.

The serial numbers are kept in a file; the list is signed anew when they change, when the signing
certificate does, and when half of its own life is over.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from mesh_ca._authority import Authority
from mesh_ca._errors import StorageError
from mesh_ca._files import finish_replacement, read_file, replacing_files
from mesh_ca._keys import signature_hash
from mesh_ca._profile import CLOCK_SKEW, whole_second
from mesh_ca._signer import CA_CERT, Signer, key_id, may_sign_lists

log = logging.getLogger("mesh_ca")

REVOKED = "revoked.json"
REVOCATION_LIST = "ca-crl.pem"

Reason = x509.ReasonFlags

_LIFETIME = timedelta(hours=24)
_KEPT = timedelta(days=90)
_VERSION = 1
_MAX_SERIAL_BITS = 160  # RFC 5280 section 4.1.2.2
_MAX_REVOKED = 10_000
_REASONS: Mapping[str, x509.ReasonFlags] = {
    reason.value: reason for reason in Reason if reason is not Reason.remove_from_crl
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    serial: int
    at: datetime
    until: datetime  # when the certificate has expired anyhow
    reason: x509.ReasonFlags


@dataclass(frozen=True, slots=True, kw_only=True)
class _Revoked:
    number: int  # of the list that was signed last
    entries: tuple[_Entry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signed:
    list: x509.CertificateRevocationList
    entries: tuple[_Entry, ...]
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
        self._serials: frozenset[int] = frozenset()

    @property
    def file(self) -> Path:
        """Where the serial numbers are kept."""
        return self._directory / REVOKED

    @property
    def pem(self) -> bytes:
        """The list; raises StorageError before the first `refresh`."""
        return self._list.public_bytes(Encoding.PEM)

    @property
    def der(self) -> bytes:
        """The list; raises StorageError before the first `refresh`."""
        return self._list.public_bytes(Encoding.DER)

    def is_revoked(self, serial: int) -> bool:
        """Whether a certificate is revoked, as of the last `refresh` or `revoke`."""
        return serial in self._serials

    def revoke(
        self, serial: int, *, reason: str = "unspecified", not_after: datetime | None = None
    ) -> None:
        """Revoke a certificate, for good; `not_after` is when it expires, if that is known.

        `reason` is one of RFC 5280, as `keyCompromise`. Returns when the list is on disk. Raises
        StorageError, and ValueError for a serial number or a reason that there can't be.
        """
        if not 0 < serial < 1 << _MAX_SERIAL_BITS:
            raise ValueError("serial number out of range, 1 to 2**160 - 1 is right")
        if reason not in _REASONS:
            raise ValueError(f"reason {reason!r}, one of {', '.join(_REASONS)} is right")
        now = whole_second(self._clock())
        entry = _Entry(
            serial=serial, at=now, until=not_after or now + _KEPT, reason=_REASONS[reason]
        )
        with replacing_files(self._directory, private=frozenset()) as files:
            revoked = self._read()
            if serial not in {known.serial for known in revoked.entries}:
                self._sign(
                    _Revoked(number=revoked.number, entries=(*revoked.entries, entry)), files
                )
                log.warning(
                    "certificate revoked", extra={"serial": f"{serial:x}", "reason": reason}
                )

    def refresh(self) -> bool:
        """Read the serial numbers again, sign a new list if it is time; tells if there is one.

        Raises StorageError: the list stays as it was.
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

    def _is_due(self, revoked: _Revoked) -> bool:
        signed, now = self._signed, whole_second(self._clock())
        return (
            signed is None
            or now >= signed.renew_at
            or self._current(revoked, now) != signed.entries
            or not signed.signer.same_as(self._authority.signer)
        )

    def _current(self, revoked: _Revoked, now: datetime) -> tuple[_Entry, ...]:
        return tuple(entry for entry in revoked.entries if entry.until > now)

    def _sign(self, revoked: _Revoked, files: dict[str, bytes]) -> None:
        now, signer = whole_second(self._clock()), self._authority.signer
        entries = self._current(revoked, now)
        if len(entries) > _MAX_REVOKED:
            raise StorageError(
                f"more than {_MAX_REVOKED} certificates are revoked: replace the root"
            )
        number = revoked.number + 1
        signed = _signed_list(signer, entries, number=number, now=now, lifetime=self._lifetime)
        files[REVOKED] = _to_json(_Revoked(number=number, entries=entries))
        files[REVOCATION_LIST] = signed.public_bytes(Encoding.PEM)
        # Before it is on disk: what was just revoked must not be believed meanwhile.
        self._serials = frozenset(entry.serial for entry in entries)
        self._signed = _Signed(
            list=signed, entries=entries, signer=signer, renew_at=now + self._lifetime / 2
        )

    def _read(self) -> _Revoked:
        try:
            self.file.stat()
        except FileNotFoundError:
            return _Revoked(number=0, entries=())
        except OSError as error:
            raise StorageError(f"can't read {self.file}: {error.strerror}") from error
        try:
            return _from_json(read_file(self.file))
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise StorageError(
                f"{self.file} is damaged: put it back from a backup; without it revoked "
                "certificates would be believed again"
            ) from error


def _signed_list(
    signer: Signer, entries: tuple[_Entry, ...], *, number: int, now: datetime, lifetime: timedelta
) -> x509.CertificateRevocationList:
    if not may_sign_lists(signer.certificate):
        raise StorageError(f"the key usage of {CA_CERT} lacks cRLSign, which a list needs")
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(signer.certificate.subject)
        .last_update(now - CLOCK_SKEW)
        .next_update(now + lifetime)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(key_id(signer.certificate), critical=False)
    )
    for entry in entries:
        revoked = (
            x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(entry.at)
        )
        if entry.reason is not Reason.unspecified:  # RFC 5280 section 5.3.1: then left out
            revoked = revoked.add_extension(x509.CRLReason(entry.reason), critical=False)
        builder = builder.add_revoked_certificate(revoked.build())
    return builder.sign(signer.key, signature_hash(signer.key))


def _to_json(revoked: _Revoked) -> bytes:
    entries = [
        {
            "serial": f"{entry.serial:x}",
            "at": int(entry.at.timestamp()),
            "until": int(entry.until.timestamp()),
            "reason": entry.reason.value,
        }
        for entry in revoked.entries
    ]
    document = {"version": _VERSION, "number": revoked.number, "revoked": entries}
    return json.dumps(document, indent=1).encode() + b"\n"


def _from_json(text: bytes) -> _Revoked:
    document = json.loads(text)
    if document["version"] != _VERSION:
        raise ValueError(document["version"])
    return _Revoked(
        number=int(document["number"]),
        entries=tuple(
            _Entry(
                serial=int(entry["serial"], 16),
                at=datetime.fromtimestamp(entry["at"], UTC),
                until=datetime.fromtimestamp(entry["until"], UTC),
                reason=_REASONS[entry["reason"]],
            )
            for entry in document["revoked"]
        ),
    )
