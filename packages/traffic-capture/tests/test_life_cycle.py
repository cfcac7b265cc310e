"""Rules in a kernel: applied, applied again, over the rules of others, cut short, and removed."""

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Network, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import istio_leftovers
from mesh_traffic_capture import (
    ALL,
    TABLE_NAME,
    Action,
    Backend,
    CaptureConfig,
    CaptureFailed,
    DnsCapture,
    Family,
    HostFacts,
    LockTimedOut,
    Mode,
    apply_capture,
    build_rules,
    clean_capture,
    look_up_facts,
    observe_capture,
    read_arguments,
    read_istio_settings,
)
from mesh_traffic_capture.applying import _observe, _plan
from mesh_traffic_capture.backends import istio_rules, own_records, parse_save, rules_are
from mesh_traffic_capture.kernel import find_program, only_one
from probing import in_namespace, run, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

PLAIN = CaptureConfig(inbound_ports=ALL, outbound_ranges=ALL)
RICH = replace(
    PLAIN,
    ipv6=True,
    mode=Mode.TPROXY,
    tproxy_mark=77,
    tproxy_table=78,
    dns=DnsCapture(servers=(ip_address("10.0.0.53"), ip_address("2001:db8::53"))),
    excluded_outbound_ports=frozenset(range(1, 40)),
    excluded_interfaces=("eth1", "net+"),
    excluded_groups=frozenset({5}),
    drop_invalid=True,
)
BACKENDS = tuple(Backend)
each_backend = pytest.mark.parametrize("backend", BACKENDS)
each_config = pytest.mark.parametrize("config", [PLAIN, RICH], ids=["plain", "rich"])


def in_network(function: Callable[[], None]) -> None:
    def prepared() -> None:
        run("ip", "link", "set", "lo", "up")
        function()

    in_namespace(prepared)


def whole(config: CaptureConfig, backend: Backend) -> bool:
    return _plan.is_applied(build_rules(config), backend, observe_capture())


def snapshot(*, older: bool = False) -> list[str]:
    """All of the network that rules of others, routes and links are in."""
    shown = [
        run("nft", "-s", "list", "ruleset"),
        saved("iptables-nft"),
        saved("ip6tables-nft"),
        run("ip", "-o", "link", "show"),
    ]
    for version in ("-4", "-6"):
        shown += [
            run("ip", version, "rule", "show"),
            run("ip", version, "route", "show", "table", "all"),
            run("ip", "-o", version, "address", "show"),
        ]
    if older:
        shown += [saved("iptables-legacy"), saved("ip6tables-legacy")]
    # The comments have the time in them, and those of nft a warning about iptables.
    return [re.sub(r"(?m)^#.*\n", "", text) for text in shown]


def without_empty_tables(shown: list[str]) -> list[str]:
    """Return a snapshot without tables of nft that hold no rule, as iptables-nft shows them too."""
    ruleset, four, six, *others = shown
    empty = r"(?m)^table \S+ \S+ \{\n(?:\tchain \S+ \{\n\t\ttype [^\n]*\n\t\}\n\n?)*\}\n"
    empty_saved = r"(?m)^\*\S+\n(?::[A-Z]+ ACCEPT *\n)*COMMIT\n"
    return [
        re.sub(empty, "", ruleset),
        *(re.sub(empty_saved, "", each) for each in (four, six)),
        *others,
    ]


def saved(program: str) -> str:
    return re.sub(r"\[\d+:\d+\]", "", run(f"{program}-save"))


@each_config
@each_backend
def test_applying_twice_changes_nothing_the_second_time(
    backend: Backend, config: CaptureConfig
) -> None:
    def scene() -> None:
        first = apply_capture(config, backend=backend)
        assert first.changed
        assert whole(config, backend)
        before = snapshot(older=backend is Backend.IPTABLES_LEGACY)
        again = apply_capture(config, backend=backend)
        assert not again.changed
        assert again.commands == ()
        assert snapshot(older=backend is Backend.IPTABLES_LEGACY) == before

    in_network(scene)


@each_config
@each_backend
def test_nothing_of_ours_is_left_after_cleaning_without_flags(
    backend: Backend, config: CaptureConfig
) -> None:
    def scene() -> None:
        before = snapshot()
        apply_capture(config, backend=backend)
        cleaned = clean_capture()
        assert cleaned.found == (f"our rules, by {backend}",)
        assert snapshot() == before
        if backend is Backend.IPTABLES_LEGACY:
            assert "-A" not in saved("iptables-legacy")
            assert "MESH" not in saved("iptables-legacy")
            assert any("stay registered" in note for note in cleaned.notes)
        assert not clean_capture().changed
        assert not observe_capture().redirects

    in_network(scene)


OTHER_FLAGS = (
    "",
    "-p 1 -z 2 -u 5 -g 6 -b 80 -d 90 -i 10.0.0.0/8",
    "-m REDIRECT -t 5 -r 6 -x 10.0.0.0/8 -k vnet0",
    "--redirect-dns --capture-all-dns --drop-invalid --native-nftables",
    "--force-iptables-binary legacy --dual-stack",
)


@pytest.mark.parametrize("flags", OTHER_FLAGS)
@each_backend
def test_cleaning_removes_all_whatever_flags_it_is_given(backend: Backend, flags: str) -> None:
    given = read_arguments(["--cleanup-only", *flags.split()])
    settings = read_istio_settings(given, {}, HostFacts(has_ipv6=True))
    assert settings.action is Action.CLEAN

    def scene() -> None:
        before = snapshot()
        apply_capture(RICH, backend=backend)
        assert snapshot() != before
        assert clean_capture().changed
        assert snapshot() == before
        assert not observe_capture().redirects

    in_network(scene)


@each_backend
def test_another_configuration_takes_the_place_of_the_first(backend: Backend) -> None:
    def scene() -> None:
        before = snapshot()
        apply_capture(RICH, backend=backend)
        apply_capture(replace(RICH, tproxy_mark=5, tproxy_table=6), backend=backend)
        assert "fwmark 0x4d" not in run("ip", "rule")
        apply_capture(PLAIN, backend=backend)
        assert whole(PLAIN, backend)
        assert "fwmark" not in run("ip", "rule")
        clean_capture()
        assert snapshot() == before

    in_network(scene)


@pytest.mark.parametrize("first", BACKENDS)
@each_backend
def test_another_backend_takes_the_place_of_the_first(backend: Backend, first: Backend) -> None:
    def scene() -> None:
        apply_capture(RICH, backend=first)
        apply_capture(RICH, backend=backend)
        assert observe_capture().own == (backend,)
        assert whole(RICH, backend)

    in_network(scene)


def test_with_all_programs_there_nft_is_used_each_time_and_no_older_table_appears() -> None:
    def scene() -> None:
        for _ in range(3):
            assert apply_capture(PLAIN).backend is Backend.NFT
            assert Path("/proc/thread-self/net/ip_tables_names").read_text() == ""
        tables = run("nft", "list", "tables")
        assert tables == f"table inet {TABLE_NAME}\n"

    in_network(scene)


@each_backend
def test_a_dry_run_changes_nothing(backend: Backend) -> None:
    def scene() -> None:
        before = snapshot()
        would = apply_capture(RICH, backend=backend, dry_run=True)
        assert would.changed
        assert any("15006" in command for command in would.commands)
        assert snapshot() == before
        apply_capture(RICH, backend=backend)
        before = snapshot()
        assert clean_capture(dry_run=True).changed
        assert snapshot() == before

    in_network(scene)


@pytest.mark.parametrize("kind", ["nft", "legacy"])
@pytest.mark.parametrize("left", [istio_leftovers.V1_11, istio_leftovers.TPROXY])
@each_backend
def test_rules_of_istios_tools_give_way_to_ours_and_to_cleaning(
    backend: Backend, left: str, kind: str
) -> None:
    def leave() -> None:
        run(f"iptables-{kind}-restore", "--noflush", stdin=left)
        six = left
        for old, new in (("127.0.0.1/32", "::1/128"), ("127.0.0.6/32", "::6/128")):
            six = six.replace(old, new)
        six = six.replace("10.0.0.53/32", "2001:db8::1/128")
        run(f"ip6tables-{kind}-restore", "--noflush", stdin=six)
        if left is istio_leftovers.TPROXY:
            for line in istio_leftovers.ROUTES:
                run("ip", *line.split())

    def scene() -> None:
        leave()
        assert observe_capture().istio == (Backend(f"iptables-{kind}"),)
        apply_capture(RICH, backend=backend)
        assert observe_capture().istio == ()
        assert whole(RICH, backend)
        assert "fwmark 0x578" not in run("ip", "rule")
        clean_capture()
        leave()
        assert clean_capture().changed
        for program in (f"iptables-{kind}", f"ip6tables-{kind}"):
            assert "\n-A" not in saved(program)
            assert "ISTIO" not in saved(program)
        assert "fwmark" not in run("ip", "rule")
        assert "table 140" not in run("ip", "route", "show", "table", "all")

    in_network(scene)


@each_backend
def test_nft_tables_of_istios_tool_give_way(backend: Backend) -> None:
    def scene() -> None:
        run("nft", "-f", "-", stdin=istio_leftovers.NFT)
        for line in istio_leftovers.ROUTES:
            run("ip", *line.split())
        apply_capture(PLAIN, backend=backend)
        assert "istio" not in run("nft", "list", "tables")
        assert "fwmark" not in run("ip", "rule")
        assert whole(PLAIN, backend)

    in_network(scene)


def without_empty_chains(shown: list[str]) -> list[str]:
    """Return a snapshot without built-in chains that let all pass, as nft and iptables show it."""
    ruleset, four, six, *others = shown
    lines = "\n".join(line for line in ruleset.splitlines() if line.strip())
    return [
        re.sub(r"\tchain [A-Z]+ \{\n\t\ttype .*\n\t\}\n", "", lines),
        *(re.sub(r"(?m)^:[A-Z]+ ACCEPT *\n", "", each) for each in (four, six)),
        *others,
    ]


def rules_in(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("-A")}


@each_config
@each_backend
def test_rules_of_others_stay_as_they_are(backend: Backend, config: CaptureConfig) -> None:
    def scene() -> None:
        run("iptables-nft-restore", "--noflush", stdin=istio_leftovers.FOREIGN)
        run("iptables-legacy-restore", "--noflush", stdin=istio_leftovers.FOREIGN)
        run("nft", "add", "table", "inet", "mine")
        run("ip", "rule", "add", "fwmark", "9", "lookup", "90")
        run("ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo", "table", "90")
        for program in ("iptables-legacy", "ip6tables-legacy"):
            saved(program)
            for table in ("raw", "mangle", "nat"):
                run(program, "-t", table, "-S")  # registered from now on
        before = snapshot(older=True)
        foreign = saved("iptables-nft") + saved("iptables-legacy")
        apply_capture(config, backend=backend)
        assert whole(config, backend)
        during = saved("iptables-nft") + saved("iptables-legacy")
        assert rules_in(foreign) <= rules_in(during)
        clean_capture()
        after = snapshot(older=True)
        # iptables-nft makes built-in chains when it needs them, and none can be told from others'.
        if backend is Backend.IPTABLES_NFT:
            after, before = without_empty_chains(after), without_empty_chains(before)
        assert after == before

    in_network(scene)


def handles(chain: str) -> list[tuple[int, str]]:
    listed = json.loads(run("nft", "-j", "list", "chain", "inet", TABLE_NAME, chain))
    return [
        (each["rule"]["handle"], each["rule"].get("comment", ""))
        for each in listed["nftables"]
        if "rule" in each
    ]


NFT_EDITS = (
    "delete rule inet {table} nat-output handle {handle}",
    "add rule inet {table} nat-output return",
    "insert rule inet {table} nat-output return",
    "replace rule inet {table} nat-output handle {handle} return",
    "add chain inet {table} more",
    "flush chain inet {table} nat-proxy",
    "flush chain inet {table} about",
    "add rule inet {table} nat-proxy ip daddr 10.0.0.1 drop",
    "add chain inet {table} hooked {{ type filter hook input priority 0; }}",
    "delete table inet {table}; add table inet {table}",
    'replace rule inet {table} nat-output handle {handle} return comment "{comment}"',
)


@pytest.mark.parametrize("edit", NFT_EDITS)
def test_an_edit_of_our_table_is_noticed_and_undone(edit: str) -> None:
    def scene() -> None:
        apply_capture(PLAIN, backend=Backend.NFT)
        handle, comment = handles("nat-output")[-1]
        text = edit.format(table=TABLE_NAME, handle=handle, comment=comment)
        run("nft", "-f", "-", stdin=text.replace("; add", "\nadd"))
        assert not whole(PLAIN, Backend.NFT)
        assert apply_capture(PLAIN).changed
        assert whole(PLAIN, Backend.NFT)

    in_network(scene)


IPTABLES_EDITS = (
    "-D OUTPUT -j MESH_NAT_OUTPUT",
    "-A OUTPUT -j MESH_NAT_OUTPUT",
    "-I OUTPUT -j RETURN",
    "-F MESH_NAT_PROXY",
    "-I MESH_NAT_OUTPUT -j RETURN",
    "-A MESH_NAT_OUTPUT -d 10.0.0.1/32 -j RETURN",
    "-R MESH_NAT_OUTPUT 1 -j RETURN",
    "-D MESH_NAT_OUTPUT 1",
    "-N MESH_MORE",
    "-F MESH_ABOUT",
)


@pytest.mark.parametrize("edit", IPTABLES_EDITS)
@pytest.mark.parametrize("backend", [Backend.IPTABLES_NFT, Backend.IPTABLES_LEGACY])
def test_an_edit_of_our_chains_is_noticed_and_undone(backend: Backend, edit: str) -> None:
    def scene() -> None:
        apply_capture(PLAIN, backend=backend)
        run(backend, "-t", "nat", *edit.split())
        assert not whole(PLAIN, backend)
        assert apply_capture(PLAIN, backend=backend).changed
        assert whole(PLAIN, backend)

    in_network(scene)


def test_a_second_process_waits_for_the_first_and_says_who_that_is() -> None:
    def scene() -> None:
        with only_one(timeout_s=0), pytest.raises(LockTimedOut, match=r"process \d+ has been"):
            apply_capture(PLAIN, lock_timeout_s=0.1)
        apply_capture(PLAIN, lock_timeout_s=0)

    in_network(scene)


def test_without_a_program_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_observe, "find_program", lambda _name: None)
    with pytest.raises(CaptureFailed, match="install nftables"):
        in_namespace(lambda: apply_capture(PLAIN))


def test_without_nft_the_iptables_that_has_rules_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_program
    monkeypatch.setattr(
        _observe, "find_program", lambda name: None if name == "nft" else found(name)
    )

    def scene() -> None:
        assert apply_capture(PLAIN, dry_run=True).backend is Backend.IPTABLES_NFT
        run("iptables-legacy-restore", "--noflush", stdin=istio_leftovers.FOREIGN)
        applied = apply_capture(PLAIN)
        assert applied.backend is Backend.IPTABLES_LEGACY
        assert "iptables-legacy has 7 rules" in applied.reason

    in_network(scene)


def test_a_thousand_ranges_are_applied_and_compared() -> None:
    ranges = tuple(IPv4Network((10 << 24 | number << 9, 24)) for number in range(1000))
    config = replace(PLAIN, outbound_ranges=ranges)

    def scene() -> None:
        for backend in BACKENDS:
            apply_capture(config, backend=backend)
            assert not apply_capture(config, backend=backend).changed

    in_network(scene)


@each_backend
def test_ipv6_that_is_off_on_the_machine_is_no_trouble(backend: Backend) -> None:
    def scene() -> None:
        run("sysctl", "-q", "-w", "net.ipv6.conf.all.disable_ipv6=1")
        before = snapshot()
        apply_capture(replace(RICH, ipv6=False), backend=backend)
        assert whole(replace(RICH, ipv6=False), backend)
        clean_capture()
        assert snapshot() == before

    in_network(scene)


def test_what_iptables_save_prints_is_read_or_left() -> None:
    @given(st.text(alphabet=":*-A COMIT\n\"'x[0]{}", max_size=80))
    def read(text: str) -> None:
        tables = parse_save(text)
        own_records(tables)
        istio_rules(tables)
        assert not rules_are(build_rules(PLAIN), Family.IPV4, tables)

    read()


def test_the_facts_of_a_namespace() -> None:
    def scene() -> None:
        assert (look_up_facts().has_ipv4, look_up_facts().has_ipv6) == (False, False)
        run("ip", *["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"])
        run("ip", "address", "add", "2001:db8::1/64", "dev", "eth0", "nodad")
        assert (look_up_facts().has_ipv4, look_up_facts().has_ipv6) == (False, True)
        run("ip", "address", "add", "10.0.0.1/24", "dev", "eth0")
        facts = look_up_facts()
        assert facts.has_ipv4
        assert facts.users["root"] == 0

    in_network(scene)


_APPLY = """
import sys
from ipaddress import ip_address
from mesh_traffic_capture import *
config = CaptureConfig(
    inbound_ports=ALL, outbound_ranges=ALL, ipv6=True, mode=Mode.TPROXY, tproxy_mark=77,
    tproxy_table=int(sys.argv[2]), dns=DnsCapture(servers=ALL),
)
print("ready", flush=True)
sys.stdin.readline()
if sys.argv[1] == "clean":
    clean_capture()
else:
    apply_capture(config, backend=Backend(sys.argv[1]))
print("done", flush=True)
"""


@contextmanager
def applying(backend: str, table: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process that applies rules, as soon as it is given a line."""
    with subprocess.Popen(
        [sys.executable, "-c", _APPLY, backend, str(table)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def config_with(table: int) -> CaptureConfig:
    return CaptureConfig(
        inbound_ports=ALL,
        outbound_ranges=ALL,
        ipv6=True,
        mode=Mode.TPROXY,
        tproxy_mark=77,
        tproxy_table=table,
        dns=DnsCapture(servers=ALL),
    )


def rules_of_ours(backend: Backend) -> int:
    """How many of the rules that were applied last are there: all, none, or a part."""
    observed = observe_capture()
    if backend is Backend.NFT:
        table = observed.nft_table
        return 0 if table is None else sum(len(chain.rules) for chain in table.chains.values())
    return sum(
        rule.chain.startswith("MESH_") and rule.chain != "MESH_ABOUT"
        for (_, _), tables in observed.tables.items()
        for each in tables.values()
        for rule in each.rules
    )


MOMENTS = 50


@pytest.mark.slow
@each_backend
def test_a_kill_at_any_moment_leaves_the_right_rules_or_none(backend: Backend) -> None:
    drawn = random.Random(backend)

    def scene() -> None:
        before = snapshot()
        took_s = 0.0
        counts = set()
        full = 0
        for moment in range(MOMENTS + 1):
            with applying(backend, 78) as process:
                begin(process)
                began = time.monotonic()
                if moment == 0:
                    process.wait()
                    took_s = time.monotonic() - began
                    full = rules_of_ours(backend)
                else:
                    time.sleep(drawn.uniform(0, took_s))
                    process.send_signal(signal.SIGKILL)
                    process.wait()
                    with only_one(timeout_s=30):  # the program that it had started ends first
                        counts.add(rules_of_ours(backend))
                        assert counts <= {0, full}
            apply_capture(config_with(78), backend=backend)
            assert whole(config_with(78), backend)
            with applying("clean", 78) as process:
                begin(process)
                if moment:
                    time.sleep(drawn.uniform(0, took_s))
                    process.send_signal(signal.SIGKILL)
                process.wait()
                with only_one(timeout_s=30):
                    assert rules_of_ours(backend) in {0, full}
            clean_capture()
            # A clean that was killed between the rules and the tables of iptables leaves these
            # empty, and with the record of the rules it is forgotten whose they were.
            assert without_empty_tables(snapshot()) == without_empty_tables(before)
        assert counts == {0, full}

    in_network(scene)


@each_backend
def test_of_two_at_once_one_is_right(backend: Backend) -> None:
    def scene() -> None:
        with applying(backend, 78) as one, applying(backend, 79) as other:
            begin(one)
            begin(other)
            for process in (one, other):
                assert process.stdout is not None
                assert process.stdout.readline() == "done\n"
        assert whole(config_with(78), backend) != whole(config_with(79), backend)

    in_network(scene)
