"""When and how a root of our own changes: pure functions from one state of the files to the next.

A root of our own is one that was generated here, not plugged in. Near its end it is certified anew
with the same key, so that all certificates issued below the old one verify against the new one. A
root whose key must not be used any more is replaced in three steps, so that no workload is shown a
certificate whose root it does not know:

    spreading   the trust bundle holds the new root after the old one, which still signs
    retiring    the new root signs, and stands first; the bundle still holds the old one
    (steady)    the old root is gone
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self, assert_never

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from mesh_ca._errors import StorageError
from mesh_ca.authority._keys import KeyType, SigningKey, key_pem, new_key, public_key_sha256
from mesh_ca.authority._profile import root_certificate
from mesh_ca.authority._signer import CA_CERT, CA_KEY, CERT_CHAIN, ROOT_CERT
from mesh_lifecycle import check_fields

ROOT_STATE = "own-root.json"
NEXT_CERT = "next-ca-cert.pem"
NEXT_KEY = "next-ca-key.pem"

PRIVATE_FILES = frozenset({CA_KEY, NEXT_KEY})

_STATE_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RootPolicy:
    """How long a root of our own lasts, and how soon it is followed by another.

    lifetime: of a root generated or certified anew.
    grace: a root is certified anew when less than this part of its lifetime is left, 0 to 1.
    spread: how long the trust bundle holds a new root before that root signs. Each workload must
        ask for a certificate in this time, so at least a workload certificate's lifetime is safe
        for workloads that are not sent the bundle when it changes.
    retirement: how long the trust bundle holds a replaced root. Certificates below it are refused
        after that, so no workload is hurt if it is at least the longest lifetime given out.
    """

    lifetime: timedelta = timedelta(days=3650)
    grace: float = 0.2
    spread: timedelta = timedelta(hours=24)
    retirement: timedelta = timedelta(days=90)

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.grace <= 1:
            raise ValueError(f"grace must lie between 0 and 1, got {self.grace}")
        if self.lifetime < timedelta(minutes=1):
            raise ValueError(f"lifetime must be at least a minute, got {self.lifetime}")


class Step(StrEnum):
    """A change of root, as the log names it."""

    CERTIFY_ANEW = "certify the same key anew"
    ACTIVATE = "sign with the new root"
    RETIRE = "take the old root out of the trust bundle"
    DROP_EXPIRED = "take expired roots out of the trust bundle"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootState:
    """The contents of `own-root.json`: facts that the certificates and keys don't hold."""

    key_sha256: str
    """Fingerprint of the key that was generated here. A plugged-in key has another, and is kept."""
    activate_at: float | None = None
    retire_at: float | None = None
    retirement_s: float = 0.0

    @classmethod
    def of_key(cls, key: SigningKey) -> Self:
        """Return the state of a root with this key that is not being replaced."""
        return cls(key_sha256=public_key_sha256(key.public_key()))

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Read what `to_json` wrote; raises StorageError."""
        try:
            document = json.loads(text)
            if document["version"] != _STATE_VERSION:
                raise ValueError(document["version"])
            return cls(
                key_sha256=str(document["key_sha256"]),
                activate_at=_moment(document["activate_at"]),
                retire_at=_moment(document["retire_at"]),
                retirement_s=float(document["retirement_s"]),
            )
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StorageError(
                f"{ROOT_STATE} is damaged: put it back from a backup, "
                "or move it away to keep this root as if it were plugged in"
            ) from error

    def to_json(self) -> bytes:
        """Return the contents of the file."""
        document = {
            "version": _STATE_VERSION,
            "key_sha256": self.key_sha256,
            "activate_at": self.activate_at,
            "retire_at": self.retire_at,
            "retirement_s": self.retirement_s,
        }
        return json.dumps(document, indent=1).encode() + b"\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRoot:
    """A root of our own as its files hold it, with the next one while it is being replaced."""

    key: SigningKey = field(repr=False)
    certificate: x509.Certificate
    bundle: tuple[x509.Certificate, ...]  # the trust bundle, the root that signs first
    state: RootState
    next_key: SigningKey | None = field(default=None, repr=False)
    next_certificate: x509.Certificate | None = None


def new_root_files(
    key_type: KeyType, *, organization: str, serial: int, now: datetime, lifetime: timedelta
) -> Mapping[str, bytes]:
    """Make a key and a root, and return their files."""
    key = new_key(key_type)
    root = root_certificate(
        key, organization=organization, serial=serial, now=now, lifetime=lifetime
    )
    return {**_signing_files(key, root, [root]), ROOT_STATE: RootState.of_key(key).to_json()}


def next_step(own: OwnRoot, policy: RootPolicy, *, now: datetime) -> Step | None:
    """Return the step that is due, None if there is none."""
    state, seconds = own.state, now.timestamp()
    if state.activate_at is not None and seconds >= state.activate_at:
        return Step.ACTIVATE
    if state.retire_at is not None and seconds >= state.retire_at:
        return Step.RETIRE
    begin, end = own.certificate.not_valid_before_utc, own.certificate.not_valid_after_utc
    if end - now < (end - begin) * policy.grace and end < now + policy.lifetime:
        return Step.CERTIFY_ANEW
    if any(root.not_valid_after_utc <= now for root in own.bundle if root != own.certificate):
        return Step.DROP_EXPIRED
    return None


def files_after(
    own: OwnRoot, step: Step, policy: RootPolicy, *, now: datetime, serial: int
) -> Mapping[str, bytes]:
    """Return the files that `step` replaces, with their new contents."""
    valid = [root for root in own.bundle if root.not_valid_after_utc > now]
    match step:
        case Step.CERTIFY_ANEW:
            root = _root_like(own.certificate, own.key, policy, now=now, serial=serial)
            return _signing_files(own.key, root, [root, *valid])
        case Step.DROP_EXPIRED:
            return {ROOT_CERT: _pem([own.certificate, *valid])}
        case Step.ACTIVATE:
            if own.next_key is None or own.next_certificate is None:
                raise StorageError(f"{NEXT_KEY} or {NEXT_CERT} is missing: put both back")
            state = RootState(
                key_sha256=public_key_sha256(own.next_key.public_key()),
                retire_at=now.timestamp() + own.state.retirement_s,
            )
            return {
                **_signing_files(
                    own.next_key, own.next_certificate, [own.next_certificate, *valid]
                ),
                ROOT_STATE: state.to_json(),
            }
        case Step.RETIRE:
            keys = [key.public_key() for key in (own.key, own.next_key) if key is not None]
            kept = [root for root in valid if root.public_key() in keys]
            return {
                ROOT_CERT: _pem([own.certificate, *kept]),
                ROOT_STATE: replace(own.state, retire_at=None).to_json(),
            }
        case _:
            assert_never(step)


def replacement_files(
    own: OwnRoot, policy: RootPolicy, *, key_type: KeyType, now: datetime, serial: int
) -> Mapping[str, bytes]:
    """Make a new key and root, and return the files that begin the replacement of the old root.

    Raises StorageError while another replacement is under way.
    """
    if own.state.activate_at is not None:
        raise StorageError("this root is being replaced already: wait until the new one signs")
    key = new_key(key_type)
    root = _root_like(own.certificate, key, policy, now=now, serial=serial)
    state = RootState(
        key_sha256=own.state.key_sha256,
        activate_at=now.timestamp() + policy.spread.total_seconds(),
        retire_at=own.state.retire_at,
        retirement_s=policy.retirement.total_seconds(),
    )
    return {
        NEXT_KEY: key_pem(key),
        NEXT_CERT: _pem([root]),
        ROOT_CERT: _pem([own.certificate, root, *own.bundle]),
        ROOT_STATE: state.to_json(),
    }


def _root_like(
    old: x509.Certificate, key: SigningKey, policy: RootPolicy, *, now: datetime, serial: int
) -> x509.Certificate:
    names = old.subject.get_attributes_for_oid(x509.NameOID.ORGANIZATION_NAME)
    return root_certificate(
        key,
        organization=str(names[0].value) if names else "",
        serial=serial,
        now=now,
        lifetime=policy.lifetime,
    )


def _signing_files(
    key: SigningKey, certificate: x509.Certificate, bundle: Sequence[x509.Certificate]
) -> dict[str, bytes]:
    return {
        CA_CERT: _pem([certificate]),
        CA_KEY: key_pem(key),
        CERT_CHAIN: b"",
        ROOT_CERT: _pem(bundle),
    }


def _pem(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(
        each.public_bytes(serialization.Encoding.PEM) for each in dict.fromkeys(certificates)
    )


def _moment(value: object) -> float | None:
    return None if value is None else float(str(value))
