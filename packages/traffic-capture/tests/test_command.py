"""The commands, run as programs in network namespaces: flags, exit statuses, sentences, JSON."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from mesh_traffic_capture import (
    ISTIO_FLAGS,
    TABLE_NAME,
    Backend,
    HostFacts,
    apply_capture,
    read_arguments,
    read_istio_settings,
)
from mesh_traffic_capture.command import clean_iptables, iptables
from probing import in_namespace, run, wait_for_links, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))

APPLY, CLEAN = "istio-iptables", "istio-clean-iptables"
INJECTED = (
    *("-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", ""),
    *("-b", "*", "-d", "15090,15021,15020"),
)
"""The arguments that injection gives the init container."""
ANOTHER_USER = 65534


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def called(
    name: str,
    *words: str,
    before: tuple[str, ...] = (),
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command in this thread's network namespace."""
    return subprocess.run(
        [*before, program(name), *words],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def need_a_python_for(user: tuple[str, ...]) -> None:
    if called(APPLY, "--help", before=user).returncode != 0:
        pytest.skip("another user can't read this Python")


def in_network(function: Callable[[], None], *, route: bool = True, ipv6: bool = False) -> None:
    def prepared() -> None:
        run("ip", "link", "set", "lo", "up")
        run("ip", *["link", "add", "eth0", "type", "veth", "peer", "name", "peer0"])
        run("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", "peer0", "up")
        run("ip", *["address", "add", "10.0.0.1/24", "dev", "eth0"])
        if ipv6:
            run("ip", *["address", "add", "2001:db8:1::1/64", "dev", "eth0", "nodad"])
        if route:
            run("ip", *["route", "add", "default", "via", "10.0.0.2"])
        wait_for_links()
        function()

    in_namespace(prepared)


def ruleset() -> str:
    return run("nft", "-s", "list", "ruleset") + run("ip", "rule") + run("ip", "address")


# Flags

VALUES: Mapping[str, tuple[str, ...]] = {
    "envoy-port": ("15101",),
    "inbound-capture-port": ("15106",),
    "inbound-tunnel-port": ("15108",),
    "proxy-uid": ("5,6",),
    "proxy-gid": ("7",),
    "istio-inbound-interception-mode": ("TPROXY",),
    "istio-inbound-ports": ("80,443",),
    "istio-local-exclude-ports": ("22",),
    "istio-exclude-interfaces": ("eth5",),
    "istio-service-cidr": ("10.0.0.0/8",),
    "istio-service-exclude-cidr": ("10.1.0.0/16",),
    "istio-outbound-ports": ("8080",),
    "istio-local-outbound-ports-exclude": ("25",),
    "kube-virt-interfaces": ("vnet5",),
    "istio-inbound-tproxy-mark": ("5",),
    "istio-inbound-tproxy-route-table": ("6",),
    "dry-run": ("true",),
    "iptables-probe-port": ("15202",),
    "probe-timeout": ("9s",),
    "skip-rule-apply": ("true",),
    "run-validation": ("true",),
    "redirect-dns": ("true",),
    "capture-all-dns": ("true", "--redirect-dns"),
    "network-namespace": ("/proc/self/ns/net",),
    "cni-mode": ("true",),
    "drop-invalid": ("true",),
    "dual-stack": ("true",),
    "reconcile": ("true",),
    "cleanup-only": ("true",),
    "force-apply": ("true",),
    "native-nftables": ("true",),
    "force-iptables-binary": ("nft",),
    "restore-format": ("false",),
    "output-paths": ("/tmp/rules",),
}


def test_each_flag_has_a_value_here() -> None:
    assert VALUES.keys() == {flag.name for flag in ISTIO_FLAGS}


@pytest.mark.parametrize("flag", ISTIO_FLAGS, ids=lambda flag: flag.name)
def test_each_form_of_a_flag_means_the_same_and_something(flag: Any) -> None:
    value, *also = VALUES[flag.name]
    facts = HostFacts(has_ipv4=True, has_ipv6=True)

    def settings(*words: str, **variables: str) -> object:
        given = read_arguments([*words, *also, "-b", "*", *own_mode])
        return read_istio_settings(given, variables, facts)

    own_mode = [] if flag.name.endswith(("ports", "mode", "-cidr")) else ["-m", "TPROXY", "-i", "*"]
    if flag.name == "istio-inbound-ports":
        long = read_istio_settings(read_arguments([f"--{flag.name}", value]), {}, facts)
        assert long.config.inbound_ports == frozenset({80, 443})
        assert read_istio_settings(read_arguments(["-b80,443"]), {}, facts) == long
        return
    forms: list[tuple[str, ...]] = [(f"--{flag.name}={value}",)]
    if not flag.is_switch:
        forms.append((f"--{flag.name}", value))
    elif value == "true":
        forms.append((f"--{flag.name}",))
    if flag.short:
        forms.append((f"-{flag.short}={value}",))
        if not flag.is_switch:
            forms += [(f"-{flag.short}", value), (f"-{flag.short}{value}",)]
    found = [settings(*form) for form in forms]
    assert all(each == found[0] for each in found)
    assert found[0] != settings()
    # By a variable all is the same but for what notes say of where a value is from.
    for variable in flag.all_variables:
        by_variable = settings(**{variable: value})
        for name in ("config", "action", "validate", "dry_run", "backend", "network_namespace"):
            assert getattr(by_variable, name) == getattr(found[0], name)


def test_the_call_of_an_init_container_applies_and_a_second_changes_nothing() -> None:
    def scene() -> None:
        first = called(APPLY, *INJECTED)
        assert (first.returncode, first.stderr) == (0, "")
        assert "the rules are applied, by nft: nft is there" in first.stdout
        again = called(APPLY, *INJECTED)
        assert (again.returncode, again.stderr) == (0, "")
        assert "the rules were there already, by nft" in again.stdout
        # pilot-agent's flags of the log are taken, and have no effect.
        third = called("pilot-agent", APPLY, *INJECTED, "--log_output_level=default:info")
        assert (third.returncode, "there already" in third.stdout) == (0, True)

    in_network(scene)


@pytest.mark.parametrize(
    "command",
    [
        (APPLY,),
        ("mesh-agent", "iptables"),
        ("mesh-agent", "istio-iptables"),
        ("pilot-agent", "istio-iptables"),
        ("pilot-agent", "iptables"),
    ],
    ids=" ".join,
)
def test_all_names_of_the_commands_do_the_same(command: tuple[str, ...]) -> None:
    cleaning = (*command[:-1], {"iptables": "clean-iptables"}.get(command[-1], CLEAN))

    def scene() -> None:
        before = ruleset()
        assert called(*command, *INJECTED).returncode == 0
        assert TABLE_NAME in ruleset()
        done = called(*cleaning)
        assert (done.returncode, done.stdout) == (0, "removed: our rules, by nft\n")
        assert ruleset() == before

    in_network(scene)


# What a dry run does


@pytest.mark.parametrize("words", [INJECTED, (*INJECTED, "-m", "TPROXY", "--dual-stack")])
def test_a_dry_run_prints_what_would_be_run_and_changes_nothing(words: tuple[str, ...]) -> None:
    def scene() -> None:
        before = ruleset()
        dry = called(APPLY, *words, "--dry-run")
        assert dry.returncode == 0, dry.stderr
        assert ruleset() == before
        # A shell that is given what was printed applies the very same rules.
        subprocess.run(["/bin/sh", "-e"], input=dry.stdout, text=True, check=True)
        assert "there already" in called(APPLY, *words).stdout
        before = ruleset()
        dry = called(CLEAN, "-n")
        assert (dry.returncode, ruleset()) == (0, before)
        assert f"delete table inet {TABLE_NAME}" in dry.stdout
        assert called(APPLY, *words, "--dry-run").stdout == ""

    in_network(scene, ipv6=True)


# Exit statuses


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--no-such-flag"], 255, "there is no flag --no-such-flag (see istio-iptables --help)"),
        (["-y"], 255, "there is no flag -y"),
        (["-p"], 255, "-p needs a value"),
        (["word"], 255, "'word' is no flag"),
        (["-p", "http"], 1, "--envoy-port has 'http': a port is a number from 1 to 65535"),
        (["-m", "tproxy"], 1, "it is REDIRECT or TPROXY, in capitals"),
        (["-i", "10.0.0.1"], 1, "a range is an address with the length of its prefix"),
        (["--dry-run=maybe"], 1, "--dry-run is 'maybe': it is true or false"),
        (["--cleanup-only=maybe"], 1, "--cleanup-only is 'maybe': it is true or false"),
        (["--force-iptables-binary", "ipfw"], 1, "it is nft, legacy, or empty"),
        (["--network-namespace", "/none"], 1, "/none can't be opened: No such file"),
        (["--network-namespace", "/proc/version"], 1, "it is no network namespace: name a file"),
    ],
)
def test_a_wrong_call_has_istios_status_and_a_sentence(
    words: list[str], status: int, said: str
) -> None:
    def scene() -> None:
        before = ruleset()
        done = called(APPLY, *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert said in done.stderr
        assert ruleset() == before

    in_network(scene)


def test_a_pipe_in_the_place_of_a_namespace_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def scene() -> None:
        done = called(APPLY, "--network-namespace", str(pipe))
        assert done.returncode == 1
        assert "it is no network namespace: name a file" in done.stderr

    in_network(scene)


def test_all_that_is_wrong_is_said_at_once() -> None:
    def scene() -> None:
        done = called(APPLY, "-p", "x", "-z", "y", ISTIO_OUTBOUND_PORTS="0")
        assert done.returncode == 1
        assert [line.split(" has ")[0] for line in done.stderr.splitlines()] == [
            "istio-iptables: --envoy-port",
            "istio-iptables: --inbound-capture-port",
            "istio-iptables: the variable ISTIO_OUTBOUND_PORTS",
        ]

    in_network(scene)


def test_validation_as_the_proxys_user_passes_only_with_rules() -> None:
    as_proxy = ("setpriv", "--reuid", "1337", "--regid", "1337", "--clear-groups")
    readable = subprocess.run(
        [*as_proxy, program(APPLY), "--help"], capture_output=True, check=False
    )
    if readable.returncode != 0:
        pytest.skip("another user can't read this Python")
    words = (*INJECTED, "--run-validation", "--skip-rule-apply", "--probe-timeout", "300ms")

    def scene() -> None:
        done = called(APPLY, *words, before=as_proxy)
        assert done.returncode == 126
        assert "inbound by IPv4: it does not arrive at port 15006" in done.stdout
        assert called(APPLY, *INJECTED).returncode == 0
        done = called(APPLY, *words, before=as_proxy)
        assert (done.returncode, "inbound by IPv4: it arrives" in done.stdout) == (0, True)

    in_network(scene)


def test_validation_as_root_names_the_rule_that_is_missing() -> None:
    words = (*INJECTED, "--run-validation", "--probe-timeout=300ms")

    def scene() -> None:
        assert called(APPLY, *words).returncode == 0
        run("nft", "flush", "chain", "inet", TABLE_NAME, "nat-output")
        done = called(APPLY, *words, "--skip-rule-apply", "-o", "json")
        assert done.returncode == 126
        texts = [each["text"] for each in json.loads(done.stdout)["validation"]]
        assert any("nat-output is missing: apply the rules again" in text for text in texts)

    in_network(scene)


# What is missing on the machine


@pytest.mark.parametrize(
    "before",
    [
        ("setpriv", "--reuid", str(ANOTHER_USER), "--regid", str(ANOTHER_USER), "--clear-groups"),
        ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"),
    ],
    ids=["another-user", "without-the-capability"],
)
@pytest.mark.parametrize("name", [APPLY, CLEAN])
def test_without_root_one_sentence_says_what_to_do(name: str, before: tuple[str, ...]) -> None:
    need_a_python_for(before)

    def scene() -> None:
        done = called(name, before=before)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"{name}: reading and writing rules takes CAP_NET_ADMIN: run this as root, or in a "
            "container with the capabilities NET_ADMIN and NET_RAW\n"
        )

    in_network(scene)


CODE = """
import sys
from mesh_traffic_capture.kernel import _programs
_programs._ALSO_SEARCHED = ""
from mesh_traffic_capture.command import iptables
sys.exit(iptables(sys.argv[1:]))
"""


def called_with_programs_of(directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the command where no programs are found but those in a directory."""
    return subprocess.run(
        [sys.executable, "-c", CODE, *INJECTED],
        env={"PATH": str(directory)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_nft_the_rules_are_iptables_and_without_both_a_sentence_says_so(
    tmp_path: Path,
) -> None:

    def scene() -> None:
        done = called_with_programs_of(tmp_path)
        assert done.returncode == 1
        assert done.stderr == (
            "istio-iptables: there is no way to write rules (nft is not installed; iptables-nft is "
            "not installed; iptables-legacy is not installed): install nftables\n"
        )
        for each in ("iptables-nft", "ip6tables-nft"):
            for purpose in ("-save", "-restore"):
                target = shutil.which(f"{each}{purpose}")
                assert target is not None
                Path(tmp_path, f"{each}{purpose}").symlink_to(target)
        done = called_with_programs_of(tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        assert "by iptables-nft: nft is not installed, and no backend" in done.stdout

    in_network(scene)


@pytest.mark.parametrize(
    ("fails_at", "prints", "said"),
    [
        (
            "list",
            "netlink: Error: cache initialization failed: Protocol not supported",
            "load the kernel's module, modprobe nf_tables",
        ),
        (
            "-f",
            "Error: Could not process rule: No such file or directory",
            "the kernel may lack a module that the rules need: modprobe -a nft_chain_nat nft_redir",
        ),
    ],
)
def test_without_a_module_of_the_kernel_a_sentence_says_which(
    tmp_path: Path, fails_at: str, prints: str, said: str
) -> None:
    """A program in the place of nft says what nft says on such a kernel, which is not this one."""
    fake = tmp_path / "nft"
    fake.write_text(f"#!/bin/sh\n[ $1 != {fails_at} ] || {{ echo '{prints}' >&2; exit 1; }}\n")
    fake.chmod(0o755)

    def scene() -> None:
        done = called_with_programs_of(tmp_path)
        assert done.returncode == 1
        assert prints in done.stderr
        assert said in done.stderr
        assert done.stderr.count("\n") == 1

    in_network(scene)


def test_without_a_default_route_a_sentence_says_so_and_the_rules_are_applied() -> None:
    def scene() -> None:
        done = called(APPLY, *INJECTED)
        assert done.returncode == 0
        assert done.stderr == (
            "istio-iptables: IPv4 has no default route: the kernel looks for a route before it "
            "asks the rules, so calls fail at once and never get to the proxy; add one, over any "
            "interface but lo (ip -4 route add default dev eth0)\n"
        )
        # A range that has a route of its own needs no other.
        assert called(APPLY, "-i", "10.0.0.0/24").stderr == ""
        run("ip", "route", "add", "default", "dev", "lo")
        assert "the default route of IPv4 is over lo" in called(APPLY, *INJECTED).stderr
        run("ip", "-4", *["route", "replace", "default", "dev", "eth0"])
        assert called(APPLY, *INJECTED).stderr == ""

    in_network(scene, route=False)


def test_without_any_address_nothing_is_applied() -> None:
    def scene() -> None:
        done = called(APPLY, *INJECTED)
        assert done.returncode == 1
        assert "no interface has an address but loopback and link-local ones" in done.stderr

    in_namespace(scene)


# Cleaning


def test_cleaning_needs_no_configuration_that_is_right() -> None:
    def scene() -> None:
        before = ruleset()
        wrong = ("-p", "http", "-u", "nosuchuser", "--redirect-dns", "-i", "x")
        for clean in ((CLEAN, *wrong), (APPLY, "--cleanup-only", *wrong)):
            assert called(APPLY, *INJECTED).returncode == 0
            done = called(*clean, ENVOY_PORT="none", ISTIO_SERVICE_CIDR="somewhere")
            assert (done.returncode, done.stdout) == (0, "removed: our rules, by nft\n")
            assert ruleset() == before
        done = called(CLEAN)
        assert (done.returncode, done.stdout) == (0, "there were no rules to remove\n")
        assert called(CLEAN, "--no-such-flag").returncode == 255
        assert called(CLEAN, "--dry-run=maybe").returncode == 1

    in_network(scene)


# Another namespace


def test_another_network_namespace_is_entered_and_this_one_left_alone() -> None:
    name = f"mesh-capture-{os.getpid()}"
    run("ip", "netns", "add", name)
    try:
        within = ("ip", "netns", "exec", name)
        run(*within, *["ip", "link", "add", "eth0", "type", "veth", "peer", "name", "peer0"])
        run(*within, "ip", "link", "set", "eth0", "up")
        run(*within, "ip", "address", "add", "10.0.0.1/24", "dev", "eth0")
        path = f"/var/run/netns/{name}"

        def scene() -> None:
            before = ruleset()
            done = called(APPLY, *INJECTED, "--network-namespace", path)
            assert done.returncode == 0, done.stderr
            assert TABLE_NAME in run(*within, "nft", "list", "tables")
            assert ruleset() == before
            done = called(CLEAN, NETWORK_NAMESPACE=path)
            assert (done.returncode, "removed" in done.stdout) == (0, True)
            assert run(*within, "nft", "list", "tables") == ""
            dns = called(APPLY, "-n", "--redirect-dns", f"--network-namespace={path}")
            if "resolv.conf names no server" not in dns.stderr:
                assert "may not be the namespace's: --capture-all-dns" in dns.stderr

        in_network(scene)
    finally:
        run("ip", "netns", "delete", name)


# JSON


@pytest.mark.parametrize("form", [("--json",), ("-o", "json"), ("-ojson",), ("--output=json",)])
def test_json_has_what_was_done(form: tuple[str, ...]) -> None:
    def scene() -> None:
        applied = json.loads(called(APPLY, *INJECTED, *form).stdout)
        assert (applied["action"], applied["changed"], applied["backend"]) == ("apply", True, "nft")
        assert any("nft -f -" in command for command in applied["commands"])
        cleaned = json.loads(called(CLEAN, *form, "-n").stdout)
        assert cleaned["found"] == ["our rules, by nft"]
        assert (cleaned["action"], cleaned["dry_run"], cleaned["changed"]) == ("clean", True, True)

    in_network(scene)


def test_ports_can_be_excluded_beside_json() -> None:
    def scene() -> None:
        found = json.loads(called(APPLY, "-i", "*", "-o", "25", "-o", "json", "-n").stdout)
        assert "tcp dport 25 " in "".join(found["commands"])

    in_network(scene)


# Explaining


def explained(*words: str) -> str:
    done = called(APPLY, "explain", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[0]


def test_packets_of_a_configuration_are_explained_without_root(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        iptables(
            [
                "explain",
                "--from",
                "uid=1000",
                "--to",
                "10.0.0.1:80",
                "--interface",
                "eth0",
                "-i",
                "*",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.splitlines()[0] == (
        "redirected to port 15001 by the rule outbound of nat-output: all other outbound TCP goes "
        "to the proxy"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--from", "uid=1337", "--to", "192.0.2.1:80"),
            "not redirected by the rule sent",
        ),
        (
            ("--from", "gid=1337", "--to", "192.0.2.1:80"),
            "not redirected by the rule sent",
        ),
        (
            ("--from", "uid=0", "--to", "192.0.2.1:80"),
            "to port 15001 by the rule outbound",
        ),
        (("--from", "uid=root", "--to", "10.0.0.1:80"), "not redirected by the rule self-call"),
        (
            ("--from", "192.0.2.9", "--to", "10.0.0.1:80"),
            "to port 15006 by the rule inbound",
        ),
        (("--from", "192.0.2.9:5", "--to", "10.0.0.1:15021"), "by the rule excluded-inbound-port"),
        (("--from=uid=1", "--to=192.0.2.1:53", "--protocol=udp"), "not redirected"),
        (("--from=uid=1", "--to=[2001:db8::1]:80", "--interface=eth0"), "not redirected: no rule"),
        (("--from=uid=1", "--to=[2001:db8::1]:80"), "not sent: there is no route to 2001:db8::1"),
    ],
)
def test_packets_are_explained_by_flags_and_by_the_kernels_rules(
    words: tuple[str, ...], said: str
) -> None:
    def scene() -> None:
        assert said in explained(*words, *INJECTED)
        assert called(APPLY, *INJECTED).returncode == 0
        assert said in explained(*words)

    in_network(scene)


def test_an_explanation_in_json_has_the_rules_that_were_passed() -> None:
    def scene() -> None:
        assert called(APPLY, *INJECTED, "--capture-all-dns", "--redirect-dns").returncode == 0
        done = called(
            APPLY, *["explain", "--from", "uid=1000", "--to", "192.0.2.1:53", "-o", "json"]
        )
        found = json.loads(done.stdout)
        assert (found["outcome"], found["port"], found["zone"]) == ("redirected", 15053, 0)
        assert found["steps"][-1]["meaning"] == "DNS queries go to the agent"

    in_network(scene)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ((), 1, "--from is missing: it is uid=1000, gid=1000, an address or several"),
        (("--from", "uid=1"), 1, "--to is missing: it is an address with a port"),
        (("--from", "uid=1", "--to", "10.0.0.1"), 1, "--to is '10.0.0.1': it is an address with"),
        (("--from", "pid=1", "--to", "10.0.0.1:80"), 1, "--from has 'pid=1': it is uid=1000"),
        (("--from", "uid=nosuchuser", "--to", "10.0.0.1:80"), 1, "neither an id nor a user"),
        (("--from", "uid=1,::1", "--to", "10.0.0.1:80"), 1, "both are IPv4, or both IPv6"),
        (("--from", "uid=1", "--to", "10.0.0.1:80", "--protocol=icmp"), 1, "it is tcp or udp"),
        (("--form", "uid=1"), 255, "there is no flag --form"),
        (("--from", "uid=1", "--to", "10.0.0.1:80"), 1, "there are no rules of ours here"),
    ],
)
def test_a_question_that_is_wrong_is_told_what_is(
    words: tuple[str, ...], status: int, said: str
) -> None:
    def scene() -> None:
        done = called(APPLY, "explain", *words)
        assert (done.returncode, done.stdout) == (status, "")
        assert said in done.stderr

    in_network(scene)


def test_rules_that_are_not_read_are_named() -> None:
    def scene() -> None:
        facts = HostFacts()
        config = read_istio_settings(read_arguments(INJECTED), {}, facts).config
        apply_capture(config, backend=Backend.IPTABLES_NFT)
        done = called(APPLY, *["explain", "--from", "uid=1", "--to", "10.0.0.1:80"])
        assert done.returncode == 1
        assert "the rules here are ours, by iptables-nft; only ours by nft are read" in done.stderr

    in_network(scene)


@pytest.mark.parametrize(
    "edit",
    [
        "add rule inet {table} nat-output ip ttl 5 accept",
        "add rule inet {table} nat-output tcp dport 1-5 accept",
        "add rule inet {table} nat-output ct mark set 5",
        "add rule inet {table} nat-output meta l4proto icmp drop",
        "add rule inet {table} nat-output oifname {{ a, b }} log",
        "add rule inet {table} nat-output limit rate 5/second",
        "add rule inet {table} nat-output tcp dport 99 dnat ip to 10.0.0.9:80",
        "add chain inet {table} more {{ type filter hook forward priority 7; }}",
        "add chain inet {table} more {{ type nat hook postrouting priority 100; policy drop; }}",
    ],
)
def test_rules_that_somebody_edited_are_explained_or_said_to_be_edited(edit: str) -> None:
    def scene() -> None:
        assert called(APPLY, *INJECTED).returncode == 0
        run("nft", edit.format(table=TABLE_NAME))
        done = called(APPLY, *["explain", "--from", "uid=1", "--to", "192.0.2.1:80"])
        if done.returncode:
            assert "istio-iptables: the rules here were edited: " in done.stderr
            assert done.stderr.count("\n") == 1
        else:
            assert done.stdout.startswith("redirected to port 15001 ")

    in_network(scene)


# The rest


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("explain", "--help")])
def test_help_names_each_flag(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert iptables(words) == 0
    text = capsys.readouterr().out
    for flag in ISTIO_FLAGS:
        assert f"--{flag.name}" in text
        assert not flag.short or f"  -{flag.short}, --{flag.name}" in text
    assert ("  --from VALUE" in text) == ("explain" in words)
    assert clean_iptables(["--help"]) == 0
    assert "no flag is needed" in capsys.readouterr().out


def test_a_reader_that_leaves_gets_no_traceback() -> None:
    command = f"{program(APPLY)} --help | head -1 >/dev/null; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout.strip() in {"0", "1"}, done.stderr) == (True, "")


SLOW = ("dataclasses", "inspect", "re", "typing", "subprocess", "pathlib", "hashlib", "socket")


def test_the_command_loads_none_of_the_slow_modules() -> None:
    code = (
        "import sys\n"
        "from mesh_traffic_capture.command import iptables\n"
        f"iptables(['explain', '--from', 'uid=1', '--to', '10.0.0.1:80', *{list(INJECTED)}])\n"
        "import mesh_traffic_capture.applying\n"
        f"print(sorted(set({SLOW}) & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"
