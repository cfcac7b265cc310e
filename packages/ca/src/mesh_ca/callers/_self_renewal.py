"""The limits of renewal by a certificate that is shown as the only proof.

Without limits, the thief of one key could get new certificates for ever, of any lifetime. So each
certificate tells when its holder last proved its identity by other means, such as a token. That
moment is copied from certificate to certificate; when it is too long ago, another proof is needed.
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
    """Return what a leaf tells of its own renewals; its signature must have been verified.

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
    """Return the lifetime of the certificate that follows `shown`, at most `wanted`.

    The new one lives no longer than `shown` did (or than the default, if that is longer), and ends
    no later than `limit` after the last other proof. Raises NotAuthenticated after that.
    """
    ends = shown.proven_at + limit
    if now >= ends:
        raise NotAuthenticated.public(
            f"the client certificate has been renewed by itself since {shown.proven_at:%F %T} UTC, "
            f"for more than {limit}: show a token"
        )
    return min(wanted, max(default, shown.lifetime), ends - now)
