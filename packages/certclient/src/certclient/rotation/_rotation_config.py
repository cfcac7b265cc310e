"""Which certificate a rotation requests, and by which rules it renews it."""

from dataclasses import dataclass, field
from datetime import timedelta

from certclient._errors import InvalidConfig
from certclient.x509._key_types import KeyEncoding, KeyType
from mesh_identity import SpiffeId
from mesh_lifecycle import Backoff, check_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationConfig:
    """Which certificate to request, and when to renew it.

    lifetime: requested of the authority, which may give less. Below ten seconds no time is left for
        a second attempt.
    grace_ratio: the part of the lifetime that is left when renewal starts, 0 to 1.
    jitter: renewal starts up to this part of the lifetime earlier or later, so that workloads that
        started together do not renew together.
    backoff: the delays between failed attempts; shortened when the certificate's end is near.
    answer_timeout_s: the longest one attempt may take, the authority's own retries included.
    """

    spiffe_id: SpiffeId
    key_type: KeyType = KeyType.P256
    key_encoding: KeyEncoding = KeyEncoding.PKCS8
    lifetime: timedelta = timedelta(hours=24)
    grace_ratio: float = 0.5
    jitter: float = 0.01
    backoff: Backoff = field(default_factory=Backoff)
    answer_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        check_fields(self, error=InvalidConfig)
        if self.lifetime < timedelta(seconds=1):
            raise InvalidConfig(f"lifetime must be at least 1 s, got {self.lifetime}")
        if not 0 <= self.grace_ratio <= 1 or not 0 <= self.jitter <= 1:
            raise InvalidConfig(
                "grace_ratio and jitter must lie between 0 and 1, "
                f"got {self.grace_ratio} and {self.jitter}"
            )
        if self.answer_timeout_s <= 0:
            raise InvalidConfig(f"answer_timeout_s must be above 0, got {self.answer_timeout_s}")
