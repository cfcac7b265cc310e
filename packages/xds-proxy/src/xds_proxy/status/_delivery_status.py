"""What was sent to Envoy of each type, and what Envoy said to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

_MAX_OUTSTANDING = 256
_MAX_TYPES = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeStatus:
    """One resource type on the stream.

    version: the newest version that the control plane sent.
    acked: whether that version was accepted.
    nack: why it was not, in Envoy's words; None unless it was refused.
    in_use: the last version that was accepted, None before the first.
    at: when it was accepted or refused, or, while no answer came yet, when it was sent (UTC).
    control_plane: the identifier in the newest response, by which the control plane describes
        itself; Istio's and mesh-discovery's are JSON. Empty without one of at most 4096 bytes.
    """

    version: str
    acked: bool
    nack: str | None
    in_use: str | None
    at: datetime
    control_plane: str = ""


class Ledger:
    """Follows the responses and answers of one stream; synchronous, does no I/O.

    A new stream's ledger begins with what an earlier one knew: Envoy may have come back. If it is
    a new Envoy instead, it says so: the first request of a type tells whether it has any of it.

    The first request that carries a response's nonce is the answer to it. Later ones with the same
    nonce are changed subscriptions and answer nothing. Both dialects behave so, which spares the
    ledger from telling them apart.
    """

    def __init__(self, known: Mapping[str, TypeStatus] = MappingProxyType({})) -> None:
        self._types = dict(known)
        self._outstanding: dict[tuple[str, str], str] = {}
        self._asked: set[str] = set()

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        return MappingProxyType(dict(self._types))

    def in_use(self, type_url: str) -> str:
        """The last accepted version of a type, empty before the first."""
        known = self._types.get(type_url)
        return known.in_use or "" if known else ""

    def asked(self, type_url: str, *, holds: bool) -> None:
        """A request came; holds: it names what Envoy has of the type."""
        if type_url in self._asked or len(self._asked) >= _MAX_TYPES:
            return
        self._asked.add(type_url)
        if not holds:
            self._types.pop(type_url, None)

    def sent(
        self, *, type_url: str, version: str, nonce: str, at: datetime, control_plane: str = ""
    ) -> None:
        """A response went to whoever consumes it."""
        if type_url not in self._types and len(self._types) >= _MAX_TYPES:
            return
        if len(self._outstanding) >= _MAX_OUTSTANDING:
            del self._outstanding[next(iter(self._outstanding))]
        self._outstanding[type_url, nonce] = version
        self._types[type_url] = TypeStatus(
            version=version,
            acked=False,
            nack=None,
            in_use=self.in_use(type_url) or None,
            at=at,
            control_plane=control_plane,
        )

    def answered(self, *, type_url: str, nonce: str, error: str | None, at: datetime) -> str | None:
        """A request came; returns the version it accepts or refuses, None if it answers nothing."""
        version = self._outstanding.pop((type_url, nonce), None) if nonce else None
        known = self._types.get(type_url)
        if version is None or known is None:
            return None
        newest = known.version == version
        if error is None:
            self._types[type_url] = replace(
                known,
                acked=newest or known.acked,
                nack=None if newest else known.nack,
                in_use=version,
                at=at,
            )
        elif newest:
            self._types[type_url] = replace(known, acked=False, nack=error, at=at)
        return version
