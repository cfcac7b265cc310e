"""Tables: lookups held against all names written out, and against messages built by dnspython."""

import json
import string
from collections.abc import Generator
from typing import TypeVar

import dns.message
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dns_peers import read_answer, reference_answer
from mesh_dnsproxy import JsonNameTable, NameEntry, NameTable, NameTableError, Port
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.table._compiled import CompiledTable, Scope, compile_table, retire_table

T = TypeVar("T")
DOMAIN, NAMESPACE = "svc.mesh.local", "ns"
LABELS = ("a", "b", "ns", "svc", "mesh", "local", "example")


def done(work: Generator[None, None, T]) -> T:
    try:
        while True:
            next(work)
    except StopIteration as finished:
        result: T = finished.value
        return result


def scope(search: str = "") -> Scope:
    return Scope.from_texts(domain=DOMAIN, namespace=NAMESPACE, search=search)


def compiled(entries: dict[str, NameEntry], search: str = "") -> CompiledTable:
    return done(compile_table(entries.items(), scope(search)))


HOSTS = st.lists(st.sampled_from(LABELS), min_size=1, max_size=5).map(".".join)
ADDRESSES = st.lists(
    st.sampled_from(("10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1", "2001:db8::2")),
    min_size=1,
    max_size=5,
    unique=True,
).map(tuple)
EXTERNAL = st.tuples(
    st.tuples(st.sampled_from(("", "*.")), HOSTS).map("".join),
    st.builds(NameEntry, ADDRESSES, st.just("External")),
)


@st.composite
def kubernetes(draw: st.DrawFn) -> tuple[str, NameEntry]:
    short = draw(st.sampled_from(("web", "db", "pod.db")))
    namespace = draw(st.sampled_from((NAMESPACE, "other")))
    # Also hosts whose name is not what it should be.
    said = draw(st.sampled_from((short, short, short, "odd")))
    domain = draw(st.sampled_from((DOMAIN, DOMAIN, "svc.remote")))
    entry = NameEntry(draw(ADDRESSES), "Kubernetes", said, namespace)
    return f"{short}.{namespace}.{domain}", entry


TABLES = st.lists(st.one_of(EXTERNAL, kubernetes()), max_size=8).map(dict)
SEARCHES = st.sampled_from(("", "ns.svc.mesh.local", "svc.mesh.local", "example"))


@settings(max_examples=60)
@given(TABLES, SEARCHES, st.data())
def test_every_name_is_answered_as_the_rules_written_out_say(
    entries: dict[str, NameEntry], search: str, data: st.DataObject
) -> None:
    answerer = Answerer(Counts(), max_udp_bytes=4096)
    answerer.use_table(compiled(entries, search))
    written_out = [
        *entries,
        "web",
        "web.ns",
        "web.ns.svc",
        "pod.db",
        "pod.db.other",
        "odd.ns",
        "odd",
    ]
    for _ in range(10):
        name = data.draw(st.one_of(HOSTS, st.sampled_from(written_out)))
        name = name.replace("*", data.draw(st.sampled_from(("x", "x.y", "*"))))
        if search and data.draw(st.booleans()):
            name = f"{name}.{search}"
        if data.draw(st.booleans()):
            name = "".join(data.draw(st.sampled_from((c, c.upper()))) for c in name)
        kind = data.draw(st.sampled_from(("A", "AAAA")))
        edns = data.draw(st.sampled_from((-1, 0)))
        wire = dns.message.make_query(name, kind, use_edns=edns).to_wire()
        expected = reference_answer(
            entries, name, kind, domain=DOMAIN, namespace=NAMESPACE, search=search
        )
        for over_tcp in (False, True):
            for _ in range(2):  # built, then kept
                found = answerer.answer(wire, over_tcp=over_tcp)
                if expected is None:
                    assert isinstance(found, Forward)
                else:
                    assert isinstance(found, bytes)
                    assert read_answer(found) == expected
            kept = answerer.kept.get(wire[2:])
            if kept is not None:
                assert read_answer(wire[:2] + kept[0]()) == expected
                assert expected is not None


def test_hosts_that_cannot_be_looked_up_are_left_out_and_reported() -> None:
    table = compiled(
        {
            "good.example": NameEntry(("10.0.0.1", "garbage", "10.0.0.0/8")),
            "none.example": NameEntry(()),
            "garbage.example": NameEntry(("no address",)),
            "a..b": NameEntry(("10.0.0.1",)),
            "*": NameEntry(("10.0.0.1",)),
            "": NameEntry(("10.0.0.1",)),
        }
    )
    assert len(table.hosts) == 1
    assert table.skipped_count == 5
    assert "'none.example' has no address" in table.skipped
    assert "'*' would be every name" in table.skipped


def test_a_table_shows_what_it_was_built_from() -> None:
    entries = {
        "web.ns.svc.mesh.local": NameEntry(
            ("10.0.0.1", "2001:db8::1"),
            "Kubernetes",
            "web",
            "ns",
            ("web.ns.svc.clusterset.local",),
            (Port(80, "http", "HTTP"), Port(9000)),
        ),
        "*.Example": NameEntry(("10.0.0.2",), "External"),
    }
    table = compiled(entries)
    assert dict(table.entries()) == entries
    assert table.alternates(*next(iter(table.entries()))) == [
        "web.ns",
        "web.ns.svc",
        "web",
        "web.ns.svc.clusterset.local",
    ]


def test_a_real_name_is_not_hidden_by_a_short_one() -> None:
    table = compiled(
        {
            "odd.ns.svc.mesh.local": NameEntry(("10.0.0.1",), "Kubernetes", "web", "ns"),
            "web.ns": NameEntry(("10.0.0.2",)),
        }
    )
    hit = table.find(b"\3web\2ns\0")
    assert hit is not None
    assert b"\x0a\0\0\2" in hit.entry


def test_of_very_many_hosts_of_one_address_some_are_reported() -> None:
    table = compiled({f"h{n}.example": NameEntry(("10.0.0.1",)) for n in range(5000)})
    assert 1024 <= len(table.reverse[b"\x0a\0\0\1"]) < 1024 + 255


def test_a_retired_table_is_empty() -> None:
    table = compiled({f"h{n}.example": NameEntry((f"10.0.0.{n}",)) for n in range(100)})
    for _ in retire_table(table):
        pass
    assert not table.hosts
    assert not table.reverse


TEXTS = st.text(string.ascii_letters + string.digits + '-_."\\ü \n', max_size=12)
ENTRIES = st.builds(
    NameEntry,
    st.lists(TEXTS, max_size=3).map(tuple),
    TEXTS,
    TEXTS,
    TEXTS,
    st.lists(TEXTS, max_size=2).map(tuple),
    st.lists(st.builds(Port, st.integers(1, 65535), TEXTS, TEXTS), max_size=2).map(tuple),
)


@given(st.dictionaries(TEXTS, ENTRIES, max_size=4), st.sampled_from((None, 2)))
def test_what_is_written_as_json_is_read_again(
    entries: dict[str, NameEntry], indent: int | None
) -> None:
    written = {
        host: {
            "ips": entry.addresses,
            "registry": entry.registry,
            "shortname": entry.short_name,
            "namespace": entry.namespace,
            "alt_hosts": entry.alternate_hosts,
            "ports": [port._asdict() for port in entry.ports],
        }
        for host, entry in entries.items()
    }
    for ascii_only in (True, False):
        text = json.dumps({"table": written}, indent=indent, ensure_ascii=ascii_only)
        assert NameTable.from_json(text).entries == entries


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", r"line 1 column 1: there should be '\{'"),
        ("[]", r"there should be '\{'"),
        ("{}", 'there is no "table"'),
        ('{"tabel": {}}', "there is 'tabel'"),
        ('{"table": {}} x', "more behind the table"),
        ('{"table": {"a": {"ips": []},}}', "a name in quotes"),
        ('{"table": {"a": {"ips": []}', "line 1 column 28: there should be ',' or '}'"),
        ('{"table":\n{"a": {"ips": ["1.1.1.1"}}', "line 2 column 25"),
        ('{"table": {"a": []}}', "it should be an object with ips"),
        ('{"table": {"a": {"ips": "1.1.1.1"}}}', "ips is '1.1.1.1'; it should be a list"),
        ('{"table": {"a": {"ips": [1]}}}', "should be a list of texts"),
        ('{"table": {"a": {"ipps": []}}}', "'a' has 'ipps'"),
        ('{"table": {"a": {"ips": [], "registry": 1}}}', "registry is 1; it should be a text"),
        ('{"table": {"a": {"ips": [], "ports": [80]}}}', "a port is 80"),
        ('{"table": {"a": {"ips": [], "ports": [{"number": 0}]}}}', "number is 0"),
        ('{"table": {"a": ' + "[" * 100_000 + "}}", "."),
    ],
)
def test_json_that_is_no_table_is_reported_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(NameTableError, match=problem):
        NameTable.from_json(text)


@given(st.text('{}[]",:tableips1. \n\\', max_size=60))
def test_any_text_is_a_table_or_reported(text: str) -> None:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    try:
        found = list(JsonNameTable(text).items())
    except NameTableError:
        return
    assert isinstance(whole, dict)
    assert len(found) >= len(whole["table"])
