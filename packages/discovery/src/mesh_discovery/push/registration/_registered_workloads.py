"""Which proxies are registered as workloads, and what is reported of the health of which address.

State without input or output: it is told of streams, reports and the time, and tells whether what
is served is different now. A proxy that connects anew before its grace period is over was never
away; so a moment without a control plane, or a hot restart, does not take a workload out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.config._snapshot import Snapshot, with_objects
from mesh_discovery.config.kinds._workload_entry import WORKLOAD_ENTRY
from mesh_discovery.config.kinds._workload_group import WORKLOAD_GROUP
from mesh_discovery.push.registration._group_entries import Registrant, group_entry

Place = tuple[str, str]
"""Namespace and address of a workload."""
Reports = Mapping[Place, bool]
"""Whether the application at an address is healthy, for those of which it is known."""


@dataclass(slots=True)
class _Registered:
    """The streams of a proxy; when it first connected, and since when it has no stream."""

    connected_at: float
    streams: set[str] = field(default_factory=set)
    gone_at: float | None = None


@dataclass(slots=True)
class _Reported:
    healthy: bool
    streams: set[str] = field(default_factory=set)


class RegisteredWorkloads:
    """The workloads that are there because their proxies are connected."""

    def __init__(self, *, grace_s: float) -> None:
        """grace_s: how long the entry of a proxy stays after its last stream."""
        self._grace_s = grace_s
        self._registered: dict[Registrant, _Registered] = {}
        self._reported: dict[Place, _Reported] = {}

    def connected(self, registrant: Registrant, stream: str, *, now: float) -> bool:
        """Register a proxy; return whether its entry is a new one."""
        known = self._registered.get(registrant)
        if known is None:
            known = self._registered[registrant] = _Registered(connected_at=now)
            is_new = True
        else:
            is_new = False
        known.streams.add(stream)
        known.gone_at = None
        return is_new

    def reported(self, places: Sequence[Place], stream: str, *, healthy: bool) -> bool:
        """Take the report of a proxy about its addresses; return whether it changes anything."""
        changed = False
        for place in places:
            known = self._reported.get(place)
            if known is None or known.healthy is not healthy:
                changed = True
            streams = known.streams if known is not None else set[str]()
            self._reported[place] = _Reported(healthy, streams | {stream})
        return changed

    def closed(self, stream: str, *, now: float) -> bool:
        """Take note that a stream is over; return whether a report has gone with it."""
        for registered in self._registered.values():
            if stream in registered.streams:
                registered.streams.remove(stream)
                if not registered.streams:
                    registered.gone_at = now
        ended = []
        for place, reported in self._reported.items():
            reported.streams.discard(stream)
            if not reported.streams and not self._is_registered(place):
                ended.append(place)
        for place in ended:
            del self._reported[place]
        return bool(ended)

    def expire(self, *, now: float) -> bool:
        """Forget the proxies that did not come back in time; return whether there were any."""
        ended = [
            registrant
            for registrant, each in self._registered.items()
            if each.gone_at is not None and each.gone_at + self._grace_s <= now
        ]
        for registrant in ended:
            del self._registered[registrant]
            self._reported.pop((registrant.namespace, registrant.address), None)
        return bool(ended)

    @property
    def next_expiry(self) -> float | None:
        """When the next proxy is forgotten that is away now."""
        gone = [each.gone_at for each in self._registered.values() if each.gone_at is not None]
        return min(gone) + self._grace_s if gone else None

    @property
    def reports(self) -> Reports:
        """The health that is known."""
        return {place: each.healthy for place, each in self._reported.items()}

    def laid_over(self, snapshot: Snapshot) -> Snapshot:
        """Return a configuration with the entries of registered proxies whose group it has.

        An entry of the same name in the files stays as it is.
        """
        if not self._registered:
            return snapshot
        groups = {(each.namespace, each.name): each for each in snapshot.of_kind(WORKLOAD_GROUP)}
        own = {each.key for each in snapshot.of_kind(WORKLOAD_ENTRY)}
        entries: dict[tuple[str, str, str], ConfigObject] = {}
        for registrant, each in self._registered.items():
            group = groups.get((registrant.namespace, registrant.group))
            if group is not None:
                entry = group_entry(registrant, group, connected_at=each.connected_at)
                if entry.key not in own:
                    entries[entry.key] = entry
        return with_objects(snapshot, tuple(entries.values()))

    def _is_registered(self, place: Place) -> bool:
        return any((each.namespace, each.address) == place for each in self._registered)
