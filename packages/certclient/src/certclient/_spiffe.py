"""A workload's name: spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/SERVICE_ACCOUNT.

The general rules are those of the SPIFFE-ID standard (sections 2.1 to 2.3), the path is Istio's.
"""

import re
from dataclasses import dataclass
from typing import Self

from certclient._errors import InvalidSpiffeId

_TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]{1,253}")
_ID = re.compile(r"spiffe://([^/]*)/ns/([^/]*)/sa/([^/]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiffeId:
    """A SPIFFE id that is well formed; `str()` gives the URI."""

    trust_domain: str
    namespace: str
    service_account: str

    def __post_init__(self) -> None:
        if not _TRUST_DOMAIN.fullmatch(self.trust_domain):
            raise InvalidSpiffeId(
                f"trust domain {self.trust_domain[:300]!r} must be 1 to 255 of a-z 0-9 . _ -"
            )
        for what, segment in (
            ("namespace", self.namespace),
            ("service account", self.service_account),
        ):
            if not _SEGMENT.fullmatch(segment) or segment in {".", ".."}:
                raise InvalidSpiffeId(
                    f"{what} {segment[:300]!r} must be 1 to 253 of a-z A-Z 0-9 . _ -"
                )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URI; raises InvalidSpiffeId."""
        match = _ID.fullmatch(text)
        if match is None:
            raise InvalidSpiffeId(
                f"{text[:300]!r} is not of the form spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT"
            )
        trust_domain, namespace, service_account = match.groups()
        return cls(trust_domain=trust_domain, namespace=namespace, service_account=service_account)

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}/ns/{self.namespace}/sa/{self.service_account}"
