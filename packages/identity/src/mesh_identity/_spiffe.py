"""SPIFFE ids of workloads: spiffe://TRUST_DOMAIN/PATH, in Istio /ns/NAMESPACE/sa/SERVICE_ACCOUNT.

The rules are those of the SPIFFE-ID standard, sections 2.1 to 2.4, and of X509-SVID, section 5.2: a
workload's id has a path.
https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
"""

from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Self

_SCHEME = "spiffe://"
_TRUST_DOMAIN_CHARACTERS = frozenset(ascii_lowercase + digits + "._-")
_SEGMENT_CHARACTERS = _TRUST_DOMAIN_CHARACTERS.union(ascii_uppercase)
_MAX_TRUST_DOMAIN_BYTES = 255
_MAX_BYTES = 2048


class InvalidSpiffeId(ValueError):
    """A text that is not a workload's SPIFFE id, or not a part of one; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiffeId:
    """A workload's SPIFFE id that is well formed; `str()` gives the URI.

    path: the part of the URI after the trust domain, with its first slash.
    """

    trust_domain: str
    path: str

    def __post_init__(self) -> None:
        checked_trust_domain(self.trust_domain)
        before, *segments = self.path.split("/")
        if before or not segments or not all(map(_is_segment, segments)):
            raise InvalidSpiffeId(
                f"path {self.path[:300]!r} must be segments of a-z A-Z 0-9 . _ -, each after a /"
            )
        if len(str(self)) > _MAX_BYTES:
            raise InvalidSpiffeId(f"{str(self)[:100]!r}... is longer than {_MAX_BYTES} bytes")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URI; raises InvalidSpiffeId."""
        trust_domain, slash, path = text.removeprefix(_SCHEME).partition("/")
        if not text.startswith(_SCHEME) or not slash:
            raise InvalidSpiffeId(
                f"{text[:300]!r} is not of the form spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT"
            )
        return cls(trust_domain=trust_domain, path=f"/{path}")

    @classmethod
    def for_service_account(
        cls, *, trust_domain: str, namespace: str, service_account: str
    ) -> Self:
        """Make Istio's id of a service account's workloads; raises InvalidSpiffeId."""
        checked_segment(namespace, what="namespace")
        checked_segment(service_account, what="service account")
        return cls(trust_domain=trust_domain, path=f"/ns/{namespace}/sa/{service_account}")

    @property
    def namespace(self) -> str:
        """The namespace in Istio's form of path; empty for any other path."""
        return self._istio_segments()[0]

    @property
    def service_account(self) -> str:
        """The service account in Istio's form of path; empty for any other path."""
        return self._istio_segments()[1]

    def _istio_segments(self) -> tuple[str, str]:
        match self.path.split("/"):
            case ["", "ns", namespace, "sa", service_account]:
                return namespace, service_account
            case _:
                return "", ""

    def __str__(self) -> str:
        return f"{spiffe_prefix(self.trust_domain)}{self.path[1:]}"


def spiffe_prefix(trust_domain: str) -> str:
    """Return the prefix of all SPIFFE ids of a trust domain's workloads, and of no others."""
    return f"{_SCHEME}{trust_domain}/"


def checked_trust_domain(name: str) -> str:
    """Return the name unchanged; raises InvalidSpiffeId if it is no trust domain's."""
    if not 1 <= len(name) <= _MAX_TRUST_DOMAIN_BYTES or not _TRUST_DOMAIN_CHARACTERS.issuperset(
        name
    ):
        raise InvalidSpiffeId(
            f"trust domain {name[:300]!r} must be 1 to {_MAX_TRUST_DOMAIN_BYTES} of a-z 0-9 . _ -"
        )
    return name


def checked_segment(text: str, *, what: str) -> str:
    """Return the segment of a path unchanged; raises InvalidSpiffeId, with `what` as its name."""
    if not _is_segment(text):
        raise InvalidSpiffeId(f"{what} {text[:300]!r} must be of a-z A-Z 0-9 . _ -, and no . or ..")
    return text


def _is_segment(text: str) -> bool:
    return text not in {"", ".", ".."} and _SEGMENT_CHARACTERS.issuperset(text)
