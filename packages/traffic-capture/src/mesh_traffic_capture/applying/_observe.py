"""The rules of a network namespace, seen without writing anything.

Listing the tables of iptables-legacy registers them in the namespace for good, so that is done only
where some are registered already.
"""

from __future__ import annotations

from contextlib import suppress

from mesh_traffic_capture._backend import Backend
from mesh_traffic_capture._errors import CaptureFailed
from mesh_traffic_capture._value import field, value
from mesh_traffic_capture.backends import (
    ISTIO_TABLES,
    TABLE_NAME,
    IptablesTable,
    NftTable,
    Record,
    has_own,
    istio_marks,
    istio_rules,
    own_records,
    own_rules,
    parse_save,
    parse_table,
)
from mesh_traffic_capture.kernel import (
    Command,
    MarkRoute,
    find_program,
    has_net_admin,
    has_passed_on_address,
    mark_routes,
    read_text,
    run_program,
    without_net_admin,
)
from mesh_traffic_capture.rules import Family

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Final

    Tables = Mapping[str, IptablesTable]

IPTABLES: Final = (Backend.IPTABLES_NFT, Backend.IPTABLES_LEGACY)
NO_NFT: Final = "nft is not installed"
_ISTIO_MARK, _ISTIO_TABLE = 1337, 133
_NFT_MARK: Final = "meta mark set "
_REGISTERED: Final = {Family.IPV4: "ip_tables_names", Family.IPV6: "ip6_tables_names"}
_PROGRAM: Final = {Family.IPV4: "iptables", Family.IPV6: "ip6tables"}


@value
class Observed:
    """All rules that redirect traffic in a network namespace."""

    own: tuple[Backend, ...]
    """Where there are rules of ours, whole or not."""
    istio: tuple[Backend, ...]
    """Where there are rules that a tool of Istio's has left."""
    records: tuple[Record, ...] = field(repr=False)
    routes: tuple[MarkRoute, ...]
    """The routes of TPROXY that are ours or Istio's; one that is there twice, twice."""
    unknown: tuple[str, ...]
    """What could not be looked at, and why, a sentence each."""
    usable: Mapping[Backend, str] = field(repr=False)
    """Backends that can be used; of the others, why not."""
    nft_table: NftTable | None = field(repr=False)
    istio_tables: tuple[str, ...] = field(repr=False)
    tables: Mapping[tuple[Backend, Family], Tables] = field(repr=False)
    has_passed_on_address: bool = field(repr=False)

    @property
    def redirects(self) -> bool:
        """Return whether any rules redirect traffic."""
        return bool(self.own or self.istio)


def observe_capture() -> Observed:
    """Return what rules there are; raises `CaptureFailed` if that can't be seen at all."""
    if not has_net_admin():
        raise without_net_admin()
    unknown: list[str] = []
    nft = find_program("nft")
    why_no_nft = NO_NFT
    names: frozenset[str] = frozenset()
    if nft is not None:
        listed = run_program(Command(arguments=(nft, "list", "tables", "inet")))
        why_no_nft = "" if listed.status == 0 else f"nft: {_said(listed.errors)}"
        names = frozenset(line.split()[-1] for line in listed.output.splitlines() if line.strip())
    own_table = None
    istio_tables: tuple[str, ...] = ()
    istio_marks_of_nft: frozenset[int] = frozenset()
    if nft is not None and not why_no_nft:
        own_table = _own_table(nft) if TABLE_NAME in names else None
        istio_tables = tuple(name for name in ISTIO_TABLES if name in names)
        istio_marks_of_nft = frozenset(
            mark for name in istio_tables for mark in _marks_set(_list(nft, name))
        )
    tables: dict[tuple[Backend, Family], Tables] = {}
    usable = {Backend.NFT: why_no_nft}
    for backend in IPTABLES:
        reason, seen = _tables(backend, unknown)
        usable[backend] = reason
        tables.update({(backend, family): found for family, found in seen.items()})
    records = (
        *(own_table.records if own_table else ()),
        *(record for found in tables.values() for record in own_records(found)),
    )
    marks = istio_marks_of_nft.union(*(istio_marks(found) for found in tables.values()))
    own_routes = {(record.mark, record.table) for record in records}
    return Observed(
        own=(
            *([Backend.NFT] if own_table is not None else []),
            *(each for each in IPTABLES if any(map(has_own, _of(tables, each)))),
        ),
        istio=(
            *([Backend.NFT] if istio_tables else []),
            *(each for each in IPTABLES if any(map(istio_rules, _of(tables, each)))),
        ),
        records=records,
        routes=tuple(
            route
            for route in mark_routes()
            if (route.mark, route.table) in own_routes
            or route.mark in marks
            or (route.mark, route.table) == (_ISTIO_MARK, _ISTIO_TABLE)
        ),
        unknown=tuple(unknown),
        usable=usable,
        nft_table=own_table,
        istio_tables=istio_tables,
        tables=tables,
        has_passed_on_address=has_passed_on_address(),
    )


def iptables_program(backend: Backend, family: Family, purpose: str) -> str | None:
    """Return the path of `iptables-nft-save` and the like."""
    kind = backend.removeprefix("iptables-")
    name = f"{_PROGRAM[family]}-{kind}-{purpose}"
    found = find_program(name)
    if found is not None:
        return found
    # Where only one of the two is installed, it may have the plain name.
    plain, plain_save = (
        find_program(_PROGRAM[family]),
        find_program(f"{_PROGRAM[family]}-{purpose}"),
    )
    if plain is None or plain_save is None:
        return None
    version = run_program(Command(arguments=(plain, "--version"))).output
    is_nft = "(nf_tables)" in version
    return plain_save if is_nft == (backend is Backend.IPTABLES_NFT) else None


def _of(tables: Mapping[tuple[Backend, Family], Tables], backend: Backend) -> Iterator[Tables]:
    for (each, _), found in tables.items():
        if each is backend:
            yield found


def _own_table(nft: str) -> NftTable:
    listed = run_program(Command(arguments=(nft, "-j", "list", "table", "inet", TABLE_NAME)))
    try:
        return parse_table(listed.output)
    except (ValueError, KeyError, TypeError):
        # An nft without JSON: there is a table, and no word on what is in it.
        return NftTable(record=None, chains={})


def _list(nft: str, table: str) -> str:
    return run_program(Command(arguments=(nft, "list", "table", "inet", table))).output


def _marks_set(listed: str) -> Iterator[int]:
    """Yield the marks that rules set, as nft lists them."""
    for behind in listed.split(_NFT_MARK)[1:]:
        with suppress(ValueError):  # a mark that is not a number
            yield int(behind.split()[0], 0)


def _tables(backend: Backend, unknown: list[str]) -> tuple[str, dict[Family, Tables]]:
    """Return why a backend can't be used, if so, and its tables."""
    seen: dict[Family, Tables] = {}
    for family in Family:
        save = iptables_program(backend, family, "save")
        if save is None or iptables_program(backend, family, "restore") is None:
            if family is Family.IPV4:
                return f"{backend} is not installed", {}
            continue
        if backend is Backend.IPTABLES_LEGACY and not _registered(family, unknown):
            seen[family] = {}
            continue
        listed = run_program(Command(arguments=(save,)))
        if listed.status != 0:
            if family is Family.IPV4:
                return f"{backend}: {_said(listed.errors)}", {}
            unknown.append(f"{save}: {_said(listed.errors)}")
            continue
        if "is incompatible" in listed.output:
            unknown.append(f"{save} can't read a table that another tool has written")
        seen[family] = parse_save(listed.output)
    return "", seen


def _registered(family: Family, unknown: list[str]) -> bool:
    file = f"/proc/thread-self/net/{_REGISTERED[family]}"
    try:
        return bool(read_text(file).strip())
    except FileNotFoundError:
        return False  # the kernel has no such tables
    except OSError as error:
        unknown.append(f"whether iptables-legacy has rules can't be seen: {file}: {error.strerror}")
        return False


def _said(errors: str) -> str:
    return " ".join(errors.split())[:300] or "it failed and said nothing"


def require(backend: Backend, observed: Observed) -> None:
    """Raise `CaptureFailed` if a backend can't be used."""
    if reason := observed.usable.get(backend, ""):
        raise CaptureFailed(f"{backend} can't be used: {reason}")


def rule_names(observed: Observed, family: Family) -> frozenset[tuple[str, str]]:
    """Return the chains and names of our rules that are there for an address family."""
    found: set[tuple[str, str]] = set()
    if observed.nft_table is not None:
        found.update(
            (name, rule.comment)
            for name, chain in observed.nft_table.chains.items()
            for rule in chain.rules
        )
    for (_, each), tables in observed.tables.items():
        if each is family:
            found.update(own_rules(tables))
    return frozenset(found)
