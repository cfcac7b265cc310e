"""Screens: they fit the terminal, are coloured only there, and can be watched."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli_fixtures import Call, Serve
from mesh_agent_cli import CliError, Screen, screen
from mesh_agent_cli.screens._certificates import render_certificates
from mesh_agent_cli.screens._names import render_explanation
from mesh_agent_cli.screens._status import render_status
from mesh_agent_cli.screens._watch import watch

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LEAF = {
    "serial": "4d2",
    "not_before": "2030-01-01T00:00:00+00:00",
    "not_after": "2030-01-02T00:00:00+00:00",
    "names": ["spiffe://cluster.local/ns/shop/sa/web"],
    "subject": "",
    "issuer": "O=cluster.local",
    "key_id": "00112233445566778899",
}
ROOT = {**LEAF, "serial": "aa", "subject": "O=cluster.local", "names": []}
STATUS: Mapping[str, object] = {
    "workload": "web-1.shop",
    "spiffe_id": "spiffe://cluster.local/ns/shop/sa/web",
    "agent": {"pid": 7, "started_at": "2030-01-01T11:00:00+00:00"},
    "ready": False,
    "reasons": ["envoy: not live"],
    "conditions": {"certificate": "", "dns": "", "envoy": "not live"},
    "certificate": {
        "serial": "4d2",
        "not_after": "2030-01-02T00:00:00+00:00",
        "renews_at": "2030-01-01T18:00:00+00:00",
        "outage_at": "2030-01-01T12:05:00+00:00",
        "chain": [LEAF],
        "roots": [ROOT],
        "in_use": ["4d1"],
    },
    "envoy_certificate": {"serial": "4d1", "matches": False},
    "envoy": {"state": "ready", "pid": 8, "crashes": 1, "last_crash": "killed by SIGSEGV"},
    "proxy_configs": {
        "concurrency": 4,
        "started_with_concurrency": 2,
        "variables": ["REGION", "TIER"],
        "variables_count": 5,
    },
    "xds": {
        "control_plane": "istiod.istio-system.svc:15012",
        "connected": False,
        "since": "2030-01-01T11:59:00+00:00",
        "last_error": "connection refused",
        "types": {
            "type.googleapis.com/envoy.config.listener.v3.Listener": {
                "version": "2030-01-01T11:00:00+00:00/123456789-a-very-long-version-of-a-type",
                "nack": "Error adding/updating listener(s) 0.0.0.0_8080: cannot bind: in use",
                "in_use": "v7",
                "at": "2030-01-01T11:00:00+00:00",
                "push_reasons": ["ServiceEntry/shop/web"],
            },
            "type.googleapis.com/envoy.config.cluster.v3.Cluster": {
                "version": "v7",
                "acked": True,
                "at": "2030-01-01T11:59:58+00:00",
            },
        },
    },
    "wasm": {
        "filters": {
            "shop.auth": {
                "url": "oci://registry.example/auth:v1",
                "file": None,
                "reason": "https://registry.example/v2/auth/manifests/v1: status 503",
                "without_module": "requests are denied",
                "since": "2030-01-01T11:58:00+00:00",
            },
            "shop.headers": {"file": "/cache/a.wasm"},
        }
    },
    "names": {
        "addresses": ["127.0.0.1:15053"],
        "upstreams": ["10.0.0.2:53"],
        "table": True,
        "hosts": 12,
        "queries": 200,
        "table_hits": 150,
        "cache_hits": 30,
        "forwarded": 20,
        "upstream_failures": 3,
        "own_queries": 2,
    },
    "health_check": {
        "probe": "HttpGet",
        "host": "127.0.0.1",
        "healthy": False,
        "reason": "status 500",
        "since": "2030-01-01T11:55:00+00:00",
    },
    "token_exchange": {"exchanges": 3, "last_error": None},
}


def test_the_screen_of_everything(golden: Callable[[str, object], None]) -> None:
    golden("everything.txt", render_status(STATUS, now=NOW) + "\n")


def test_filters_with_their_modules_are_one_line() -> None:
    wasm = {"filters": {"shop.headers": {"file": "/cache/a.wasm"}}}
    shown = render_status({"wasm": wasm}, now=NOW)
    assert "1 filter with its module" in shown
    assert "Wasm" not in render_status({"wasm": {}}, now=NOW)
    many = {str(number): {"reason": "x"} for number in range(12)}
    shown = render_status({"wasm": {"filters": many}}, now=NOW)
    assert "12 filters, 12 WITHOUT A MODULE" in shown
    assert "and 2 more" in shown


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    shown = render_status(STATUS, now=NOW, out=Screen(width=width))
    assert max(map(len, shown.splitlines())) <= width
    if width == 200:
        assert "123456789-a-very-long-version-of-a-type" in shown


def test_colours_are_for_terminals_alone_and_never_change_the_text() -> None:
    plain = render_status(STATUS, now=NOW, out=Screen(width=80))
    coloured = render_status(STATUS, now=NOW, out=Screen(width=80, colour=True))
    assert "\x1b[31;1m" in coloured
    for code in ("0", "2", "31;1", "32", "33"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert coloured == plain


def in_terminal(words: list[str], environment: dict[str, str]) -> bytes:
    """Run the command with a terminal, 80 characters wide, as its standard output."""
    parent, child = pty.openpty()
    try:
        command = [sys.executable, "-m", "mesh_agent_cli", *words]
        subprocess.run(command, stdout=child, env=environment, check=False)
        return os.read(parent, 1 << 16)
    finally:
        os.close(parent)
        os.close(child)


def test_a_terminal_gets_colours_unless_NO_COLOR_says_otherwise(serve: Serve) -> None:  # noqa: N802
    with serve((200, json.dumps(STATUS).encode())) as server:
        words = ["status", "--address", "127.0.0.1", "--port", str(server.port)]
        environment = {"PATH": os.environ["PATH"], "TERM": "xterm"}
        assert b"\x1b[31;1m" in in_terminal(words, environment)
        assert b"\x1b" not in in_terminal(words, {**environment, "NO_COLOR": "1"})
        assert b"\x1b" not in in_terminal(words, {**environment, "TERM": "dumb"})


def test_the_width_is_the_terminals_or_COLUMNS_or_80(tmp_path: Path) -> None:  # noqa: N802
    with (tmp_path / "file").open("w") as file:
        assert screen(file, {}) == Screen(80, colour=False, terminal=False)
        assert screen(file, {"COLUMNS": "120"}).width == 120
        assert screen(file, {"COLUMNS": "3"}).width == 40
        assert screen(file, {"COLUMNS": "wide"}).width == 80


def found(**changes: object) -> dict[str, object]:
    return {
        "spiffe_id": "spiffe://cluster.local/ns/shop/sa/web",
        "agent": STATUS["certificate"],
        "envoy": {
            "certificates": [
                {
                    "cert_chain": [
                        {
                            "serial_number": "4d2",
                            "valid_from": "2030-01-01T00:00:00Z",
                            "expiration_time": "2030-01-02T00:00:00Z",
                            "subject_alt_names": [{"uri": "spiffe://x/ns/shop/sa/web"}],
                        }
                    ],
                    "ca_cert": [{"serial_number": "aa"}],
                }
            ]
            * 3
        },
        "agree": True,
        "differences": [],
        **changes,
    }


def test_certificates_of_both(golden: Callable[[str, object], None]) -> None:
    golden("certs.txt", render_certificates(found(), now=NOW, out=Screen()) + "\n")
    other = render_certificates(
        found(agree=False, differences=["Envoy serves 4d1, and 4d2 was issued last"]),
        now=NOW,
        out=Screen(),
    )
    assert "NO: Envoy serves 4d1, and 4d2 was issued last" in other


@pytest.mark.parametrize(
    ("served", "agree"),
    [("04D2", True), ("4d1", False), (None, False)],
)
def test_certs_compares_serials(
    call: Call,
    serve: Serve,
    served: str | None,
    agree: bool,  # noqa: FBT001 - a test's parameter
) -> None:
    chain = [] if served is None else [{"serial_number": served}]
    answer = {"certificates": [{"cert_chain": chain, "ca_cert": [{"serial_number": "aa"}]}]}
    with serve((200, json.dumps(answer).encode())) as envoy:
        status = {**STATUS, "envoy": {"admin": f"127.0.0.1:{envoy.port}"}}
        with serve((200, json.dumps(status).encode())) as agent:
            called = call("certs", "--address", "127.0.0.1", "--port", str(agent.port), "--json")
    report = json.loads(called.out)
    assert (called.status, report["agree"]) == (int(not agree), agree)
    assert bool(report["differences"]) is not agree


@pytest.mark.parametrize(("warming", "status"), [(0, 0), (1, 1)])
def test_an_envoy_that_uses_no_certificate_is_well_unless_it_waits_for_one(
    call: Call, serve: Serve, warming: int, status: int
) -> None:
    with serve((200, b'{"certificates": []}')) as envoy:
        envoy_status = {"admin": f"127.0.0.1:{envoy.port}", "warming": warming}
        with serve(
            (200, json.dumps({**STATUS, "ready": True, "envoy": envoy_status}).encode())
        ) as agent:
            called = call("certs", "--address", "127.0.0.1", "--port", str(agent.port))
    assert called.status == status
    shown = " ".join(called.out.split())
    assert ("no configuration yet that uses a certificate" in shown) is (status == 0)
    assert ("NO: Envoy has no workload certificate" in shown) is (status == 1)


@pytest.mark.parametrize(
    ("served", "agree", "said"),
    [("04d2", None, "not known: the agent sees no"), (None, False, "has no certificate of the")],
)
def test_certs_of_another_process_are_not_compared_with_what_the_agent_lacks(
    call: Call, serve: Serve, *, served: str | None, agree: bool | None, said: str
) -> None:
    chain = [] if served is None else [{"serial_number": served}]
    answer = {"certificates": [{"cert_chain": chain, "ca_cert": [{"serial_number": "aa"}]}]}
    with serve((200, json.dumps(answer).encode())) as envoy:
        foreign = {"served_by": "/var/run/secrets/workload-spiffe-uds/socket", "apis": ["SDS"]}
        fields = {"certificate": foreign, "envoy": {"admin": f"127.0.0.1:{envoy.port}"}}
        with serve((200, json.dumps({**STATUS, **fields}).encode())) as agent:
            words = ("certs", "--address", "127.0.0.1", "--port", str(agent.port))
            as_json, screen = call(*words, "--json"), call(*words)
    assert (as_json.status, json.loads(as_json.out)["agree"]) == (int(agree is False), agree)
    assert "by another process at" in screen.out
    assert said in " ".join(screen.out.split())


def test_certs_without_envoy_still_shows_what_was_issued(
    call: Call, serve: Serve, free_port: Callable[[], int]
) -> None:
    with serve((200, json.dumps(STATUS).encode())) as agent:
        words = ("certs", "--address", "127.0.0.1", "--port", str(agent.port))
        called = call(*words, "--envoy-port", str(free_port()))
    assert called.status == 0
    assert "serial 4d2" in called.out
    assert "connection refused" in called.out
    assert "not known" in called.out


@pytest.mark.parametrize(
    ("explanation", "words"),
    [
        ({"rule": "host", "host": "web.shop.svc.cluster.local"}, "the name table has web.shop"),
        ({"rule": "short_name", "host": "a.b", "registry": "Kubernetes"}, "short for a.b (Kube"),
        ({"rule": "wildcard", "wildcard": "*.x", "host": "*.x"}, "below the wildcard *.x"),
        ({"rule": "search_domain", "alias_of": "web", "host": "web"}, "CNAME to it"),
        ({"rule": "not_in_table", "origin": "upstream", "upstream": "1.2.3.4:53"}, "1.2.3.4:53"),
        ({"rule": "not_in_table", "origin": "none"}, "there is no upstream resolver"),
        ({"rule": "not_in_table", "origin": "cache"}, "an earlier reply still holds"),
        ({"rule": "no_table", "code": "SERVFAIL"}, "no answer could be had (SERVFAIL)"),
        ({"rule": "not_in_table", "code": "NXDOMAIN"}, "no such name (NXDOMAIN)"),
        ({"rule": "host", "code": "NOERROR", "answers": []}, "no record of this type"),
        ({"rule": "of the future"}, "of the future"),
    ],
)
def test_each_rule_is_a_sentence(explanation: dict[str, object], words: str) -> None:
    assert words in " ".join(render_explanation(explanation, out=Screen(width=200)).split())


def test_dns_asks_the_agent(call: Call, serve: Serve) -> None:
    answer = {
        "name": "web",
        "type": "A",
        "rule": "host",
        "host": "web",
        "code": "NOERROR",
        "answers": [{"name": "web", "type": "A", "ttl_s": 30, "data": "10.0.0.7"}],
    }
    with serve((200, json.dumps(answer).encode())) as server:
        where = ("--address", "127.0.0.1", "--port", str(server.port))
        called = call("dns", "web&x", "srv", *where)
        scripts = call("dns", "web", "--json", *where)
    assert server.asked[0][1] == "/debug/dns?name=web%26x&type=srv"
    assert "web 30 A 10.0.0.7" in called.out
    assert json.loads(scripts.out) == answer


class Stopped(Exception):
    """Ends a watch that would go on for ever."""


def test_a_watched_agent_may_restart(capsys: pytest.CaptureFixture[str]) -> None:
    shown = iter(["first", CliError("connection refused: is it running?"), "again"])

    def render(_: Screen) -> str:
        try:
            each = next(shown)
        except StopIteration:
            raise Stopped from None
        if isinstance(each, CliError):
            raise each
        return str(each)

    with pytest.raises(Stopped):
        watch(render, every_s=1, sleep=lambda _: None)
    blocks = capsys.readouterr().out.split("\n\n")
    assert [block.partition("\n")[2] for block in blocks[:3]] == [
        "first",
        "connection refused: is it running?",
        "again",
    ]
    assert "\x1b" not in "".join(blocks)


def test_watch_for_scripts_is_a_json_object_a_line(serve: Serve) -> None:
    with serve((200, b'{"ready": true}')) as server:
        where = ("--address", "127.0.0.1", "--port", str(server.port))
        process = subprocess.Popen(
            [sys.executable, "-m", "mesh_agent_cli", "status", "--watch", "0.1", "--json", *where],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        with process.stdout:
            assert [json.loads(process.stdout.readline()) for _ in range(3)] == [
                {"ready": True}
            ] * 3
        assert process.wait() == 1  # its reader has gone


def test_seconds_without_watch_are_a_wrong_call(call: Call) -> None:
    called = call("status", "5")
    assert (called.status, called.out) == (2, "")
    assert "SECONDS is for --watch" in called.error


def test_a_reader_that_leaves_is_no_error(serve: Serve) -> None:
    with serve((200, json.dumps(STATUS).encode())) as server:
        command = f"{sys.executable} -m mesh_agent_cli status --address 127.0.0.1"
        result = subprocess.run(
            ["bash", "-c", f"{command} --port {server.port} | true; echo ${{PIPESTATUS[0]}}"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert result.stderr == ""
    assert result.stdout.strip() in {"0", "1"}


def test_extensions_that_envoy_lacks_are_shown_by_what_was_done() -> None:
    adaptations = [
        {"extension": "istio.stats", "action": "removed", "lost": "metrics", "times": 3},
        {"extension": "istio.alpn", "action": "translated", "lost": "", "times": 1},
        {"extension": "istio_authn", "action": "denied", "lost": "all are denied", "times": 1},
        "no object",
    ]
    shown = render_status({"adaptations": adaptations}, now=NOW)
    assert "removed      istio.stats" in shown
    assert "translated   istio.alpn" in shown
    assert "istio_authn: all are denied" in shown
    assert "removed" not in render_status({"adaptations": []}, now=NOW)
