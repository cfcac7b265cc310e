"""The steps from what was seen to what is wanted; they are decided before the first is done."""

from __future__ import annotations

from functools import partial

from mesh_traffic_capture._backend import Backend
from mesh_traffic_capture._value import value
from mesh_traffic_capture.applying._empty_tables import delete_if_empty
from mesh_traffic_capture.applying._observe import IPTABLES, Observed, iptables_program
from mesh_traffic_capture.backends import (
    INTENT,
    TABLE_NAME,
    Record,
    has_own,
    istio_rules,
    own_records,
    render_intent,
    render_iptables,
    render_nft,
    render_nft_intent,
    render_nft_records,
    render_nft_removal,
    render_record_removal,
    render_removal,
    rules_are,
    table_is,
)
from mesh_traffic_capture.kernel import (
    PASSED_ON_ADDRESS,
    Command,
    MarkRoute,
    add_mark_route,
    add_passed_on_address,
    find_program,
    remove_mark_route,
    remove_passed_on_address,
)
from mesh_traffic_capture.rules import Family, RuleSet, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Final

SIX: Final = "six"
_IP: Final = {Family.IPV4: "ip", Family.IPV6: "ip6"}


@value
class Step:
    """A change: programs that are run as one, or a call of the kernel."""

    commands: tuple[Command, ...] = ()
    call: Callable[[], None] | None = None
    text: str = ""
    """The call, as a shell would take it."""

    def __str__(self) -> str:
        """Return what is done, as a shell would take it."""
        return "\n".join(map(str, self.commands)) or self.text


def is_applied(rules: RuleSet, backend: Backend, observed: Observed) -> bool:
    """Return whether exactly these rules are there, whole, and everything that they need."""
    if observed.istio or observed.own != (backend,):
        return False
    if rules.ipv6 and not observed.has_passed_on_address:
        return False
    if sorted(map(str, observed.routes)) != sorted(map(str, wanted_routes(rules))):
        return False
    if len(observed.records) != (1 if backend is Backend.NFT else len(_address_families(rules))):
        return False
    if backend is Backend.NFT:
        return observed.nft_table is not None and table_is(rules, observed.nft_table)
    return all(
        rules_are(rules, family, observed.tables.get((backend, family), {}))
        if family in _address_families(rules)
        else not has_own(observed.tables.get((backend, family), {}))
        for family in Family
    )


def wanted_routes(rules: RuleSet) -> tuple[MarkRoute, ...]:
    """Return the routes that rules need."""
    if rules.tproxy_mark is None or rules.tproxy_table is None:
        return ()
    return tuple(
        MarkRoute(family=family, mark=rules.tproxy_mark, table=rules.tproxy_table)
        for family in _address_families(rules)
    )


def steps_to_apply(rules: RuleSet, backend: Backend, observed: Observed) -> Iterator[Step]:
    """Yield the steps that put rules in the place of those that are there.

    Rules of another backend go after the new ones are there: there is no moment without rules.
    """
    added = _added(rules, backend, observed)
    missing = [route for route in wanted_routes(rules) if observed.routes.count(route) != 1]
    add_six = rules.ipv6 and not observed.has_passed_on_address
    if missing or add_six:
        intent = Record(
            digest=INTENT, mark=rules.tproxy_mark, table=rules.tproxy_table, added=added
        )
        yield _intent(intent, backend, observed)
    for route in missing:
        if route in observed.routes:  # more than once
            yield _without(route)
        yield Step(call=partial(add_mark_route, route), text=str(route))
    if add_six:
        yield Step(call=add_passed_on_address, text=f"ip address add {PASSED_ON_ADDRESS} dev lo")
    if backend is Backend.NFT:
        also = render_nft_removal(observed.istio_tables)
        yield _nft(render_nft(rules, added=added, also=also))
    else:
        yield _restore(rules, backend, observed, added)
    yield from _leave(observed, except_for=backend)
    if backend is not Backend.IPTABLES_NFT:
        yield from _without_added_tables(observed)
    for route in _stale(observed, wanted_routes(rules)):
        yield _without(route)
    if not rules.ipv6 and _was_added(SIX, observed):
        yield _without_six()


def steps_to_clean(observed: Observed) -> Iterator[Step]:
    """Yield the steps that remove all rules of ours and of Istio's, and what they needed.

    Rules go before what they need, and our records last: they say what there is beside the rules.
    """
    routes = _stale(observed, ())
    six = _was_added(SIX, observed) and observed.has_passed_on_address
    if routes or six:
        yield from _leave(observed, except_for=None, keep_records=True)
    for route in routes:
        yield _without(route)
    if six:
        yield _without_six()
    yield from _leave(observed, except_for=None, again=bool(routes or six))
    yield from _without_added_tables(observed)


def _without_added_tables(observed: Observed) -> Iterator[Step]:
    """Yield the deletion of tables that were not there before iptables-nft made them.

    The kernel refuses to delete a chain's table only if it is used from elsewhere: so they are
    looked at once more, after our rules have left.
    """
    nft = find_program("nft")
    for family in Family:
        for table in Table:
            if nft is not None and f"{_IP[family]}-{table}" in _all_added(observed):
                yield Step(
                    call=partial(delete_if_empty, nft, _IP[family], str(table)),
                    text=f"nft delete table {_IP[family]} {table}  # if it has no rules",
                )


def address_families_in(observed: Observed, backend: Backend) -> tuple[Family, ...]:
    """Return the address families in which there is something to remove."""
    return tuple(
        family
        for family in Family
        if (tables := observed.tables.get((backend, family))) is not None
        and (has_own(tables) or istio_rules(tables))
    )


def _leave(
    observed: Observed,
    *,
    except_for: Backend | None,
    keep_records: bool = False,
    again: bool = False,
) -> Iterator[Step]:
    """Yield the removal of rules in all backends but one; `again`: only records are left."""
    for backend in IPTABLES:
        concerned = [
            family
            for family in address_families_in(observed, backend)
            if not again or own_records(observed.tables[backend, family])
        ]
        if backend is not except_for and concerned:
            commands = []
            for family in concerned:
                tables = observed.tables[backend, family]
                text = (
                    render_record_removal()
                    if again
                    else render_removal(tables, also=istio_rules(tables), keep_records=keep_records)
                )
                commands.append(Command(arguments=_restore_program(backend, family), stdin=text))
            yield Step(commands=tuple(commands))
    if except_for is Backend.NFT:
        return
    if observed.nft_table is not None and keep_records:
        text = render_nft_records(observed.nft_table.records)
        yield _nft(render_nft_removal(observed.istio_tables) + text)
    elif observed.nft_table is not None or (observed.istio_tables and not again):
        own = (TABLE_NAME,) if observed.nft_table is not None else ()
        yield _nft(render_nft_removal((*observed.istio_tables, *own)))


def _address_families(rules: RuleSet) -> tuple[Family, ...]:
    return (Family.IPV4, Family.IPV6) if rules.ipv6 else (Family.IPV4,)


def _restore(rules: RuleSet, backend: Backend, observed: Observed, added: frozenset[str]) -> Step:
    commands = []
    # IPv4 last, and of it nat: what is asked first whether all is there.
    for family in reversed(Family):
        tables = observed.tables.get((backend, family))
        if family in _address_families(rules):
            text = render_iptables(
                rules, family, seen=tables or {}, also=istio_rules(tables or {}), added=added
            )
        elif tables and family in address_families_in(observed, backend):
            text = render_removal(tables, also=istio_rules(tables))
        else:
            continue
        commands.append(Command(arguments=_restore_program(backend, family), stdin=text))
    return Step(commands=tuple(commands))


def _restore_program(backend: Backend, family: Family) -> tuple[str, ...]:
    program = iptables_program(backend, family, "restore") or f"{_IP[family]}tables-restore"
    wait = ("-w", "30") if backend is Backend.IPTABLES_LEGACY else ()
    return (program, *wait, "--noflush")


def _intent(record: Record, backend: Backend, observed: Observed) -> Step:
    if backend is Backend.NFT:
        return _nft(render_nft_intent(record))
    text = render_intent(record, observed.tables.get((backend, Family.IPV4), {}))
    return Step(commands=(Command(arguments=_restore_program(backend, Family.IPV4), stdin=text),))


def _nft(text: str) -> Step:
    return Step(
        commands=(Command(arguments=(find_program("nft") or "nft", "-f", "-"), stdin=text),)
    )


def _without(route: MarkRoute) -> Step:
    text = str(route).replace(" add ", " del ")
    return Step(call=partial(remove_mark_route, route), text=text)


def _without_six() -> Step:
    return Step(call=remove_passed_on_address, text=f"ip address del {PASSED_ON_ADDRESS} dev lo")


def _stale(observed: Observed, wanted: tuple[MarkRoute, ...]) -> tuple[MarkRoute, ...]:
    return tuple(dict.fromkeys(each for each in observed.routes if each not in wanted))


def _all_added(observed: Observed) -> frozenset[str]:
    return frozenset[str]().union(*(record.added for record in observed.records))


def _was_added(name: str, observed: Observed) -> bool:
    return name in _all_added(observed)


def _added(rules: RuleSet, backend: Backend, observed: Observed) -> frozenset[str]:
    """Return what is not there before, or wasn't before an earlier run."""
    added: set[str] = set()
    if backend is Backend.IPTABLES_NFT:
        added.update(_all_added(observed) - {SIX})
    if rules.ipv6 and (_was_added(SIX, observed) or not observed.has_passed_on_address):
        added.add(SIX)
    if backend is Backend.IPTABLES_NFT:
        for family in _address_families(rules):
            there: Mapping[str, object] = observed.tables.get((backend, family), {})
            for table in Table:
                name = f"{_IP[family]}-{table}"
                used = table is Table.NAT or rules.table_chains(table)
                if used and table not in there:
                    added.add(name)
    return frozenset(added)
