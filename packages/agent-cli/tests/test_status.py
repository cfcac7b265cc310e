"""`status`: what a running agent says, for people and for scripts."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
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


def test_the_certificate_of_an_earlier_run_that_is_not_used_is_reported() -> None:
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
    status = {**STATUS, "certificate": {"serial": "4d2", "not_after": "2999-01-01T00:00:00Z"}}
    status["xds"] = {"connected": True, "types": {"x": {"version": "1", "acked": True}}}
    with serve((200, json.dumps(status).encode())) as server:
        words = ("status", "--address", "127.0.0.1", "--port", str(server.port))
        people, scripts = call(*words), call(*words, "--json")
    assert people.status == scripts.status == 0
    assert "greeter.default" in people.out
    assert json.loads(scripts.out) == status
    assert server.asked[0] == ("GET", "/debug/status", b"")


WELL: Mapping[str, object] = {
    "ready": True,
    "certificate": {"serial": "4d2", "not_after": "2999-01-01T00:00:00+00:00"},
    "xds": {"connected": True, "types": {"x": {"version": "1", "acked": True}}},
}


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 0),
        ({"certificate": {"served_by": "/run/spire/agent.sock"}}, 0),
        ({"xds": {"connected": True, "types": {"x": {"version": "1", "acked": False}}}}, 0),
        ({"envoy": {"crashes": 3, "warming": 1}, "names": {"table": False}}, 0),
        ({"ready": False}, 1),
        ({"ready": None}, 1),
        ({"certificate": {}}, 1),
        ({"certificate": {"serial": "4d2", "not_after": "2020-01-01T00:00:00+00:00"}}, 1),
        ({"certificate": {**WELL["certificate"], "last_error": "refused"}}, 1),  # type: ignore[dict-item]
        ({"envoy_certificate": {"serial": "4d1", "matches": False}}, 1),
        ({"xds": {"connected": False, "types": {}}}, 1),
        ({"xds": {"connected": True, "types": {"x": {"version": "2", "nack": "no"}}}}, 1),
        ({"xds": {"connected": True, "quarantined": [{"type_url": "x", "name": "y"}]}}, 1),
    ],
)
def test_the_exit_status_says_whether_all_is_well(
    call: Call, serve: Serve, changes: Mapping[str, object], status: int
) -> None:
    with serve((200, json.dumps({**WELL, **changes}).encode())) as server:
        where = ("--address", "127.0.0.1", "--port", str(server.port))
        shown, scripts = call("status", *where), call("status", "--json", *where)
    assert (shown.status, scripts.status) == (status, status)
    assert shown.out
    assert shown.error == scripts.error == ""


@pytest.mark.parametrize(
    ("type_url", "name", "shown"),
    [
        ("type.googleapis.com/envoy.config.cluster.v3.Cluster", "clusters", "clusters"),
        ("type.googleapis.com/istio.networking.nds.v1.NameTable", None, "name table"),
        ("type.googleapis.com/istio.workload.Address", None, "address"),
    ],
)
def test_types_are_called_as_people_call_them(type_url: str, name: str | None, shown: str) -> None:
    types = {type_url: {"name": name, "version": "v1", "acked": True}}
    lines = render_status({"xds": {"types": types}}, now=NOW).splitlines()
    assert lines[-1].split("  ")[0] == shown


def test_serials_of_one_day_differ_on_the_screen() -> None:
    """They begin alike: the first digits are the time at which the holder proved its identity."""
    serials = [f"6ab1c2d3{number:032x}" for number in (7, 8)]
    shown = [
        render_status({"certificate": {"serial": each, "not_after": "2031-01-01"}}, now=NOW)
        for each in serials
    ]
    assert shown[0] != shown[1]
    assert "…000000000007, expires in" in shown[0]


def test_conditions_are_shown_only_while_one_is_not_met() -> None:
    well = render_status({"ready": True, "conditions": {"dns": "", "envoy": ""}}, now=NOW)
    assert "dns" not in well
    waiting = render_status({"conditions": {"dns": "", "envoy": "not live"}}, now=NOW)
    assert "waits for    envoy" in waiting
    assert "in order     dns" in waiting


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


@pytest.mark.parametrize(
    ("xds", "status", "said"),
    [
        ({"streams": 0}, 0, "no program has asked for configuration yet"),
        ({"streams": 1}, 1, "NOT CONNECTED"),
        ({"streams": 0, "last_error": "connection refused"}, 1, "NOT CONNECTED"),
    ],
)
def test_an_application_without_an_envoy_that_has_asked_for_nothing_is_well(
    call: Call, serve: Serve, xds: dict[str, object], status: int, said: str
) -> None:
    document = {**WELL, "envoy": {"state": "none"}, "xds": {"connected": False, **xds}}
    with serve((200, json.dumps(document).encode())) as agent:
        called = call("status", "--address", "127.0.0.1", "--port", str(agent.port))
    assert called.status == status
    assert said in called.out
