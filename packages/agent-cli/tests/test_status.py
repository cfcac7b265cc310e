"""`status`: what a running agent says, for people and for scripts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from cli_fixtures import Call, Serve
from mesh_agent_cli.screens._status import render_status

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
STATUS = {
    "workload": "greeter.default",
    "spiffe_id": "spiffe://cluster.local/ns/default/sa/greeter",
    "certificate": {
        "serial": "4d2",
        "not_before": "2030-01-01T00:00:00+00:00",
        "not_after": "2030-01-02T00:00:00+00:00",
    },
    "xds": {
        "connected": True,
        "since": "2030-01-01T11:00:00+00:00",
        "last_error": None,
        "types": {
            "type.googleapis.com/envoy.config.cluster.v3.Cluster": {
                "version": "v7",
                "acked": True,
                "nack": None,
                "at": "2030-01-01T11:00:01+00:00",
            },
            "type.googleapis.com/envoy.config.listener.v3.Listener": {
                "version": "v8",
                "acked": False,
                "nack": "Invalid duration",
                "at": "2030-01-01T11:00:01+00:00",
            },
        },
    },
    "envoy": {
        "state": "ready",
        "pid": 4711,
        "epoch": 2,
        "version": "1.40.0",
        "restarts": 2,
        "refused": 0,
        "crashes": 0,
        "retiring": 1,
        "retained_sockets": 4,
        "handed_over": 0,
        "last_crash": None,
        "last_refusal": None,
    },
    "ready": True,
    "reasons": [],
}


def test_the_table(golden: Callable[[str, object], None]) -> None:
    golden("ready.txt", render_status(STATUS, now=NOW) + "\n")


def test_the_table_with_the_reasons_of_the_last_push(golden: Callable[[str, object], None]) -> None:
    types = {
        "type.googleapis.com/envoy.config.cluster.v3.Cluster": {
            "version": "v7",
            "acked": True,
            "push_reasons": ["ServiceEntry/shop/web", "and 3 more"],
        },
        "type.googleapis.com/envoy.config.listener.v3.Listener": {"version": "v8", "acked": True},
    }
    status = {**STATUS, "xds": {"connected": True, "types": types}}
    golden("pushed.txt", render_status(status, now=NOW) + "\n")


def test_the_table_of_a_workload_without_identity(golden: Callable[[str, object], None]) -> None:
    status = {
        **STATUS,
        "ready": False,
        "reasons": ["certificate: it expired and was not renewed: token has expired"],
        "certificate": {"last_error": "istiod:15012 answered\nUNAUTHENTICATED: token has expired"},
        "token": {"path": "./var/run/secrets/tokens/istio-token", "fault": "expired 12 min ago"},
    }
    golden("no_identity.txt", render_status(status, now=NOW) + "\n")


def test_the_table_of_an_agent_in_trouble(golden: Callable[[str, object], None]) -> None:
    status = {
        **STATUS,
        "ready": False,
        "reasons": ["envoy: not started", "certificate: expired"],
        "certificate": {"serial": "4d2", "not_after": "2030-01-01T11:59:00+00:00"},
        "xds": {
            "connected": False,
            "since": "2030-01-01T11:00:00+00:00",
            "last_error": "connection refused",
        },
        "envoy": {
            "state": "exited",
            "pid": None,
            "epoch": 3,
            "restarts": 3,
            "refused": 1,
            "crashes": 6,
            "retiring": 0,
            "last_crash": "killed by SIGSEGV",
            "last_refusal": "envoy refuses the bootstrap:\n  no such field 'clusterz'",
        },
    }
    golden("trouble.txt", render_status(status, now=NOW) + "\n")


def test_an_agent_that_started_while_the_control_plane_was_away(
    golden: Callable[[str, object], None],
) -> None:
    xds = {
        "connected": False,
        "last_error": "refused",
        "stale_since": "2030-01-01T09:30:00.5+00:00",
        "saved": {"problem": "it cannot be written: No space left on device"},
    }
    certificate = {"serial": "4d2", "not_after": "2030-01-02T00:00:00+00:00", "taken_up": True}
    status = {**STATUS, "certificate": certificate, "xds": xds}
    golden("stale.txt", render_status(status, now=NOW) + "\n")


def test_the_certificate_of_an_earlier_run_that_is_not_used_is_told() -> None:
    reason = "its key is of type rsa-2048, and p256 is wanted now"
    screen = render_status({**STATUS, "certificate": {"not_taken_up": reason}}, now=NOW)
    assert f"NOT TAKEN UP  {reason}" in screen


def test_several_control_planes(golden: Callable[[str, object], None]) -> None:
    since = "2030-01-01T11:57:00+00:00"
    planes = [
        {"address": "a:15012", "healthy": False, "last_error": "refused", "since": since},
        {"address": "b:15012", "healthy": True, "last_error": None, "since": since},
        {"address": "c:15012", "healthy": True, "last_error": None, "since": since},
        {"address": "d:15012", "healthy": None, "last_error": None, "since": since},
        "garbage",
    ]
    xds = {"control_plane": "b:15012", "connected": True, "since": since, "control_planes": planes}
    golden("several_control_planes.txt", render_status({**STATUS, "xds": xds}, now=NOW) + "\n")


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"xds": None, "certificate": "soon", "reasons": {"envoy": "starting"}, "ready": False},
        {"envoy": {"crashes": 1, "refused": "many", "last_refusal": ["x"], "epoch": 0}},
        {"certificate": {"not_after": "2030-01-02"}, "xds": {"types": {"x": None}}},
    ],
)
def test_missing_and_strange_entries_do_no_harm(status: dict[str, object]) -> None:
    assert "workload" in render_status(status, now=NOW)


def test_the_command_asks_the_agent(call: Call, serve: Serve) -> None:
    with serve((200, json.dumps(STATUS).encode())) as server:
        words = ("status", "--address", "127.0.0.1", "--port", str(server.port))
        people, scripts = call(*words), call(*words, "--json")
    assert people.status == scripts.status == 0
    assert "greeter.default" in people.out
    assert json.loads(scripts.out) == STATUS
    assert server.asked[0] == ("GET", "/debug/status", b"")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, b""), "answered 404"),
        ((503, b"the agent is still starting\n"), "answered 503: the agent is still starting\n"),
        ((200, b"LIVE"), "JSON object"),
        ((200, b"[]"), "JSON object"),
    ],
)
def test_a_stranger_on_the_port_is_recognised(
    call: Call, serve: Serve, answer: tuple[int, bytes], words: str
) -> None:
    with serve(answer) as server:
        called = call("status", "--address", "127.0.0.1", "--port", str(server.port))
    assert called.status == 1
    assert words in called.error


def test_somebody_who_speaks_another_language_is_not_called_absent(call: Call) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        talking = threading.Thread(target=answer)
        talking.start()
        port = str(listener.getsockname()[1])
        called = call("status", "--address", "127.0.0.1", "--port", port)
        talking.join()
    assert called.status == 1
    assert "is it a mesh-agent?" in called.error
    assert "running" not in called.error


def test_no_agent_is_said_in_words(call: Call, free_port: Callable[[], int]) -> None:
    called = call("status", "--address", "127.0.0.1", "--port", str(free_port()))
    assert called.status == 1
    assert "is it running?" in called.error


def test_an_agent_without_an_envoy_names_the_bootstrap_of_its_application() -> None:
    envoy = {"state": "none", "grpc_bootstrap": "etc/istio/proxy/grpc-bootstrap.json"}
    lines = render_status({"envoy": envoy}, now=NOW).splitlines()
    assert "Envoy          none" in lines
    assert "  bootstrap    etc/istio/proxy/grpc-bootstrap.json" in lines
