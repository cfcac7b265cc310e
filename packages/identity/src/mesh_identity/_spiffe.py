"""A workload's name: spiffe://TRUST_DOMAIN/PATH, in a mesh /ns/NAMESPACE/sa/SERVICE_ACCOUNT.

The rules are those of the SPIFFE-ID standard, sections 2.1 to 2.4, and of X509-SVID, section 5.2:
a workload's name has a path. The usual path is Istio's.
https://github.com/spiffe/spiffe/blob/main/standards/SPIFFE-ID.md
"""

from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Self

_SCHEME = "spiffe://"
_OF_TRUST_DOMAINS = frozenset(ascii_lowercase + digits + "._-")
_OF_SEGMENTS = _OF_TRUST_DOMAINS.union(ascii_uppercase)
_MAX_TRUST_DOMAIN_BYTES = 255
_MAX_BYTES = 2048


class InvalidSpiffeId(ValueError):
    """A text that is no SPIFFE id of a workload, or no part of one; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiffeId:
    """A workload's SPIFFE id that is well formed; `str()` gives the URI.

    Made of a namespace and a service account, or of a path of any other form: then both are
    empty. `path` is always the whole path, and follows from the two if they are given.
    """

    trust_domain: str
    namespace: str = ""
    service_account: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        checked_trust_domain(self.trust_domain)
        if self.path and not self.namespace and not self.service_account:
            self._check_path()
        else:
            self._check_account()
        if len(str(self)) > _MAX_BYTES:
            raise InvalidSpiffeId(f"{str(self)[:100]!r}... is longer than {_MAX_BYTES} bytes")

    def _check_account(self) -> None:
        checked_segment(self.namespace, what="namespace")
        checked_segment(self.service_account, what="service account")
        path = f"/ns/{self.namespace}/sa/{self.service_account}"
        if self.path not in {"", path}:
            raise InvalidSpiffeId(f"path {self.path[:300]!r} and {path[:300]!r} are not the same")
        object.__setattr__(self, "path", path)

    def _check_path(self) -> None:
        before, *segments = self.path.split("/")
        if before or not all(map(_is_segment, segments)):
            raise InvalidSpiffeId(
                f"path {self.path[:300]!r} must be segments of a-z A-Z 0-9 . _ -, each after a /"
            )
        if segments[0::2] == ["ns", "sa"] and len(segments) == 4:
            object.__setattr__(self, "namespace", segments[1])
            object.__setattr__(self, "service_account", segments[3])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URI; raises InvalidSpiffeId."""
        trust_domain, slash, path = text.removeprefix(_SCHEME).partition("/")
        if not text.startswith(_SCHEME) or not slash:
            raise InvalidSpiffeId(
                f"{text[:300]!r} is not of the form spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT"
            )
        return cls(trust_domain=trust_domain, path=f"/{path}")

    def __str__(self) -> str:
        return f"{spiffe_prefix(self.trust_domain)}{self.path[1:]}"


def spiffe_prefix(trust_domain: str) -> str:
    """Return how all SPIFFE ids of a trust domain's workloads begin, and no others."""
    return f"{_SCHEME}{trust_domain}/"


def checked_trust_domain(name: str) -> str:
    """Return a trust domain's name as it is; raises InvalidSpiffeId if it can't be one."""
    if not 1 <= len(name) <= _MAX_TRUST_DOMAIN_BYTES or not _OF_TRUST_DOMAINS.issuperset(name):
        raise InvalidSpiffeId(
            f"trust domain {name[:300]!r} must be 1 to {_MAX_TRUST_DOMAIN_BYTES} of a-z 0-9 . _ -"
        )
    return name


def checked_segment(text: str, *, what: str) -> str:
    """Return what can stand between two slashes; raises InvalidSpiffeId, naming it as `what`."""
    if not _is_segment(text):
        raise InvalidSpiffeId(f"{what} {text[:300]!r} must be of a-z A-Z 0-9 . _ -, and no . or ..")
    return text


def _is_segment(text: str) -> bool:
    return text not in {"", ".", ".."} and _OF_SEGMENTS.issuperset(text)
