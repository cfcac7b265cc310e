"""Compiles a name table for lookups, and looks names up.

Only hosts are kept. That `a`, `a.ns`, `a.ns.svc` are short for `a.ns.svc.cluster.local`, and that
a name followed by the first search domain is an alias of the name, follows from the name that is
asked for, so a table of 50 000 hosts has 50 000 names and not half a million.
"""

from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from mesh_dnsproxy.message._names import ROOT, BadName, to_text, to_wire
from mesh_dnsproxy.table._name_table import KUBERNETES, NameEntry
from mesh_dnsproxy.table._packed import (
    SHORTENABLE,
    is_shortenable,
    pack,
    pack_addresses,
    unpack,
)

_WILDCARD = b"\x01*"
_MOST_NAMED = 5
_MOST_REVERSE_BYTES = 1024
"""At least so many names are kept of an address that hosts share; enough for an answer."""


class Scope(NamedTuple):
    """The domains of the workload that asks; they decide which short names there are.

    domain: the mesh's, `svc.cluster.local`. namespace: the workload's own. search: the first
    search domain, empty for none. Each in wire form.
    """

    domain: bytes
    domain_label: bytes
    own_namespace: bytes
    search: bytes

    @classmethod
    def from_texts(cls, *, domain: str, namespace: str, search: str) -> "Scope":
        """Return a scope from texts; raises `BadName`."""
        wire = to_wire(domain)
        first = wire[: wire[0] + 1] if wire != ROOT else b""
        own = to_wire(namespace)[:-1] if namespace else b""
        return cls(wire, first, own, to_wire(search) if search else b"")


class Hit(NamedTuple):
    """A name that was found in the table.

    entry: packed. target: the name that the one asked for is an alias of; None if it is no alias.
    wildcard: the wildcard that the name was found by; None if it was found as it is.
    """

    entry: bytes
    target: bytes | None
    wildcard: bytes | None = None


class CompiledTable(NamedTuple):
    """A table for lookups; it is not changed."""

    scope: Scope
    hosts: dict[bytes, bytes]
    reverse: dict[bytes, bytes]
    shortenable: bool
    wildcards: bool
    skipped: tuple[str, ...] = ()
    skipped_count: int = 0

    def within(self, scope: Scope) -> "CompiledTable":
        """Return the same table for another scope."""
        return self._replace(scope=scope)

    def find(self, name: bytes) -> Hit | None:
        """Look up a name: as it is, as an alias, then by wildcards, the most specific first."""
        hit = self._find_literally(name)
        if hit is not None or not self.wildcards:
            return hit
        position = 0
        while length := name[position]:
            position += 1 + length
            wildcard = _WILDCARD + name[position:]
            hit = self._find_literally(wildcard)
            if hit is not None:
                return hit._replace(wildcard=wildcard)
        return None

    def _find_literally(self, name: bytes) -> Hit | None:
        entry = self._find_host(name)
        if entry is not None:
            return Hit(entry, None)
        search = self.scope.search
        if search and name.endswith(search):
            # The target may end with the search domain itself: with `ndots:5` a resolver asks for
            # `a.ns.svc.cluster.local.ns.svc.cluster.local` before `a.ns.svc.cluster.local`. Asked
            # of an upstream that is dead, as Istio's agent does, the name is not found.
            target = name[: -len(search)] + ROOT
            if target != ROOT:
                entry = self._find_host(target)
                if entry is not None:
                    return Hit(entry, target)
        return None

    def _find_host(self, name: bytes) -> bytes | None:
        hosts = self.hosts
        entry = hosts.get(name)
        if entry is not None or not self.shortenable:
            return entry
        scope = self.scope
        stem = name[:-1]
        entry = hosts.get(stem + scope.domain)  # short.namespace
        if entry is not None and is_shortenable(entry):
            return entry
        if scope.domain_label and stem.endswith(scope.domain_label):  # short.namespace.svc
            entry = hosts.get(stem[: -len(scope.domain_label)] + scope.domain)
            if entry is not None and is_shortenable(entry):
                return entry
        if scope.own_namespace:  # short, from the same namespace
            entry = hosts.get(stem + scope.own_namespace + scope.domain)
            if entry is not None and is_shortenable(entry):
                return entry
        return None

    def alternates(self, host: str, entry: NameEntry) -> list[str]:
        """Return the other names of a host, without those in a search domain."""
        if entry.registry != KUBERNETES or not entry.short_name or not entry.namespace:
            return list(entry.alternate_hosts)
        found = [
            to_text(name)
            for name in _short_names(entry, self.scope)
            if host.lower().endswith(to_text(self.scope.domain))
        ]
        return [*found, *entry.alternate_hosts]

    def entries(self) -> Iterator[tuple[str, NameEntry]]:
        """Yield each host once, as it was given."""
        for name, packed in self.hosts.items():
            host, entry = unpack(packed)
            if to_wire(host) == name:
                yield host, entry


def compile_table(
    items: Iterable[tuple[str, NameEntry]], scope: Scope
) -> Generator[None, None, CompiledTable]:
    """Compile a table, one host a step, so that queries are answered in between."""
    building = _Building(scope)
    for host, entry in items:
        try:
            building.add(host, entry)
        except BadName as error:
            building.skip(str(error))
        yield
    yield from building.add_others()
    return building.table()


class _Building:
    """A table while it is compiled."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._hosts: dict[bytes, bytes] = {}
        self._others: list[tuple[bytes, bytes]] = []
        self._reverse: dict[bytes, bytes] = {}
        self._skipped: list[str] = []
        self._skipped_count = 0
        self._shortenable = self._wildcards = False

    def add(self, host: str, entry: NameEntry) -> None:
        """Add a host; raises `BadName` if it can't be looked up or has no address."""
        scope = self._scope
        name = to_wire(host)
        v4, v6 = pack_addresses(entry.addresses)
        if not v4 and not v6:
            raise BadName(f"{host!r} has no address")
        if name in (ROOT, _WILDCARD + ROOT):
            raise BadName(f"{host!r} would be every name")
        flags = _flags(host, name, entry, scope)
        packed = pack(host, entry, v4, v6, flags=flags)
        self._hosts[name] = packed
        if flags:
            self._shortenable = True
        if name.startswith(_WILDCARD):
            self._wildcards = True
        else:
            for address in (*v4, *v6):
                _add_reverse(self._reverse, address, name)
        if entry.registry == KUBERNETES and not host.endswith("."):
            if not flags and name.endswith(scope.domain):
                self._others += [(other, packed) for other in _short_names(entry, scope)]
            self._others += [(to_wire(other), packed) for other in entry.alternate_hosts]

    def skip(self, reason: str) -> None:
        """Count a host that is left out, and why."""
        self._skipped_count += 1
        if len(self._skipped) < _MOST_NAMED:
            self._skipped.append(reason)

    def add_others(self) -> Iterator[None]:
        """Add the other names: a host's own name is never hidden by another's short one."""
        for number, (other, packed) in enumerate(self._others):
            if self._hosts.setdefault(other, packed) is packed and other.startswith(_WILDCARD):
                self._wildcards = True
            if not number % 16:
                yield

    def table(self) -> CompiledTable:
        """Return the table of the hosts that were added."""
        return CompiledTable(
            self._scope,
            self._hosts,
            self._reverse,
            self._shortenable,
            self._wildcards,
            tuple(self._skipped),
            self._skipped_count,
        )


def _flags(host: str, name: bytes, entry: NameEntry, scope: Scope) -> int:
    """Return whether a host's short names are parts of its name, as nearly always."""
    short, namespace = entry.short_name, entry.namespace
    if entry.registry != KUBERNETES or not short or not namespace or host.endswith("."):
        return 0
    expected = f"{short}.{namespace}."
    regular = len(name) == len(expected) + len(scope.domain) and name.endswith(scope.domain)
    return SHORTENABLE if regular and host.lower().startswith(expected.lower()) else 0


def _short_names(entry: NameEntry, scope: Scope) -> list[bytes]:
    """Return `short.namespace`, `short.namespace.svc`, and in the same namespace `short`."""
    if not entry.short_name or not entry.namespace:
        return []
    try:
        short, namespace = to_wire(entry.short_name)[:-1], to_wire(entry.namespace)[:-1]
    except BadName:
        return []
    names = [short + namespace + ROOT, short + namespace + scope.domain_label + ROOT]
    if namespace == scope.own_namespace:
        names.append(short + ROOT)
    return names


def _add_reverse(reverse: dict[bytes, bytes], address: bytes, name: bytes) -> None:
    """Append a name of an address; most have one name, a few very many."""
    before = reverse.get(address)
    if before is None:
        reverse[address] = name
    elif len(before) < _MOST_REVERSE_BYTES:
        reverse[address] = before + name


def retire_table(table: CompiledTable) -> Generator[None, None, None]:
    """Free a table's memory step by step: all at once takes milliseconds."""
    for part in (table.hosts, table.reverse):
        while part:
            for _ in range(min(16, len(part))):
                part.popitem()
            yield
