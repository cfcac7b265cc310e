"""`request`: the body alone on standard output, 404 an answer, other failures a sentence."""

from __future__ import annotations

import os

import pytest

from cli_fixtures import Call, Serve
from mesh_agent_cli import CliError
from mesh_agent_cli._request import request

# The ports are given: several runs may go on at once on one machine.
OWN_ADDRESS = f"127.86.{os.getpid() % 250}.{os.getpid() // 250 % 250 + 1}"


def test_the_answers_body_is_returned_as_it_is(serve: Serve) -> None:
    with serve((200, b"\xffbinary\n")) as server:
        body = request("get", "/stats?format=json", None, address="127.0.0.1", port=server.port)
    assert body == b"\xffbinary\n"
    assert server.asked == [("GET", "/stats?format=json", b"")]


def test_a_body_is_sent(serve: Serve) -> None:
    with serve((200, b"ok")) as server:
        request("POST", "logging", "level=debug", address="127.0.0.1", port=server.port)
    assert server.asked == [("POST", "/logging", b"level=debug")]


def test_404_is_an_answer_and_500_is_not(serve: Serve) -> None:
    with serve((404, b"nothing here"), (500, b"broken")) as server:
        assert request("GET", "x", None, address="127.0.0.1", port=server.port) == b"nothing here"
        with pytest.raises(CliError, match=r"unsuccessful status code 500 \(broken\)"):
            request("GET", "x", None, address="127.0.0.1", port=server.port)


def test_the_command_prints_the_body_and_a_newline(call: Call, serve: Serve) -> None:
    with serve((200, b"LIVE"), address=(OWN_ADDRESS, 15000)):
        called = call("request", "GET", "ready", "--address", OWN_ADDRESS)
    assert (called.status, called.out, called.error) == (0, "LIVE\n", "")


def test_the_bind_address_comes_from_the_environment(
    call: Call, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MESH_AGENT_BIND_ADDRESS", OWN_ADDRESS)
    with serve((200, b"ok"), address=(OWN_ADDRESS, 15020)):
        called = call("request", "POST", "drain", "--debug-port", "15020")
    assert (called.status, called.out) == (0, "ok\n")


def test_other_ports_are_refused(call: Call) -> None:
    called = call("request", "GET", "x", "--debug-port", "22")
    assert called.status == 2
    assert called.error == ("mesh-agent: debug port 22 is not one of 15000, 15004, 15020, 15021\n")
