"""How far a certificate may be renewed by showing nothing but itself.

Whoever once got hold of a key could otherwise have new certificates for ever, and of any lifetime.
So each certificate says when its holder last proved who it is by other means, such as a token. That
moment is handed on from certificate to certificate; past a limit, another proof is asked for.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509

from mesh_ca._errors import NotAuthenticated
from mesh_ca.authority._serial_number import proven_at

SELF_RENEWAL_LIMIT = timedelta(days=90)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCertificate:
    """A certificate that a caller has shown instead of any other proof.

    proven_at: when the holder last gave another proof; for a certificate that does not say, when it
    began to be valid. lifetime: how long it was issued for.
    """

    proven_at: datetime
    lifetime: timedelta


def shown_certificate(leaf: x509.Certificate, *, skew: timedelta) -> ShownCertificate:
    """What a leaf says of its own renewals; its signature has been verified by the caller.

    skew: how long before it was issued the certificates of this authority begin.
    """
    lifetime = leaf.not_valid_after_utc - leaf.not_valid_before_utc - skew
    return ShownCertificate(proven_at=proven_at(leaf), lifetime=max(lifetime, timedelta(0)))


def renewed_lifetime(
    shown: ShownCertificate,
    wanted: timedelta,
    *,
    now: datetime,
    default: timedelta,
    limit: timedelta,
) -> timedelta:
    """The lifetime of the certificate that follows the one shown, at most what is wanted.

    No more than the one shown had or than the default, and none past the limit. Raises
    NotAuthenticated when the limit is over.
    """
    ends = shown.proven_at + limit
    if now >= ends:
        raise NotAuthenticated.openly(
            f"the client certificate has been renewed by itself since {shown.proven_at:%F %T} UTC, "
            f"for more than {limit}: show a token"
        )
    return min(wanted, max(default, shown.lifetime), ends - now)
