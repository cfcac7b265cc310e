"""The proxies that are registered as workloads, and the reported health of endpoints.

State without input or output: it is given streams, reports and the time, and tells whether what
is served is different now. A proxy that connects anew before its grace period is over was never
away; so a moment without a control plane, or a hot restart, does not take a workload out, and costs
nothing of what an identity may register.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from istio_config import ConfigObject, ObjectKey, Snapshot
from istio_config.kinds.workload_entry import WORKLOAD_ENTRY
from istio_config.kinds.workload_group import WORKLOAD_GROUP
from mesh_discovery._registration_limits import LIMITS, RegistrationLimits
from mesh_discovery.sources.registration._allowance import Allowance
from mesh_discovery.sources.registration._group_entries import (
    Registrant,
    RegistrantKey,
    group_entry,
)
from mesh_model import EndpointKey

Reports = Mapping[EndpointKey, bool]
"""Whether the application at an address is healthy, for those of which it is known."""
_Identity = tuple[str, str]
"""Namespace and service account."""
_MANY_IDENTITIES = 1024


class TooManyWorkloadsError(Exception):
    """More is registered than is allowed; the message says what, and by whom."""


@dataclass(slots=True)
class _Registered:
    """The streams of a proxy, when it first connected, and its entry once that was created."""

    registrant: Registrant
    connected_at: float
    streams: set[str] = field(default_factory=set)
    group: ConfigObject | None = None
    entry: ConfigObject | None = None

    def entry_in(self, group: ConfigObject) -> ConfigObject | None:
        """Return the entry, the same object for as long as the group is; None if it has none."""
        if self.group is not group:
            self.group = group
            self.entry = group_entry(self.registrant, group, connected_at=self.connected_at)
        return self.entry


@dataclass(slots=True)
class _Reported:
    healthy: bool
    streams: set[str] = field(default_factory=set)


class RegisteredWorkloads:
    """The workloads that are there because their proxies are connected."""

    def __init__(self, *, grace_s: float, limits: RegistrationLimits = LIMITS) -> None:
        """grace_s: how long the entry of a proxy stays after its last stream."""
        self._grace_s = grace_s
        self._limits = limits
        self._registered: dict[RegistrantKey, _Registered] = {}
        self._gone_at: dict[RegistrantKey, float] = {}
        """Since when proxies have no stream, those first that have gone first."""
        self._of_stream: dict[str, RegistrantKey] = {}
        self._counts = Counter[_Identity]()
        self._allowance = Allowance(limits.in_all, per_second=limits.in_all_per_s)
        self._allowances: dict[_Identity, Allowance] = {}
        self._reported: dict[EndpointKey, _Reported] = {}
        self._reports_of_stream: dict[str, set[EndpointKey]] = {}

    def connected(
        self, registrant: Registrant, stream: str, *, now: float, monotonic: float
    ) -> bool:
        """Register a proxy; return whether its entry is a new one or another one.

        now: in Unix seconds. Raises `TooManyWorkloadsError`; then nothing is changed.
        """
        key = registrant.key
        known = self._registered.get(key)
        is_new = known is None or known.registrant != registrant
        if is_new:
            self._take(registrant, is_more=known is None, now=monotonic)
        if known is None:
            self._counts[registrant.namespace, registrant.account] += 1
            known = self._registered[key] = _Registered(registrant, now)
        elif is_new:
            before = known.registrant
            self._counts[before.namespace, before.account] -= 1
            self._counts[registrant.namespace, registrant.account] += 1
            known.registrant, known.group = registrant, None
        known.streams.add(stream)
        self._of_stream[stream] = key
        self._gone_at.pop(key, None)
        return is_new

    def endpoint_of(self, stream: str) -> EndpointKey | None:
        """Return the workload that a stream has registered, if it has."""
        key = self._of_stream.get(stream)
        return None if key is None else _endpoint_key(self._registered[key].registrant)

    def on_report(self, endpoints: Iterable[EndpointKey], stream: str, *, healthy: bool) -> bool:
        """Take the report of a proxy about workloads; return whether it changes anything."""
        changed = False
        for endpoint in endpoints:
            known = self._reported.get(endpoint)
            if known is None:
                known = self._reported[endpoint] = _Reported(healthy)
                changed = True
            elif known.healthy is not healthy:
                known.healthy = healthy
                changed = True
            known.streams.add(stream)
            self._reports_of_stream.setdefault(stream, set()).add(endpoint)
        return changed

    def closed(self, stream: str, *, now: float) -> bool:
        """Take note that a stream is over; return whether a report has gone with it."""
        key = self._of_stream.pop(stream, None)
        kept = None
        if key is not None:
            registered = self._registered[key]
            kept = _endpoint_key(registered.registrant)
            registered.streams.discard(stream)
            if not registered.streams:
                self._gone_at[key] = now
        ended = False
        for endpoint in self._reports_of_stream.pop(stream, ()):
            reported = self._reported.get(endpoint)
            if reported is None:
                continue
            reported.streams.discard(stream)
            # What a registered workload has reported stays for as long as its entry.
            if not reported.streams and endpoint != kept:
                del self._reported[endpoint]
                ended = True
        return ended

    def expire(self, *, now: float) -> bool:
        """Forget the proxies that did not come back in time; return whether there were any."""
        ended = []
        for key, gone_at in self._gone_at.items():
            if gone_at + self._grace_s > now:
                break
            ended.append(key)
        for key in ended:
            del self._gone_at[key]
            registrant = self._registered.pop(key).registrant
            self._counts[registrant.namespace, registrant.account] -= 1
            reported = self._reported.get(_endpoint_key(registrant))
            if reported is not None and not reported.streams:
                del self._reported[_endpoint_key(registrant)]
        return bool(ended)

    @property
    def next_expiry(self) -> float | None:
        """When the next proxy is forgotten that is away now."""
        first = next(iter(self._gone_at.values()), None)
        return None if first is None else first + self._grace_s

    @property
    def reports(self) -> Reports:
        """The health that is known."""
        return {endpoint: each.healthy for endpoint, each in self._reported.items()}

    def entries_in(self, snapshot: Snapshot) -> tuple[ConfigObject, ...]:
        """Return the entries of registered proxies whose group a configuration has.

        Where it has an entry of the same name, that stays as it is.
        """
        if not self._registered:
            return ()
        groups = {(each.namespace, each.name): each for each in snapshot.of_kind(WORKLOAD_GROUP)}
        own = {each.key for each in snapshot.of_kind(WORKLOAD_ENTRY)}
        entries: dict[ObjectKey, ConfigObject] = {}
        for key, each in self._registered.items():
            group = groups.get((key.namespace, key.group))
            if group is not None:
                entry = each.entry_in(group)
                if entry is not None and entry.key not in own:
                    entries[entry.key] = entry
        return tuple(entries.values())

    def _take(self, registrant: Registrant, *, is_more: bool, now: float) -> None:
        """Take one of what an identity may register; raises `TooManyWorkloadsError`."""
        limits = self._limits
        who = registrant.namespace, registrant.account
        named = f"the service account {registrant.account} of {registrant.namespace}"
        if is_more and self._counts[who] >= limits.of_identity:
            raise TooManyWorkloadsError(
                f"{named} has {limits.of_identity} registered workloads, which is the most"
            )
        if is_more and len(self._registered) >= limits.in_all:
            raise TooManyWorkloadsError(f"{limits.in_all} workloads are registered, the most")
        if len(self._allowances) > _MANY_IDENTITIES:
            self._allowances = {
                known: each for known, each in self._allowances.items() if not each.is_full(now)
            }
            self._counts = +self._counts
        own = self._allowances.get(who)
        if own is None:
            own = Allowance(limits.of_identity, per_second=limits.of_identity_per_s)
            self._allowances[who] = own
        if not own.has_one(now):
            raise TooManyWorkloadsError(
                f"{named} registers workloads too often: {limits.of_identity_per_s:g} a second are "
                "allowed for long"
            )
        if not self._allowance.has_one(now):
            raise TooManyWorkloadsError(
                f"workloads are registered too often: {limits.in_all_per_s:g} a second are allowed "
                "for long"
            )
        own.take()
        self._allowance.take()


def _endpoint_key(registrant: Registrant) -> EndpointKey:
    return registrant.namespace, registrant.account, registrant.address
