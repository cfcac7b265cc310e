"""The delivery status of each type: which version was sent, accepted (ACK) or refused (NACK)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType

_MAX_UNANSWERED = 256
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


class DeliveryStatus:
    """Follows the responses and requests of one stream; synchronous, does no I/O.

    The delivery status of a new stream begins with what an earlier stream knew, because the same
    Envoy may have connected again. A newly started Envoy is recognised by its first request of a
    type, which names no version.

    The first request that carries a response's nonce is the answer to that response. Later requests
    with the same nonce are changed subscriptions and answer nothing. Both dialects behave so.
    """

    def __init__(self, known: Mapping[str, TypeStatus] = MappingProxyType({})) -> None:
        self._types = dict(known)
        self._unanswered: dict[tuple[str, str], str] = {}
        self._requested: set[str] = set()

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        return MappingProxyType(dict(self._types))

    def version_in_use(self, type_url: str) -> str:
        """Return the last accepted version of a type; empty before the first."""
        known = self._types.get(type_url)
        return known.in_use or "" if known else ""

    def type_requested(self, type_url: str, *, names_versions: bool) -> None:
        """A request came. names_versions: it names the versions that Envoy has of the type."""
        if type_url in self._requested or len(self._requested) >= _MAX_TYPES:
            return
        self._requested.add(type_url)
        if not names_versions:
            self._types.pop(type_url, None)

    def response_sent(
        self, *, type_url: str, version: str, nonce: str, at: datetime, control_plane: str = ""
    ) -> None:
        """A response was sent to Envoy, or given to an interceptor."""
        if type_url not in self._types and len(self._types) >= _MAX_TYPES:
            return
        if len(self._unanswered) >= _MAX_UNANSWERED:
            del self._unanswered[next(iter(self._unanswered))]
        self._unanswered[type_url, nonce] = version
        self._types[type_url] = TypeStatus(
            version=version,
            acked=False,
            nack=None,
            in_use=self.version_in_use(type_url) or None,
            at=at,
            control_plane=control_plane,
        )

    def response_answered(
        self, *, type_url: str, nonce: str, error: str | None, at: datetime
    ) -> str | None:
        """A request came. Returns the version that it accepts or refuses, None if neither.

        error: why Envoy refuses the response; None if it accepts it.
        """
        version = self._unanswered.pop((type_url, nonce), None) if nonce else None
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
