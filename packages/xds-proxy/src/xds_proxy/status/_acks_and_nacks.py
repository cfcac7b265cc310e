"""The delivery status of each type: which version was sent, accepted (ACK) or refused (NACK).

`session/_session` takes note here of each answer of Envoy's. The status of the stream that leads is
`Relay.status.types` (`_relay`). The agent writes it to `/debug/status`
(`mesh_agent/status/_description`), from where `mesh-agent status` prints it
(`mesh_agent_cli/screens/_resource_types`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from xds_proxy.protocol._shown import NAME, shorten

_MAX_TYPES = 1024
_MAX_REFUSED = 256


class RefusedResource(NamedTuple):
    """A resource whose newest version Envoy, or an interceptor, refused.

    name: empty if the refusal does not say which resource of the response is at fault.
    version: of the response in state of the world, of the resource in delta.
    reason: in the refuser's words.
    since: when it was first refused, without having been accepted since (UTC).
    """

    name: str
    version: str
    reason: str
    since: datetime


class TypeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One resource type on the stream.

    version: the newest version that the control plane sent.
    acked: whether that version was accepted.
    nack: why a version was refused, in Envoy's words; None unless a refusal is in force. In delta,
        one of an earlier version stays in force until its resource is accepted or removed.
    in_use: the last version that was accepted, None before the first.
    at: when it was accepted or refused, or, while no answer came yet, when it was sent (UTC).
    control_plane: the identifier in the newest response, by which the control plane describes
        itself; Istio's and mesh-discovery's are JSON. Empty without one of at most 4096 bytes.
    refused: the resources whose refusal is in force, the newest last; at most 256.
    """

    version: str
    acked: bool
    nack: str | None
    in_use: str | None
    at: datetime
    control_plane: str = ""
    refused: tuple[RefusedResource, ...] = ()


class _Refusal(NamedTuple):
    version: str
    reason: str
    since: float
    suspects: frozenset[str]


class _Delivery:
    """The knowledge of one type; `at` is Unix time, as there is one for each message."""

    __slots__ = (
        "acked",
        "at",
        "control_plane",
        "in_use",
        "nack",
        "refused",
        "refused_before",
        "version",
    )

    def __init__(self) -> None:
        self.version = ""
        self.acked = False
        self.in_use: str | None = None
        self.at = 0.0
        self.control_plane = ""
        self.nack: str | None = None
        self.refused: dict[str, _Refusal] = {}
        self.refused_before: dict[str, float] = {}
        """Since when resources were refused whose refusal may come again."""

    def status(self) -> TypeStatus:
        refused = tuple(
            RefusedResource(
                shorten(name, NAME), shorten(each.version, NAME), each.reason, _utc(each.since)
            )
            for name, each in self.refused.items()
        )
        return TypeStatus(
            version=shorten(self.version, NAME),
            acked=self.acked,
            nack=self.nack if refused else None,
            in_use=None if self.in_use is None else shorten(self.in_use, NAME),
            at=_utc(self.at),
            control_plane=self.control_plane,
            refused=refused,
        )


class DeliveryStatus:
    """Follows what is sent, accepted and refused on one stream; synchronous, does no I/O.

    The delivery status of a new stream begins with what an earlier stream knew, because the same
    Envoy may have connected again. A newly started Envoy is recognised by its first request of a
    type, which names no version.

    Times are Unix times.
    """

    def __init__(self, known: DeliveryStatus | None = None) -> None:
        self._types: dict[str, _Delivery] = {}
        self._requested: set[str] = set()
        for type_url, delivery in known._types.items() if known is not None else ():
            self._types[type_url] = copy = _Delivery()
            for name in _Delivery.__slots__:
                setattr(copy, name, getattr(delivery, name))
            copy.refused = dict(delivery.refused)
            copy.refused_before = dict(delivery.refused_before)

    @property
    def types(self) -> Mapping[str, TypeStatus]:
        """The delivery status of each type at this moment."""
        return MappingProxyType({url: each.status() for url, each in self._types.items()})

    def version_in_use(self, type_url: str) -> str:
        """Return the last accepted version of a type; empty before the first."""
        known = self._types.get(type_url)
        return known.in_use or "" if known else ""

    def refused_names(self, type_url: str) -> Collection[str]:
        """Return the names of the resources whose refusal is in force; one may be empty."""
        known = self._types.get(type_url)
        return known.refused if known else ()

    def on_request(self, type_url: str, *, names_versions: bool) -> None:
        """A request came. names_versions: it names the versions that Envoy has of the type."""
        if type_url in self._requested or len(self._requested) >= _MAX_TYPES:
            return
        self._requested.add(type_url)
        if not names_versions:
            self._types.pop(type_url, None)

    def on_response(
        self, type_url: str, version: str, *, at: float, control_plane: str = ""
    ) -> None:
        """A response was sent to Envoy, or given to an interceptor."""
        known = self._types.get(type_url)
        if known is None:
            if len(self._types) >= _MAX_TYPES:
                return
            known = self._types[type_url] = _Delivery()
        known.version = version
        known.acked = False
        known.at = at
        known.control_plane = control_plane

    def on_ack(self, type_url: str, version: str, *, at: float) -> None:
        """A response was accepted. `on_resource_acceptance` says later what was in it."""
        known = self._types.get(type_url)
        if known is not None:
            known.acked = known.acked or known.version == version
            known.in_use = version
            known.at = at

    def on_nack(self, type_url: str, version: str, reason: str, *, at: float) -> None:
        """A response was refused. `on_resource_refusals` may say later what in it is at fault."""
        known = self._types.get(type_url)
        if known is None:
            return
        if known.version == version:
            known.acked = False
        reason = shorten(reason)
        known.at = at
        known.nack = reason
        _refuse(known, "", _Refusal(version, reason, at, frozenset()))

    def on_resource_refusals(
        self, type_url: str, reasons: Mapping[str, str], versions: Mapping[str, str], *, at: float
    ) -> None:
        """The refusal of a response concerns these resources of it.

        reasons: by name; empty if it is not known which are at fault. versions: of all resources
        in the response.
        """
        known = self._types.get(type_url)
        if known is None:
            return
        if not reasons:
            if (whole := known.refused.get("")) is not None:
                known.refused[""] = whole._replace(suspects=frozenset(versions))
            return
        known.refused.pop("", None)
        for name, reason in reasons.items():
            why = shorten(reason)
            _refuse(known, name, _Refusal(versions.get(name, ""), why, at, frozenset()))

    def refusals_come_again(self) -> None:
        """Each resource that is refused will be sent once more, and those that are gone won't."""
        for known in self._types.values():
            if known.refused:
                known.refused_before = {name: each.since for name, each in known.refused.items()}
                known.refused.clear()

    def on_resource_acceptance(
        self, type_url: str, names: Iterable[str] | None, *, besides: Collection[str] = ()
    ) -> None:
        """These resources were accepted or are gone; None: all of the type, `besides` some."""
        known = self._types.get(type_url)
        if known is None or not known.refused:
            return
        if names is None:
            names = [name for name in known.refused if name not in besides]
        accepted = set(names)
        for name, each in tuple(known.refused.items()):
            if name in accepted or (not name and not accepted.isdisjoint(each.suspects)):
                del known.refused[name]


def _refuse(known: _Delivery, name: str, refusal: _Refusal) -> None:
    """Note a refusal as the newest; one that was in force before says since when."""
    before = known.refused.pop(name, None)
    if len(known.refused) >= _MAX_REFUSED:
        del known.refused[next(iter(known.refused))]
    earlier = known.refused_before.pop(name, refusal.since)
    since = earlier if before is None else before.since
    known.refused[name] = refusal._replace(since=since)


def _utc(at: float) -> datetime:
    return datetime.fromtimestamp(at, tz=UTC)
