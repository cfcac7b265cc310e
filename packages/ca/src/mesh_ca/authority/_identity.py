"""The identities that a certificate can hold: SPIFFE ids, DNS names and IP addresses.

An identity is a string as it stands in a certificate.
"""

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from mesh_ca._errors import IdentityError
from mesh_ca.authority import _der
from mesh_identity import InvalidSpiffeId, SpiffeId
from mesh_identity import checked_trust_domain as spiffe_trust_domain

_DNS_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_DNS_NAME = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SERVICE_ACCOUNT = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")

# Tags of GeneralName, RFC 5280 section 4.2.1.6.
_DNS, _URI, _IP_ADDRESS = 0x82, 0x86, 0x87

_MAX_DNS_BYTES = 253
_MAX_IDENTITIES = 64


def checked_trust_domain(text: str) -> str:
    """Return `text` if it is a SPIFFE trust domain, else raise IdentityError."""
    try:
        return spiffe_trust_domain(text)
    except InvalidSpiffeId as error:
        raise IdentityError(str(error)) from error


def trust_domain_of(identity: str) -> str | None:
    """Return the trust domain of a SPIFFE id; None for a DNS name or an IP address.

    Raises IdentityError for anything that claims to be a SPIFFE id and is not a proper one.
    """
    if "://" not in identity:
        return None
    try:
        return SpiffeId.parse(identity).trust_domain
    except InvalidSpiffeId as error:
        raise IdentityError(f"identity {identity[:200]!r} is not a SPIFFE id") from error


def checked_identity(identity: str) -> str:
    """Return `identity` if a certificate can hold it, else raise IdentityError."""
    alternative_names([identity], trust_domain=trust_domain_of(identity) or "")
    return identity


def service_account_identity(trust_domain: str, namespace: str, service_account: str) -> str:
    """Return the SPIFFE id of a service account; raises IdentityError for no Kubernetes name."""
    if not _NAMESPACE.fullmatch(namespace):
        raise IdentityError(f"namespace {namespace[:200]!r} is not a DNS label")
    if not _SERVICE_ACCOUNT.fullmatch(service_account) or ".." in service_account:
        raise IdentityError(f"service account {service_account[:200]!r} is not a DNS name")
    return str(
        SpiffeId.for_service_account(
            trust_domain=trust_domain, namespace=namespace, service_account=service_account
        )
    )


def alternative_names(identities: Sequence[str], *, trust_domain: str) -> bytes:
    """Return the DER of a SubjectAlternativeName; SPIFFE ids must be of `trust_domain`."""
    if not identities:
        raise IdentityError("no identity to certify")
    if len(identities) > _MAX_IDENTITIES:
        raise IdentityError(f"{len(identities)} identities, {_MAX_IDENTITIES} are allowed")
    return _der.sequence(
        *(_general_name(identity, trust_domain) for identity in dict.fromkeys(identities))
    )


@lru_cache(maxsize=1024)  # all replicas of a workload have one identity
def _general_name(identity: str, trust_domain: str) -> bytes:
    found = trust_domain_of(identity)
    if found is not None:
        if found != trust_domain:
            raise IdentityError(
                f"identity {identity!r} is not of this authority's trust domain {trust_domain!r}"
            )
        return _der.tlv(_URI, identity.encode("ascii"))
    try:
        return _der.tlv(_IP_ADDRESS, ipaddress.ip_address(identity).packed)
    except ValueError:
        pass
    if len(identity) <= _MAX_DNS_BYTES and _DNS_NAME.fullmatch(identity):
        return _der.tlv(_DNS, identity.encode("ascii"))
    raise IdentityError(
        f"identity {identity[:200]!r} is neither a SPIFFE id, a DNS name nor an IP address"
    )
