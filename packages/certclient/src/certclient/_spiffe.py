"""A workload's name: spiffe://TRUST_DOMAIN/PATH, in a mesh /ns/NAMESPACE/sa/SERVICE_ACCOUNT.

The general rules are those of the SPIFFE-ID standard (sections 2.1 to 2.3), the usual path is
Istio's.
"""

import re
from dataclasses import dataclass
from typing import Self

from certclient._errors import InvalidSpiffeId

_TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]{1,253}")
_ID = re.compile(r"spiffe://([^/]*)(/.*)", re.DOTALL)
_ISTIO_PATH = re.compile(r"/ns/([^/]*)/sa/([^/]*)")
_MAX_BYTES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiffeId:
    """A SPIFFE id that is well formed; `str()` gives the URI.

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

    def _check_account(self) -> None:
        for what, segment in (
            ("namespace", self.namespace),
            ("service account", self.service_account),
        ):
            if not _is_segment(segment):
                raise InvalidSpiffeId(
                    f"{what} {segment[:300]!r} must be 1 to 253 of a-z A-Z 0-9 . _ -"
                )
        path = f"/ns/{self.namespace}/sa/{self.service_account}"
        if self.path not in {"", path}:
            raise InvalidSpiffeId(f"path {self.path[:300]!r} and {path!r} are not the same")
        object.__setattr__(self, "path", path)

    def _check_path(self) -> None:
        first, *segments = self.path.split("/")
        if first or not all(map(_is_segment, segments)) or len(str(self)) > _MAX_BYTES:
            raise InvalidSpiffeId(
                f"path {self.path[:300]!r} must be segments of a-z A-Z 0-9 . _ -, each after a /"
            )
        if (match := _ISTIO_PATH.fullmatch(self.path)) is not None:
            object.__setattr__(self, "namespace", match[1])
            object.__setattr__(self, "service_account", match[2])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a URI; raises InvalidSpiffeId."""
        match = _ID.fullmatch(text)
        if match is None:
            raise InvalidSpiffeId(
                f"{text[:300]!r} is not of the form spiffe://TRUST_DOMAIN/ns/NAMESPACE/sa/ACCOUNT"
            )
        return cls(trust_domain=match[1], path=match[2])

    def __str__(self) -> str:
        return f"spiffe://{self.trust_domain}{self.path}"


def _is_segment(text: str) -> bool:
    return _SEGMENT.fullmatch(text) is not None and text not in {".", ".."}


def checked_trust_domain(name: str) -> str:
    """Return a trust domain's name as it is; raises InvalidSpiffeId if it can't be one."""
    if not _TRUST_DOMAIN.fullmatch(name):
        raise InvalidSpiffeId(f"trust domain {name[:300]!r} must be 1 to 255 of a-z 0-9 . _ -")
    return name
